//! Separate objects that a file lists among the fields of an interface: addresses, neighbors, features.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::schema::{Form, Row};
use model::yaml::{self, At, Node, Reader, Text, quoted};
use net::ip::Address;

use super::body::{address, mac};
use crate::intent::{Addresses, FeatureOn, Key, Neighbor, Tree, Unnumbered, Value};

/// An object of a file, with its place.
type Placed = (At, Key, Value);

/// A field of an interface whose value is one or more objects.
pub(super) struct Beside {
    /// The field.
    pub name: &'static str,
    /// The valid values of the field, for the reference documentation.
    values: &'static str,
    /// The help text of the field, for the reference documentation.
    help: &'static str,
    /// Reads the objects of the interface with this name, each with its place.
    pub read: fn(&mut Reader, &str, &Node) -> Vec<Placed>,
    /// Writes the objects of an interface, and nothing if there are none.
    pub write: fn(&mut Text<'_>, &Tree, &str),
}

impl Beside {
    /// Returns the field's row of the reference documentation.
    pub(super) fn row(&self) -> Row {
        Row {
            name: self.name.into(),
            values: self.values.into(),
            usual: String::new(),
            help: self.help.into(),
        }
    }
}

/// The interface that lends its addresses to an unnumbered one. Written before the interface's settings.
pub(super) const LENDER: Beside = Beside {
    name: "unnumbered",
    values: "an interface's name",
    help: "Another interface in the same VRF whose addresses are used, instead of `addresses`.",
    read: |r, name, node| {
        let lender = r.text(node).map(str::to_string);
        lender.map(|lender| (node.at, Unnumbered::key(name), Unnumbered(lender).into())).into_iter().collect()
    },
    write: |t, tree, name| {
        if let Some(Unnumbered(lender)) = tree.get(&Unnumbered::key(name)).and_then(|value| value.get()) {
            t.field(LENDER.name, Some(quoted(lender)));
        }
    },
};

/// The addresses.
pub(super) const ADDRESSES: Beside = Beside {
    name: "addresses",
    values: "a list of addresses with prefix length",
    help: "The first address of each family is the primary one.",
    read: |r, name, node| {
        let one =
            |r: &mut Reader, node: &Node| address(r.text(node)?).map_err(|why| r.fault(node.at, why)).ok();
        let list: Vec<Address> = r.list(node).iter().filter_map(|node| one(r, node)).collect();
        match list.is_empty() {
            true => Vec::new(),
            false => vec![(node.at, Addresses::key(name), Addresses(list).into())],
        }
    },
    write: |t, tree, name| {
        if let Some(Addresses(list)) = tree.get(&Addresses::key(name)).and_then(|value| value.get()) {
            let list: Vec<String> = list.iter().map(yaml::ip).collect();
            t.field(ADDRESSES.name, Some(format!("[ {} ]", list.join(", "))));
        }
    },
};

/// The static neighbors.
pub(super) const NEIGHBORS: Beside = Beside {
    name: "neighbors",
    values: "Ethernet addresses by IP address",
    help: "Static neighbors.",
    read: |r, name, node| {
        let mut found = Vec::new();
        for (ip, at, node) in r.entries(node) {
            let Ok(ip) = ip.parse::<IpAddr>() else {
                r.fault(at, format!("\"{ip}\" is not an IP address"));
                continue;
            };
            let mac = mac().read(r, node);
            found.extend(mac.map(|mac| (at, Neighbor::key(name, ip), Neighbor { mac }.into())));
        }
        found
    },
    write: |t, tree, name| {
        t.map(NEIGHBORS.name, |t| {
            for (key, value) in tree.range(Key::beginning::<Neighbor>(name)) {
                if let (Some((_, ip)), Some(n)) = (key.get::<Neighbor>(), value.get::<Neighbor>()) {
                    t.line(format_args!("{}: {}", yaml::ip(ip), yaml::mac(n.mac)));
                }
            }
        });
    },
};

/// The enabled features.
pub(super) const FEATURES: Beside = Beside {
    name: "features",
    values: "lists of features by arc",
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
