//! Changes of the configuration on behalf of API messages. If a change is refused, the reason becomes the reply's return value.

use net::feature::message;
use net::ip::Address;
use net::router::RouterError;
use vapi::Code;
use vapi::types::{interface_index, mac_address, prefix};
use vapi::wire::Array;
use wire::Mac;

use super::numbers;
use crate::app::{AT_ONCE, Context, Failure, Removal, Transition};
use crate::intent::{Change, Interface, Key, Snapshot, Table};

/// True if the objects are so few that the router can change all of them at once, without slices.
pub(crate) fn are_few(all: impl Iterator) -> bool {
    all.take(AT_ONCE + 1).count() <= AT_ONCE
}

/// Makes the changes that `changes` returns, all or none, and then calls `then`. `changes` gets the configuration at the time when the
/// changes are made.
///
/// If `are_few` is true, all this happens before the function returns. Otherwise the function only begins the change. The connection
/// completes the change and calls `then` before it sends the reply.
pub(crate) fn make_all(
    c: &mut Context,
    are_few: bool,
    changes: impl FnOnce(&Snapshot) -> Vec<Change> + Send + 'static,
    then: impl FnOnce(&mut Context) -> Result<(), Failure> + 'static,
) -> Result<(), Code> {
    if are_few {
        // The snapshot is dropped before the change. If it still existed, the change would copy the whole tree.
        let changes = changes(&c.store.snapshot());
        make(c, changes)?;
        return then(c).map_err(refused);
    }
    let change = c.change_many(|now| Ok(changes(now))).followed_by(then);
    begin(c, change);
    Ok(())
}

/// Removes an object with all its dependents, and then calls `then`. If the dependents are many, this only begins the removal, as
/// in [`make_all`].
pub(crate) fn remove(
    c: &mut Context,
    key: Key,
    then: impl FnOnce(&mut Context) -> Result<(), Failure> + 'static,
) -> Result<(), Code> {
    match c.removal(key) {
        Removal::AtOnce(changes) => {
            make(c, changes)?;
            then(c).map_err(refused)
        }
        Removal::Long(change) => {
            begin(c, change.followed_by(then));
            Ok(())
        }
    }
}

fn begin(c: &mut Context, change: Transition) {
    debug_assert!(c.begun.is_none(), "a request begins one change");
    c.begun = Some(change);
}

/// Makes all changes or none.
pub(crate) fn make(c: &mut Context, changes: Vec<Change>) -> Result<(), Code> {
    c.transact(changes).map_err(refused)
}

/// Logs the reason of a refused change, and returns the API's return value for it.
pub(crate) fn refused(failure: Failure) -> Code {
    message::code(failure.reason(), failure)
}

/// Logs an error of the router, and returns the API's return value for it.
pub(crate) fn of_router(error: RouterError) -> Code {
    message::code(error.reason(), error)
}

/// Changes the settings of an interface.
pub(crate) fn interface(
    c: &mut Context,
    number: interface_index,
    change: impl FnOnce(&mut Interface),
) -> Result<(), Code> {
    let name = numbers::name(c, number)?;
    let (key, mut interface) = Interface::find(c.store.tree(), &name).ok_or(Code::INVALID_SW_IF_INDEX)?;
    change(&mut interface);
    make(c, vec![Change::set(key, interface)])
}

/// Checks that a VRF exists.
pub(crate) fn table(c: &Context, table: u32) -> Result<u32, Code> {
    let exists = table == 0 || c.store.get(&Table::key(table)).is_some();
    if exists { Ok(table) } else { Err(Code::NO_SUCH_FIB) }
}

/// Converts a prefix of the API to an address with its prefix length.
pub(crate) fn address(prefix: &prefix) -> Result<Address, Code> {
    let ip = prefix.address.ip();
    let longest = if ip.is_ipv4() { 32 } else { 128 };
    if prefix.len <= longest { Ok(Address::new(ip, prefix.len)) } else { Err(Code::INVALID_VALUE) }
}

/// Converts an Ethernet address of the API. Returns `None` for the address 00:00:00:00:00:00, with which clients leave the choice to the
/// router.
pub(crate) fn mac(mac: mac_address) -> Option<Mac> {
    let Array(octets) = mac.0;
    (octets != [0; 6]).then_some(Mac(octets))
}

/// Converts an Ethernet address to the type of the API.
pub(crate) fn of_mac(mac: Mac) -> mac_address {
    mac_address(Array(mac.0))
}
