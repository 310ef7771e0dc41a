//! Numbers by which clients know objects.
//!
//! An interface's number is its index. Number 0 is VPP's interface `local0`, which sends and receives nothing: clients expect it, and take 0
//! for "no interface". An interface to which the operator gave index 0 has another number here.

use net::router::InterfaceInfo;
use vapi::Code;
use vapi::types::interface_index;

use crate::app::Context;

/// The number of `local0`.
pub(crate) const LOCAL: interface_index = interface_index(0);
/// The number of the interface with index 0.
const OF_0: interface_index = interface_index(0x7fff_ffff);

/// Returns the number of the interface with this index.
pub(crate) fn number(index: u32) -> interface_index {
    if index == 0 { OF_0 } else { interface_index(index) }
}

/// Returns the interface with this number.
///
/// # Errors
/// If there is none, or it is `local0`.
pub(crate) fn interface(c: &Context, number: interface_index) -> Result<&InterfaceInfo, Code> {
    let index = match number {
        LOCAL => return Err(Code::INVALID_SW_IF_INDEX),
        OF_0 => 0,
        number => number.0,
    };
    c.system.router.interface(index).map_err(|_| Code::INVALID_SW_IF_INDEX)
}

/// Returns the name of the interface with this number.
///
/// # Errors
/// If there is none, or it is `local0`.
pub(crate) fn name(c: &Context, number: interface_index) -> Result<String, Code> {
    interface(c, number).map(|i| i.name.clone())
}
