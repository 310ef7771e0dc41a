//! JSON Pointers (RFC 6901) of places in a document.

use std::collections::{BTreeMap, BTreeSet};

use super::{Content, Node, Reader};

/// Returns the JSON Pointers of the nodes that begin at the given lines and columns, counted from 1. The place of a name in a map stands for
/// its value. Places without a node are left out.
pub fn pointers(text: &str, places: &BTreeSet<(usize, usize)>) -> BTreeMap<(usize, usize), String> {
    let mut found = BTreeMap::new();
    if let Some(document) = Reader::new("").document(text, "", |_, _| ()) {
        visit(&document, &mut String::new(), places, &mut found);
    }
    found
}

fn visit(
    node: &Node,
    path: &mut String,
    places: &BTreeSet<(usize, usize)>,
    found: &mut BTreeMap<(usize, usize), String>,
) {
    // The outer of two nodes that begin at the same place comes first.
    note(node.at.place(), path, places, found);
    let length = path.len();
    match &node.content {
        Content::Text(_) => {}
        Content::List(members) => {
            for (n, member) in members.iter().enumerate() {
                *path += &format!("/{n}");
                visit(member, path, places, found);
                path.truncate(length);
            }
        }
        Content::Map(entries) => {
            for (name, at, value) in entries {
                *path += &format!("/{}", name.replace('~', "~0").replace('/', "~1"));
                note(at.place(), path, places, found);
                visit(value, path, places, found);
                path.truncate(length);
            }
        }
    }
}

fn note(
    at: (usize, usize),
    path: &str,
    places: &BTreeSet<(usize, usize)>,
    found: &mut BTreeMap<(usize, usize), String>,
) {
    if places.contains(&at) {
        found.entry(at).or_insert_with(|| path.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_get_the_pointers_of_their_nodes() {
        let text = "{\n  \"a/b\": { \"c~\": 1 },\n  \"list\": [ { \"x\": 2 }, 3 ]\n}\n";
        let places = [(1, 1), (2, 3), (2, 12), (2, 18), (3, 15), (3, 20), (3, 25), (9, 9)];
        let found = pointers(text, &places.into());
        let pointers: Vec<&str> = found.values().map(String::as_str).collect();
        assert_eq!(pointers, ["", "/a~1b", "/a~1b/c~0", "/a~1b/c~0", "/list/0/x", "/list/1"]);
    }
}
