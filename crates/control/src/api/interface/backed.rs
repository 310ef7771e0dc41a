//! Helpers for messages about the interfaces of one driver.

use net::feature::Backing;
use net::router::InterfaceInfo;
use vapi::types::interface_index;
use vapi::{Code, Done};

use crate::api::numbers;
use crate::app::Context;
use crate::intent::Interface;
use crate::system::System;

/// Checks that there is an interface with this number, and that the configuration of its driver is a `T`.
///
/// # Errors
/// If there is no interface with this number, or if the configuration of its driver is of another type.
pub(crate) fn must_be_backed<T: Backing<System>>(c: &Context, number: interface_index) -> Result<(), Code> {
    let name = numbers::name(c, number)?;
    let is = Interface::find(c.store.tree(), &name).is_some_and(|(_, i)| i.spec.get::<T>().is_some());
    if is { Ok(()) } else { Err(Code::INVALID_SW_IF_INDEX) }
}

/// Removes an interface with all its dependents. The configuration of its driver must be a `T`.
///
/// # Errors
/// If there is no such interface, or the change is refused.
pub(crate) fn remove_backed<T: Backing<System>>(
    c: &mut Context,
    number: interface_index,
) -> Result<Done, Code> {
    must_be_backed::<T>(c, number)?;
    super::remove(c, number)
}

/// Returns the details of the interfaces whose driver has a configuration of type `T`: of all such interfaces if `wanted` is ~0, and
/// otherwise only of the one with the number `wanted`.
pub(crate) fn backed<T: Backing<System>, D>(
    c: &Context,
    wanted: interface_index,
    details: impl Fn(&InterfaceInfo, &Interface, &T) -> D,
) -> Vec<D> {
    let is_wanted =
        |i: &&InterfaceInfo| wanted == interface_index::NONE || numbers::number(i.index) == wanted;
    let of = |i: &InterfaceInfo| {
        let (_, interface) = Interface::find(c.store.tree(), &i.name)?;
        let config = interface.spec.get::<T>()?;
        Some(details(i, &interface, config))
    };
    c.system.router.interfaces().filter(is_wanted).filter_map(of).collect()
}
