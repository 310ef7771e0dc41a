//! Intent: what the operator asked for, as a typed tree keyed by names. The truth from which everything follows.
//!
//! There is one way to change it: a [`transaction`](Store::transact). It validates all changes against the tree as it
//! would be, applies them in the order of their dependencies, and when one fails takes back those before it. A command
//! is a transaction of one change, or of the few that belong together.
//!
//! Each type of object has a file here, and in it the same five: `validate`, `apply` (with the former value, so that only
//! what differs is touched), `withdraw`, `dump` (the commands that would make it), and comparison, which is `PartialEq`.
//! The inverse of a change is the change back to the former value.

mod address;
mod interface;
mod neighbor;
mod reassembly;
mod route;
mod store;
mod table;

use std::fmt;
use std::net::Ipv4Addr;

use net::ip::Prefix4;
use net::ip::reassembly::Kind;
use net::router::{Address, RouterError};

pub use interface::{Interface, Spec, VLANS};
pub use neighbor::Neighbor;
pub use reassembly::{Reassembly, name as reassembly_name};
pub use route::{Route, Via};
pub use store::{Change, Store, View};

use crate::system::System;

/// Names an object. The order is that of dependency: what comes later may need what comes before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A VRF by number.
    Table(u16),
    /// The bounds of one kind of reassembly.
    Reassembly(Kind),
    /// An interface that stands on its own, by name.
    Interface(String),
    /// A sub-interface by name.
    SubInterface(String),
    /// An address of an interface.
    Address(String, Address),
    /// A static neighbour on an interface.
    Neighbor(String, Ipv4Addr),
    /// A route of a VRF.
    Route(u16, Prefix4),
}

/// An object.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// See [`Key::Table`].
    Table,
    /// See [`Key::Reassembly`].
    Reassembly(Reassembly),
    /// See [`Key::Interface`] and [`Key::SubInterface`].
    Interface(Box<Interface>),
    /// See [`Key::Address`].
    Address,
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
fn validate(key: &Key, value: &Value, view: &View<'_>) -> Result<(), Refused> {
    match (key, value) {
        (Key::Table(_), Value::Table) | (Key::Reassembly(_), Value::Reassembly(_)) => Ok(()),
        (Key::Interface(name) | Key::SubInterface(name), Value::Interface(i)) => i.validate(name, view),
        (Key::Address(interface, a), Value::Address) => address::validate(interface, *a, view),
        (Key::Neighbor(interface, ip), Value::Neighbor(_)) => neighbor::validate(interface, *ip, view),
        (Key::Route(table, prefix), Value::Route(r)) => r.validate(*table, *prefix, view),
        _ => refuse(format!("{key:?} cannot be {value:?}")),
    }
}

/// Whether the object cannot be without the one that `other` names.
fn needs(key: &Key, value: &Value, other: &Key) -> bool {
    match other {
        Key::Table(t) => match (key, value) {
            (_, Value::Interface(i)) => i.table == *t,
            (Key::Route(table, _), Value::Route(r)) => table == t || r.via == Via::Table(*t),
            _ => false,
        },
        Key::Interface(name) | Key::SubInterface(name) => match (key, value) {
            (Key::Address(i, _) | Key::Neighbor(i, _), _) => i == name,
            (_, Value::Route(r)) => r.interface() == Some(name),
            (_, Value::Interface(i)) => matches!(&i.spec, Spec::Sub { parent, .. } if parent == name),
            _ => false,
        },
        _ => false,
    }
}

/// Makes the system what the change says; `old` is the former value.
fn apply(key: &Key, old: Option<&Value>, new: Option<&Value>, system: &mut System) -> Result<(), Refused> {
    match (key, old, new) {
        (Key::Table(t), _, Some(Value::Table)) => table::apply(*t, system),
        (Key::Table(t), _, None) => table::withdraw(*t, system),
        (Key::Reassembly(kind), _, Some(Value::Reassembly(r))) => r.apply(*kind, system),
        (Key::Reassembly(kind), _, None) => Reassembly::default().apply(*kind, system),
        (Key::Interface(n) | Key::SubInterface(n), old, Some(Value::Interface(i))) => {
            let old = old.and_then(|v| if let Value::Interface(i) = v { Some(&**i) } else { None });
            i.apply(n, old, system)
        }
        (Key::Interface(n) | Key::SubInterface(n), _, None) => Interface::withdraw(n, system),
        (Key::Address(i, a), None, Some(_)) => address::apply(i, *a, system),
        (Key::Address(i, a), Some(_), None) => address::withdraw(i, *a, system),
        (Key::Neighbor(i, ip), _, Some(Value::Neighbor(n))) => n.apply(i, *ip, system),
        (Key::Neighbor(i, ip), _, None) => Neighbor::withdraw(i, *ip, system),
        (Key::Route(t, p), _, Some(Value::Route(r))) => r.apply(*t, *p, system),
        (Key::Route(t, p), _, None) => Route::withdraw(*t, *p, system),
        _ => Ok(()),
    }
}

/// The commands that would make the object.
pub fn dump(key: &Key, value: &Value) -> Vec<String> {
    match (key, value) {
        (Key::Table(t), _) => vec![format!("ip table add {t}")],
        (Key::Reassembly(kind), Value::Reassembly(r)) => vec![r.dump(*kind)],
        (Key::Interface(n) | Key::SubInterface(n), Value::Interface(i)) => i.dump(n),
        (Key::Address(i, a), _) => vec![format!("set interface ip address {i} {a}")],
        (Key::Neighbor(i, ip), Value::Neighbor(n)) => vec![n.dump(i, *ip)],
        (Key::Route(t, p), Value::Route(r)) => vec![r.dump(*t, *p)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
