//! YAML as nodes with their places, and a reader that collects every fault.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

use saphyr_parser::{Event, Marker, ScalarStyle};

use super::events::{Broken, events};
use crate::place::{Fault, Place, hint};
use crate::visible::hidden;

/// Maximum nesting of maps and lists. A configuration needs 5.
pub(super) const DEEPEST: usize = 16;

/// Maximum number of nodes of a document in memory, which take about half a gigabyte.
const MOST_NODES: usize = 4 << 20;

/// A map of at most this many entries is searched linearly, which is faster than hashing. The maps of routes,
/// of which there may be very many, are that small.
const FEW: usize = 8;

/// A place in a file: line and column count from 1, and the column is in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl At {
    /// The beginning of the file.
    pub const START: At = At { line: 1, column: 1 };

    /// Returns the line and the column.
    pub fn place(self) -> (usize, usize) {
        (self.line, self.column)
    }
}

impl From<&Marker> for At {
    fn from(m: &Marker) -> At {
        At { line: m.line(), column: m.col() + 1 }
    }
}

/// A value and where it begins.
#[derive(Debug)]
pub struct Node {
    /// Where it begins.
    pub at: At,
    /// The value.
    pub content: Content,
}

/// The content of a node.
#[derive(Debug)]
pub enum Content {
    /// A word or text, from which numbers and truth values are parsed. An empty text without quotes may also
    /// stand for an empty map or list.
    Text(String),
    /// Members in order.
    List(Vec<Node>),
    /// Names with their places, and their values, in order.
    Map(Vec<(String, At, Node)>),
}

impl Node {
    /// True for an empty map, list or text.
    pub fn is_empty(&self) -> bool {
        match &self.content {
            Content::Text(text) => text.is_empty(),
            Content::List(list) => list.is_empty(),
            Content::Map(map) => map.is_empty(),
        }
    }
}

/// Reads values from nodes, and collects the faults of a file.
pub struct Reader {
    file: Arc<str>,
    /// The faults found so far, at most [`MOST_FAULTS`].
    pub faults: Vec<Fault>,
    found: usize,
    check: fn() -> Result<(), String>,
}

/// Number of parser events between two calls of the reader's check. This many events correspond to about 10 MB of values.
const EVENTS: usize = 1 << 16;

/// Maximum number of reported faults. A file may have as many as it has bytes.
pub const MOST_FAULTS: usize = 1000;

/// A map or list that is being read.
enum Open {
    List(At, Vec<Node>),
    /// A map: its place, its entries so far, and the name of the next value.
    Map(At, Vec<(String, At, Node)>, Option<(String, At)>),
}

impl Open {
    /// Adds a node. To a list, adds it as a member. To a map, adds it as a name, or as the value of the last name.
    ///
    /// # Errors
    /// If a name is expected, and the node is not a text.
    fn put(&mut self, node: Node) -> Result<(), &'static str> {
        match self {
            Open::List(_, list) => list.push(node),
            Open::Map(_, map, name) => match name.take() {
                Some((name, at)) => map.push((name, at, node)),
                None => match node.content {
                    Content::Text(text) => *name = Some((text, node.at)),
                    _ => return Err("expected a name, found a map or a list"),
                },
            },
        }
        Ok(())
    }
}

