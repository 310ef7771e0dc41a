//! Intent: what the operator asked for, as a typed tree keyed by names. The truth from which everything follows.
//!
//! There is one way to change it: a [`transaction`](Store::transact). It validates all changes against the tree as it
//! would be, applies them in the order of their dependencies, and when one fails takes back those before it. A command
//! is a transaction of one change, or of the few that belong together.
//!
//! Each type of object has a file here, and in it the same five: `validate`, `apply` (with the former value, so that only
//! what differs is touched; when it fails, nothing is), `withdraw`, `dump` (the commands that would make it), and
//! comparison, which is `PartialEq`. The inverse of a change is the change back to the former value. What an object needs
//! of others is said in one place, `needs`.

mod abilities;
mod address;
mod advertisement;
mod family;
mod feature;
mod index;
mod interface;
mod journal;
mod memif;
mod neighbor;
mod punt;
mod reassembly;
mod receive;
mod route;
mod store;
mod table;
mod unnumbered;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use net::ip::reassembly::Kind;
use net::ip::{Address, IpPrefix};
use net::router::RouterError;

pub use abilities::Abilities;
pub use address::{FIRST, LAST};
pub(crate) use advertisement::{INFINITE, PREFERENCES, lifetime, word as preference_word};
pub use family::{Family, OfFamily};
pub use interface::{Interface, Spec, VLANS, can_be_name};
pub use journal::{Entry, Journal, Way};
pub use memif::DEFAULT_SOCKET;
pub use neighbor::{Neighbor, NeighborBounds};
pub use punt::RATES as PUNT_RATES;
pub use reassembly::Reassembly;
pub use receive::{HANDOFFS, MODES, MOST_QUEUES, handoff_word, mode_word};
pub use route::{Branch, Route, Via};
pub use store::{Change, Making, Plan, Refusal, Snapshot, Store, View, in_order, name as key_name};

use crate::cli::quote;
use crate::system::System;

/// Every object by its key.
pub type Tree = BTreeMap<Key, Value>;

/// Names an object. The order is that of dependency: what comes later may need what comes before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A VRF by number.
    Table(u16),
    /// The bounds of one kind of reassembly.
    Reassembly(Kind),
    /// How many packets a second one worker lets through to the main thread for a reason.
    PuntRate(String),
    /// The bounds of the table of neighbours of a family.
    NeighborBounds(Family),
    /// A memif socket by number. Socket 0 is always there.
    MemifSocket(u32),
    /// An interface that stands on its own, by name.
    Interface(String),
    /// A sub-interface by name.
    SubInterface(String),
    /// A feature that is on: interface, arc, feature.
    Feature(String, String, String),
    /// An interface that uses the addresses of another one.
    Unnumbered(String),
    /// The addresses of an interface.
    Addresses(String),
    /// A static neighbour on an interface.
    Neighbor(String, IpAddr),
    /// A route of a VRF.
    Route(u16, IpPrefix),
}

/// An object.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// See [`Key::Table`].
    Table,
    /// See [`Key::Reassembly`].
    Reassembly(Reassembly),
    /// See [`Key::PuntRate`].
    PuntRate(u32),
    /// See [`Key::NeighborBounds`].
    NeighborBounds(NeighborBounds),
    /// See [`Key::MemifSocket`]: its file.
    MemifSocket(PathBuf),
    /// See [`Key::Interface`] and [`Key::SubInterface`].
    Interface(Box<Interface>),
    /// See [`Key::Feature`].
    Feature,
    /// See [`Key::Unnumbered`]: the other one's name.
    Unnumbered(String),
    /// See [`Key::Addresses`]: at least one, the primary one of each family before its others.
    Addresses(Vec<Address>),
    /// See [`Key::Neighbor`].
    Neighbor(Neighbor),
    /// See [`Key::Route`].
    Route(Route),
}

/// Why a change was refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Refused {}

impl From<RouterError> for Refused {
    fn from(e: RouterError) -> Self {
        Refused(e.0)
    }
}

pub(crate) fn refuse<T>(why: impl Into<String>) -> Result<T, Refused> {
    Err(Refused(why.into()))
}

