//! Completion of the last word of a line.

use std::borrow::Cow;

use super::explain::leaves;
use super::grammar::{Kind, Leaf};
use super::lex::{Line, quote};
use super::parse::{State, walk};
use super::registry::Values;
use super::table::Table;
use serde::{Deserialize, Serialize};

/// Maximum number of following words in the help of a keyword. If a keyword belongs to several commands, its help lists the words that may
/// follow it.
const NEXT: usize = 9;
/// Maximum number of candidates: a list of thousands helps nobody, and takes memory for each client that asks.
const MOST: usize = 500;

/// A possible completion of the last word of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The word, or `<name>` for a free value.
    pub text: String,
    /// The help for the word.
    pub help: String,
    /// True if `text` is only a placeholder, which cannot be inserted.
    pub placeholder: bool,
}

/// The candidates for the end of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// Offset in the line, in bytes, of the word that a candidate replaces.
    pub from: usize,
    /// The candidates.
    pub candidates: Vec<Candidate>,
}

/// Completes the last word of `line`, or the empty word after white space. `help` returns the help of a command, given the
/// command's index.
pub(super) fn complete<'g>(
    start: Vec<State<'g>>,
    line: &str,
    values: &dyn Values,
    help: impl Fn(usize) -> &'g str,
) -> Completion {
    let mut found = Line::read(line);
    if found.end < line.len() || found.is_too_long() {
        return Completion { from: line.len(), candidates: Vec::new() };
    }
    let last = found.tokens.pop_if(|token| token.span.end == line.len());
    let (from, begun) = last.map_or((line.len(), "".into()), |token| (token.span.start, token.text));
    // After `help`, the candidates are those at the beginning of a line.
    let topic = match found.tokens.as_slice() {
        [first, topic @ ..] if first.text == "help" => topic,
        all => all,
    };
    let Ok(states) = walk(start, line, topic, values) else {
        return Completion { from, candidates: Vec::new() };
    };
    let mut candidates = Vec::new();
    for leaf in leaves(&states) {
        match leaf {
            Leaf::Keyword(keyword) => {
                // One spelling is enough, as the others lead to the same command.
                let spelling = keyword.completed(&begun).into_iter();
                candidates
                    .extend(spelling.map(|word| candidate(word, &meaning(&states, leaf, &help), false)));
            }
            Leaf::Arg { kind: Kind::Name(name) | Kind::Numbered(name), .. } => {
                let names = values.values(name).into_iter().filter(|value| value.starts_with(&*begun));
                candidates.extend(names.map(|value| candidate(&quote(&value), name, false)));
            }
            Leaf::Arg { name, kind } => {
                candidates.push(candidate(&format!("<{name}>"), &kind.describe(), true))
            }
        }
    }
    if states.iter().any(State::may_end) {
        if begun.is_empty() {
            candidates.push(candidate("<enter>", "the command is complete", true));
        } else if "--json".starts_with(&*begun) {
            candidates.push(candidate("--json", "answer as JSON", false));
        }
    }
    Completion { from, candidates: first_of(candidates) }
}

/// Returns at most [`MOST`] of the candidates, and a placeholder that says how many are missing. The returned candidates have the same
/// common beginning as the whole list.
fn first_of(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    let missing = candidates.len().saturating_sub(MOST);
    if missing == 0 {
        return candidates;
    }
    let first = candidates[0].text.clone();
    let common =
        |other: &Candidate| first.bytes().zip(other.text.bytes()).take_while(|(a, b)| a == b).count();
    let unlike = (0..candidates.len()).min_by_key(|n| common(&candidates[*n])).unwrap_or_default();
    candidates.swap(unlike.max(MOST - 1), MOST - 1);
    candidates.truncate(MOST);
    candidates.push(candidate("...", &format!("{missing} more"), true));
    candidates.shrink_to_fit();
    candidates
}

fn candidate(text: &str, help: &str, placeholder: bool) -> Candidate {
    Candidate { text: text.into(), help: help.into(), placeholder }
}

/// Returns the help of the command that `leaf` belongs to. If `leaf` belongs to several commands, returns a list of the words that may
/// follow it.
fn meaning<'g>(states: &[State<'g>], leaf: &Leaf, help: &impl Fn(usize) -> &'g str) -> Cow<'g, str> {
    let after: Vec<State> = states.iter().flat_map(|state| state.after(leaf)).collect();
    match after.split_first() {
        Some((first, others)) if others.iter().all(|other| other.command == first.command) => {
            help(first.command).into()
        }
        _ => format!("followed by {}", next_words(&after)).into(),
    }
}

/// Returns a list of the words that may come next. The end of a command is not listed.
fn next_words(states: &[State]) -> String {
    let mut words: Vec<String> = Vec::new();
    for leaf in leaves(states) {
        let word = match leaf {
            Leaf::Keyword(keyword) => keyword.name.clone(),
            Leaf::Arg { name, .. } => format!("<{name}>"),
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    if words.len() > NEXT {
        words.truncate(NEXT);
        words.push("...".into());
    }
    words.join(", ")
}

/// Formats the candidates as an aligned list.
pub fn list(candidates: &[Candidate]) -> String {
    let mut table = Table::new(&["", ""]);
    for candidate in candidates {
        table.row(vec![candidate.text.clone(), candidate.help.clone()]);
    }
    table.to_string().lines().skip(1).map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut_and_keeps_its_common_beginning() {
        let all = |count: usize| -> Vec<Candidate> {
            (0..count).map(|n| candidate(&format!("lan{n}"), "", false)).collect()
        };
        assert_eq!(first_of(all(MOST)), all(MOST));
        for at in [0, 1, MOST - 1, MOST, 2000] {
            let mut names = all(2000);
            names.insert(at, candidate("lasso", "", false));
            let found = first_of(names);
            assert_eq!((found.len(), found[MOST].help.as_str()), (MOST + 1, "1501 more"));
            assert!(found.iter().any(|one| one.text == "lasso"), "{at}");
        }
    }
}
