//! The arguments of a command's handler.

use super::error::CliError;
use super::registry::Call;
use crate::origin::Origin;
use std::net::IpAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use wire::Mac;

/// The longest time interval that can be given to a command, in seconds.
const LONGEST_INTERVAL: f64 = 3600.0;

/// The value of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A keyword of the grammar.
    Keyword,
    /// A value of the types `word`, `text` and `path`, or a name.
    Text(String),
    /// A number.
    Number(u64),
    /// The first and the last number of a range.
    Range(u32, u32),
    /// An address.
    Ip(IpAddr),
    /// An address, which may have host bits, and a prefix length that is at most the address's number of bits.
    Prefix(IpAddr, u8),
    /// An Ethernet address.
    Mac(Mac),
}

/// A word that the parser consumed. Has the name of the argument or the full keyword, the value, and the word's place in the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) name: String,
    pub(super) value: Value,
    pub(super) span: Range<usize>,
    /// If the word belongs to a repeatable choice, the number of the repetition, from 1; otherwise 0.
    pub(super) round: u32,
}

/// The parsed words of a command. A handler gets each argument by its name in the command's syntax.
#[derive(Clone, Debug, Default)]
pub struct Args {
    pub(super) line: String,
    pub(super) taken: Vec<Taken>,
    pub(super) call: Call,
}

/// A type that [`Args::get`] can return.
pub trait FromArg: Sized {
    /// Returns `None` if the argument was declared with another type.
    fn from_arg(value: &Value, call: &Call) -> Option<Self>;
}

impl Args {
    fn find(&self, name: &str) -> Option<&Taken> {
        self.taken.iter().find(|taken| taken.name == name)
    }

    /// True if the line has the keyword `name`, or an argument called `name`. An abbreviated keyword has its full name here.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns how often the argument `name` was given. The number exceeds 1 only if the command's syntax has the argument in several
    /// places, or in a choice that may be repeated.
    pub fn times(&self, name: &str) -> usize {
        self.taken.iter().filter(|taken| taken.name == name && taken.value != Value::Keyword).count()
    }

    /// Returns the origin of the command: its client, its front end, and the line.
    pub fn origin(&self) -> Origin {
        Origin::new(self.call.front_end, self.call.peer.clone(), &self.line)
    }

    /// Returns the words of the repeatable choice: one `Args` for each repetition, in order.
    pub fn rounds(&self) -> Vec<Args> {
        let rounds = self.taken.chunk_by(|one, next| one.round == next.round);
        let rounds = rounds.filter(|words| words.first().is_some_and(|taken| taken.round > 0));
        rounds.map(|words| Args { taken: words.to_vec(), ..self.clone() }).collect()
    }

    /// Returns the full keyword that directly follows the keyword `name`. Returns `None` if the next word is no keyword, or if no word
    /// follows.
    pub fn behind(&self, name: &str) -> Option<&str> {
        let mut behind = self.taken.iter().skip_while(|taken| taken.name != name).skip(1);
        behind.next().filter(|taken| taken.value == Value::Keyword).map(|taken| taken.name.as_str())
    }

    /// Returns the argument `name`, if it was given. Its Rust type follows from the declared type: an `IpAddr` for `ip`; an address with
    /// its length for `address` and `prefix`, of one family for types with a family; a `Mac` for `mac`; a `u8`, `u16`, `u32` or `u64` for
    /// numbers (a `u32` for `table`); a `(u32, u32)` for a range; a `PathBuf` for `path`; a `String` for `word`, `text` and all types of
    /// names. Returns `None` if the argument was not given.
    pub fn get<T: FromArg>(&self, name: &str) -> Option<T> {
        // A keyword may have the name of the argument that follows it, as in `via <via:ip>`.
        self.taken.iter().filter(|t| t.name == name).find_map(|t| T::from_arg(&t.value, &self.call))
    }

