//! Parsing. It follows the grammars of all commands at once, word by word, to find the commands that a line may be.
//!
//! A [`State`] is one way to read the words so far. For each word, every state lists the elements that may come next. A full keyword has
//! precedence over a value, and a value over an abbreviated keyword. The parsed command, the completion and the expected words in an error
//! follow from the remaining states.

use super::args::{Taken, Value};
use super::error::CliError;
use super::explain::{LISTED, expected, misfit};
use super::grammar::{Item, Kind, Leaf, Seq};
use super::lex::{Line, Token};
use super::registry::Values;
use crate::family::Family;
use std::net::IpAddr;
use std::rc::Rc;

/// The elements still to match: `here`, and then `next`. `here` is a sequence, a set of optional groups (each at most once), or
/// another repetition of a choice.
struct Rest<'g> {
    here: Here<'g>,
    next: Next<'g>,
}

type Next<'g> = Option<Rc<Rest<'g>>>;

/// Called with each element that may consume the next word, and with the elements after it. Called with `None` if the command may
/// end here.
type Visit<'v, 'g> = dyn FnMut(Option<&'g Leaf>, &'g [Item], &Next<'g>) + 'v;

enum Here<'g> {
    Items(&'g [Item]),
    Unordered(Vec<&'g [Item]>),
    /// The end of one repetition of a repeatable choice, with its number. Another repetition may follow.
    Round(&'g [Seq], u32),
}

/// One way to read the words so far.
#[derive(Clone)]
pub(super) struct State<'g> {
    /// The command's index in the registry.
    pub(super) command: usize,
    items: &'g [Item],
    next: Next<'g>,
    taken: Option<Rc<Link>>,
}

/// A list of the consumed words, the last one first. States that differ only in later words share it.
struct Link {
    taken: Taken,
    before: Option<Rc<Link>>,
}

impl<'g> State<'g> {
    /// Returns the state before the first word of a command.
    pub(super) fn start(command: usize, grammar: &'g Seq) -> State<'g> {
        State { command, items: grammar, next: None, taken: None }
    }

    fn each(&self, visit: &mut Visit<'_, 'g>) {
        each_item(self.items, &self.next, visit);
    }

    /// Returns the elements that may consume the next word.
    pub(super) fn expects(&self) -> Vec<&'g Leaf> {
        let mut leaves = Vec::new();
        self.each(&mut |leaf, _, _| leaves.extend(leaf));
        leaves
    }

    /// Returns the states after `element` has consumed a word.
    pub(super) fn after(&self, element: &Leaf) -> Vec<State<'g>> {
        let mut states = Vec::new();
        self.each(&mut |leaf, items, next| {
            if leaf == Some(element) {
                states.push(State { command: self.command, items, next: next.clone(), taken: None });
            }
        });
        states
    }

    /// True if the command is complete.
    pub(super) fn may_end(&self) -> bool {
        let mut may = false;
        self.each(&mut |leaf, _, _| may |= leaf.is_none());
        may
    }

    /// Returns the consumed words, in order.
    pub(super) fn taken(&self) -> Vec<Taken> {
        let mut list = Vec::new();
        let mut link = &self.taken;
        while let Some(here) = link {
            list.push(here.taken.clone());
            link = &here.before;
        }
        list.reverse();
        list
    }
}

fn each_item<'g>(items: &'g [Item], next: &Next<'g>, visit: &mut Visit<'_, 'g>) {
    let Some((first, rest)) = items.split_first() else { return each_next(next, visit) };
    let after = || match rest {
        [] => next.clone(),
        _ => Some(Rc::new(Rest { here: Here::Items(rest), next: next.clone() })),
    };
    match first {
        Item::Leaf(leaf) => visit(Some(leaf), rest, next),
        Item::Choice(ways) => {
            let after = after();
            ways.iter().for_each(|way| each_item(way, &after, visit));
        }
        Item::Rounds(ways) => each_round(ways, 1, &after(), visit),
        Item::Optional(groups) => {
            let groups: Vec<&[Item]> = groups.iter().map(Vec::as_slice).collect();
            each_unordered(&groups, &after(), visit);
        }
    }
}

