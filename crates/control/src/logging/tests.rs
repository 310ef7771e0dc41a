use super::*;
use std::fs;

/// A log that writes to a file.
struct Heard {
    log: Arc<Log>,
    directory: tempfile::TempDir,
}

impl Heard {
    fn with(settings: &Settings) -> Heard {
        let directory = tempfile::tempdir().unwrap();
        let sink = Sink::File(directory.path().join("log"));
        let log = Log::new(settings, Out::to(sink).unwrap());
        Heard { log, directory }
    }

    fn during(&self, say: impl FnOnce()) {
        let subscriber = tracing_subscriber::registry().with(layer::Listener(self.log.clone()));
        tracing::subscriber::with_default(subscriber, say);
    }

    fn file(&self) -> String {
        self.log.drain();
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    fn texts(&self) -> Vec<String> {
        self.log.lines(0, 9999).into_iter().map(|(_, line)| line.text).collect()
    }
}

fn by(filter: &str) -> Settings {
    let mut settings = Settings::default();
    settings.override_by(filter).unwrap();
    settings
}

fn say_some() {
    tracing::info!(target: "net::interface", name = "host-eth0", "link is up");
    tracing::debug!(target: "control::cli::server", "a detail");
}

#[test]
fn variable_selects_by_level_and_class() {
    for (filter, texts) in [
        ("info", vec!["link is up name=\"host-eth0\""]),
        ("warn,cli=debug", vec!["a detail"]),
        ("cli=debug", vec!["link is up name=\"host-eth0\"", "a detail"]),
        ("off", vec![]),
        ("", vec!["link is up name=\"host-eth0\""]),
    ] {
        let heard = Heard::with(&by(filter));
        heard.during(say_some);
        assert_eq!(heard.texts(), texts, "{filter}");
        assert!(texts.iter().all(|text| heard.file().contains(text)), "{filter}: {}", heard.file());
        assert_eq!(heard.file().lines().count(), texts.len());
    }
    for (wrong, part) in [("loud", "'loud'"), ("warn,nat=debug", "'nat=debug'"), ("cli=loud", "'cli=loud'")] {
        let message = Settings::default().override_by(wrong).unwrap_err().to_string();
        assert!(
            message.contains(part) && message.contains(VARIABLE) && message.contains("neighbor"),
            "{message}"
        );
    }
}

#[test]
fn variable_overrides_the_configuration() {
    let mut settings = Settings::default();
    let debug = ClassSettings { level: Some(Level::Debug), rate_limit: Some(7), ..ClassSettings::default() };
    settings.classes.insert("cli", debug);
    settings.override_by("warn,ip=trace").unwrap();
    let warn = Wanted { level: Level::Warn, syslog_level: Level::Warn, rate_limit: 50 };
    assert_eq!(settings.wanted("cli"), Wanted { rate_limit: 7, ..warn });
    assert_eq!(settings.wanted("ip"), Wanted { level: Level::Trace, syslog_level: Level::Trace, ..warn });
}

#[test]
fn levels_change_at_run_time() {
    let heard = Heard::with(&Settings::default());
    heard.during(|| {
        say_some();
        heard.log.set_class("cli", |wanted| wanted.level = Level::Debug);
        heard.log.set_class("interface", |wanted| wanted.syslog_level = Level::Disabled);
        heard.log.set_class("no such class", |wanted| wanted.level = Level::Disabled);
        say_some();
        heard.log.set_class("interface", |wanted| wanted.level = Level::Warn);
        say_some();
    });
    let link = "link is up name=\"host-eth0\"";
    assert_eq!(heard.texts(), [link, link, "a detail", "a detail"]);
    assert_eq!(heard.file().matches(link).count(), 1);
    assert!(!heard.file().contains("a detail"));
}

#[test]
fn events_are_kept_at_any_level() {
    let heard = Heard::with(&by("off"));
    heard.during(|| {
        tracing::debug!(event = "link", "{} is up", "host-eth0");
        tracing::error!("no event");
    });
    let events = heard.log.events(0, 9);
    let [(0, Happened { kind, text, .. })] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((kind.as_str(), text.as_str()), ("link", "host-eth0 is up"));
    assert_eq!((heard.texts().len(), heard.file().len()), (0, 0));
    heard.log.clear_events();
    assert_eq!(heard.log.events(0, 9), []);
}

/// A flood from one statement is cut off and counted; other statements are not affected.
#[test]
fn floods_are_limited_by_statement() {
    let heard = Heard::with(&Settings::default());
    heard.log.set_class("neighbor", |wanted| wanted.rate_limit = 10);
    heard.during(|| {
        for n in 0..100_000 {
            tracing::warn!(target: "net::neighbor", event = "neighbor", "flood {n}");
        }
        tracing::warn!(target: "net::neighbor", "another place");
    });
    let texts = heard.texts();
    // On a slow machine, the loop takes longer than a second: the statement is still silent then.
    assert_eq!((texts.len(), texts[9].as_str(), texts[10].as_str()), (11, "flood 9", "another place"));
    assert_eq!(heard.log.events(0, 99_999).len(), 10);
    heard.log.flush_at(Instant::now() + Duration::from_secs(4));
    let text = heard.texts().pop().unwrap();
    assert!(
        text.starts_with("99990 messages suppressed in ") && text.ends_with(", such as: flood 9"),
        "{text}"
    );
    assert!(heard.file().ends_with(&format!(" warn neighbor: {text}\n")), "{}", heard.file());
    assert_eq!(heard.log.events(10, 9)[0].1.text, text);
    heard.log.flush_at(Instant::now() + Duration::from_secs(40));
    assert_eq!(heard.texts().len(), 12, "it is reported once");
}

#[test]
fn memory_of_the_log_is_bounded() {
    let heard = Heard::with(&Settings { size: 3, ..Settings::default() });
    heard.during(|| {
        for n in 0..5 {
            tracing::info!("{n}");
        }
        tracing::info!("{}", "x".repeat(1 << 20));
    });
    assert_eq!(heard.log.lines_usage(), Usage { entries: 3, size: 3, lost: 3 });
    assert!(heard.texts()[2].len() < LONGEST + 4);
    heard.log.clear_lines();
    assert_eq!(heard.texts(), [""; 0]);
}

#[test]
fn messages_cannot_fake_lines_or_control_terminals() {
    assert_eq!(tidy("a\nb\x1b[2J\r".into()), "a\n    b\\u001b[2J\\u000d");
    assert_eq!(tidy("schön".into()), "schön");
}
