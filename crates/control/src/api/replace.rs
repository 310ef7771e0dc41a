//! Replacements of all objects of a kind. A client begins a replacement, adds those objects again that it wants to keep, and ends
//! the replacement. Then the router removes the other objects.

use net::ip::{Address, IpPrefix};
use vapi::{Code, DONE, Done};

use super::change;
use crate::app::{Again, Context, Failure};
use crate::intent::{Addresses, Change, Key, Route, Snapshot};

/// Ends a replacement of addresses: removes, from all interfaces, the addresses that the client has not added again since the
/// replacement began.
pub(super) fn end_addresses(c: &mut Context) -> Result<Done, Code> {
    let again = c.replacing.addresses.clone().ok_or(Code::INVALID_VALUE)?;
    let few = change::are_few(c.store.tree().range(Key::all::<Addresses>()));
    let wanted = again.clone();
    // The replacement ends only after its change was made. If the change is refused, the client can end the replacement again.
    let end = move |c: &mut Context| {
        c.replacing.addresses.take_if(|of| of.is(&again));
        Ok(())
    };
    change::make_all(c, few, move |now| not_again(now, &wanted), end)?;
    DONE
}

/// Returns the changes that remove all addresses but those in `again`.
fn not_again(now: &Snapshot, again: &Again<(String, Address)>) -> Vec<Change> {
    let mut changes = Vec::new();
    for (key, value) in now.tree().range(Key::all::<Addresses>()) {
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
    changes
}

/// Ends a replacement of routes: removes the static routes of a VRF and an address family (true for IPv6) that the client has not added
/// again since the replacement began.
pub(super) fn end_table(c: &mut Context, table: u32, is_ip6: bool) -> Result<Done, Code> {
    let half = (table, is_ip6);
    let again = c.replacing.tables.get(&half).ok_or(Code::INVALID_VALUE)?.clone();
    let wanted = again.clone();
    let end = move |c: &mut Context| {
        if c.replacing.tables.get(&half).is_some_and(|of| of.is(&again)) {
            c.replacing.tables.remove(&half);
        }
        Ok(())
    };
    remove_routes(c, half, move |prefix| !wanted.contains(&prefix), end)?;
    DONE
}

/// Removes static routes of the VRF `table`, of IPv6 if `is_ip6` is true and otherwise of IPv4: those for whose prefix `goes` returns true.
/// Then calls `then`.
pub(super) fn remove_routes(
    c: &mut Context,
    (table, is_ip6): (u32, bool),
    goes: impl Fn(IpPrefix) -> bool + Send + 'static,
    then: impl FnOnce(&mut Context) -> Result<(), Failure> + 'static,
) -> Result<(), Code> {
    let few = change::are_few(c.store.tree().range(Key::beginning::<Route>(&table)));
    let routes = move |now: &Snapshot| {
        let all = now.tree().range(Key::beginning::<Route>(&table)).map(|(key, _)| key);
        let of = |key: &&Key| {
            key.get::<Route>().is_some_and(|(_, prefix)| prefix.address().is_ipv6() == is_ip6 && goes(prefix))
        };
        all.filter(of).cloned().map(Change::remove).collect()
    };
    change::make_all(c, few, routes, then)
}
