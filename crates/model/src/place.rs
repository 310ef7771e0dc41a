//! Where something stands in the configuration, and what is wrong with it there.

use std::{error::Error, fmt, sync::Arc};

use crate::visible::visible;

/// The place of a word: in a file, or on the command line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// No place in particular of this file.
    Whole(Arc<str>),
    /// In a file; line and column count from 1, the column in characters.
    File {
        /// The file's name, as it was given.
        file: Arc<str>,
        /// The line.
        line: usize,
        /// The column of the first character.
        column: usize,
    },
    /// In the argument of this number, counted from 1.
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

/// One thing that is wrong, displayed as `file:line:column: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub place: Place,
    /// What is wrong, what was expected, and where it helps, what to do.
    pub message: String,
}

/// How many bytes a message may have: it may repeat what a file has, which may be anything.
const LONGEST_MESSAGE: usize = 2048;

impl Fault {
    /// A fault at `place`. The rest of a very long message is left out.
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

/// How many bytes a word may have for which a name is looked for: no name has as many.
const LONGEST_WORD: usize = 256;

/// The name that was probably meant by `word`, if one is near.
pub fn closest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST_WORD {
        return None;
    }
    let near = |name: &&str| strsim::osa_distance(word, name);
    names.min_by_key(near).filter(|name| near(name) <= (name.chars().count() / 3).max(1))
}

/// Ends a message about the unknown `word`: the name that was probably meant, or else all there are.
pub fn hint<'a>(word: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    match closest(word, names.clone()) {
        Some(name) => format!("did you mean '{name}'?"),
        None => format!("expected one of {}", names.collect::<Vec<_>>().join(", ")),
    }
}
