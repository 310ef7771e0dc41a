//! The words of a description.

use std::str::FromStr;

use crate::cli::CliError;

/// The remaining words in reverse order, so that the next word is the last one here. Braces are words of their own.
pub(super) struct Words<'t>(Vec<&'t str>);

impl<'t> Words<'t> {
    pub(super) fn new(text: &'t str) -> Words<'t> {
        let mut words: Vec<&str> = Vec::new();
        for word in text.split_whitespace() {
            let mut rest = word;
            while let Some(at) = rest.find(['{', '}']) {
                if at > 0 {
                    words.push(&rest[..at]);
                }
                words.push(&rest[at..=at]);
                rest = &rest[at + 1..];
            }
            if !rest.is_empty() {
                words.push(rest);
            }
        }
        words.reverse();
        Words(words)
    }

    /// Takes the next word, if any.
    pub(super) fn next(&mut self) -> Option<&'t str> {
        self.0.pop()
    }

    /// Returns the next word without taking it.
    pub(super) fn peek(&self) -> Option<&'t str> {
        self.0.last().copied()
    }

    /// Returns the error for an unexpected word. A `word` of `None` stands for the end of the description.
    pub(super) fn unexpected(&self, expected: &str, word: Option<&str>) -> CliError {
        let word = word.map_or("the end".into(), |w| format!("\"{w}\""));
        CliError::new(format!("invalid stream: expected {expected}, not {word}"))
    }

    /// Takes the next word as a value.
    ///
    /// # Errors
    /// If the next word is missing, or not a valid value.
    pub(super) fn need<T: FromStr>(&mut self, what: &str) -> Result<T, CliError> {
        let word = self.next();
        self.value(what, word)
    }

    fn value<T: FromStr>(&self, what: &str, word: Option<&str>) -> Result<T, CliError> {
        word.and_then(|w| w.parse().ok()).ok_or_else(|| self.unexpected(what, word))
    }

    /// Takes the next word, which must be `word`.
    ///
    /// # Errors
    /// If the next word is missing, or is another word.
    pub(super) fn expect(&mut self, word: &str) -> Result<(), CliError> {
        match self.next() {
            Some(w) if w == word => Ok(()),
            other => Err(self.unexpected(&format!("\"{word}\""), other)),
        }
    }

    /// Takes a value that may vary. Returns the first value. For a range, also returns the second value, and true if values are drawn at
    /// random (`A+B`) or false if they count up (`A-B`). Blanks may surround the sign.
    ///
    /// # Errors
    /// If a value is missing or invalid.
    pub(super) fn varying<T: FromStr>(&mut self, what: &str) -> Result<(T, Option<(T, bool)>), CliError> {
        let word = self.next();
        if let Some((at, sign)) = word.and_then(|w| w.char_indices().find(|(_, c)| matches!(c, '-' | '+'))) {
            let (from, to) = word.unwrap_or_default().split_at(at);
            return Ok((self.value(what, Some(from))?, Some((self.value(what, to.get(1..))?, sign == '+'))));
        }
        let first = self.value(what, word)?;
        let random = match self.peek() {
            Some("-") => false,
            Some("+") => true,
            _ => return Ok((first, None)),
        };
        self.next();
        Ok((first, Some((self.need(what)?, random))))
    }
}
