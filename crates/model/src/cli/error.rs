//! Errors of commands.

use crate::reason::Reason;
use crate::visible::{is_hidden, visible};
use serde::Serialize;
use std::fmt;
use std::ops::Range;

/// Characters shown of a long line on either side of the error's place.
const CONTEXT: usize = 60;

/// Maximum length of a line of a message, in characters. The middle of a longer line is left out. A line may be long because a message may
/// repeat typed text.
const LONGEST: usize = 400;

/// An error message for the operator, with the part of the line that it is about, if known.
///
/// `Display` gives the message alone; [`render`](CliError::render) puts the line and a mark above it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CliError {
    message: String,
    reason: Reason,
    /// The line, and the range of bytes that the message is about; `None` if the message is about no line.
    place: Option<(String, Range<usize>)>,
    notes: Vec<String>,
}

impl CliError {
    /// Returns an error without a place.
    pub fn new(message: impl Into<String>) -> CliError {
        CliError { message: cut(shown(message)), ..CliError::default() }
    }

    /// Returns the same error with this [`Reason`], which front ends may report as a number.
    pub fn because(self, reason: Reason) -> CliError {
        CliError { reason, ..self }
    }

    /// Returns the reason of the error, for front ends that report it as a number.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns the same error, marked at the bytes `span` of `line`. An error that is already marked stays unchanged.
    pub fn at(mut self, line: &str, span: Range<usize>) -> CliError {
        self.place.get_or_insert_with(|| (line.to_owned(), span));
        self
    }

    /// Returns the same error with one more line below the message.
    pub fn note(mut self, note: impl Into<String>) -> CliError {
        self.notes.push(shown(note));
        self
    }

    /// Returns the same error with `place` (such as `file:line`) before the message.
    pub fn within(mut self, place: impl fmt::Display) -> CliError {
        self.message = shown(format!("{place}: {}", self.message));
        self
    }

    /// Returns the offset, in bytes, of the error's place in `line`; `None` if the error is not about that line.
    pub fn place_in(&self, line: &str) -> Option<usize> {
        self.place.as_ref().filter(|(of, _)| of == line).map(|(_, span)| span.start)
    }

    /// Returns the message and the notes in one line, for clients that already know the place of the error.
    pub fn in_one_line(&self) -> String {
        let notes = self.notes.iter().map(|note| note.trim());
        [self.message.as_str()].into_iter().chain(notes).collect::<Vec<_>>().join("; ")
    }

    /// Returns the error as JSON: `{"error": {"message", "notes", "line", "column", "length"}}`. `column` counts the line's characters from
    /// 1, and `length` is the number of marked characters. An error without a place has no `line`, `column` and `length`.
    pub fn json(&self) -> String {
        let place = self.place.as_ref().map(|(line, span)| {
            let characters =
                |bytes: Range<usize>| line.char_indices().filter(|(at, _)| bytes.contains(at)).count();
            let beyond = span.start.saturating_sub(line.len());
            Place {
                line,
                column: characters(0..span.start) + beyond + 1,
                length: characters(span.clone()).max(1),
            }
        });
        let error = Json { error: Described { message: &self.message, notes: &self.notes, place } };
        // Serializing such a value cannot fail.
        serde_json::to_string_pretty(&error).unwrap_or_default()
    }

    /// Returns the error as text: the line with a mark under the place, then the message, then the notes. There is no line feed at the end.
    pub fn render(&self) -> String {
        let mut text = self.place.as_ref().map_or(String::new(), |(line, span)| mark(line, span));
        text += &self.message;
        for note in &self.notes {
            text.push('\n');
            text += note;
        }
        text
    }
}

/// An error as JSON.
#[derive(Serialize)]
struct Json<'e> {
    error: Described<'e>,
}

#[derive(Serialize)]
struct Described<'e> {
    message: &'e str,
    notes: &'e [String],
    #[serde(flatten)]
    place: Option<Place<'e>>,
}

#[derive(Serialize)]
struct Place<'e> {
    line: &'e str,
    column: usize,
    length: usize,
}

/// Returns the text with escapes for characters that control a terminal.
fn shown(text: impl Into<String>) -> String {
    visible(&text.into()).into_owned()
}

/// Returns the text. Leaves out the middle of each line that is longer than [`LONGEST`] characters.
fn cut(text: String) -> String {
    if text.len() <= LONGEST {
        return text;
    }
    let cut = |line: &str| match line.chars().count() {
        len if len > LONGEST => {
            let begin = line.chars().take(LONGEST / 2);
            begin.chain("...".chars()).chain(line.chars().skip(len - LONGEST / 2)).collect()
        }
        _ => line.to_owned(),
    };
    text.split('\n').map(cut).collect::<Vec<String>>().join("\n")
}

