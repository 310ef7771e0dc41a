//! What objects of the tree are found by, where there may be thousands of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use net::ethernet::Tags;

use super::{Key, Spec, Value};

/// Sub-interfaces by what their packets look like, and interfaces by their addresses.
#[derive(Default)]
pub(super) struct Index {
    /// Parent, tags, name.
    tagged: BTreeSet<(String, Tags, String)>,
    owners: BTreeSet<(Ipv4Addr, String)>,
}

/// Parent and tags of a sub-interface.
pub(super) fn tags(value: &Value) -> Option<(&str, Tags)> {
    match value {
        Value::Interface(i) => match &i.spec {
            Spec::Sub { parent, tags, .. } => Some((parent, *tags)),
            _ => None,
        },
        _ => None,
    }
}

impl Index {
    /// That of a whole tree.
    pub fn of(tree: &BTreeMap<Key, Value>) -> Index {
        let mut index = Index::default();
        tree.iter().for_each(|(key, value)| index.change(key, None, Some(value)));
        index
    }

    /// An object changes from one value to another.
    pub fn change(&mut self, key: &Key, old: Option<&Value>, new: Option<&Value>) {
        match key {
            Key::SubInterface(name) => {
                let place =
                    |value| tags(value).map(|(parent, tags)| (parent.to_string(), tags, name.clone()));
                if let Some(place) = old.and_then(place) {
                    self.tagged.remove(&place);
                }
                self.tagged.extend(new.and_then(place));
            }
            Key::Addresses(name) => {
                for a in super::list(old) {
                    self.owners.remove(&(a.address, name.clone()));
                }
                self.owners.extend(super::list(new).iter().map(|a| (a.address, name.clone())));
            }
            _ => {}
        }
    }

    /// The sub-interfaces of `parent` with these tags; more than one only in a tree that nobody has validated.
    pub fn tagged<'p, 'i: 'p>(
        &'i self,
        parent: &'p str,
        tags: Tags,
    ) -> impl Iterator<Item = &'i String> + 'p {
        let from = self.tagged.range((parent.to_string(), tags, String::new())..);
        from.take_while(move |(p, t, _)| p == parent && *t == tags).map(|(.., name)| name)
    }

    /// The interfaces with this address.
    pub fn owners(&self, address: Ipv4Addr) -> impl Iterator<Item = &String> {
        let from = self.owners.range((address, String::new())..);
        from.take_while(move |(a, _)| *a == address).map(|(_, name)| name)
    }
}
