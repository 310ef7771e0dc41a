//! The time and the uptime.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::app::{Context, Output};
use crate::cli::Registry;

/// Maximum number of seconds by which the time can be moved at once.
const LONGEST: f64 = 86_400.0;
/// Maximum number of seconds by which the router's time can be ahead of the real time: a year.
const FARTHEST: f64 = 366.0 * 86_400.0;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add("show clock", "Show the time, and the uptime of the router.", |c, _| Ok(clock(c)));
    r.add(
        "set clock adjust <seconds:word>",
        "Move the router's time forward by 0 to 86400 seconds, for tests: all its timers see it. It cannot be moved back.",
        |c, a| {
            let text: String = a.need("seconds")?;
            let seconds = text.parse().ok().filter(|seconds| (0.0..=LONGEST).contains(seconds));
            let seconds: f64 =
                seconds.ok_or_else(|| a.fault("seconds", "expected a number of seconds from 0 to 86400"))?;
            let ahead = infra::clock::advanced().as_secs_f64() + seconds;
            if ahead > FARTHEST {
                return Err(a.fault("seconds", format!("the router's time would be {ahead:.0} s ahead, but the maximum is {FARTHEST:.0} s")));
            }
            infra::clock::advance(Duration::from_secs_f64(seconds));
            // Threads that sleep until a time must look at the clock again.
            c.system.router.doorbell().ring();
            c.system.router.wake_workers();
            Ok(Output::none())
        },
    );
}

#[derive(Serialize)]
struct Clock {
    /// The time in the machine's time zone, with the offset from UTC.
    local: String,
    utc: String,
    uptime_seconds: f64,
}

fn clock(c: &Context) -> Output {
    let now = SystemTime::now();
    let v = Clock {
        local: local(now),
        utc: humantime::format_rfc3339_seconds(now).to_string(),
        uptime_seconds: (c.started.elapsed() + infra::clock::advanced()).as_secs_f64(),
    };
    // The first line is VPP's, for scripts that read the time in it: seconds since the start.
    let text = format!(
        "Time now {:.6}, {}\nLocal time {}\nUTC        {}\nUp         {:.3} s\n",
        v.uptime_seconds, v.utc, v.local, v.utc, v.uptime_seconds
    );
    Output::show(&v, text)
}

/// Formats a time as `2026-11-26T23:28:11+01:00`.
fn local(time: SystemTime) -> String {
    let offset = infra::clock::utc_offset(time);
    let distance = std::time::Duration::from_secs(offset.unsigned_abs().into());
    let shifted = if offset < 0 { time.checked_sub(distance) } else { time.checked_add(distance) };
    // Times before 1970 cannot be printed.
    let shifted = shifted.unwrap_or(time).max(SystemTime::UNIX_EPOCH);
    let text = humantime::format_rfc3339_seconds(shifted).to_string();
    let sign = if offset < 0 { '-' } else { '+' };
    let minutes = offset.unsigned_abs() / 60;
    format!("{}{sign}{:02}:{:02}", text.trim_end_matches('Z'), minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::local;
    use crate::testing::Cli;

    #[test]
    fn times_around_1970_are_printed() {
        for seconds in [0, 1, 100_000] {
            let text = local(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            assert!(text.starts_with("19"), "{text}");
        }
    }

    #[test]
    fn the_time_is_shown_in_local_time_and_utc() {
        let mut cli = Cli::new();
        let text = cli.ok("show clock");
        let line = |n: usize| text.lines().nth(n).unwrap();
        let now = line(0).strip_prefix("Time now ").and_then(|rest| rest.split_once(", ")).unwrap();
        assert!(now.0.parse::<f64>().is_ok() && now.1.ends_with('Z'), "{text}");
        assert!(line(1).starts_with("Local time 20") && line(2).starts_with("UTC        20"), "{text}");
        assert!(line(2).ends_with('Z') && line(3).ends_with(" s"), "{text}");
        let json = cli.json("show clock");
        let local = json["local"].as_str().unwrap();
        assert_eq!((local.len(), &local[22..23]), ("2026-11-26T23:28:11+01:00".len(), ":"), "{local}");
        assert!(json["uptime_seconds"].as_f64().unwrap() >= 0.0);
    }
}
