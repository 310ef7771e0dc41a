//! Replacements: a client marks all objects of a kind, adds those again that it wants, and then the router removes the others.

use net::ip::{Address, IpPrefix};
use vapi::{Code, DONE, Done};

use super::change;
use crate::app::Context;
use crate::intent::{Addresses, Change, Key, Route};

/// Removes the addresses that were not added again, from all interfaces.
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
    change::make_all(c, changes)?;
    DONE
}

/// Removes the routes that were not added again.
pub(super) fn end_table(c: &mut Context, table: u32, is_ip6: bool) -> Result<Done, Code> {
    let again = c.replacing.tables.remove(&(table, is_ip6)).ok_or(Code::INVALID_VALUE)?;
    let goes = |prefix: IpPrefix| !again.contains(&prefix);
    let changes = routes(c, table, is_ip6, goes);
    change::make_all(c, changes)?;
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
