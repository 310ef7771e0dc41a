//! Reads a YAML document as a sequence of events, in bounded memory.
//!
//! In YAML, a map or list in braces or brackets may be the name of a value: `{ a: 1 }: value`. In places where that is possible, the parser
//! reads the whole map or list before it returns the first event. That takes a few hundred times the length of the text in memory. So long
//! maps and lists are refused in such places. A JSON document, which is such a map as a whole, is parsed with `---` in front: after that,
//! no name is possible.

use std::cell::Cell;
use std::rc::Rc;

use saphyr_parser::{Event, Input, Parser, ScanError};

use super::At;

/// Maximum number of characters between two events. The parser may need half a gigabyte for so many.
const LONGEST: usize = 2 << 20;
/// The text that is put in front of a document in braces or brackets.
const BEFORE: &str = "--- ";
/// Why a document is refused.
const TOO_LONG: &str = "a list or map in brackets or braces that begins on a line of its own is too long: begin it on the line of its name, \
                        or write each member on a line with \"- \"";

/// The error that ends the events.
pub(super) struct Broken {
    pub(super) at: At,
    pub(super) why: String,
    /// True if the parser found the error; false if this module did.
    pub(super) is_syntax: bool,
}

type Events<'t> = Box<dyn Iterator<Item = Result<(Event<'t>, At), Broken>> + 't>;

/// Returns the events of a document, with their places.
pub(super) fn events(text: &str) -> Events<'_> {
    let (before, body) = text.split_at(beginning(text));
    let is_flow = body.starts_with(['{', '[']);
    let lines = before.matches('\n').count();
    let columns = before.rsplit('\n').next().unwrap_or_default().chars().count();
    let shift = move |at: At| match is_flow {
        false => at,
        true if at.line == 1 => {
            At { line: lines + 1, column: (at.column + columns).saturating_sub(BEFORE.len()).max(1) }
        }
        true => At { line: at.line + lines, column: at.column },
    };
    if !is_flow && text.len() <= LONGEST {
        return with_places(Parser::new_from_str(text), shift, Rc::default());
    }
    let read = Rc::new(Cell::new(0));
    let (before, whole) = if is_flow { (BEFORE, body) } else { ("", text) };
    let count = read.clone();
    let characters = before.chars().chain(whole.chars()).take_while(move |_| {
        count.set(count.get() + 1);
        count.get() <= LONGEST
    });
    with_places(Parser::new_from_iter(characters), shift, read)
}

/// Returns where the first word of a document begins, behind blanks, comments and a line `---`.
fn beginning(text: &str) -> usize {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let word = line.trim_start();
        if word.is_empty() || word.starts_with('#') || line.trim_end() == "---" {
            at += line.len();
        } else {
            let marked = line.strip_prefix("---").filter(|rest| rest.starts_with([' ', '\t']));
            return at + line.len() - marked.unwrap_or(line).trim_start().len();
        }
    }
    at
}

/// Returns the parser's events with their places in the document, which `shift` corrects. Stops with an error if `read`, the number of
/// characters since the last event, is too large.
fn with_places<'t, T: Input + 't>(
    parser: Parser<'t, T>,
    shift: impl Fn(At) -> At + 't,
    read: Rc<Cell<usize>>,
) -> Events<'t> {
    Box::new(parser.map(move |event| {
        let too_long = read.replace(0) > LONGEST;
        if too_long {
            return Err(Broken { at: At::START, why: TOO_LONG.into(), is_syntax: false });
        }
        let broken =
            |e: ScanError| Broken { at: shift(e.marker().into()), why: e.info().into(), is_syntax: true };
        event.map(|(event, span)| (event, shift(At::from(&span.start)))).map_err(broken)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the words of a document with their places, or the error.
    fn words(text: &str) -> Result<Vec<(String, usize, usize)>, String> {
        let mut all = Vec::new();
        for event in events(text) {
            let (event, at) = event.map_err(|broken| broken.why)?;
            if let Event::Scalar(word, ..) = event {
                all.push((word.into_owned(), at.line, at.column));
            }
        }
        Ok(all)
    }

    #[test]
    fn places_are_those_of_the_document() {
        let own = |text: &str| words(text).unwrap();
        let place = |word: &str, line, column| (word.to_owned(), line, column);
        assert_eq!(
            own("{a: 1,\n b: 2}"),
            [place("a", 1, 2), place("1", 1, 5), place("b", 2, 2), place("2", 2, 5)]
        );
        assert_eq!(own("# x\n\n  {a: 1}\n"), [place("a", 3, 4), place("1", 3, 7)]);
        assert_eq!(own("---\n[a,\nb]\n"), [place("a", 2, 2), place("b", 3, 1)]);
        assert_eq!(own("--- {a: 1}\n"), [place("a", 1, 6), place("1", 1, 9)]);
        assert_eq!(own("a:\n  b: 1\n"), [place("a", 1, 1), place("b", 2, 3), place("1", 2, 6)]);
        assert_eq!(own("{\n}\n"), []);
    }

    #[test]
    fn a_long_list_is_parsed_or_refused_but_never_queued() {
        let many = "1,".repeat(2 << 20);
        for text in [format!("{{\"x\": [{many}1]}}"), format!("[{many}1]"), format!("x: [{many}1]")] {
            assert!(words(&text).unwrap().len() > 2 << 20);
        }
        for text in [format!("x:\n  [{many}1]"), format!("? [{many}1]"), format!("- [{many}1]")] {
            let done = words(&text);
            assert!(done.as_ref().is_ok_and(|all| all.len() > 2 << 20) || done == Err(TOO_LONG.into()));
        }
        assert_eq!(words(&format!("x:\n  [{many}1]")), Err(TOO_LONG.into()));
    }
}