/// Parts of the parser's messages about invalid YAML, and for each the advice for the file's author.
const ADVICE: &[(&[&str], &str)] = &[
    (&["tab cannot", "tabs disallowed", "found a tab", "with a tab"], "unexpected tab: indent with blanks"),
    (
        &["quoted scalar, found unexpected end", "quoted scalar, found unexpected document"],
        "a quote that begins here or earlier is not closed",
    ),
    (
        &["escape character", "expected hexadecimal", "escape code"],
        "unknown escape: in double quotes write two backslashes for one, or use single quotes",
    ),
    (&["after double-quoted"], "unexpected text after a quoted value: only a comment may follow on its line"),
    (&["indentation in quoted"], "a quote is not closed on its line, and the next line is indented less"),
    (&["flow mapping, did not find"], "a map in braces is open: expected \",\" and the next name, or \"}\""),
    (&["flow sequence, expected"], "a list in brackets is open: expected \",\" and the next value, or \"]\""),
    (
        &["misplaced bracket"],
        "unexpected closing bracket: no bracket is open, or another bracket must be closed first",
    ),
    (
        &["block mapping, did not find", "simple key expect", "invalid indentation", "block collection"],
        "this line does not continue the lines above: expected \"name: value\", or \"- \" in a list. Indent it as the other \
         lines of its map or list, and close every earlier bracket and quote",
    ),
    (
        &["mapping values are not allowed", "':' indicator", "':' may not", "mapping keys are not"],
        "unexpected \":\" in the middle of a value: put the value into quotes, put the name on a line of its own, or close \
         the bracket before it",
    ),
    (&["block sequence entries"], "put the first \"- \" of a list below its name, not after it"),
    (&["unexpected character", "cannot start with '-'"], "invalid beginning of a value: put it into quotes"),
    (&["YAML whitespace", "expected whitespace"], "a blank is missing after this character"),
    (&["unprintable", "byte order mark"], "invisible character: remove it"),
    (
        &["anchor", "alias"],
        "\"&\" and \"*\" at the beginning of a value have a special meaning: put the value into quotes, or write it out",
    ),
    (
        &["tag", "TAG", "handle"],
        "\"!\" at the beginning of a value has a special meaning: put the value into quotes",
    ),
    (
        &["irective", "version", "incompatible"],
        "a line that begins with \"%\" is not allowed in a configuration",
    ),
    (&["document"], "\"---\" and \"...\" separate documents: a configuration is a single document"),
    (
        &["block scalar", "inside a block", "multiline", "plain scalar"],
        "text over several lines: put the value into quotes on one line",
    ),
    (&["eof", "next token"], "unexpected end of the file: its last entry is not complete"),
];

/// Returns the parser's message in words for the file's author.
fn advice(info: &str) -> String {
    let known = ADVICE.iter().find(|(parts, _)| parts.iter().any(|part| info.contains(part)));
    known.map_or_else(|| format!("invalid YAML: {info}"), |(_, advice)| advice.to_string())
}

impl Reader {
    /// Returns a reader for a file. Messages call the file `file`.
    pub fn new(file: &str) -> Reader {
        Reader { file: file.into(), faults: Vec::new(), found: 0, check: || Ok(()) }
    }

    /// While the reader parses a document, calls `check` every 65,536 events. If `check` returns an error, the reading ends with this
    /// error. A short text can have very many values, so `check` can refuse it before they use up the memory.
    #[must_use]
    pub fn guarded_by(self, check: fn() -> Result<(), String>) -> Reader {
        Reader { check, ..self }
    }

    /// Returns the place `at` in this file.
    pub fn place(&self, at: At) -> Place {
        Place::File { file: self.file.clone(), line: at.line, column: at.column }
    }

