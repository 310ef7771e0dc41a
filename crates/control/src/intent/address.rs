//! Addresses of interfaces: a list for each, the primary one first.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use net::router::Address;

use super::{Key, Refused, View, neighbor, refuse, route};
use crate::system::System;

/// Connected networks of one VRF must be apart, whatever interfaces they are on; no route may lead to the router itself,
/// and no static neighbour on the interface be a host that cannot be there.
pub(super) fn validate(interface: &str, list: &[Address], view: &View<'_>) -> Result<(), Refused> {
    let table = view.must_have_interface(interface)?.table;
    if list.is_empty() {
        return refuse(format!("{interface} has an empty list of addresses: leave it out"));
    }
    for (n, a) in list.iter().enumerate() {
        a.check()?;
        if list[..n].iter().any(|b| a.address == b.address) {
            return refuse(format!("{interface} has the address {} already", a.address));
        }
    }
    let networks: BTreeSet<_> = list.iter().map(|a| a.network()).collect();
    for other in networks.into_iter().filter_map(|n| view.index.overlapping(table, n, interface)) {
        let others = super::list(view.get(&Key::Addresses(other.into())));
        for (a, b) in list.iter().flat_map(|a| others.iter().map(move |b| (a, b))) {
            if a.address == b.address {
                return refuse(format!("{other} has the address {} already", b.address));
            }
            if a.network().covers(b.network()) || b.network().covers(a.network()) {
                return refuse(format!(
                    "{a} on {interface} overlaps {b} on {other}: connected networks must be apart"
                ));
            }
        }
    }
    for a in list {
        if let Some(prefix) = route::leading_to(a.address, table, view) {
            return refuse(format!(
                "{} is the next hop of the route for {prefix}: remove that first",
                a.address
            ));
        }
    }
    let neighbor = |ip| Key::Neighbor(interface.into(), ip);
    for (key, _) in view.range(neighbor(Ipv4Addr::UNSPECIFIED)..=neighbor(Ipv4Addr::BROADCAST)) {
        if let Key::Neighbor(_, ip) = key {
            list.iter().try_for_each(|a| neighbor::apart(*a, *ip, interface))?;
        }
    }
    Ok(())
}

/// The addresses that stay while a list becomes another one: as many of the new ones as are there already, in this order.
pub(super) fn staying(old: &[Address], new: &[Address]) -> Vec<Address> {
    let mut stay: Vec<Address> = old.iter().copied().filter(|a| new.contains(a)).collect();
    let in_place = stay.iter().zip(new).take_while(|(a, b)| a == b).count();
    stay.truncate(in_place);
    stay
}

pub(super) fn apply(
    interface: &str,
    old: &[Address],
    new: &[Address],
    system: &mut System,
) -> Result<(), Refused> {
    let index = system.index(interface)?;
    let stay = staying(old, new);
    let r = &mut system.router;
    for a in old.iter().rev().filter(|a| !stay.contains(a)) {
        r.remove_address(index, *a)?;
    }
    for (n, a) in new.iter().enumerate().skip(stay.len()) {
        if let Err(e) = r.add_address(index, *a) {
            new[stay.len()..n].iter().rev().try_for_each(|a| r.remove_address(index, *a))?;
            apply(interface, &stay, old, system)?;
            return Err(e.into());
        }
    }
    Ok(())
}

pub(super) fn dump(interface: &str, list: &[Address]) -> Vec<String> {
    list.iter().map(|a| format!("set interface ip address {interface} {a}")).collect()
}
