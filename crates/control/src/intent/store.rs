//! The tree, and transactions on it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use net::router::Address;

use super::{Key, Refused, Value, apply, needs, validate};
use crate::system::System;

/// A change of one object: its new value, or `None` to remove it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which object.
    pub key: Key,
    /// What it is to be.
    pub value: Option<Value>,
}

impl Change {
    /// The object is to be this.
    pub fn set(key: Key, value: Value) -> Change {
        Change { key, value: Some(value) }
    }

    /// The object is to be gone.
    pub fn remove(key: Key) -> Change {
        Change { key, value: None }
    }
}

/// What the operator asked for.
#[derive(Default)]
pub struct Store {
    objects: BTreeMap<Key, Value>,
}

/// The tree as it would be after a transaction.
pub struct View<'s> {
    objects: &'s BTreeMap<Key, Value>,
    changes: BTreeMap<&'s Key, Option<&'s Value>>,
}

impl<'s> View<'s> {
    /// The object, if there is one.
    pub fn get(&self, key: &Key) -> Option<&'s Value> {
        match self.changes.get(key) {
            Some(change) => *change,
            None => self.objects.get(key),
        }
    }

    /// Every object.
    pub fn iter(&self) -> impl Iterator<Item = (&'s Key, &'s Value)> + '_ {
        let old = self.objects.iter().filter(|(k, _)| !self.changes.contains_key(k));
        let new = self.changes.iter().filter_map(|(k, v)| Some((*k, (*v)?)));
        old.chain(new)
    }

    /// Every address of an interface. Few objects are addresses, and many routes are checked against them.
    pub fn addresses(&self) -> impl Iterator<Item = (&'s str, Address)> + '_ {
        let first = Key::Address(String::new(), Address { address: Ipv4Addr::UNSPECIFIED, len: 0 });
        let behind = Key::Neighbor(String::new(), Ipv4Addr::UNSPECIFIED);
        let old = self.objects.range::<Key, _>(&first..&behind).map(|(k, _)| k);
        let new = self.changes.range::<Key, _>(&first..&behind).filter(|(_, v)| v.is_some()).map(|(k, _)| *k);
        old.filter(|k| !self.changes.contains_key(k)).chain(new).filter_map(|k| match k {
            Key::Address(interface, a) => Some((interface.as_str(), *a)),
            _ => None,
        })
    }

    /// The interface or sub-interface with this name.
    pub fn interface(&self, name: &str) -> Option<&'s super::Interface> {
        let value = self
            .get(&Key::Interface(name.to_string()))
            .or_else(|| self.get(&Key::SubInterface(name.to_string())))?;
        if let Value::Interface(i) = value { Some(i) } else { None }
    }

    /// Refuses a name that is no interface's.
    ///
    /// # Errors
    /// As it says.
    pub fn must_have_interface(&self, name: &str) -> Result<&'s super::Interface, Refused> {
        self.interface(name).ok_or_else(|| Refused(format!("there is no interface {name}")))
    }
}

impl Store {
    /// The object, if there is one.
    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.objects.get(key)
    }

    /// Every object in order of dependency.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Value)> {
        self.objects.iter()
    }

    /// The tree without changes.
    pub fn view(&self) -> View<'_> {
        View { objects: &self.objects, changes: BTreeMap::new() }
    }

    /// The changes that would make this tree the `wanted` one.
    pub fn diff(&self, wanted: &BTreeMap<Key, Value>) -> Vec<Change> {
        let gone = self.objects.keys().filter(|k| !wanted.contains_key(k)).cloned().map(Change::remove);
        let new = wanted.iter().filter(|(k, v)| self.objects.get(k) != Some(v));
        gone.chain(new.map(|(k, v)| Change::set(k.clone(), v.clone()))).collect()
    }

    /// Makes all the changes, or none.
    ///
    /// # Errors
    /// The first fault found; the system is then as it was. Should taking back fail as well, the message says so.
    pub fn transact(&mut self, system: &mut System, mut changes: Vec<Change>) -> Result<(), Refused> {
        // What depends goes first when it is removed, and last when it is made.
        changes.sort_by(|a, b| match (&a.value, &b.value) {
            (None, Some(_)) => std::cmp::Ordering::Less,
            (Some(_), None) => std::cmp::Ordering::Greater,
            (None, None) => b.key.cmp(&a.key),
            (Some(_), Some(_)) => a.key.cmp(&b.key),
        });
        let view = View {
            objects: &self.objects,
            changes: changes.iter().map(|c| (&c.key, c.value.as_ref())).collect(),
        };
        for change in &changes {
            match &change.value {
                Some(value) => validate(&change.key, value, &view)?,
                None if self.objects.contains_key(&change.key) => {
                    if let Some((user, _)) = view.iter().find(|(k, v)| needs(k, v, &change.key)) {
                        let (what, who) = (name(&change.key), name(user));
                        return Err(Refused(format!("{what} cannot be removed: {who} needs it")));
                    }
                }
                None => return Err(Refused(format!("there is nothing to remove: {}", name(&change.key)))),
            }
        }
        for (done, change) in changes.iter().enumerate() {
            let old = self.objects.get(&change.key);
            if old == change.value.as_ref() {
                continue;
            }
            if let Err(e) = apply(&change.key, old, change.value.as_ref(), system) {
                return Err(self.take_back(system, &changes[..done], e));
            }
        }
        for change in changes {
            match change.value {
                Some(value) => self.objects.insert(change.key, value),
                None => self.objects.remove(&change.key),
            };
        }
        Ok(())
    }

    /// Applies the inverses of `done`, the last one first.
    fn take_back(&self, system: &mut System, done: &[Change], why: Refused) -> Refused {
        let mut failed = Vec::new();
        for change in done.iter().rev() {
            let old = self.objects.get(&change.key);
            if old == change.value.as_ref() {
                continue;
            }
            if let Err(e) = apply(&change.key, change.value.as_ref(), old, system) {
                failed.push(format!("{}: {e}", name(&change.key)));
            }
        }
        if failed.is_empty() {
            return why;
        }
        Refused(format!("{why}; and what was done before could not be taken back: {}", failed.join("; ")))
    }
}

/// A key in words.
pub fn name(key: &Key) -> String {
    match key {
        Key::Table(t) => format!("table {t}"),
        Key::Interface(n) | Key::SubInterface(n) => format!("interface {n}"),
        Key::Address(i, a) => format!("address {a} on {i}"),
        Key::Neighbor(i, ip) => format!("neighbor {ip} on {i}"),
        Key::Reassembly(kind) => super::reassembly_name(*kind).to_string(),
        Key::Route(t, p) => format!("route {p} in table {t}"),
    }
}
