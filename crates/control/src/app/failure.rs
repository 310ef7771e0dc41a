//! Why the router refuses a request, or cannot complete it.

use std::fmt;
use std::time::Duration;

use model::reason::Reason;

use crate::cli::CliError;
use crate::intent::Refused;
use crate::startup::Fault;

/// Why a request was refused or failed. In both cases the configuration is as it was before the request. The only exception is a load
/// (`Loading`): its changes stay until its caller rolls them back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A configuration file has these faults.
    Faults(Vec<Fault>),
    /// Another long change is running.
    Busy {
        /// Name of the other change.
        what: &'static str,
        /// Progress of the other change in percent.
        percent: usize,
    },
    /// The configuration has generation `is`, and the request was made for generation `expected`.
    Changed {
        /// The current generation.
        is: u64,
        /// The generation in the request.
        expected: u64,
    },
    /// While a rollback waited, other changes were made or the configuration was confirmed.
    Overtaken,
    /// The last applied configuration awaits confirmation.
    Unconfirmed,
    /// No configuration awaits confirmation.
    NothingToConfirm,
    /// Another configuration awaits confirmation: it was applied as generation `is`, and the request was made for generation `expected`.
    OtherUnconfirmed {
        /// The generation of the applied configuration.
        is: u64,
        /// The generation in the request.
        expected: u64,
    },
    /// The time to confirm has expired, and the rollback has begun.
    TooLate,
    /// The request is to roll back no change, or more changes than can be rolled back.
    NoWayBack {
        /// Number of changes that can be rolled back.
        there: usize,
    },
    /// Another request is adding packet buffers.
    AddingBuffers,
    /// Another reason, in words.
    Refused(Refused),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Faults(faults) => {
                faults.iter().try_for_each(|fault| writeln!(f, "{fault}"))?;
                f.write_str("no changes made: fix the errors above")
            }
            Failure::Busy { what, percent } => {
                write!(f, "{what} is running ({percent} %): try again when it is done")
            }
            Failure::Changed { is, expected } => write!(
                f,
                "the configuration has generation {is}, not {expected}: it was changed (show config history)"
            ),
            Failure::Overtaken => f.write_str(
                "nothing was rolled back: the configuration was changed or confirmed while the rollback waited (show config history)",
            ),
            Failure::Unconfirmed => f.write_str(
                "the last applied configuration awaits confirmation: run config confirm or config rollback first",
            ),
            Failure::OtherUnconfirmed { is, expected } => write!(
                f,
                "the configuration that awaits confirmation was applied as generation {is}, not {expected} (show config history)"
            ),
            Failure::NothingToConfirm => f.write_str("no configuration awaits confirmation"),
            Failure::TooLate => f.write_str("too late: the rollback has begun"),
            Failure::NoWayBack { there: 0 } => {
                f.write_str("no change to roll back (show config history)")
            }
            Failure::NoWayBack { there } => write!(
                f,
                "the number of changes to roll back must be 1 to {there} (show config history)"
            ),
            Failure::AddingBuffers => f.write_str(
                "buffers are already being added: try again when this is done (show buffers)",
            ),
            Failure::Refused(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure::Refused(Refused::new(why))
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        Failure::Refused(refused)
    }
}

impl Failure {
    /// Returns the kind of reason for the refusal or failure.
    pub fn reason(&self) -> Reason {
        match self {
            Failure::Refused(refused) => refused.reason(),
            Failure::Busy { .. } | Failure::AddingBuffers => Reason::Busy,
            _ => Reason::Other,
        }
    }
}

impl From<Failure> for CliError {
    fn from(failure: Failure) -> CliError {
        CliError::new(failure.to_string()).because(failure.reason())
    }
}

/// Formats a time in words.
pub(super) fn in_words(time: Duration) -> String {
    let (n, unit) = match time.as_secs() {
        n if n > 0 && n % 60 == 0 => (n / 60, "minute"),
        n => (n, "second"),
    };
    format!("{n} {unit}{}", if n == 1 { "" } else { "s" })
}
