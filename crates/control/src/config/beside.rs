//! Separate objects that a file lists among the fields of an interface: addresses, neighbors, features.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::schema::{Form, List, Parsed, Row, list, parsed, text};
use model::yaml::{self, At, Node, Reader, Text};
use net::ip::Address;
use serde_json::{Value as Json, json};

use super::body::{address, mac};
use crate::intent::{Addresses, FeatureOn, Key, Neighbor, Tree, Unnumbered, Value};

/// An object that was read from a file, with its position in the file.
type Placed = (At, Key, Value);

/// A field of an interface whose value is one or more objects.
pub(super) struct Beside {
    /// The name of the field.
    pub name: &'static str,
    /// Returns the valid values of the field, for the reference documentation.
    values: fn() -> String,
    /// Returns the JSON Schema of the field's values.
    json: fn() -> Json,
    /// The help text of the field, for the reference documentation.
    help: &'static str,
    /// Reads the objects of the interface with this name, each with its position in the file.
    pub read: fn(&mut Reader, &str, &Node) -> Vec<Placed>,
    /// Writes the objects of an interface, and nothing if there are none.
    pub write: fn(&mut Text<'_>, &Tree, &str),
}

impl Beside {
    /// Returns the field's row of the reference documentation.
    pub(super) fn row(&self) -> Row {
        Row::new(self.name, (self.values)(), self.help, (self.json)())
    }
}

/// Returns the form of the value of [`LENDER`]: how it is read, written and documented.
fn lender() -> Parsed<String> {
    text("an interface's name", &["loop0"])
}

/// The interface that lends its addresses to an unnumbered one. Written before the interface's settings.
pub(super) const LENDER: Beside = Beside {
    name: "unnumbered",
    values: || lender().values(),
    json: || lender().json(),
    help: "Uses the addresses of this other interface in the same VRF, instead of `addresses`.",
    read: |r, name, node| {
        let object = |lender| (node.at, Unnumbered::key(name), Unnumbered(lender).into());
        lender().read(r, node).map(object).into_iter().collect()
    },
    write: |t, tree, name| {
        if let Some(Unnumbered(of)) = tree.get(&Unnumbered::key(name)).and_then(|value| value.get()) {
            lender().write(t, LENDER.name, of);
        }
    },
};

/// Returns the form of the value of [`ADDRESSES`]: how it is read, written and documented.
fn addresses() -> List<Parsed<Address>> {
    list(parsed("addresses with prefix length", &["192.0.2.1/24", "2001:db8::1/64"], address, |ip| {
        yaml::ip(ip)
    }))
}

/// The IP addresses of the interface.
pub(super) const ADDRESSES: Beside = Beside {
    name: "addresses",
    values: || addresses().values(),
    json: || addresses().json(),
    help: "The first address of each family is the primary one.",
    read: |r, name, node| {
        let list = addresses().read(r, node).filter(|list| !list.is_empty());
        let object = |list| (node.at, Addresses::key(name), Addresses(list).into());
        list.map(object).into_iter().collect()
    },
    write: |t, tree, name| {
        if let Some(Addresses(list)) = tree.get(&Addresses::key(name)).and_then(|value| value.get()) {
            addresses().write(t, ADDRESSES.name, list);
        }
    },
};

/// Returns the form of the addresses of [`NEIGHBORS`]: how they are read, written and documented.
fn neighbor() -> Parsed<IpAddr> {
    let ip = |text: &str| text.parse().map_err(|_| format!("\"{text}\" is not an IP address"));
    parsed("IP address", &["192.0.2.2", "2001:db8::2"], ip, |ip| yaml::ip(ip))
}

/// The static neighbors on the interface.
pub(super) const NEIGHBORS: Beside = Beside {
    name: "neighbors",
    values: || format!("by {}: {}", neighbor().values(), mac().values()),
    json: || json!({ "type": "object", "additionalProperties": mac().json() }),
    help: "Static neighbors.",
    read: |r, name, node| {
        let mut found = Vec::new();
        for (ip, at, node) in r.entries(node) {
            let (ip, mac) = (neighbor().name(r, at, ip), mac().read(r, node));
            let object = |(ip, mac)| (at, Neighbor::key(name, ip), Neighbor { mac }.into());
            found.extend(ip.zip(mac).map(object));
        }
        found
    },
    write: |t, tree, name| {
        t.map(NEIGHBORS.name, |t| {
            for (key, value) in tree.range(Key::beginning::<Neighbor>(name)) {
                if let (Some((_, ip)), Some(of)) = (key.get::<Neighbor>(), value.get::<Neighbor>()) {
                    mac().write(t, &neighbor().line(&ip), &of.mac);
                }
            }
        });
    },
};

/// The features enabled on the interface.
pub(super) const FEATURES: Beside = Beside {
    name: "features",
    values: || "lists of features by arc".into(),
    json: || json!({ "type": "object", "additionalProperties": list(text("a feature", &[])).json() }),
    help: "The enabled features.",
    read: |r, name, node| {
        let mut found = Vec::new();
        for (arc, _, node) in r.entries(node) {
            for feature in r.list(node) {
                let key = r.text(feature).map(|text| FeatureOn::key(name, arc, text));
                found.extend(key.map(|key| (feature.at, key, FeatureOn.into())));
            }
        }
        found
    },
    write: |t, tree, name| {
        let mut arcs: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, _) in tree.range(Key::beginning::<FeatureOn>(name)) {
            if let Some((_, arc, feature)) = key.get::<FeatureOn>() {
                arcs.entry(arc).or_default().push(feature);
            }
        }
        t.map(FEATURES.name, |t| {
            for (arc, features) in arcs {
                t.line(format_args!("{arc}: [ {} ]", features.join(", ")));
            }
        });
    },
};

/// The fields written after the interface's settings, in this order.
pub(super) const BEHIND_SETTINGS: [&Beside; 3] = [&ADDRESSES, &NEIGHBORS, &FEATURES];
