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
    Ok(())
}

pub(super) fn apply(interface: &str, lender: Option<&str>, system: &mut System) -> Result<(), Refused> {
    let index = system.index(interface)?;
    let lender = lender.map(|name| system.index(name)).transpose()?;
    Ok(system.router.set_unnumbered(index, lender)?)
}

pub(super) fn dump(interface: &str, lender: &str) -> String {
    format!("set interface unnumbered {} use {}", quote(interface), quote(lender))
}
