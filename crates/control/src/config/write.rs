//! The tree as YAML.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use drivers::af_packet;
use wire::Mac;

use super::route::NOWHERE;
use crate::intent::{Interface, Key, Spec, Value, Via, reassembly_name};

/// What is written.
type Tree = BTreeMap<Key, Value>;

/// YAML by lines.
#[derive(Default)]
struct Text {
    text: String,
    indent: usize,
}

impl Text {
    fn line(&mut self, line: impl Display) {
        let _ = writeln!(self.text, "{:1$}{line}", "", 2 * self.indent);
    }

    /// A map below `name`; nothing if it has no lines.
    fn map(&mut self, name: impl Display, fields: impl FnOnce(&mut Text)) {
        let before = self.text.len();
        self.line(format_args!("{name}:"));
        let empty = self.text.len();
        self.indent += 1;
        fields(self);
        self.indent -= 1;
        if self.text.len() == empty {
            self.text.truncate(before);
        }
    }

    /// A map below `name`, which stands there even if it is empty.
    fn object(&mut self, name: &str, fields: impl FnOnce(&mut Text)) {
        let before = self.text.len();
        self.map(quoted(name), fields);
        if self.text.len() == before {
            self.line(format_args!("{}: {{}}", quoted(name)));
        }
    }

    fn field(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.line(format_args!("{name}: {value}"));
        }
    }
}

/// A text as YAML has it: in quotes if it could be taken for something else.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(plain);
    let special = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    match word && !special.contains(&text.to_ascii_lowercase().as_str()) {
        true => text.into(),
        // JSON's texts are YAML's.
        false => serde_json::Value::from(text).to_string(),
    }
}

/// An Ethernet address: in quotes, because digits between colons were numbers once.
fn mac(mac: Mac) -> String {
    format!("\"{mac}\"")
}

/// The configuration, as [`read`](super::read) reads it.
pub fn write(tree: &Tree) -> String {
    let mut t = Text::default();
    t.map("taps", |t| {
        for (name, i) in devices(tree) {
            tap(t, name, i);
        }
    });
    t.map("interfaces", |t| {
        for (name, i) in devices(tree).filter(|(_, i)| !matches!(i.spec, Spec::Loopback(_))) {
            t.object(name, |t| {
                if let Spec::Host(c) = &i.spec {
                    t.map("af-packet", |t| host(t, c));
                }
                body(t, tree, name, i, true);
                t.map("sub-interfaces", |t| sub_interfaces(t, tree, name, i));
            });
        }
    });
    t.map("loopbacks", |t| {
        for (name, i) in devices(tree).filter(|(_, i)| matches!(i.spec, Spec::Loopback(_))) {
            t.object(name, |t| body(t, tree, name, i, true));
        }
    });
    let tables = tree.keys().filter_map(|k| if let Key::Table(n) = k { Some(n.to_string()) } else { None });
    let tables: Vec<String> = tables.collect();
    t.field("tables", (!tables.is_empty()).then(|| format!("[ {} ]", tables.join(", "))));
    t.map("routes", |t| routes(t, tree));
    t.map("settings", |t| settings(t, tree));
    if t.text.is_empty() { "{}\n".into() } else { t.text }
}

/// Interfaces that stand on their own.
fn devices(tree: &Tree) -> impl Iterator<Item = (&str, &Interface)> {
    tree.iter().filter_map(|(key, value)| match (key, value) {
        (Key::Interface(name), Value::Interface(i)) => Some((name.as_str(), &**i)),
        _ => None,
    })
}

fn tap(t: &mut Text, name: &str, i: &Interface) {
    let Spec::Tap(_, c) = &i.spec else { return };
    t.object(name, |t| {
        t.map("host", |t| {
            t.field("name", Some(quoted(&c.host_name)));
            t.field("mac", c.host_mac.map(|m| mac(Mac(m))));
            t.field("namespace", c.host_namespace.as_ref().map(|ns| quoted(&ns.display().to_string())));
            t.field("address", c.host_ip4.map(|(ip, len)| format!("{ip}/{len}")));
        });
        t.field("gso", (!c.gso).then_some(false));
    });
}

fn host(t: &mut Text, c: &af_packet::Config) {
    t.field("mode", (c.mode == af_packet::Mode::V3).then_some("v3"));
    t.field("shared", c.shared.then_some(true));
    t.field("force", c.force.then_some(true));
}

