//! Positions in the configuration, and faults with a position.

use std::{error::Error, fmt, sync::Arc};

use crate::visible::visible;

/// The place of a word: in a file, or on the command line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The whole file.
    Whole(Arc<str>),
    /// In a file. Lines and columns count from 1, and columns are in characters.
    File {
        /// The file's name, as given.
        file: Arc<str>,
        /// The line.
        line: usize,
        /// The column of the word's first character.
        column: usize,
    },
    /// In the argument with this number, counted from 1.
    Argument(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(file) => f.write_str(&visible(file)),
            Self::File { file, line, column } => write!(f, "{}:{line}:{column}", visible(file)),
            Self::Argument(number) => write!(f, "argument {number}"),
        }
    }
}

/// A fault, displayed as `file:line:column: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The place of the fault.
    pub place: Place,
    /// What is wrong, what is expected, and, where it helps, the solution.
    pub message: String,
}

/// Number of bytes after which a message is truncated. A message may repeat parts of a file.
const LONGEST_MESSAGE: usize = 2048;

impl Fault {
    /// Returns a fault at `place`. A very long message is truncated.
    pub fn new(place: &Place, message: impl Into<String>) -> Self {
        let message = message.into();
        let end = message.floor_char_boundary(LONGEST_MESSAGE);
        let shown = match message.get(..end).filter(|_| end < message.len()) {
            Some(begin) => format!("{} ...", visible(begin)),
            None => visible(&message).into_owned(),
        };
        Self { place: place.clone(), message: shown }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl Error for Fault {}

/// Maximum length, in bytes, of a word for which a similar name is searched. Every name is shorter.
const LONGEST_WORD: usize = 64;

/// Returns the name that `word` probably means, if one is similar.
pub fn closest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST_WORD {
        return None;
    }
    let near = |name: &&str| strsim::osa_distance(word, name);
    names.min_by_key(near).filter(|name| near(name) <= (name.chars().count() / 3).max(1))
}

/// Returns the end of a message about the unknown `word`: the name that is probably meant, or else all names.
pub fn hint<'a>(word: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    match closest(word, names.clone()) {
        Some(name) => format!("did you mean '{name}'?"),
        None => format!("expected one of {}", names.collect::<Vec<_>>().join(", ")),
    }
}
