//! The log: messages of `tracing` in classes, each with levels that can be changed at run time.
//!
//! A message may go to memory, for `show logging`, and to an output: standard error, the systemd journal, or a file. Each class has one
//! level for memory and one for the output. A message with a field `event` also goes into the event log, whatever the levels are.
//!
//! Nearly all messages come from the main thread, and none is logged for each packet. A separate thread writes them. Each logging statement
//! may log a limited number of messages per second ([`limit`]). Further messages are counted, and the count is logged when the statement is
//! quiet again. So peers can fill neither disk nor memory.

mod class;
mod layer;
mod limit;
mod out;
mod ring;
#[cfg(test)]
mod tests;

use model::visible::visible;
use std::{
    collections::{BTreeMap, HashMap},
    env,
    error::Error,
    fmt, io, panic,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use tracing::{Metadata, callsite::Identifier};
use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};

pub(crate) use class::declare;
pub use class::{Level, Wanted, classes};
use limit::Place;
use out::{Out, Sink};
use ring::Ring;
pub use ring::Usage;

/// The environment variable that overrides the levels of the configuration.
pub const VARIABLE: &str = "VOLLEY_LOG";

/// Maximum number of messages that can be kept in memory.
pub const MOST_MESSAGES: usize = 65_536;

/// Maximum number of events kept in memory.
const EVENTS: usize = 4096;
/// Length in bytes to which a text is cut, before its control characters are escaped.
const LONGEST: usize = 2048;

/// The settings of a class in the start configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSettings {
    /// Overrides the default level of messages in memory.
    pub level: Option<Level>,
    /// Overrides the default level of messages to the output.
    pub syslog_level: Option<Level>,
    /// Overrides the default limit, in messages per second of each logging statement.
    pub rate_limit: Option<u32>,
}

/// The `logging` section of the start configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximum number of messages kept in memory.
    pub size: usize,
    /// Seconds for which a logging statement is silent after it exceeded its limit. They count from the start of the one-second interval in
    /// which the limit was exceeded. 0 has the same effect as 1.
    pub unthrottle_time: u32,
    /// The settings of classes that have no settings of their own.
    pub default: Wanted,
    /// The settings of classes, by name.
    pub classes: BTreeMap<&'static str, ClassSettings>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            size: 512,
            unthrottle_time: 3,
            default: Wanted { level: Level::Info, syslog_level: Level::Info, rate_limit: 50 },
            classes: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// Returns the settings of a class.
    fn wanted(&self, class: &str) -> Wanted {
        let of = self.classes.get(class).copied().unwrap_or_default();
        Wanted {
            level: of.level.unwrap_or(self.default.level),
            syslog_level: of.syslog_level.unwrap_or(self.default.syslog_level),
            rate_limit: of.rate_limit.unwrap_or(self.default.rate_limit),
        }
    }

    /// Changes the levels according to a text such as `warn,neighbor=debug`.
    fn override_by(&mut self, text: &str) -> Result<(), LogError> {
        let wrong = |part: &str| LogError::Filter { text: text.to_owned(), part: part.to_owned() };
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (class, level) =
                part.split_once('=').map_or((None, part), |(class, level)| (Some(class), level));
            let level = Level::parse(level).ok_or_else(|| wrong(part))?;
            let Some(class) = class else {
                (self.default.level, self.default.syslog_level) = (level, level);
                // The text overrides all of the configuration.
                self.classes.values_mut().for_each(|c| (c.level, c.syslog_level) = (None, None));
                continue;
            };
            let class = class_name(class).ok_or_else(|| wrong(part))?;
            let settings = self.classes.entry(class).or_default();
            (settings.level, settings.syslog_level) = (Some(level), Some(level));
        }
        Ok(())
    }
}

/// Returns the name of a class, if it exists.
pub fn class_name(name: &str) -> Option<&'static str> {
    class::named(name).map(|class| classes()[class].name)
}

/// The reason that logging could not start.
#[derive(Debug)]
pub enum LogError {
    /// The environment variable [`VARIABLE`] is invalid.
    Filter {
        /// Its text.
        text: String,
        /// The invalid part.
        part: String,
    },
    /// The log file cannot be opened.
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The thread that writes cannot be started.
    Thread(io::Error),
    /// The log is already set up.
    Again,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filter { text, part } => write!(
                f,
                "{VARIABLE} is '{text}', and '{part}' has an unknown level or class: expected a level ({}), or classes and \
                 levels such as warn,neighbor=debug; classes are {}",
                Level::names().collect::<Vec<_>>().join(", "),
                classes().iter().map(|class| class.name).collect::<Vec<_>>().join(", "),
            ),
            Self::File { path, source } => write!(
                f,
                "cannot open the log file {}: {source}; set another (unix {{ log … }}), or create its directory",
                path.display()
            ),
            Self::Thread(source) => write!(f, "cannot start the thread that writes the log: {source}"),
            Self::Again => f.write_str("the log is already set up"),
        }
    }
}

