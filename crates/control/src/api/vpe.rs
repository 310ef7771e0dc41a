//! The module `vpe`: version, time and log.
#![allow(non_camel_case_types)]

use std::time::{SystemTime, UNIX_EPOCH};

use vapi::types::{log_level, timestamp};
use vapi::wire::Text;
use vapi::{Table, all, define};

use crate::app::Context;
use crate::logging::{Level, Line};

define! {
    /// Asks for the version of the program.
    request show_version { } -> show_version_reply {
        program: Text<32>,
        version: Text<32>,
        build_date: Text<32>,
        build_directory: Text<256>,
    }
    /// Asks for the time of day.
    request show_vpe_system_time { } -> show_vpe_system_time_reply { vpe_system_time: timestamp }
    /// Asks for the messages of the log since a time.
    dump log_dump { start_timestamp: timestamp } -> log_details {
        timestamp: timestamp,
        level: log_level,
        msg_class: Text<32>,
        message: Text<256>,
    }
}

/// Registers the module.
pub(super) fn register(table: &mut Table<Context>) {
    table
        .module("vpe", [1, 7, 0])
        .question::<show_version>(|_, _| {
            Ok(show_version_reply {
                program: "volley".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                ..Default::default()
            })
        })
        .question::<show_vpe_system_time>(|_, _| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Ok(show_vpe_system_time_reply { vpe_system_time: timestamp(since.as_secs_f64()) })
        })
        .dump::<log_dump, _>(|c, q| all(log(c, q.start_timestamp.0)));
}

/// Returns the messages of the log since a time in seconds since 1970.
fn log(c: &Context, since: f64) -> Vec<log_details> {
    let lines = c.log.lines(0, usize::MAX).into_iter().map(|(_, line)| line);
    let seconds = |line: &Line| line.time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let details = |line: Line| log_details {
        timestamp: timestamp(seconds(&line)),
        level: level(line.level),
        msg_class: line.class.into(),
        message: Text(line.text),
    };
    lines.filter(|line| seconds(line) >= since).map(details).collect()
}

fn level(level: Level) -> log_level {
    match level {
        Level::Disabled => log_level::VPE_API_LOG_LEVEL_DISABLED,
        Level::Error => log_level::VPE_API_LOG_LEVEL_ERR,
        Level::Warn => log_level::VPE_API_LOG_LEVEL_WARNING,
        Level::Info => log_level::VPE_API_LOG_LEVEL_INFO,
        Level::Debug | Level::Trace => log_level::VPE_API_LOG_LEVEL_DEBUG,
    }
}