/// Returns the part of the line near the span, and the mark under it.
fn mark(line: &str, span: &Range<usize>) -> String {
    let at = line.char_indices().take_while(|(byte, _)| *byte < span.start).count();
    let at = at + span.start.saturating_sub(line.len());
    let len = line.char_indices().filter(|(byte, _)| span.contains(byte)).count().clamp(1, CONTEXT);
    let skip = at.saturating_sub(CONTEXT);
    let shown = at - skip + len + CONTEXT;
    let lead = if skip > 0 { "..." } else { "" };
    let trail = if line.chars().count() > skip + shown { "..." } else { "" };
    // A tab or an escape sequence would put the mark, or the terminal, out of place.
    let visible = line.chars().map(|c| if is_hidden(c) { ' ' } else { c });
    let text: String = visible.skip(skip).take(shown).collect();
    format!("{lead}{text}{trail}\n{}{}\n", " ".repeat(lead.len() + at - skip), "^".repeat(len))
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CliError {}

impl From<String> for CliError {
    fn from(message: String) -> CliError {
        CliError::new(message)
    }
}

impl From<&str> for CliError {
    fn from(message: &str) -> CliError {
        CliError::new(message)
    }
}

/// Maximum length in bytes of a word for which a similar one is searched. A comparison takes a time proportional to the product of the
/// lengths, and a client may send any word again and again.
const LONGEST_WORD: usize = 64;
/// Maximum number of words with which a word is compared.
const MOST_CHOICES: usize = 1000;

/// Returns the word among `choices` that differs from `word` by a few typing errors only; `None` if there is no such word.
pub(super) fn nearest<'a>(word: &str, choices: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST_WORD {
        return None;
    }
    let limit = 1 + word.chars().count() / 4;
    choices
        .into_iter()
        .take(MOST_CHOICES)
        .filter(|choice| choice.len() <= LONGEST_WORD + LONGEST_WORD / 4)
        .map(|choice| (strsim::osa_distance(word, choice), choice))
        .filter(|(slips, _)| *slips <= limit)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, choice)| choice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stands_under_the_place() {
        let error = CliError::new("what?").at("set é\tfoo bar", 7..10).note("expected: x");
        assert_eq!(error.render(), "set é foo bar\n      ^^^\nwhat?\nexpected: x");
        assert_eq!(error.to_string(), "what?");
    }

    #[test]
    fn an_error_as_json_has_its_place_in_characters() {
        let error = CliError::new("what?").at("set é\tfoo bar", 7..10).note("expected: x");
        let expected = serde_json::json!({ "error": {
            "message": "what?", "notes": ["expected: x"], "line": "set é\tfoo bar", "column": 7, "length": 3
        } });
        assert_eq!(serde_json::from_str::<serde_json::Value>(&error.json()).unwrap(), expected);
        let placeless = serde_json::json!({ "error": { "message": "m", "notes": [] } });
        assert_eq!(serde_json::from_str::<serde_json::Value>(&CliError::new("m").json()).unwrap(), placeless);
        // An error behind the end of the line means that a word is missing there.
        let missing: serde_json::Value =
            serde_json::from_str(&CliError::new("m").at("ab", 3..3).json()).unwrap();
        assert_eq!((&missing["error"]["column"], &missing["error"]["length"]), (&4.into(), &1.into()));
    }

    #[test]
    fn control_characters_in_messages_are_escaped() {
        let error = CliError::new("no \x1b[2J").at("a \u{202e}b", 2..6).note("x\r").within("f\x07");
        assert_eq!(error.render(), "a  b\n  ^^\nf\\u0007: no \\u001b[2J\nx\\u000d");
    }

    #[test]
    fn a_mark_can_be_after_the_end() {
        assert_eq!(CliError::new("m").at("ab", 3..3).render(), "ab\n   ^\nm");
    }

    #[test]
    fn long_lines_are_shortened_around_the_mark() {
        let line = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let text = CliError::new("m").at(&line, 500..501).render();
        let mut lines = text.lines();
        let (shown, mark) = (lines.next().unwrap(), lines.next().unwrap());
        assert!(shown.len() < 140 && shown.starts_with("...a") && shown.ends_with("b..."));
        assert_eq!(shown.find('X'), mark.find('^'));
    }

    #[test]
    fn long_input_is_shortened_in_messages() {
        let error = CliError::new(format!("there is no '{}'\nor é", "é".repeat(200_000)));
        let text = error.to_string();
        assert!(text.chars().count() < LONGEST + 10, "{} characters", text.chars().count());
        assert!(text.starts_with("there is no 'éé") && text.contains("é...é") && text.ends_with("éé'\nor é"));
    }

    #[test]
    fn an_error_keeps_its_first_place() {
        let error = CliError::new("m").at("ab", 0..1).at("cd", 1..2);
        assert_eq!(error.render(), "ab\n^\nm");
    }

    #[test]
    fn the_nearest_word_is_suggested() {
        assert_eq!(nearest("inetrface", ["ip", "interface"]), Some("interface"));
        assert_eq!(nearest("vai", ["via", "drop"]), Some("via"));
        assert_eq!(nearest("zzz", ["ip", "interface"]), None);
        // A long word is compared with nothing.
        let long = "x".repeat(130_000);
        assert_eq!(nearest(&long, std::iter::repeat_n(long.as_str(), 1_000_000)), None);
        assert_eq!(nearest("ip", std::iter::repeat_n(long.as_str(), 1_000_000)), None);
    }
}