/// Whether the object can be what `view`, the tree as it would be, says.
fn validate(key: &Key, value: &Value, view: &View<'_>, abilities: &Abilities) -> Result<(), Refused> {
    match (key, value) {
        (Key::Table(t), Value::Table) => table::validate(*t),
        (Key::Reassembly(kind), Value::Reassembly(r)) => r.validate(*kind, abilities),
        (Key::PuntRate(reason), Value::PuntRate(rate)) => punt::validate(reason, *rate, abilities),
        (Key::NeighborBounds(f), Value::NeighborBounds(b)) => NeighborBounds::validate(*f, Some(*b), view),
        (Key::MemifSocket(id), Value::MemifSocket(_)) => memif::validate_socket(*id),
        (Key::Interface(name) | Key::SubInterface(name), Value::Interface(i)) => i.validate(name, view),
        (Key::Feature(i, arc, f), Value::Feature) => feature::validate(i, arc, f, view, abilities),
        (Key::Unnumbered(i), Value::Unnumbered(lender)) => unnumbered::validate(i, lender, view),
        (Key::Addresses(i), Value::Addresses(list)) => address::validate(i, list, view),
        (Key::Neighbor(i, ip), Value::Neighbor(n)) => n.validate(i, *ip, view),
        (Key::Route(table, prefix), Value::Route(r)) => r.validate(*table, *prefix, view),
        _ => refuse(format!("{key:?} cannot be {value:?}")),
    }
}

/// Whether the tree can be without the object, which nothing needs.
fn validate_absence(key: &Key, view: &View<'_>) -> Result<(), Refused> {
    match key {
        Key::NeighborBounds(family) => NeighborBounds::validate(*family, None, view),
        _ => Ok(()),
    }
}

/// Something without which an object cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need<'a> {
    Table(u16),
    MemifSocket(u32),
    Interface(&'a str),
}

/// What the object is to others, if any may need it.
fn role(key: &Key) -> Option<Need<'_>> {
    match key {
        Key::Table(t) => Some(Need::Table(*t)),
        Key::MemifSocket(id) => Some(Need::MemifSocket(*id)),
        Key::Interface(name) | Key::SubInterface(name) => Some(Need::Interface(name)),
        _ => None,
    }
}

/// What the object needs.
pub(crate) fn needs<'a>(key: &'a Key, value: &'a Value) -> impl Iterator<Item = Need<'a>> {
    let (tables, interfaces) = match (key, value) {
        (_, Value::Interface(i)) => match &i.spec {
            Spec::Sub { parent, .. } => ([Some(i.table), None], vec![parent]),
            _ => ([Some(i.table), None], Vec::new()),
        },
        (Key::Unnumbered(i), Value::Unnumbered(lender)) => ([None; 2], vec![i, lender]),
        (Key::Feature(i, ..) | Key::Addresses(i) | Key::Neighbor(i, _), _) => ([None; 2], vec![i]),
        (Key::Route(table, _), Value::Route(r)) => {
            let other =
                r.paths().find_map(|(via, _)| if let Via::Table(_, t) = via { Some(*t) } else { None });
            ([Some(*table), other], r.interfaces().collect())
        }
        _ => ([None; 2], Vec::new()),
    };
    let socket = match value {
        Value::Interface(i) => match &i.spec {
            Spec::Memif(c) if c.socket != DEFAULT_SOCKET => Some(Need::MemifSocket(c.socket)),
            _ => None,
        },
        _ => None,
    };
    let tables = tables.into_iter().flatten().filter(|t| *t != 0).map(Need::Table);
    tables.chain(socket).chain(interfaces.into_iter().map(|i| Need::Interface(i)))
}