impl Error for LogError {}

/// A message in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its time.
    pub time: SystemTime,
    /// Its level.
    pub level: Level,
    /// Its class.
    pub class: &'static str,
    /// Its text.
    pub text: String,
}

/// An event in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// Its time.
    pub time: SystemTime,
    /// Its kind.
    pub kind: String,
    /// Its text.
    pub text: String,
}

/// The log of a process: settings, messages and events.
pub struct Log {
    /// The settings of each class.
    bounds: Vec<class::Bounds>,
    default: Wanted,
    unthrottle_time: AtomicU32,
    said: Mutex<Said>,
    out: Out,
}

struct Said {
    lines: Ring<Line>,
    events: Ring<Happened>,
    /// The logging statements that were used; the program has a fixed number of them.
    places: HashMap<Identifier, Speaker>,
}

/// A logging statement, with its last message.
struct Speaker {
    place: Place,
    at: &'static Metadata<'static>,
    kind: Option<String>,
    last: String,
}

/// Starts the log of the process. It appends to `file`, or writes to standard error. Colors appear on a terminal only. The systemd journal
/// gets priorities instead of times, because it adds times itself. [`VARIABLE`] overrides the levels in `settings`.
///
/// # Errors
/// If the variable is invalid, the output cannot be opened, the writing thread cannot be started, or the log is already set up.
pub fn init(settings: &Settings, file: Option<&Path>) -> Result<Arc<Log>, LogError> {
    let mut settings = settings.clone();
    if let Ok(text) = env::var(VARIABLE) {
        settings.override_by(&text)?;
    }
    let sink = file.map_or_else(Sink::stderr, |path| Ok(Sink::File(path.to_owned())))?;
    let log = Log::new(&settings, Out::to(sink)?);
    let subscriber = tracing_subscriber::registry().with(layer::Listener(log.clone()));
    subscriber.try_init().map_err(|_| LogError::Again)?;
    // After a panic, the earlier messages are still written: they may explain it.
    let (told, last) = (panic::take_hook(), log.clone());
    panic::set_hook(Box::new(move |fault| {
        told(fault);
        last.drain();
    }));
    Ok(log)
}

impl Log {
    fn new(settings: &Settings, out: Out) -> Arc<Log> {
        let said =
            Said { lines: Ring::new(settings.size), events: Ring::new(EVENTS), places: HashMap::new() };
        Arc::new(Log {
            bounds: classes().iter().map(|class| class::Bounds::new(settings.wanted(class.name))).collect(),
            default: settings.default,
            unthrottle_time: AtomicU32::new(settings.unthrottle_time),
            said: Mutex::new(said),
            out,
        })
    }