    /// Adds a fault to the list of faults. From [`MOST_FAULTS`] on, only counts it.
    pub fn fault(&mut self, at: At, message: impl Into<String>) {
        self.found += 1;
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(Fault::new(&self.place(at), message));
        }
    }

    /// Returns the number of faults found so far, including those that are only counted.
    pub fn found(&self) -> usize {
        self.found
    }

    /// Reads the file's only document; `None` if it cannot be read. The members of the list under the name
    /// `long` are passed to `each` one by one, and are not in the result. So a very long list is never in
    /// memory as a whole.
    pub fn document(
        &mut self,
        text: &str,
        long: &str,
        mut each: impl FnMut(&mut Reader, &Node),
    ) -> Option<Node> {
        let (mut open, mut done) = (Vec::new(), None);
        // Number of nodes in memory, now and when the list `long` began.
        let (mut kept, mut kept_before) = (0, 0);
        for (n, event) in (1..).zip(events(text)) {
            if n % EVENTS == 0
                && let Err(why) = (self.check)()
            {
                self.fault(At::START, why);
                return None;
            }
            let (event, at) = match event {
                Ok(event) => event,
                Err(Broken { at, why, is_syntax }) => {
                    self.fault(at, if is_syntax { advice(&why) } else { why });
                    return None;
                }
            };
            let node = match event {
                Event::SequenceStart(..) | Event::MappingStart(..) if open.len() == DEEPEST => {
                    self.fault(at, format!("maps and lists are nested more than {DEEPEST} levels deep"));
                    return None;
                }
                Event::SequenceStart(..) => {
                    if open.len() == 1 {
                        kept_before = kept;
                    }
                    open.push(Open::List(at, Vec::new()));
                    continue;
                }
                Event::MappingStart(..) => {
                    open.push(Open::Map(at, Vec::new(), None));
                    continue;
                }
                Event::Alias(_) => {
                    self.fault(at, "aliases are not supported: write the value out");
                    return None;
                }
                Event::DocumentStart(_) if done.is_some() => {
                    self.fault(at, "unexpected second document: a configuration is a single document");
                    return None;
                }
                Event::Scalar(text, style, ..) => {
                    let nothing = style == ScalarStyle::Plain && matches!(&*text, "~" | "null");
                    let text = if nothing { String::new() } else { text.into_owned() };
                    if let Some(why) = hidden(&text) {
                        self.fault(at, why);
                    }
                    Node { at, content: Content::Text(text) }
                }
                Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                    Some(Open::List(at, list)) => Node { at, content: Content::List(list) },
                    Some(Open::Map(at, map, _)) => Node { at, content: Content::Map(map) },
                    None => continue,
                },
                _ => continue,
            };
            if let [Open::Map(_, _, Some((name, _))), Open::List(..)] = open.as_slice()
                && name == long
            {
                each(self, &node);
                kept = kept_before;
                continue;
            }
            kept += 1;
            if kept > MOST_NODES {
                self.fault(
                    at,
                    format!("the document has more than {MOST_NODES} words outside of \"{long}\""),
                );
                return None;
            }
            match open.last_mut() {
                None => done = Some(node),
                Some(within) => within.put(node).map_err(|why| self.fault(at, why)).ok()?,
            }
        }
        done
    }

    /// Returns the fields of a map. An empty text has no fields.
    pub fn fields<'n>(&mut self, node: &'n Node) -> Fields<'n> {
        let entries = match &node.content {
            Content::Map(map) => map.as_slice(),
            Content::Text(text) if text.is_empty() => &[],
            _ => {
                self.fault(node.at, "expected a map: lines of the form \"name: value\"");
                &[]
            }
        };
        let mut seen: HashMap<&str, At> = HashMap::new();
        for (n, (name, at, _)) in entries.iter().enumerate() {
            let first = if entries.len() <= FEW {
                let before = entries.iter().take(n);
                before.filter(|(other, ..)| other == name).map(|(_, at, _)| *at).next()
            } else {
                let first = *seen.entry(name).or_insert(*at);
                (first != *at).then_some(first)
            };
            if let Some(At { line, .. }) = first {
                self.fault(*at, format!("\"{name}\" is already on line {line}"));
            }
        }
        Fields { at: node.at, entries, known: Vec::with_capacity(FEW) }
    }

    /// Returns the entries of a map in which the author of the file chooses the names. If entries have the same name, returns only
    /// the first of them.
    pub fn entries<'n>(&mut self, node: &'n Node) -> impl Iterator<Item = (&'n str, At, &'n Node)> + use<'n> {
        let mut seen = HashSet::new();
        let all = self.fields(node).entries.iter().map(|(name, at, node)| (name.as_str(), *at, node));
        all.filter(move |(name, ..)| seen.insert(*name))
    }

    /// Returns the members of a list. An empty text has no members.
    pub fn list<'n>(&mut self, node: &'n Node) -> &'n [Node] {
        match &node.content {
            Content::List(list) => list,
            Content::Text(text) if text.is_empty() => &[],
            _ => {
                self.fault(node.at, "expected a list: [ A, B ], or lines that begin with \"- \"");
                &[]
            }
        }
    }

    /// Returns the node's text, which must not be empty. Otherwise, adds a fault, and returns `None`.
    pub fn text<'n>(&mut self, node: &'n Node) -> Option<&'n str> {
        match &node.content {
            Content::Text(text) if !text.is_empty() => Some(text),
            Content::Text(_) => {
                self.fault(node.at, "a value is missing");
                None
            }
            _ => {
                self.fault(node.at, "expected a single value");
                None
            }
        }
    }

    /// Parses the node's text. If that fails, adds a fault, and returns `None`. `expected` describes the valid values, for the message of
    /// the fault.
    pub fn parsed<T: FromStr>(&mut self, node: &Node, expected: &str) -> Option<T> {
        let text = self.text(node)?;
        let value = text.parse().ok();
        if value.is_none() {
            self.fault(node.at, format!("\"{text}\" is not {expected}"));
        }
        value
    }

    /// Returns the node's number, which must be in `range`. Otherwise, adds a fault, and returns `None`.
    pub fn number<T>(&mut self, node: &Node, range: RangeInclusive<T>) -> Option<T>
    where
        T: FromStr + PartialOrd + std::fmt::Display,
    {
        let expected = format!("a number from {} to {}", range.start(), range.end());
        let text = self.text(node)?;
        if text.starts_with('0') && text.len() > 1 {
            // In YAML 1.1, which some readers still use, this is an octal number.
            self.fault(
                node.at,
                format!("YAML 1.1 reads \"{text}\" as an octal number: remove the leading zeros"),
            );
            return None;
        }
        let number = self.parsed(node, &expected)?;
        if !range.contains(&number) {
            self.fault(node.at, format!("{number} is not {expected}"));
            return None;
        }
        Some(number)
    }

    /// Returns the node's boolean value. `true`, `yes` and `on` are true; `false`, `no` and `off` are false. Upper and lower case are
    /// equal. If the text is none of these words, adds a fault, and returns `None`.
    pub fn truth(&mut self, node: &Node) -> Option<bool> {
        match self.text(node)?.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => {
                self.fault(node.at, "expected true or false");
                None
            }
        }
    }

    /// Returns the node's text, which must be one of `words`. Otherwise, adds a fault, and returns `None`.
    pub fn word<'w>(&mut self, node: &Node, words: &[&'w str]) -> Option<&'w str> {
        let text = self.text(node)?;
        let word = words.iter().find(|w| **w == text);
        if word.is_none() {
            self.fault(node.at, format!("unexpected \"{text}\": {}", hint(text, words.iter().copied())));
        }
        word.copied()
    }
}

