//! The log: what the program says by `tracing`, in classes, each with levels that change while it runs.
//!
//! A message goes two ways, each with a level of its own for each class: to memory, for `show logging`, and out, to standard
//! error, the journal or a file. One with a field `event` tells of something that has happened, and what kind it is: that
//! is remembered in the event log, too, whatever the levels are.
//!
//! Messages are said by the main thread nearly always, and never for a packet; a thread of its own writes them. Each place in the program
//! has so many a second ([`limit`]); what is more is counted, and the number is said when it is quiet again. So what
//! peers cause fills neither disk nor memory.

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

/// The environment variable that says which messages are wanted, whatever the configuration says.
pub const VARIABLE: &str = "VOLLEY_LOG";

/// The most messages that can be remembered.
pub const MOST_MESSAGES: usize = 65_536;

/// Events that are remembered.
const EVENTS: usize = 4096;
/// The longest text that is remembered or written, in bytes.
const LONGEST: usize = 2048;

/// What is said of a class in the start configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSettings {
    /// Instead of the default one.
    pub level: Option<Level>,
    /// Instead of the default one.
    pub syslog_level: Option<Level>,
    /// Instead of the default one.
    pub rate_limit: Option<u32>,
}

/// The `logging` section of the start configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Messages that are remembered.
    pub size: usize,
    /// How long a place that had too much to say is silent, in seconds.
    pub unthrottle_time: u32,
    /// What holds for classes of which nothing is said.
    pub default: Wanted,
    /// Classes by name.
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
    /// What is wanted of a class.
    fn wanted(&self, class: &str) -> Wanted {
        let of = self.classes.get(class).copied().unwrap_or_default();
        Wanted {
            level: of.level.unwrap_or(self.default.level),
            syslog_level: of.syslog_level.unwrap_or(self.default.syslog_level),
            rate_limit: of.rate_limit.unwrap_or(self.default.rate_limit),
        }
    }

    /// Changes the levels to what a text says, as `warn,neighbor=debug`.
    fn override_by(&mut self, text: &str) -> Result<(), LogError> {
        let wrong = |part: &str| LogError::Filter { text: text.to_owned(), part: part.to_owned() };
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (class, level) =
                part.split_once('=').map_or((None, part), |(class, level)| (Some(class), level));
            let level = Level::parse(level).ok_or_else(|| wrong(part))?;
            let Some(class) = class else {
                (self.default.level, self.default.syslog_level) = (level, level);
                // It goes before all that the configuration says.
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

/// The name of a class that there is.
pub fn class_name(name: &str) -> Option<&'static str> {
    class::named(name).map(|class| classes()[class].name)
}

/// Why logging could not start.
#[derive(Debug)]
pub enum LogError {
    /// The variable does not say what is wanted.
    Filter {
        /// What it says.
        text: String,
        /// What of that is wrong.
        part: String,
    },
    /// The log's file cannot be opened.
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// There can be no thread that writes.
    Thread(io::Error),
    /// There is a log already.
    Again,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filter { text, part } => write!(
                f,
                "{VARIABLE} is '{text}', and '{part}' in it is no level, or of no class: expected a level ({}), or classes and \
                 levels as warn,neighbor=debug; classes are {}",
                Level::names().collect::<Vec<_>>().join(", "),
                classes().iter().map(|class| class.name).collect::<Vec<_>>().join(", "),
            ),
            Self::File { path, source } => write!(
                f,
                "the log's file {} cannot be opened: {source}; name another (unix {{ log … }}), or make its directory",
                path.display()
            ),
            Self::Thread(source) => write!(f, "no thread can be started that writes the log: {source}"),
            Self::Again => f.write_str("the log is set up already"),
        }
    }
}

impl Error for LogError {}

/// A message that is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When it was said.
    pub time: SystemTime,
    /// How grave it is.
    pub level: Level,
    /// Where it is from.
    pub class: &'static str,
    /// What it says.
    pub text: String,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// When.
    pub time: SystemTime,
    /// What kind of thing.
    pub kind: String,
    /// What.
    pub text: String,
}

/// The log of a process: what is wanted, and what was said.
pub struct Log {
    /// Of each class.
    bounds: Vec<class::Bounds>,
    default: Wanted,
    unthrottle_time: AtomicU32,
    said: Mutex<Said>,
    out: Out,
}

struct Said {
    lines: Ring<Line>,
    events: Ring<Happened>,
    /// The places that have said something: there are only so many in the program.
    places: HashMap<Identifier, Speaker>,
}