/// Calls `visit` for each element with which one of the alternatives `ways` can begin. `number` is the number of this repetition of the
/// choice.
fn each_round<'g>(ways: &'g [Seq], number: u32, next: &Next<'g>, visit: &mut Visit<'_, 'g>) {
    let end = Some(Rc::new(Rest { here: Here::Round(ways, number), next: next.clone() }));
    ways.iter().for_each(|way| each_item(way, &end, visit));
}

/// Returns the number of the repetition that contains the element before `next`; 0 if the element is not in a repeatable choice.
fn round(mut next: &Next<'_>) -> u32 {
    while let Some(rest) = next {
        if let Here::Round(_, number) = rest.here {
            return number;
        }
        next = &rest.next;
    }
    0
}

fn each_unordered<'g>(groups: &[&'g [Item]], next: &Next<'g>, visit: &mut Visit<'_, 'g>) {
    for (chosen, group) in groups.iter().enumerate() {
        let others: Vec<_> =
            groups.iter().enumerate().filter(|(i, _)| *i != chosen).map(|(_, g)| *g).collect();
        let after = Some(Rc::new(Rest { here: Here::Unordered(others), next: next.clone() }));
        each_item(group, &after, visit);
    }
    each_next(next, visit);
}

fn each_next<'g>(next: &Next<'g>, visit: &mut Visit<'_, 'g>) {
    match next.as_deref() {
        None => visit(None, &[], &None),
        Some(Rest { here: Here::Items(items), next }) => each_item(items, next, visit),
        Some(Rest { here: Here::Unordered(groups), next }) => each_unordered(groups, next, visit),
        Some(Rest { here: Here::Round(ways, number), next }) => {
            each_round(ways, number.saturating_add(1), next, visit);
            each_next(next, visit);
        }
    }
}

/// How well a word fits an element, from best to worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Keyword,
    Value,
    Abbreviation,
}

/// Returns how well the first of `tokens` fits `leaf`, and the value; `None` if the token does not fit.
fn fit(leaf: &Leaf, tokens: &[Token], line: &str, values: &dyn Values) -> Option<(Fit, Value)> {
    let token = tokens.first()?;
    let word: &str = &token.text;
    let value = match leaf {
        Leaf::Keyword(keyword) => {
            let fit = if keyword.is(word) { Fit::Keyword } else { Fit::Abbreviation };
            let fits = !token.quoted && !word.is_empty() && keyword.completed(word).is_some();
            return fits.then_some((fit, Value::Keyword));
        }
        Leaf::Arg { kind, .. } => match kind {
            Kind::Word => Value::Text(word.to_owned()),
            Kind::Path => Value::Text((!word.is_empty()).then(|| word.to_owned())?),
            Kind::Text if tokens.len() == 1 => Value::Text(word.to_owned()),
            Kind::Text => Value::Text(line.get(token.span.start..tokens.last()?.span.end)?.to_owned()),
            Kind::Number(range) => Value::Number(number(word).filter(|n| range.contains(n))?),
            Kind::Range => range(word)?,
            Kind::Ip => Value::Ip(word.parse().ok()?),
            Kind::Address(family) => prefix(word, *family)?,
            Kind::Prefix(family) => match ip(word, *family) {
                Some(address) => Value::Prefix(address, bits(address)),
                None => prefix(word, *family)?,
            },
            Kind::Mac => Value::Mac(word.parse().ok()?),
            Kind::Numbered(kind) => {
                let named = || values.number(kind, word).map(u64::from);
                Value::Number(number(word).filter(|n| *n <= u32::MAX.into()).or_else(named)?)
            }
            Kind::Name(kind) => Value::Text(values.has(kind, word).then(|| word.to_owned())?),
        },
    };
    Some((Fit::Value, value))
}

/// Parses an address. If `family` is given, the address must be of that family.
fn ip(word: &str, family: Option<Family>) -> Option<IpAddr> {
    let fits = |address: &IpAddr| family.is_none_or(|family| Family::of(*address) == family);
    word.parse().ok().filter(fits)
}

/// Returns the number of bits of an address.
fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Parses an address and a prefix length, which is at most the address's number of bits.
fn prefix(word: &str, family: Option<Family>) -> Option<Value> {
    let (address, len) = word.split_once('/')?;
    let address = ip(address, family)?;
    let len = number(len).and_then(|len| u8::try_from(len).ok()).filter(|len| *len <= bits(address))?;
    Some(Value::Prefix(address, len))
}

