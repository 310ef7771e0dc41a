//! The whole configuration as one YAML file: what [`Store`] holds, written and read.
//!
//! The words are those that VPP's operators know from declarative configuration (`vppcfg`), and its rules of validity
//! hold; VRFs, static routes, neighbours and bounds are Volley's own. `docs/configuration.md` describes the file.
//!
//! ```yaml
//! interfaces:
//!   host-eth0:
//!     mtu: 1500
//!     addresses: [ 192.0.2.1/24 ]
//!     sub-interfaces:
//!       100: { addresses: [ 198.51.100.1/24 ] }
//! routes:
//!   - { prefix: 0.0.0.0/0, via: 192.0.2.254 }
//! ```
//!
//! Every fault of a file is reported at once, each with line and column, and then nothing is done.

mod document;
mod interface;
mod route;
mod settings;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;

use crate::intent::{Key, Store, Value, key_name};
use crate::startup::{Fault, Place};
use crate::system::System;
use document::{At, Node, Reader};

pub use write::write;

/// What a file asks for.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Every object.
    pub tree: BTreeMap<Key, Value>,
    /// Where each is asked for.
    places: BTreeMap<Key, Place>,
}

/// A file being read.
struct Reading {
    r: Reader,
    wanted: Wanted,
}

impl Reading {
    /// An object that the file asks for.
    fn set(&mut self, at: At, key: Key, value: Value) {
        let place = self.r.place(at);
        // A Linux interface may be named as a sub-interface of another one is.
        let same_name = match &key {
            Key::Interface(name) => Key::SubInterface(name.clone()),
            Key::SubInterface(name) => Key::Interface(name.clone()),
            other => other.clone(),
        };
        let places = &self.wanted.places;
        if let Some(Place::File { line, .. }) = places.get(&key).or(places.get(&same_name)) {
            let message = format!("{} stands in line {line} already", key_name(&key));
            self.r.fault(at, message);
            return;
        }
        self.wanted.places.insert(key.clone(), place);
        self.wanted.tree.insert(key, value);
    }
}

/// What sections a file may have: the name, and who reads it.
type Section = (&'static str, fn(&mut Reading, &Node));

const SECTIONS: &[Section] = &[
    // Taps before interfaces, which say more of them.
    ("taps", interface::taps),
    ("interfaces", interface::interfaces),
    ("loopbacks", interface::loopbacks),
    ("tables", route::tables),
    ("routes", route::routes),
    ("settings", settings::settings),
];

/// Sections of `vppcfg` for which there is nothing yet.
const LATER: &[(&str, &str)] = &[
    ("bondethernets", "bonding"),
    ("bridgedomains", "bridging"),
    ("vxlan_tunnels", "VXLAN"),
    ("prefixlists", "access list"),
    ("acls", "access list"),
    ("sflow", "sFlow"),
];

/// Reads a configuration; `file` is the name that messages give to it.
///
/// # Errors
/// Everything that is wrong with its form, in order of place.
pub fn read(text: &str, file: &str) -> Result<Wanted, Vec<Fault>> {
    let mut reading = Reading { r: Reader::new(file), wanted: Wanted::default() };
    let document = reading.r.document(text);
    if document.is_none() && reading.r.faults.is_empty() {
        // A file that was cut off, or the wrong one, must not remove everything.
        reading.r.fault(At::START, "the file says nothing; a configuration without anything is \"{}\"");
    }
    if let Some(document) = document {
        let mut fields = reading.r.fields(&document);
        for (name, section) in SECTIONS {
            if let Some(node) = fields.take(name) {
                section(&mut reading, node);
            }
        }
        for (name, what) in LATER {
            fields.later(&mut reading.r, name, what);
        }
        fields.end(&mut reading.r);
    }
    let Reading { r, wanted } = reading;
    let mut faults = r.faults;
    faults.sort_by(|a, b| a.place.cmp(&b.place));
    if faults.is_empty() { Ok(wanted) } else { Err(faults) }
}

impl Wanted {
    /// Everything that the rules of the intent store have against this configuration, in order of place. `system` is
    /// asked what it can do; it is not changed.
    pub fn faults(&self, system: &System) -> Vec<Fault> {
        let nowhere = Place::Argument(0);
        let refused = Store::faults(&self.tree, system).into_iter();
        let mut faults: Vec<Fault> = refused
            .map(|(key, why)| Fault::new(self.places.get(key).unwrap_or(&nowhere), why.to_string()))
            .collect();
        faults.sort_by(|a, b| a.place.cmp(&b.place));
        faults
    }
}