    /// Returns a log without output, for a router that runs in another program, such as a test.
    pub fn silent() -> Arc<Log> {
        Log::new(&Settings::default(), Out::nowhere())
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        // A panic while the lock is held leaves no partial messages.
        self.said.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns the settings of classes that have no settings of their own.
    pub fn default(&self) -> Wanted {
        self.default
    }

    /// Returns the settings of each class.
    pub fn classes(&self) -> impl Iterator<Item = (&'static str, Wanted)> {
        classes().iter().zip(&self.bounds).map(|(class, bounds)| (class.name, bounds.get()))
    }

    /// Changes the settings of a class, if it exists.
    pub fn set_class(&self, class: &str, change: impl FnOnce(&mut Wanted)) {
        let Some(bounds) = class::named(class).and_then(|class| self.bounds.get(class)) else { return };
        let mut wanted = bounds.get();
        change(&mut wanted);
        bounds.set(wanted);
        if !self.out.is_nowhere() {
            // `tracing` caches which statements are enabled.
            tracing::callsite::rebuild_interest_cache();
        }
    }

    /// Returns the seconds for which a logging statement is silent after it exceeded its limit.
    pub fn unthrottle_time(&self) -> u32 {
        self.unthrottle_time.load(Relaxed)
    }

    /// Sets the seconds for which a logging statement is silent after it exceeded its limit.
    pub fn set_unthrottle_time(&self, seconds: u32) {
        self.unthrottle_time.store(seconds, Relaxed);
    }

    /// Returns the number of messages in memory, their maximum number, and the number of messages that newer ones replaced.
    pub fn lines_usage(&self) -> Usage {
        self.said().lines.usage()
    }

    /// Sets the number of messages to keep.
    pub fn set_lines(&self, size: usize) {
        self.said().lines.resize(size);
    }

    /// Returns the number of the oldest of the last `n` messages, for [`lines`](Self::lines).
    pub fn last_lines(&self, n: usize) -> u64 {
        self.said().lines.last(n)
    }

    /// Returns at most `n` messages with their numbers, from the number `from` on.
    pub fn lines(&self, from: u64, n: usize) -> Vec<(u64, Line)> {
        self.said().lines.from(from).take(n).map(|(number, line)| (number, line.clone())).collect()
    }

    /// Removes all messages.
    pub fn clear_lines(&self) {
        self.said().lines.clear();
    }

    /// Returns the number of events in memory, their maximum number, and the number of events that newer ones replaced.
    pub fn events_usage(&self) -> Usage {
        self.said().events.usage()
    }

    /// Returns the number of the oldest of the last `n` events, for [`events`](Self::events).
    pub fn last_events(&self, n: usize) -> u64 {
        self.said().events.last(n)
    }

    /// Returns at most `n` events with their numbers, from the number `from` on.
    pub fn events(&self, from: u64, n: usize) -> Vec<(u64, Happened)> {
        self.said().events.from(from).take(n).map(|(number, event)| (number, event.clone())).collect()
    }

    /// Removes all events.
    pub fn clear_events(&self) {
        self.said().events.clear();
    }

    /// Returns the number of messages that were not written, because the queue to the output was full or a write failed.
    pub fn unwritten(&self) -> u64 {
        self.out.unwritten()
    }

    /// Pins the writing thread to a core.
    pub fn pin(&self, core: usize) {
        self.out.pin(core);
    }

    /// Opens the log file again, after it was renamed. The writing thread does this. Returns false if the log is not a file.
    pub fn reopen(&self) -> bool {
        self.out.reopen()
    }

    /// Waits until all messages are written, for a second at most.
    pub fn drain(&self) {
        self.out.drain();
    }

    /// Logs the number of suppressed messages of each statement whose silence is over. To be called about every
    /// second.
    pub fn flush(&self) {
        self.flush_at(Instant::now());
    }

    fn flush_at(&self, now: Instant) {
        let silence = Duration::from_secs(self.unthrottle_time().into());
        let mut out = Vec::new();
        {
            let mut said = self.said();
            let Said { lines, events, places } = &mut *said;
            for speaker in places.values_mut() {
                let Some(over) = speaker.place.over(now, silence) else { continue };
                let text = format!(
                    "{} messages suppressed in {:.1} s, such as: {}",
                    over.messages,
                    over.time.as_secs_f64(),
                    speaker.last
                );
                self.remember(lines, events, &mut out, speaker.at, speaker.kind.as_deref(), text);
            }
        }
        out.into_iter().for_each(|line| self.out.write(line));
    }

    /// Handles a message. If its logging statement exceeds the limit, the message is only counted.
    fn hear(&self, at: &'static Metadata<'static>, kind: Option<String>, text: String, now: Instant) {
        let limit = self.bounds[class::of(at.target())].get().rate_limit;
        let text = tidy(text);
        let mut out = Vec::new();
        {
            let mut said = self.said();
            let Said { lines, events, places } = &mut *said;
            let new = || Speaker { place: Place::new(now), at, kind: None, last: String::new() };
            let speaker = places.entry(at.callsite()).or_insert_with(new);
            if !speaker.place.may_speak(now, limit) {
                return;
            }
            (speaker.kind, speaker.last) = (kind.clone(), text.clone());
            self.remember(lines, events, &mut out, at, kind.as_deref(), text);
        }
        out.into_iter().for_each(|line| self.out.write(line));
    }

    /// Adds a message to memory and to the output, if the levels of its class allow it. Adds it to the event log if it has a `kind`.
    fn remember(
        &self,
        lines: &mut Ring<Line>,
        events: &mut Ring<Happened>,
        out: &mut Vec<Line>,
        at: &Metadata<'_>,
        kind: Option<&str>,
        text: String,
    ) {
        let time = SystemTime::now();
        if let Some(kind) = kind {
            events.push(Happened { time, kind: kind.to_owned(), text: text.clone() });
        }
        let (class, level) = (class::of(at.target()), Level::from(*at.level()));
        let wanted = self.bounds[class].get();
        let line = Line { time, level, class: classes()[class].name, text };
        if level <= wanted.syslog_level {
            out.push(line.clone());
        }
        if level <= wanted.level {
            lines.push(line);
        }
    }
}

/// Truncates a long text, escapes control characters, and indents all lines but the first.
fn tidy(text: String) -> String {
    let mut text = text;
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
    visible(&text).replace('\n', "\n    ")
}
