//! The log and the event log.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::app::{Context, Output};
use crate::cli::{Args, CliError, PAGE, Registry, Rows, Table};
use crate::logging::{Happened, Level, Line, MOST_MESSAGES, Wanted};

/// Default number of events in `show event-logger`, as in VPP.
const EVENTS: usize = 250;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add("show logging [<n:u32>]", "Show the stored log messages, or the last n.", |c, a| {
        let n = a.get::<u32>("n").map_or(usize::MAX, |n| n as usize);
        Ok(Output::rows(Lines { next: c.log.last_lines(n) }, a.json()))
    });
    r.add("show logging configuration", "Show the log levels and rate limits, by class.", |c, _| {
        Ok(configuration(c))
    });
    r.add(
        "set logging class <class:log-class> [level <level:log-level>] [syslog-level <syslog:log-level>] \
         [rate-limit <n:u32>]",
        "Set which messages of a class are stored (level), and which are written to the log file, the systemd journal or standard error (syslog-level). The rate limit is the number of messages of each kind per second. These \
         settings last until the router stops.",
        set_class,
    );
    r.add(
        &format!("set logging size <n:1..{MOST_MESSAGES}>"),
        "Set the number of stored log messages.",
        |c, a| {
            c.log.set_lines(a.need::<u32>("n")? as usize);
            Ok(Output::none())
        },
    );
    r.add(
        "set logging unthrottle-time <seconds:1..3600>",
        "Set for how long messages of one kind are suppressed after they exceeded the rate limit.",
        |c, a| {
            c.log.set_unthrottle_time(a.need("seconds")?);
            Ok(Output::none())
        },
    );
    r.add(
        "test log {emerg | alert | crit | err | error | warn | warning | notice | info | debug} <class:word> <subclass:word> <text:text>",
        "Write a message into the log, to see where it arrives. The class and the subclass are part of its text.",
        test_log,
    );
    r.add("clear logging", "Delete the stored log messages.", |c, _| {
        c.log.clear_lines();
        Ok(Output::none())
    });
    r.add(
        "show event-logger [{all | <n:u32>}]",
        "Show the last 250 events of the router, the last n, or all stored events.",
        |c, a| {
            let n = if a.has("all") { usize::MAX } else { a.get::<u32>("n").map_or(EVENTS, |n| n as usize) };
            Ok(Output::rows(Events { next: c.log.last_events(n), begun: false }, a.json()))
        },
    );
    for words in ["clear event-logger", "event-logger clear"] {
        r.add(words, "Delete the stored events.", |c, _| {
            c.log.clear_events();
            Ok(Output::none())
        });
    }
}

/// Writes the operator's message to the log. Messages with VPP's levels above `error` get the level error, and its notices get the level
/// info.
fn test_log(_: &mut Context, a: &Args) -> Result<Output, CliError> {
    let word = |name| a.need::<String>(name);
    let text = format!("{}/{}: {}", word("class")?, word("subclass")?, word("text")?);
    let is = |levels: &[&str]| levels.iter().any(|level| a.has(level));
    match () {
        () if is(&["debug"]) => tracing::debug!("{text}"),
        () if is(&["notice", "info"]) => tracing::info!("{text}"),
        () if is(&["warn", "warning"]) => tracing::warn!("{text}"),
        () => tracing::error!("{text}"),
    }
    Ok(Output::none())
}

fn set_class(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let class: String = a.need("class")?;
    let level = |name| a.get::<String>(name).and_then(|word| Level::parse(&word));
    let (level, syslog_level, rate_limit) = (level("level"), level("syslog"), a.get::<u32>("n"));
    if level.is_none() && syslog_level.is_none() && rate_limit.is_none() {
        return Err(a.fault("class", "nothing to set: add level, syslog-level or rate-limit"));
    }
    if rate_limit == Some(0) {
        return Err(a.fault(
            "n",
            "the minimum is 1 message per second; to log none, set level and syslog-level to disabled",
        ));
    }
    c.log.set_class(&class, |wanted| {
        *wanted = Wanted {
            level: level.unwrap_or(wanted.level),
            syslog_level: syslog_level.unwrap_or(wanted.syslog_level),
            rate_limit: rate_limit.unwrap_or(wanted.rate_limit),
        };
    });
    Ok(Output::none())
}

#[derive(Serialize)]
struct Configuration {
    size: usize,
    entries: usize,
    lost: u64,
    unwritten: u64,
    unthrottle_seconds: u32,
    default: Wanted,
    classes: Vec<ClassConfiguration>,
}

#[derive(Serialize)]
struct ClassConfiguration {
    class: &'static str,
    #[serde(flatten)]
    wanted: Wanted,
}

fn configuration(c: &Context) -> Output {
    let usage = c.log.lines_usage();
    let v = Configuration {
        size: usage.size,
        entries: usage.entries,
        lost: usage.lost,
        unwritten: c.log.unwritten(),
        unthrottle_seconds: c.log.unthrottle_time(),
        default: c.log.default(),
        classes: c.log.classes().map(|(class, wanted)| ClassConfiguration { class, wanted }).collect(),
    };
    let mut text = format!(
        "Buffer Size:           {} entries, {} in use, {} older ones lost\n\
         Unwritten:             {} messages, because the log file or its reader was too slow, or writing failed\n\
         Unthrottle Time:       {} s\n\
         Defaults:\n  Log Level:           {}\n  Syslog Log Level:    {}\n  Rate Limit:          {} msgs/sec\n\n",
        v.size,
        v.entries,
        v.lost,
        v.unwritten,
        v.unthrottle_seconds,
        v.default.level,
        v.default.syslog_level,
        v.default.rate_limit
    );
    let mut t = Table::new(&["Class", "Level", "Syslog Level", "Rate Limit"]);
    for ClassConfiguration { class, wanted: w } in &v.classes {
        let row = [class, w.level.name(), w.syslog_level.name(), &w.rate_limit.to_string()];
        t.row(row.map(str::to_string).to_vec());
    }
    text += &t.to_string();
    Output::show(&v, text)
}

