//! Which part of the router a message comes from, and how grave it is.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use net::feature::LogClass;
use serde::Serialize;

/// The classes of every router, by name. What is in no other is in `router`.
const OWN: [LogClass; 11] = [
    LogClass { name: "cli", modules: &["control::cli"] },
    LogClass {
        name: "config",
        modules: &["control::commands", "control::config", "control::intent", "model::store"],
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
    LogClass { name: "ip", modules: &["net::ip", "net::router::routes"] },
    LogClass { name: "log", modules: &["control::logging"] },
    LogClass { name: "metrics", modules: &["control::metrics"] },
    LogClass { name: "neighbor", modules: &["net::neighbor", "net::router::neighbors"] },
    LogClass { name: "router", modules: &[""] },
    LogClass { name: "service", modules: &["control::service"] },
    LogClass { name: "worker", modules: &["graph"] },
];

/// Those and the features', once they are declared.
static ALL: OnceLock<Vec<LogClass>> = OnceLock::new();

/// Declares the classes of features, before a start configuration is read or anything is said: from then on there are no others.
pub fn declare(of_features: impl IntoIterator<Item = LogClass>) {
    let declared = ALL.set(by_name(of_features)).is_ok();
    debug_assert!(declared, "somebody has asked for the classes already");
}

fn by_name(of_features: impl IntoIterator<Item = LogClass>) -> Vec<LogClass> {
    let mut all: Vec<LogClass> = OWN.into_iter().chain(of_features).collect();
    all.sort_by_key(|class| class.name);
    all
}

/// Every class, by name.
pub fn classes() -> &'static [LogClass] {
    ALL.get_or_init(|| by_name([]))
}

/// The class of what a module says, as a place in [`classes`].
pub(super) fn of(module: &str) -> usize {
    nearest(module, classes())
}

/// The class that names a module, or the nearest module around it.
fn nearest(module: &str, classes: &[LogClass]) -> usize {
    let covers = |part: &str| {
        let rest = module.strip_prefix(part);
        rest.is_some_and(|rest| part.is_empty() || rest.is_empty() || rest.starts_with("::"))
    };
    let nearest = |class: &LogClass| class.modules.iter().filter(|m| covers(m)).map(|m| m.len()).max();
    let all = classes.iter().enumerate().filter_map(|(n, class)| Some((nearest(class)?, n)));
    all.max().map_or(0, |(_, n)| n)
}

/// The class with this name, as a place in [`classes`].
pub(super) fn named(name: &str) -> Option<usize> {
    classes().iter().position(|class| class.name == name)
}

/// How grave a message is; as a bound, which messages are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// No message at all.
    Disabled,
    /// Something does not work.
    Error,
    /// Something is not as it should be.
    Warn,
    /// Something that an operator may want to know.
    Info,
    /// Details.
    Debug,
    /// More details.
    Trace,
}

impl Level {
    /// VPP's names and some common ones, each with the level that it means here: there are fewer.
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
    /// How many of the names are offered: the others are only understood.
    const OFFERED: usize = 10;

    /// The level of this name.
    pub fn parse(name: &str) -> Option<Level> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, level)| *level)
    }

    /// The names to choose from.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().take(Self::OFFERED).map(|(name, _)| *name)
    }

    /// Its name.
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

    /// The level of syslog(3) that the journal shows it as.
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

/// Which messages of a class are wanted, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Wanted {
    /// Up to which level they are remembered, for `show logging`.
    pub level: Level,
    /// Up to which level they are written to standard error, the journal or a file.
    pub syslog_level: Level,
    /// How many a second from each place in the program.
    pub rate_limit: u32,
}

/// The same where anyone may look while it is changed.
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
    fn the_nearest_module_says_which_class_it_is() {
        let all = by_name([LogClass { name: "toy", modules: &["toys"] }]);
        for (module, class) in [
            ("control::cli::server", "cli"),
            ("toys", "toy"),
            ("toys::cli", "toy"),
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
    fn classes_are_in_order_and_found() {
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
