//! Addresses of interfaces.

use net::router::Address;

use super::{Key, Refused, View, refuse};
use crate::system::System;

/// Connected networks of one VRF must be apart, whatever interfaces they are on.
pub(super) fn validate(interface: &str, a: Address, view: &View<'_>) -> Result<(), Refused> {
    let table = view.must_have_interface(interface)?.table;
    for (key, _) in view.iter() {
        let Key::Address(other, b) = key else { continue };
        if view.interface(other).is_none_or(|o| o.table != table) || (other == interface && *b == a) {
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
