//! Classes and levels of log messages. The class is the part of the router that a message comes from.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use net::feature::LogClass;
use serde::Serialize;

/// The classes of the router's core, sorted by name. `router` gets all messages that match no other class.
const OWN: [LogClass; 11] = [
    LogClass { name: "cli", modules: &["control::cli"] },
    LogClass {
        name: "config",
        modules: &[
            "control::app",
            "control::commands",
            "control::config",
            "control::intent",
            "control::journal",
            "model::store",
        ],
    },
    LogClass { name: "driver", modules: &["drivers"] },
    LogClass {
        name: "interface",
        modules: &[
            "control::system",
            "control::intent::interface",
            "net::interface",
            "net::router::interfaces",
        ],
    },
    LogClass { name: "ip", modules: &["net::ip", "net::router::ip6", "net::router::routes"] },
    LogClass { name: "log", modules: &["control::logging"] },
    LogClass { name: "metrics", modules: &["control::metrics"] },
    LogClass {
        name: "neighbor",
        modules: &["net::neighbor", "net::router::arp", "net::router::nd", "net::router::neighbors"],
    },
    LogClass { name: "router", modules: &["", "control::app::trouble", "control::app::buffers"] },
    LogClass { name: "service", modules: &["control::service"] },
    LogClass { name: "worker", modules: &["graph"] },
];

/// The log classes of the router's core, and those of the features as soon as they are declared.
static ALL: OnceLock<Vec<LogClass>> = OnceLock::new();

/// Declares the classes of features, before a start configuration is read and the first message is logged. No classes can be added later.
pub fn declare(of_features: impl IntoIterator<Item = LogClass>) {
    let declared = ALL.set(by_name(of_features)).is_ok();
    debug_assert!(declared, "the classes were used before they were declared");
}

fn by_name(of_features: impl IntoIterator<Item = LogClass>) -> Vec<LogClass> {
    let mut all: Vec<LogClass> = OWN.into_iter().chain(of_features).collect();
    all.sort_by_key(|class| class.name);
    all
}

/// Returns every class, by name.
pub fn classes() -> &'static [LogClass] {
    ALL.get_or_init(|| by_name([]))
}

/// Returns the class of a module's messages, as an index into [`classes`].
pub(super) fn of(module: &str) -> usize {
    nearest(module, classes())
}

/// Returns the class of a module, or of its nearest parent module.
fn nearest(module: &str, classes: &[LogClass]) -> usize {
    let covers = |part: &str| {
        let rest = module.strip_prefix(part);
        rest.is_some_and(|rest| part.is_empty() || rest.is_empty() || rest.starts_with("::"))
    };
    let nearest = |class: &LogClass| class.modules.iter().filter(|m| covers(m)).map(|m| m.len()).max();
    let all = classes.iter().enumerate().filter_map(|(n, class)| Some((nearest(class)?, n)));
    all.max().map_or(0, |(_, n)| n)
}

/// Returns the class with this name, as an index into [`classes`].
pub(super) fn named(name: &str) -> Option<usize> {
    classes().iter().position(|class| class.name == name)
}

/// The severity of a message; as a limit, the least severe messages to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// No messages.
    Disabled,
    /// A failure.
    Error,
    /// A problem that an operator should look at.
    Warn,
    /// A fact of interest to an operator.
    Info,
    /// Details.
    Debug,
    /// More details.
    Trace,
}