/// Returns the seconds since 1970 in UTC.
fn unix_seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Formats a time in UTC.
fn utc(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

#[derive(Serialize)]
struct Message {
    time: String,
    unix_seconds: f64,
    level: Level,
    class: &'static str,
    text: String,
}

/// The messages from number `next` on.
struct Lines {
    next: u64,
}

impl Rows<Context> for Lines {
    type Row = Message;

    fn next(&mut self, c: &Context, page: &mut Vec<Message>) -> bool {
        for (number, Line { time, level, class, text }) in c.log.lines(self.next, PAGE) {
            page.push(Message { time: utc(time), unix_seconds: unix_seconds(time), level, class, text });
            self.next = number + 1;
        }
        page.len() == PAGE
    }

    fn text(&mut self, page: &[Message], out: &mut String) {
        for m in page {
            *out += &format!("{} {:<8} {:<10} {}\n", m.time, m.level.name(), m.class, m.text);
        }
    }
}

#[derive(Serialize)]
struct Event {
    time: String,
    unix_seconds: f64,
    age_seconds: f64,
    kind: String,
    text: String,
}

/// The events from number `next` on.
struct Events {
    next: u64,
    begun: bool,
}

impl Rows<Context> for Events {
    type Row = Event;

    fn next(&mut self, c: &Context, page: &mut Vec<Event>) -> bool {
        for (number, Happened { time, kind, text }) in c.log.events(self.next, PAGE) {
            let age_seconds = time.elapsed().unwrap_or_default().as_secs_f64();
            page.push(Event { time: utc(time), unix_seconds: unix_seconds(time), age_seconds, kind, text });
            self.next = number + 1;
        }
        page.len() == PAGE
    }

    fn text(&mut self, page: &[Event], out: &mut String) {
        if !std::mem::replace(&mut self.begun, true) && !page.is_empty() {
            *out += &format!("{:<24} {:>12}  {:<9} {}\n", "Time (UTC)", "Age", "Kind", "What happened");
        }
        for e in page {
            *out += &format!("{} {:>12}  {:<9} {}\n", e.time, age(e.age_seconds), e.kind, e.text);
        }
    }

    fn end(&mut self, c: &Context, out: &mut String) {
        let usage = c.log.events_usage();
        *out += &format!(
            "{} of {} events in buffer, {} older ones lost\n",
            usage.entries, usage.size, usage.lost
        );
    }
}

/// Formats an age: in tenths of seconds below a minute, otherwise in days, hours, minutes and, below an hour, seconds.
fn age(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1}s");
    }
    let whole = seconds as u64;
    // From one hour on, seconds are omitted.
    let whole = if whole < 3600 { whole } else { whole - whole % 60 };
    humantime::format_duration(Duration::from_secs(whole)).to_string().replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Cli;

    #[test]
    fn ages_are_short() {
        let ages = [0.04, 59.94, 61.0, 3661.0, 90_061.0].map(age);
        assert_eq!(ages, ["0.0s", "59.9s", "1m1s", "1h1m", "1day1h1m"]);
    }

    #[test]
    fn classes_are_set_and_shown() {
        let mut cli = Cli::new();
        cli.ok("set logging class cli level emerg syslog-level off rate-limit 7");
        cli.ok("set logging class ip rate-limit 9 level debug");
        cli.ok("set logging size 100");
        cli.ok("set logging unthrottle-time 60");
        let shown = cli.ok("show logging configuration");
        let row = |class: &str| {
            let line = shown.lines().find(|l| l.starts_with(class)).unwrap();
            line.split_whitespace().skip(1).map(str::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            (row("cli"), row("ip ")),
            (
                vec!["error".into(), "disabled".into(), "7".into()],
                vec!["debug".into(), "info".into(), "9".into()]
            )
        );
        assert!(shown.contains("100 entries") && shown.contains("60 s"), "{shown}");
        for (line, place) in [
            ("set logging class nat level debug", "nat"),
            ("set logging class ip level loud", "loud"),
            ("set logging class ip", "ip"),
            ("set logging class ip rate-limit 0", "0"),
            ("set logging size 0", "0"),
            ("set logging size 65537", "65537"),
            ("set logging unthrottle-time 0", "0"),
        ] {
            cli.refused(line, place);
        }
        let level = cli.run("set logging class ip level loud").unwrap_err().render();
        assert!(level.contains("there are: emerg, alert, crit, error, warn, notice, info, debug"), "{level}");
        assert_eq!(cli.ok("show logging"), "");
        assert_eq!(cli.ok("show event-log"), "0 of 4096 events in buffer, 0 older ones lost\n");
        assert_eq!(cli.ok("show log 5") + &cli.ok("clear log") + &cli.ok("clear event"), "");
    }
}
