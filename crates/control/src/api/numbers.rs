//! The numbers of interfaces in messages (`sw_if_index`), and the interfaces with these numbers ([`message`]).

use net::feature::message;
use net::router::InterfaceInfo;
use vapi::Code;
use vapi::types::interface_index;

use crate::app::Context;

pub(crate) use message::{LOCAL, index, number};

/// Returns the interface with this number.
///
/// # Errors
/// If there is no interface with this number, or if it is `local0`.
pub(crate) fn interface(c: &Context, number: interface_index) -> Result<&InterfaceInfo, Code> {
    message::interface(&c.system.router, number)
}

/// Returns the name of the interface with this number.
///
/// # Errors
/// If there is no interface with this number, or if it is `local0`.
pub(crate) fn name(c: &Context, number: interface_index) -> Result<String, Code> {
    message::name(&c.system.router, number)
}