/// What [`interface`](super::interface) reads of every interface. `usual` is the state that need not be said.
fn body(t: &mut Text, tree: &Tree, name: &str, i: &Interface, usual: bool) {
    t.field("state", (i.up != usual).then_some(if i.up { "up" } else { "down" }));
    t.field("mtu", i.mtu);
    t.field("mac", i.mac.map(mac));
    t.field("table", (i.table != 0).then_some(i.table));
    if let Some(Value::Addresses(list)) = tree.get(&Key::Addresses(name.into())) {
        let list: Vec<String> = list.iter().map(ToString::to_string).collect();
        t.field("addresses", Some(format!("[ {} ]", list.join(", "))));
    }
    let first = Key::Neighbor(name.into(), std::net::Ipv4Addr::UNSPECIFIED);
    let last = Key::Neighbor(name.into(), std::net::Ipv4Addr::BROADCAST);
    t.map("neighbors", |t| {
        for (key, value) in tree.range(first..=last) {
            if let (Key::Neighbor(_, ip), Value::Neighbor(n)) = (key, value) {
                t.line(format_args!("{ip}: {}", mac(n.mac)));
            }
        }
    });
    let mut arcs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for key in tree.range(Key::Feature(name.into(), String::new(), String::new())..).map(|(k, _)| k) {
        let Key::Feature(of, arc, feature) = key else { break };
        if of != name {
            break;
        }
        arcs.entry(arc).or_default().push(feature);
    }
    t.map("features", |t| {
        for (arc, features) in arcs {
            t.line(format_args!("{arc}: [ {} ]", features.join(", ")));
        }
    });
}

fn sub_interfaces(t: &mut Text, tree: &Tree, parent: &str, over: &Interface) {
    let below = |i: &Interface| matches!(&i.spec, Spec::Sub { parent: p, .. } if p == parent);
    for (key, value) in tree.range(Key::SubInterface(format!("{parent}."))..) {
        let (Key::SubInterface(name), Value::Interface(i)) = (key, value) else { break };
        if !name.starts_with(parent) {
            break;
        }
        let Spec::Sub { id, tags, .. } = &i.spec else { continue };
        if !below(i) {
            continue;
        }
        t.object(&id.to_string(), |t| {
            if tags.outer_service || tags.inner.is_some() || u32::from(tags.outer) != *id {
                t.map("encapsulation", |t| {
                    t.field(if tags.outer_service { "dot1ad" } else { "dot1q" }, Some(tags.outer));
                    t.field("inner-dot1q", tags.inner);
                    t.field("exact-match", Some(true));
                });
            }
            body(t, tree, name, i, over.up);
        });
    }
}

fn routes(t: &mut Text, tree: &Tree) {
    for (key, value) in tree {
        let (Key::Route(table, prefix), Value::Route(route)) = (key, value) else { continue };
        let mut fields = vec![format!("prefix: {prefix}")];
        if *table != 0 {
            fields.push(format!("table: {table}"));
        }
        match &route.via {
            Via::NextHop(ip, interface) => {
                fields.push(format!("via: {ip}"));
                fields.extend(interface.as_ref().map(|i| format!("interface: {}", quoted(i))));
            }
            Via::Attached(i) => fields.push(format!("interface: {}", quoted(i))),
            Via::Table(other) => fields.push(format!("lookup-in-table: {other}")),
            nowhere => {
                let word = NOWHERE.iter().find(|(_, via)| via == nowhere).map_or("drop", |(word, _)| word);
                fields.push(format!("via: {word}"));
            }
        }
        t.line(format_args!("- {{ {} }}", fields.join(", ")));
    }
}

fn settings(t: &mut Text, tree: &Tree) {
    if let Some(Value::NeighborBounds(b)) = tree.get(&Key::NeighborBounds) {
        t.map("ip4-neighbors", |t| {
            t.field("limit", b.limit);
            t.field("age-seconds", b.age);
        });
    }
    for (key, value) in tree {
        let (Key::Reassembly(kind), Value::Reassembly(r)) = (key, value) else { continue };
        t.map(reassembly_name(*kind), |t| {
            t.field("timeout-seconds", r.timeout);
            t.field("max-reassemblies", r.datagrams);
            t.field("max-reassembly-length", r.fragments);
            t.field("max-buffers", r.buffers);
        });
    }
}
