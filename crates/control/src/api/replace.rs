//! Replacements: a client marks all objects of a kind, adds those again that it wants, and then the router removes the others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use net::ip::{Address, IpPrefix};
use vapi::{Code, DONE, Done};

use super::change;
use crate::app::Context;
use crate::intent::{Addresses, Change, Key, Route};

/// The replacements that have begun, with what was added again.
#[derive(Default)]
pub(crate) struct Replacing {
    /// Of all neighbors, by interface and address, with the time of the beginning.
    pub(super) neighbors: Option<(u64, BTreeSet<(u32, IpAddr)>)>,
    /// Of the addresses of all interfaces, by interface.
    addresses: Option<BTreeSet<(String, Address)>>,
    /// Of the routes of a VRF and a family (true for IPv6).
    tables: BTreeMap<(u32, bool), BTreeSet<IpPrefix>>,
}

impl Replacing {
    /// Begins to replace the addresses of all interfaces.
    pub(super) fn begin_addresses(&mut self) {
        self.addresses = Some(BTreeSet::new());
    }

    /// Begins to replace the routes of a VRF.
    pub(super) fn begin_table(&mut self, table: u32, is_ip6: bool) {
        self.tables.insert((table, is_ip6), BTreeSet::new());
    }

    /// Notes that an address was added.
    pub(super) fn address(&mut self, interface: &str, address: Address) {
        if let Some(again) = &mut self.addresses {
            again.insert((interface.to_owned(), address));
        }
    }

    /// Notes that a route was added.
    pub(super) fn route(&mut self, table: u32, prefix: IpPrefix) {
        if let Some(again) = self.tables.get_mut(&(table, prefix.address().is_ipv6())) {
            again.insert(prefix);
        }
    }
}

/// Removes the addresses that were not added again, on interfaces that have addresses at all.
pub(super) fn end_addresses(c: &mut Context) -> Result<Done, Code> {
    let again = c.replacing.addresses.take().ok_or(Code::INVALID_VALUE)?;
    let mut changes = Vec::new();
    for (key, value) in c.store.tree().range(Key::all::<Addresses>()) {
        let (Some(interface), Some(Addresses(list))) = (key.get::<Addresses>(), value.get::<Addresses>())
        else {
            continue;
        };
        let stays = |address: &&Address| again.contains(&(interface.clone(), **address));
        let left: Vec<Address> = list.iter().filter(stays).copied().collect();
        if left.len() < list.len() {
            changes.push(Addresses::change_to(&interface, left));
        }
    }
    change::make(c, changes)?;
    DONE
}

/// Removes the routes that were not added again.
pub(super) fn end_table(c: &mut Context, table: u32, is_ip6: bool) -> Result<Done, Code> {
    let again = c.replacing.tables.remove(&(table, is_ip6)).ok_or(Code::INVALID_VALUE)?;
    let goes = |prefix: IpPrefix| !again.contains(&prefix);
    let changes = routes(c, table, is_ip6, goes);
    change::make(c, changes)?;
    DONE
}

/// Returns the changes that remove the static routes of a VRF and family that `goes` selects.
pub(super) fn routes(c: &Context, table: u32, is_ip6: bool, goes: impl Fn(IpPrefix) -> bool) -> Vec<Change> {
    let all = c.store.tree().range(Key::beginning::<Route>(&table));
    let of = |key: &&Key| {
        key.get::<Route>().is_some_and(|(_, prefix)| prefix.address().is_ipv6() == is_ip6 && goes(prefix))
    };
    all.map(|(key, _)| key).filter(of).cloned().map(Change::remove).collect()
}
