//! Reads the files in which Linux describes the machine.

use std::fs;
use std::path::{Path, PathBuf};

/// A machine whose facts are collected.
pub(super) struct Machine {
    root: PathBuf,
    /// Facts collected so far, as names and values.
    pub facts: Vec<(String, String)>,
}

impl Machine {
    pub fn new(root: &Path) -> Machine {
        Machine { root: root.to_owned(), facts: Vec::new() }
    }

    /// Adds a fact, if it is known and its value is not empty.
    pub fn fact(&mut self, name: &str, value: Option<impl Into<String>>) {
        let value = value.map(Into::into).filter(|v: &String| !v.is_empty());
        self.facts.extend(value.map(|value| (name.to_owned(), value)));
    }

    /// Adds the contents of a file as a fact, if the file can be read and is not empty.
    pub fn fact_of(&mut self, name: &str, file: &str) {
        let value = self.read(file);
        self.fact(name, value);
    }

    /// Returns the contents of a file, trimmed; `None` if the file cannot be read.
    pub fn read(&self, file: &str) -> Option<String> {
        Some(fs::read_to_string(self.root.join(file)).ok()?.trim().to_owned())
    }

    /// Returns the value of the field `name` in a file whose lines consist of a name, the separator `sign`
    /// and a value. `None` if there is no such file or field.
    pub fn field(&self, file: &str, sign: char, name: &str) -> Option<String> {
        let text = self.read(file)?;
        let mut lines = text.lines().filter_map(|line| line.split_once(sign));
        lines.find(|(n, _)| n.trim() == name).map(|(_, value)| value.trim().trim_matches('"').to_owned())
    }

    /// Returns the sorted names of the entries of a directory.
    pub fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(directory)).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// Returns the selected word of a text such as `always [madvise] never`; `None` if no word is in brackets.
pub(super) fn chosen(words: &str) -> Option<String> {
    let (_, rest) = words.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}
