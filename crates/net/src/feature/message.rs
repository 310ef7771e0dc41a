//! Helpers for messages of VPP's binary API, in control and in features: interface numbers, configuration changes, and return values.
//!
//! An interface's number is its index. The exception is the interface with index 0, which has another number: in VPP, number 0 is the
//! interface `local0`, which sends and receives nothing. Clients expect `local0`, and use 0 for "no interface".

use std::fmt::Display;

use model::cli::CliError;
use model::object::Change;
use model::reason::Reason;
use vapi::types::interface_index;
use vapi::{Code, DONE, Done};

use super::{App, Configured};
use crate::router::{InterfaceInfo, Router};

/// The number of `local0`.
pub const LOCAL: interface_index = interface_index(0);
/// The number that messages use for the interface with index 0, because number 0 is `local0`.
const OF_0: interface_index = interface_index(0x7fff_ffff);

/// Returns the number of the interface with this index.
pub fn number(index: u32) -> interface_index {
    if index == 0 { OF_0 } else { interface_index(index) }
}

/// Returns the interface index that corresponds to this number, whether an interface has this index or not; `None` for `local0`.
pub fn index(number: interface_index) -> Option<u32> {
    match number {
        LOCAL => None,
        OF_0 => Some(0),
        number => Some(number.0),
    }
}

/// Returns the interface with this number.
///
/// # Errors
/// If there is none, or it is `local0`.
pub fn interface(router: &Router, number: interface_index) -> Result<&InterfaceInfo, Code> {
    let index = index(number).ok_or(Code::INVALID_SW_IF_INDEX)?;
    router.interface(index).map_err(|_| Code::INVALID_SW_IF_INDEX)
}

/// Returns the name of the interface with this number.
///
/// # Errors
/// If there is none, or it is `local0`.
pub fn name(router: &Router, number: interface_index) -> Result<String, Code> {
    interface(router, number).map(|i| i.name.clone())
}

/// Returns the interfaces that a dump asks for: the one with this number, or all for ~0.
pub fn wanted(router: &Router, number: interface_index) -> Vec<&InterfaceInfo> {
    match number {
        interface_index::NONE => router.interfaces().collect(),
        number => interface(router, number).into_iter().collect(),
    }
}

/// Makes all changes or none.
///
/// # Errors
/// If the change is refused.
pub fn make<C: App>(c: &mut C, changes: Vec<Change<C::World>>) -> Result<Done, Code> {
    c.transact(changes).map_err(refused)?;
    DONE
}

/// Changes a setting of an interface.
///
/// # Errors
/// If there is no such interface, or the change is refused.
pub fn set<C: App, T: Configured>(
    c: &mut C,
    interface: interface_index,
    change: impl FnOnce(&mut T),
) -> Result<Done, Code> {
    let name = name(c.router(), interface)?;
    c.change_setting(&name, change).map_err(refused)?;
    DONE
}

/// Returns the return value for a refusal.
pub fn refused(error: impl Into<CliError>) -> Code {
    let error = error.into();
    code(error.reason(), error)
}

/// Returns the return value for a refusal with this reason. Logs the text, because a return value says little.
pub fn code(reason: Reason, why: impl Display) -> Code {
    tracing::info!("an API request was refused: {why}");
    match reason {
        Reason::Other | Reason::Negative => Code::UNSPECIFIED,
        Reason::NoInterface => Code::INVALID_SW_IF_INDEX,
        Reason::NoTable => Code::NO_SUCH_FIB,
        Reason::NotThere => Code::NO_SUCH_ENTRY,
        Reason::Value => Code::INVALID_VALUE,
        Reason::Unfit => Code::INVALID_INTERFACE,
        Reason::There => Code::VALUE_EXIST,
        Reason::NoAddress => Code::ADDRESS_NOT_FOUND_FOR_INTERFACE,
        Reason::AddressTaken => Code::ADDRESS_IN_USE,
        Reason::InUse => Code::RSRC_IN_USE,
        Reason::Unsupported => Code::UNSUPPORTED,
        Reason::Busy => Code::BUSY,
    }
}
