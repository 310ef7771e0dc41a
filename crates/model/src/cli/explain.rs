//! Errors for lines that are not commands, with the expected words.

use super::error::{CliError, nearest};
use super::grammar::{Keyword, Kind, Leaf};
use super::lex::Token;
use super::parse::{State, number};
use super::registry::Values;

/// Maximum number of expected words in an error.
pub(super) const LISTED: usize = 24;
/// An error lists names only if there are at most this many.
const NAMES: usize = 12;

/// Returns the error for a word that no state accepts.
pub(super) fn misfit(states: &[State], line: &str, token: &Token, values: &dyn Values) -> CliError {
    let leaves = leaves(states);
    let word: &str = &token.text;
    let meant = name_meant(&leaves, word);
    let range = number(word).and_then(|_| range_meant(&leaves)).map(Kind::describe);
    let message = match (leaves.as_slice(), meant, range) {
        ([], ..) => format!("unexpected '{word}': the command ends here"),
        (_, Some(kind), _) => format!("there is no {kind} '{word}'"),
        (.., Some(range)) => format!("{word} is not {range}"),
        _ if token.span.start == line.len() - line.trim_start().len() => {
            format!("there is no command '{word}'")
        }
        _ => format!("unexpected '{word}'"),
    };
    let mut error = CliError::new(message).at(line, token.span.clone());
    if leaves.is_empty() {
        return error;
    }
    error = error.note(expected(states));
    let names: Vec<String> = leaves
        .iter()
        .flat_map(|leaf| match leaf {
            Leaf::Keyword(keyword) => keyword.spellings().map(str::to_owned).collect(),
            Leaf::Arg { kind: Kind::Name(kind) | Kind::Numbered(kind), .. } => values.values(kind),
            Leaf::Arg { .. } => Vec::new(),
        })
        .collect();
    let there = meant.map(|kind| values.values(kind)).unwrap_or_default();
    if (1..=NAMES).contains(&there.len()) {
        error = error.note(format!("there are: {}", there.join(", ")));
    }
    match nearest(word, names.iter().map(String::as_str)) {
        Some(name) => error.note(format!("did you mean '{name}'?")),
        None => error,
    }
}

/// If `word` is probably a mistyped name, returns the kind of this name, such as `interface`. A word counts as a mistyped name if no
/// keyword is similar to it, and if all expected elements other than keywords are names of one kind.
fn name_meant<'l>(leaves: &[&'l Leaf], word: &str) -> Option<&'l str> {
    let keyword = |leaf: &&'l Leaf| if let Leaf::Keyword(keyword) = *leaf { Some(keyword) } else { None };
    if nearest(word, leaves.iter().filter_map(keyword).flat_map(Keyword::spellings)).is_some() {
        return None;
    }
    let mut others = leaves.iter().filter(|leaf| keyword(leaf).is_none());
    match (others.next(), others.next()) {
        (Some(Leaf::Arg { kind: Kind::Name(kind) | Kind::Numbered(kind), .. }), None) => Some(kind),
        _ => None,
    }
}

/// Returns the type of the expected number, if exactly one of the expected elements is a number.
fn range_meant<'l>(leaves: &[&'l Leaf]) -> Option<&'l Kind> {
    let mut ranges = leaves.iter().filter_map(|leaf| match leaf {
        Leaf::Arg { kind: range @ Kind::Number(_), .. } => Some(range),
        _ => None,
    });
    ranges.next().filter(|_| ranges.next().is_none())
}

/// Returns the elements that the next word may match in these parser states, each once, in order of declaration.
pub(super) fn leaves<'g>(states: &[State<'g>]) -> Vec<&'g Leaf> {
    let mut list: Vec<&Leaf> = Vec::new();
    for leaf in states.iter().flat_map(State::expects) {
        if !list.contains(&leaf) {
            list.push(leaf);
        }
    }
    list
}

/// Returns a line that lists the elements that the next word may match in these parser states.
pub(super) fn expected(states: &[State]) -> String {
    let leaves = leaves(states);
    let mut list: Vec<String> = leaves.iter().take(LISTED).map(|leaf| describe(leaf)).collect();
    if leaves.len() > LISTED {
        list.push("...".into());
    }
    let intro = if leaves.len() == 1 { "expected" } else { "expected one of" };
    format!("{intro}: {}", list.join(", "))
}

fn describe(leaf: &Leaf) -> String {
    match leaf {
        Leaf::Keyword(keyword) => keyword.name.clone(),
        Leaf::Arg { name, kind } => format!("<{name}> {}", kind.describe()),
    }
}