/// Reads a number, decimal or `0x…`.
pub(super) fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(hex) if !hex.starts_with('+') => u64::from_str_radix(hex, 16).ok(),
        _ if word.starts_with('+') => None,
        _ => word.parse().ok(),
    }
}

/// Parses two numbers in ascending order, such as `20-22`; equal ones are allowed.
fn range(word: &str) -> Option<Value> {
    let (first, last) = word.split_once('-')?;
    let number = |word| number(word).and_then(|n| u32::try_from(n).ok());
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some(Value::Range(first, last))
}

/// Follows `states` through all of `tokens`, which are words of `line`.
///
/// # Errors
/// Returns an error at the word that no state accepts, with the expected words.
pub(super) fn walk<'g>(
    mut states: Vec<State<'g>>,
    line: &str,
    tokens: &[Token],
    values: &dyn Values,
) -> Result<Vec<State<'g>>, CliError> {
    let mut rest = tokens;
    // States whose last argument consumed the rest of the line.
    let mut done = Vec::new();
    while let [token, after @ ..] = rest {
        let mut best = Fit::Abbreviation;
        let mut found: Vec<State<'g>> = Vec::new();
        let mut ended: Vec<State<'g>> = Vec::new();
        for state in &states {
            state.each(&mut |leaf, items, next| {
                let Some(leaf) = leaf else { return };
                let Some((fit, value)) = fit(leaf, rest, line, values).filter(|(fit, _)| *fit <= best) else {
                    return;
                };
                if fit < best {
                    best = fit;
                    found.clear();
                    ended.clear();
                }
                let (name, takes_rest) = match leaf {
                    Leaf::Keyword(keyword) => (&keyword.name, false),
                    Leaf::Arg { name, kind } => (name, *kind == Kind::Text),
                };
                let taken = Taken { name: name.clone(), value, span: token.span.clone(), round: round(next) };
                let taken = Some(Rc::new(Link { taken, before: state.taken.clone() }));
                let went = if takes_rest { &mut ended } else { &mut found };
                went.push(State { command: state.command, items, next: next.clone(), taken });
            });
        }
        done.append(&mut ended);
        if found.is_empty() && !done.is_empty() {
            return Ok(done);
        }
        if found.is_empty() {
            return Err(misfit(&states, line, token, values));
        }
        states = found;
        rest = after;
    }
    states.append(&mut done);
    Ok(states)
}

/// Returns the index of the only command that matches `line`, and the parsed words.
///
/// # Errors
/// Fails if no command matches, or more than one. `syntax` returns a command's declaration for the message.
pub(super) fn decide<'g>(
    states: Vec<State<'g>>,
    line: &str,
    found: &Line,
    values: &dyn Values,
    syntax: impl Fn(usize) -> &'g str,
) -> Result<(usize, Vec<Taken>), CliError> {
    let states = walk(states, line, &found.tokens, values)?;
    let mut whole: Vec<(usize, Vec<Taken>)> = Vec::new();
    for state in states.iter().filter(|state| state.may_end()) {
        let reading = (state.command, state.taken());
        if !whole.contains(&reading) {
            whole.push(reading);
        }
    }
    if whole.len() > 1 {
        let span = first_difference(&whole);
        let error = CliError::new("ambiguous command; type more letters of one of these:").at(line, span);
        let mut seen = Vec::new();
        whole.iter().for_each(|(command, _)| {
            if !seen.contains(command) {
                seen.push(*command);
            }
        });
        return Err(seen
            .into_iter()
            .take(LISTED)
            .fold(error, |e, command| e.note(format!("  {}", syntax(command)))));
    }
    whole.pop().ok_or_else(|| {
        let end = found.tokens.last().map_or(0, |token| token.span.end + 1);
        CliError::new("the command is not complete").at(line, end..end).note(expected(&states))
    })
}

/// Returns the place of the first word that is interpreted differently in `readings`, the possible meanings of a line.
fn first_difference(readings: &[(usize, Vec<Taken>)]) -> std::ops::Range<usize> {
    let Some((_, first)) = readings.first() else { return 0..0 };
    let same = |i: usize, taken: &Taken| readings.iter().all(|(_, other)| other.get(i) == Some(taken));
    let differs = first.iter().enumerate().find(|(i, taken)| !same(*i, taken));
    differs.map(|(_, taken)| taken).or(first.last()).map_or(0..0, |taken| taken.span.clone())
}
