//! Interfaces that use the addresses of others.

use super::{Key, Refused, Value, View, refuse};
use crate::cli::quote;
use crate::system::System;

pub(super) fn validate(interface: &str, lender: &str, view: &View<'_>) -> Result<(), Refused> {
    let table = view.must_have_interface(interface)?.table;
    let other = view.must_have_interface(lender)?;
    if interface == lender {
        return refuse(format!("{interface} cannot use its own addresses"));
    }
    if other.table != table {
        return refuse(format!("{lender} is in table {}, and {interface} in table {table}", other.table));
    }
    if view.get(&Key::Addresses(interface.into())).is_some() {
        return refuse(format!("{interface} has addresses of its own: remove them first"));
    }
    if let Some(Value::Unnumbered(third)) = view.get(&Key::Unnumbered(lender.into())) {
        return refuse(format!("{lender} uses the addresses of {third} itself: name that one"));
    }
    if let Some(borrower) = view.index.borrowers(interface).next() {
        return refuse(format!("{borrower} uses the addresses of {interface}: it needs some of its own"));
    }
    Ok(())
}

/// Whether an interface may be in this VRF: those that use each other's addresses are in one.
pub(super) fn may_be_in(interface: &str, table: u16, view: &View<'_>) -> Result<(), Refused> {
    let apart = |other: &str| view.interface(other).is_some_and(|o| o.table != table);
    let lender = match view.get(&Key::Unnumbered(interface.into())) {
        Some(Value::Unnumbered(lender)) => Some((interface, lender.as_str())),
        _ => None,
    };
    let pair = lender
        .filter(|(_, lender)| apart(lender))
        .or_else(|| view.index.borrowers(interface).find(|b| apart(b)).map(|b| (b, interface)));
    match pair {
        Some((borrower, lender)) => {
            refuse(format!("{borrower} uses the addresses of {lender}: they must be in one table"))
        }
        None => Ok(()),
    }
}

pub(super) fn apply(interface: &str, lender: Option<&str>, system: &mut System) -> Result<(), Refused> {
    let index = system.index(interface)?;
    let lender = lender.map(|name| system.index(name)).transpose()?;
    Ok(system.router.set_unnumbered(index, lender)?)
}

pub(super) fn dump(interface: &str, lender: &str) -> String {
    format!("set interface unnumbered {} use {}", quote(interface), quote(lender))
}