/// The reason for [refusing](Fields::refuse) fields that files of other programs have.
pub const NOT_YET: &str = "is not supported yet";

/// The fields of a map in which only certain names are valid.
pub struct Fields<'n> {
    /// Where the map begins.
    pub at: At,
    entries: &'n [(String, At, Node)],
    known: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// True if the map has one of these fields.
    pub fn has_any<'m>(&self, names: impl Iterator<Item = &'m &'m str>) -> bool {
        names.into_iter().any(|name| self.entries.iter().any(|(n, ..)| n == name))
    }

    /// Returns the value of a field, if the map has it. [`end`](Fields::end) then does not report the field as unknown.
    pub fn take(&mut self, name: &'static str) -> Option<&'n Node> {
        self.known.push(name);
        self.entries.iter().find(|(n, ..)| n == name).map(|(.., node)| node)
    }

    /// Refuses a known field, if the map has it. In the message, `why` follows the field's name; an example
    /// is [`NOT_YET`].
    pub fn refuse(&mut self, r: &mut Reader, name: &'static str, why: &str) {
        self.refuse_all(r, why, |fields| _ = fields.take(name));
    }

    /// Refuses several fields: those that the function `reads` takes, if the map has them. In the message, `why` follows the
    /// field's name.
    pub fn refuse_all(&mut self, r: &mut Reader, why: &str, reads: impl FnOnce(&mut Fields<'n>)) {
        let before = self.known.len();
        reads(self);
        for (name, at, _) in self.entries {
            if self.known.iter().skip(before).any(|known| known == name) {
                r.fault(*at, format!("\"{name}\" {why}"));
            }
        }
    }

    /// Reports the fields that were not read as unknown.
    pub fn end(self, r: &mut Reader) {
        for (name, at, _) in self.entries {
            if !self.known.contains(&name.as_str()) {
                // The reader may have taken some fields twice: name each known field once.
                let known = self.known.iter().enumerate().filter(|(n, one)| !self.known[..*n].contains(one));
                let hint = hint(name, known.map(|(_, one)| *one));
                r.fault(*at, format!("unknown field \"{name}\": {hint}"));
            }
        }
    }
}
