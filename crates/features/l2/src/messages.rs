//! The module `l2` of VPP's binary API, except for bridge domains.
#![allow(non_camel_case_types)]

use model::object::Change;
use net::feature::{App, message};
use vapi::types::interface_index;
use vapi::{Code, Done, Table, define};

use crate::node::Way;
use crate::object::{Connection, connection};

define! {
    /// Sends the frames received on an interface out of another, or routes its packets again.
    request sw_interface_set_l2_xconnect {
        rx_sw_if_index: interface_index,
        tx_sw_if_index: interface_index,
        enable: bool,
    }
    /// Asks for all cross-connects.
    dump l2_xconnect_dump {} -> l2_xconnect_details {
        rx_sw_if_index: interface_index,
        tx_sw_if_index: interface_index,
    }
}

define! {
    /// Adds or removes a patch: all frames received on a device are sent out of another.
    request l2_patch_add_del {
        rx_sw_if_index: interface_index,
        tx_sw_if_index: interface_index,
        is_add: bool,
    }
}

/// Adds the modules.
pub(crate) fn register<C: App>(table: &mut Table<C>) {
    table
        .module("l2", [3, 3, 0])
        .request::<sw_interface_set_l2_xconnect>(|c, _, q| {
            connect::<_, false>(c, q.rx_sw_if_index, q.tx_sw_if_index, q.enable)
        })
        .request::<l2_patch_add_del>(|c, _, q| {
            connect::<_, true>(c, q.rx_sw_if_index, q.tx_sw_if_index, q.is_add)
        })
        .dump::<l2_xconnect_dump, _>(|c, _| vapi::all(dump(c)));
}

fn connect<C: App, const PATCH: bool>(
    c: &mut C,
    rx: interface_index,
    tx: interface_index,
    is_on: bool,
) -> Result<Done, Code> {
    let from = message::name(c.router(), rx)?;
    let key = Connection::<PATCH>::key(&from);
    let changes = match is_on {
        true => vec![Change::set(key, Connection::<PATCH>(message::name(c.router(), tx)?))],
        false if c.store().get(&key).is_some() => vec![Change::remove(key)],
        false => Vec::new(),
    };
    message::make(c, changes)
}

fn dump<C: App>(c: &C) -> Vec<l2_xconnect_details> {
    let router = c.router();
    let connected = |index| connection(router, index).filter(|(way, _)| *way == Way::CrossConnect);
    let peers = router.interfaces().filter_map(|i| Some((i.index, connected(i.index)?.1)));
    let details = peers.filter_map(|(rx, tx)| {
        let tx = router.interface_named(tx)?.index;
        Some(l2_xconnect_details { rx_sw_if_index: message::number(rx), tx_sw_if_index: message::number(tx) })
    });
    details.collect()
}