impl Level {
    /// VPP's names and some common ones, with their levels. Volley has fewer levels, so several names have the same level.
    const NAMES: [(&'static str, Level); 12] = [
        ("emerg", Level::Error),
        ("alert", Level::Error),
        ("crit", Level::Error),
        ("error", Level::Error),
        ("warn", Level::Warn),
        ("notice", Level::Info),
        ("info", Level::Info),
        ("debug", Level::Debug),
        ("trace", Level::Trace),
        ("disabled", Level::Disabled),
        ("err", Level::Error),
        ("off", Level::Disabled),
    ];
    /// Number of names that completion offers. The others are accepted, but not offered.
    const OFFERED: usize = 10;

    /// Returns the level with this name.
    pub fn parse(name: &str) -> Option<Level> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, level)| *level)
    }

    /// Returns the offered names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().take(Self::OFFERED).map(|(name, _)| *name)
    }

    /// Returns the level's name.
    pub fn name(self) -> &'static str {
        match self {
            Level::Disabled => "disabled",
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Trace => "trace",
        }
    }

    /// Returns the syslog(3) priority, for the systemd journal.
    pub(super) fn priority(self) -> u8 {
        match self {
            Level::Error => 3,
            Level::Warn => 4,
            Level::Info => 6,
            Level::Disabled | Level::Debug | Level::Trace => 7,
        }
    }

    fn from_number(n: u8) -> Level {
        [Level::Disabled, Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace]
            .into_iter()
            .find(|level| *level as u8 == n)
            .unwrap_or(Level::Trace)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<tracing::Level> for Level {
    fn from(level: tracing::Level) -> Level {
        match level {
            tracing::Level::ERROR => Level::Error,
            tracing::Level::WARN => Level::Warn,
            tracing::Level::INFO => Level::Info,
            tracing::Level::DEBUG => Level::Debug,
            tracing::Level::TRACE => Level::Trace,
        }
    }
}

/// The settings of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Wanted {
    /// The least severe messages to keep for `show logging`.
    pub level: Level,
    /// The least severe messages to write to standard error, the systemd journal, or a file.
    pub syslog_level: Level,
    /// Maximum number of messages per second of each logging statement.
    pub rate_limit: u32,
}

/// The settings of a class, which one thread can read while another changes them.
pub(super) struct Bounds {
    level: AtomicU8,
    syslog_level: AtomicU8,
    rate_limit: AtomicU32,
}

impl Bounds {
    pub(super) fn new(wanted: Wanted) -> Bounds {
        Bounds {
            level: AtomicU8::new(wanted.level as u8),
            syslog_level: AtomicU8::new(wanted.syslog_level as u8),
            rate_limit: AtomicU32::new(wanted.rate_limit),
        }
    }

    pub(super) fn get(&self) -> Wanted {
        Wanted {
            level: Level::from_number(self.level.load(Relaxed)),
            syslog_level: Level::from_number(self.syslog_level.load(Relaxed)),
            rate_limit: self.rate_limit.load(Relaxed),
        }
    }

    pub(super) fn set(&self, wanted: Wanted) {
        self.level.store(wanted.level as u8, Relaxed);
        self.syslog_level.store(wanted.syslog_level as u8, Relaxed);
        self.rate_limit.store(wanted.rate_limit, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_module_selects_the_class() {
        let all = by_name([LogClass { name: "toy", modules: &["toys"] }]);
        for (module, class) in [
            ("control::cli::server", "cli"),
            ("toys", "toy"),
            ("toys::cli", "toy"),
            ("control::app::transition::end", "config"),
            ("control::app::trouble", "router"),
            ("control::commands::filter", "config"),
            ("control::intent::interface", "interface"),
            ("model::store::journal", "config"),
            ("control", "router"),
            ("graphics", "router"),
            ("graph", "worker"),
            ("graph::run", "worker"),
            ("hyper::proto", "router"),
            ("", "router"),
        ] {
            assert_eq!(all[nearest(module, &all)].name, class, "{module}");
        }
    }

    #[test]
    fn classes_are_sorted_and_found() {
        let all =
            by_name([LogClass { name: "first", modules: &["x"] }, LogClass { name: "a", modules: &["y"] }]);
        assert!(all.is_sorted_by_key(|class| class.name) && all.len() == OWN.len() + 2);
        assert!((0..classes().len()).all(|n| named(classes()[n].name) == Some(n)));
        assert_eq!(named("linux-cp"), None);
    }

    #[test]
    fn levels_have_names_and_numbers() {
        for (name, level) in Level::NAMES {
            assert_eq!((Level::parse(name), Level::parse(level.name())), (Some(level), Some(level)));
            assert_eq!(Level::from_number(level as u8), level);
        }
        assert_eq!(Level::parse("loud"), None);
    }
}