    /// As [`get`](Args::get), for a mandatory argument.
    ///
    /// # Errors
    /// Fails if the argument is missing, or has another type in the command's syntax. Both are faults of the command's declaration.
    pub fn need<T: FromArg>(&self, name: &str) -> Result<T, CliError> {
        self.get(name).ok_or_else(|| CliError::new(format!("<{name}> is missing")))
    }

    /// Returns the argument `name`, a number of seconds such as 0.2, as an interval of at least `least` seconds. The default is one second.
    ///
    /// # Errors
    /// Fails if the argument is no number, is less than `least`, or is more than an hour.
    pub fn interval(&self, name: &str, least: f64) -> Result<Duration, CliError> {
        let Some(word) = self.get::<String>(name) else { return Ok(Duration::from_secs(1)) };
        let seconds = word.parse::<f64>().ok().filter(|s| (least..=LONGEST_INTERVAL).contains(s));
        let fault = || self.fault(name, format!("an interval must be {least} to {LONGEST_INTERVAL} seconds"));
        seconds.map(Duration::from_secs_f64).ok_or_else(fault)
    }

    /// Returns an error about the argument `name`, marked in the line.
    pub fn fault(&self, name: &str, message: impl Into<String>) -> CliError {
        self.about(name, CliError::new(message))
    }

    /// Returns `error`, marked at the argument `name` in the line.
    pub fn about(&self, name: &str, error: impl Into<CliError>) -> CliError {
        let error = error.into();
        let of_name = |t: &&Taken| t.name == name;
        let value = self.taken.iter().filter(of_name).find(|t| t.value != Value::Keyword);
        match value.or(self.find(name)) {
            Some(taken) => error.at(&self.line, taken.span.clone()),
            None => error,
        }
    }

    /// Returns the context of the call: its client, the client's role, the front end, and the output format.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// True if the client wants JSON. Only jobs need this, since they write their own output.
    pub fn json(&self) -> bool {
        self.call.json
    }
}

impl FromArg for String {
    fn from_arg(value: &Value, _: &Call) -> Option<String> {
        match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl FromArg for PathBuf {
    fn from_arg(value: &Value, call: &Call) -> Option<PathBuf> {
        match value {
            // Without a client's directory, the path is relative to the router's working directory. It becomes absolute, so that it keeps
            // its meaning in a saved configuration.
            Value::Text(text) => {
                let path = call.directory.join(text);
                Some(std::path::absolute(&path).unwrap_or(path))
            }
            _ => None,
        }
    }
}

impl FromArg for u64 {
    fn from_arg(value: &Value, _: &Call) -> Option<u64> {
        match value {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }
}

impl FromArg for u32 {
    fn from_arg(value: &Value, call: &Call) -> Option<u32> {
        u64::from_arg(value, call)?.try_into().ok()
    }
}

impl FromArg for u16 {
    fn from_arg(value: &Value, call: &Call) -> Option<u16> {
        u64::from_arg(value, call)?.try_into().ok()
    }
}

impl FromArg for u8 {
    fn from_arg(value: &Value, call: &Call) -> Option<u8> {
        u64::from_arg(value, call)?.try_into().ok()
    }
}

impl FromArg for (u32, u32) {
    fn from_arg(value: &Value, _: &Call) -> Option<(u32, u32)> {
        match value {
            Value::Range(first, last) => Some((*first, *last)),
            _ => None,
        }
    }
}

impl FromArg for IpAddr {
    fn from_arg(value: &Value, _: &Call) -> Option<IpAddr> {
        match value {
            Value::Ip(address) => Some(*address),
            _ => None,
        }
    }
}

impl FromArg for (IpAddr, u8) {
    fn from_arg(value: &Value, _: &Call) -> Option<(IpAddr, u8)> {
        match value {
            Value::Prefix(address, len) => Some((*address, *len)),
            _ => None,
        }
    }
}

impl FromArg for Mac {
    fn from_arg(value: &Value, _: &Call) -> Option<Mac> {
        match value {
            Value::Mac(mac) => Some(*mac),
            _ => None,
        }
    }
}