/// Makes the system what the change says, wholly or not at all. An interface that changes is of the same kind before and
/// after.
fn apply(key: &Key, old: Option<&Value>, new: Option<&Value>, system: &mut System) -> Result<(), Refused> {
    match (key, old, new) {
        (Key::Table(t), _, Some(_)) => table::apply(*t, system),
        (Key::Table(t), _, None) => table::withdraw(*t, system),
        (Key::Reassembly(kind), _, Some(Value::Reassembly(r))) => r.apply(*kind, system),
        (Key::Reassembly(kind), _, None) => Reassembly::default().apply(*kind, system),
        (Key::PuntRate(reason), _, new) => {
            let rate = new.and_then(|v| if let Value::PuntRate(rate) = v { Some(*rate) } else { None });
            punt::apply(reason, rate, system);
            Ok(())
        }
        (Key::NeighborBounds(family), _, new) => {
            let bounds =
                if let Some(Value::NeighborBounds(b)) = new { *b } else { NeighborBounds::default() };
            bounds.apply(*family, system);
            Ok(())
        }
        (Key::MemifSocket(id), _, Some(Value::MemifSocket(path))) => memif::apply_socket(*id, path, system),
        (Key::MemifSocket(id), _, None) => memif::withdraw_socket(*id, system),
        (Key::Interface(n) | Key::SubInterface(n), old, Some(Value::Interface(i))) => {
            let old = old.and_then(|v| if let Value::Interface(i) = v { Some(&**i) } else { None });
            i.apply(n, old, system)
        }
        (Key::Interface(n) | Key::SubInterface(n), _, None) => Interface::withdraw(n, system),
        (Key::Feature(i, arc, f), _, new) => feature::apply(i, arc, f, new.is_some(), system),
        (Key::Unnumbered(i), _, Some(Value::Unnumbered(lender))) => {
            unnumbered::apply(i, Some(lender), system)
        }
        (Key::Unnumbered(i), _, None) => unnumbered::apply(i, None, system),
        (Key::Addresses(i), old, new) => address::apply(i, list(old), list(new), system),
        (Key::Neighbor(i, ip), _, Some(Value::Neighbor(n))) => n.apply(i, *ip, system),
        (Key::Neighbor(i, ip), _, None) => Neighbor::withdraw(i, *ip, system),
        (Key::Route(t, p), _, Some(Value::Route(r))) => r.apply(*t, *p, system),
        (Key::Route(t, p), _, None) => Route::withdraw(*t, *p, system),
        (key, _, Some(value)) => refuse(format!("{key:?} cannot be {value:?}")),
    }
}

/// What to say of a VRF that is missing.
fn no_table(table: u16) -> String {
    format!(
        "there is no table {table}: \"ip table add {table}\" makes it, in a YAML file \"tables: [ {table} ]\""
    )
}

/// The addresses of a list that may not be there.
fn list(value: Option<&Value>) -> &[Address] {
    if let Some(Value::Addresses(list)) = value { list } else { &[] }
}

/// What stands in the place of a secret for those who may not know it.
pub const HIDDEN: &str = "<hidden>";

/// The same object for those who may not know secrets.
pub fn without_secrets(value: &Value) -> Cow<'_, Value> {
    match value {
        Value::Interface(i) if i.has_secret() => {
            let mut interface = i.clone();
            interface.hide_secret();
            Cow::Owned(Value::Interface(interface))
        }
        other => Cow::Borrowed(other),
    }
}

/// The commands that would make the object; `indices` says whether with the index of an interface, which need not be said
/// if all are [`in_order`].
pub fn dump(key: &Key, value: &Value, indices: bool) -> Vec<String> {
    match (key, value) {
        (Key::Table(t), _) => vec![format!("ip table add {t}")],
        (Key::Reassembly(kind), Value::Reassembly(r)) => vec![r.dump(*kind)],
        (Key::PuntRate(reason), Value::PuntRate(rate)) => vec![punt::dump(reason, *rate)],
        (Key::NeighborBounds(family), Value::NeighborBounds(b)) => vec![b.dump(*family)],
        (Key::MemifSocket(id), Value::MemifSocket(path)) => vec![memif::dump_socket(*id, path)],
        (Key::Interface(n) | Key::SubInterface(n), Value::Interface(i)) => i.dump(n, indices),
        (Key::Feature(i, arc, f), _) => vec![feature::dump(&quote(i), arc, f)],
        (Key::Unnumbered(i), Value::Unnumbered(lender)) => vec![unnumbered::dump(i, lender)],
        (Key::Addresses(i), Value::Addresses(list)) => address::dump(&quote(i), list),
        (Key::Neighbor(i, ip), Value::Neighbor(n)) => vec![n.dump(&quote(i), *ip)],
        (Key::Route(t, p), Value::Route(r)) => r.dump(*t, *p),
        _ => Vec::new(),
    }
}

#[cfg(test)]
pub(crate) mod random_tests;
#[cfg(test)]
pub(crate) mod tests;
