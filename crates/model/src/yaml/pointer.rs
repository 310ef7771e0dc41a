//! JSON Pointers (RFC 6901) of places in a document.

use std::collections::{BTreeMap, BTreeSet};

use saphyr_parser::Event;

use super::events::events;
use super::read::DEEPEST;

/// A map or list around the current node.
enum Around {
    /// A map, and the name of the current value; `None` if a name comes next.
    Map(Option<String>),
    /// A list, and the index of the current member.
    List(usize),
}

/// Returns the JSON Pointers of the nodes that begin at the given lines and columns, counted from 1. The place of a name in a map stands
/// for the name's value. Leaves out places without a node, all places after a syntax error, and all places after a node that is nested too
/// deeply for a configuration. Keeps only the names and indexes around the current node in memory, because a document may be very long.
pub fn pointers(text: &str, places: &BTreeSet<(usize, usize)>) -> BTreeMap<(usize, usize), String> {
    let mut found = BTreeMap::new();
    let mut around: Vec<Around> = Vec::new();
    for (event, at) in events(text).map_while(Result::ok) {
        let at = at.place();
        // Stop at places that are nested too deeply: the parser, too, needs memory for each level.
        if around.len() > DEEPEST || places.last().is_none_or(|last| *last < at) {
            break;
        }
        let text = match &event {
            Event::Scalar(text, ..) => Some(text),
            Event::MappingStart(..) | Event::SequenceStart(..) => None,
            Event::MappingEnd | Event::SequenceEnd => {
                around.pop();
                next(&mut around);
                continue;
            }
            _ => continue,
        };
        // A name is the beginning of its value.
        let is_name = matches!((around.last(), text), (Some(Around::Map(None)), Some(_)));
        if let (true, Some(Around::Map(name)), Some(text)) = (is_name, around.last_mut(), text) {
            *name = Some(text.to_string());
        }
        // The outer of two nodes that begin at the same place comes first.
        if places.contains(&at) {
            found.entry(at).or_insert_with(|| pointer(&around));
        }
        match event {
            Event::MappingStart(..) => around.push(Around::Map(None)),
            Event::SequenceStart(..) => around.push(Around::List(0)),
            _ if !is_name => next(&mut around),
            _ => {}
        }
    }
    found
}

/// Sets the position in the innermost map or list to the next node.
fn next(around: &mut [Around]) {
    match around.last_mut() {
        Some(Around::Map(name)) => *name = None,
        Some(Around::List(index)) => *index += 1,
        None => {}
    }
}

fn pointer(around: &[Around]) -> String {
    let part = |around: &Around| match around {
        Around::Map(name) => {
            format!("/{}", name.as_deref().unwrap_or_default().replace('~', "~0").replace('/', "~1"))
        }
        Around::List(index) => format!("/{index}"),
    };
    around.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_ends_at_the_last_place_and_at_the_deepest_level() {
        let deep = "- ".repeat(1 << 20);
        assert_eq!(pointers(&deep, &[(1, 5), (1, 99)].into()), [((1, 5), "/0/0".to_owned())].into());
        let broken = "- 1\n- 2\n- [\n".to_owned() + &"x: [".repeat(9);
        assert_eq!(pointers(&broken, &[(2, 3)].into()), [((2, 3), "/1".to_owned())].into());
    }

    #[test]
    fn places_get_the_pointers_of_their_nodes() {
        let text = "{\n  \"a/b\": { \"c~\": 1 },\n  \"list\": [ { \"x\": 2 }, 3 ]\n}\n";
        let places = [(1, 1), (2, 3), (2, 12), (2, 18), (3, 15), (3, 20), (3, 25), (9, 9)];
        let found = pointers(text, &places.into());
        let pointers: Vec<&str> = found.values().map(String::as_str).collect();
        assert_eq!(pointers, ["", "/a~1b", "/a~1b/c~0", "/a~1b/c~0", "/list/0/x", "/list/0/x", "/list/1"]);
    }
}
