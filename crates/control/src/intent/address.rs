//! Addresses of interfaces.

use net::router::Address;

use super::{Key, Refused, Value, Via, View, refuse};
use crate::system::System;

/// Connected networks of one VRF must be apart, whatever interfaces they are on, and no route may lead to the router
/// itself.
pub(super) fn validate(interface: &str, a: Address, view: &View<'_>) -> Result<(), Refused> {
    let table = view.must_have_interface(interface)?.table;
    for (other, b) in view.addresses() {
        if view.interface(other).is_none_or(|o| o.table != table) || (other == interface && b == a) {
            continue;
        }
        if a.address == b.address {
            return refuse(format!("{other} has the address {} already", b.address));
        }
        let apart = !a.network().covers(b.network()) && !b.network().covers(a.network());
        if other != interface && !apart {
            return refuse(format!(
                "{a} on {interface} overlaps {b} on {other}: connected networks must be apart"
            ));
        }
    }
    for (key, value) in view.iter() {
        if let (Key::Route(t, prefix), Value::Route(r)) = (key, value)
            && matches!(r.via, Via::NextHop(ip, _) if ip == a.address)
            && r.own_next_hop(*t, view).is_some()
        {
            return refuse(format!(
                "{} is the next hop of the route for {prefix}: remove that first",
                a.address
            ));
        }
    }
    Ok(())
}

pub(super) fn apply(interface: &str, a: Address, system: &mut System) -> Result<(), Refused> {
    let index = system.index(interface)?;
    Ok(system.router.add_address(index, a)?)
}

pub(super) fn withdraw(interface: &str, a: Address, system: &mut System) -> Result<(), Refused> {
    let index = system.index(interface)?;
    Ok(system.router.remove_address(index, a)?)
}