/// A place in the program, with what it said last.
struct Speaker {
    place: Place,
    at: &'static Metadata<'static>,
    kind: Option<String>,
    last: String,
}

/// Starts the log for the whole process: to `file`, appended, or else to standard error. Colours appear on a
/// terminal only; the journal gets priorities instead of times, which it adds itself. [`VARIABLE`] goes before `settings`.
///
/// # Errors
/// When the variable or the file is no good, or when there is a log already.
pub fn init(settings: &Settings, file: Option<&Path>) -> Result<Arc<Log>, LogError> {
    let mut settings = settings.clone();
    if let Ok(text) = env::var(VARIABLE) {
        settings.override_by(&text)?;
    }
    let sink = file.map_or_else(Sink::stderr, Sink::file)?;
    let log = Log::new(&settings, Out::to(sink)?);
    let subscriber = tracing_subscriber::registry().with(layer::Listener(log.clone()));
    subscriber.try_init().map_err(|_| LogError::Again)?;
    // What was said before a fault is what explains it.
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

    /// A log that hears nothing: of a router that is no process.
    pub fn silent() -> Arc<Log> {
        Log::new(&Settings::default(), Out::nowhere())
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        // A panic while the lock is held leaves whole messages.
        self.said.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// What holds for classes of which the start configuration says nothing.
    pub fn default(&self) -> Wanted {
        self.default
    }

    /// Which messages of each class are wanted.
    pub fn classes(&self) -> impl Iterator<Item = (&'static str, Wanted)> {
        classes().iter().zip(&self.bounds).map(|(class, bounds)| (class.name, bounds.get()))
    }

    /// Changes which messages of a class are wanted; nothing if there is no such class.
    pub fn set_class(&self, class: &str, change: impl FnOnce(&mut Wanted)) {
        let Some(bounds) = class::named(class).and_then(|class| self.bounds.get(class)) else { return };
        let mut wanted = bounds.get();
        change(&mut wanted);
        bounds.set(wanted);
        if !self.out.is_nowhere() {
            // Places whose messages nobody wanted were told so once.
            tracing::callsite::rebuild_interest_cache();
        }
    }

    /// How long a place that had too much to say is silent, in seconds.
    pub fn unthrottle_time(&self) -> u32 {
        self.unthrottle_time.load(Relaxed)
    }

    /// Changes that.
    pub fn set_unthrottle_time(&self, seconds: u32) {
        self.unthrottle_time.store(seconds, Relaxed);
    }

    /// How many messages are remembered.
    pub fn lines_usage(&self) -> Usage {
        self.said().lines.usage()
    }

    /// Remembers so many messages.
    pub fn set_lines(&self, size: usize) {
        self.said().lines.resize(size);
    }

    /// The number of the first of the last `n` messages.
    pub fn last_lines(&self, n: usize) -> u64 {
        self.said().lines.last(n)
    }

    /// At most `n` messages from this number on, with their numbers.
    pub fn lines(&self, from: u64, n: usize) -> Vec<(u64, Line)> {
        self.said().lines.from(from).take(n).map(|(number, line)| (number, line.clone())).collect()
    }

    /// Forgets all messages.
    pub fn clear_lines(&self) {
        self.said().lines.clear();
    }

    /// How many events are remembered.
    pub fn events_usage(&self) -> Usage {
        self.said().events.usage()
    }

    /// The number of the first of the last `n` events.
    pub fn last_events(&self, n: usize) -> u64 {
        self.said().events.last(n)
    }

    /// At most `n` events from this number on, with their numbers.
    pub fn events(&self, from: u64, n: usize) -> Vec<(u64, Happened)> {
        self.said().events.from(from).take(n).map(|(number, event)| (number, event.clone())).collect()
    }

    /// Forgets all events.
    pub fn clear_events(&self) {
        self.said().events.clear();
    }

    /// Messages that were not written, because the place where they go did not take those before them in time.
    pub fn unwritten(&self) -> u64 {
        self.out.unwritten()
    }

    /// Has the thread that writes stay on a core.
    pub fn pin(&self, core: usize) {
        self.out.pin(core);
    }

    /// Waits until what was said is written, for a second at most.
    pub fn drain(&self) {
        self.out.drain();
    }

    /// Says how much was not said, of places whose silence is over. Called now and then.
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

    /// Takes a message in.
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

    /// Puts a message where it is wanted.
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

/// A text that is not too long, and in which nothing controls a terminal or looks like a line of its own.
fn tidy(text: String) -> String {
    let mut text = text;
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
    visible(&text).replace('\n', "\n    ")
}
