//! Lists of objects that this router cannot have: bonds, bridge domains, and cross-connects of layer 2.
//!
//! vppcfg requests these lists before each plan, and fails if the router lacks the messages for them. The answers are those of a
//! VPP router without such objects. The messages that create such objects are missing, so a client sees that they are not
//! supported.
#![allow(non_camel_case_types)]

use vapi::types::interface_index;
use vapi::wire::{Count, Text};
use vapi::{Table, define};

use crate::app::Context;

define! {
    /// How a bond uses its members.
    enum bond_mode: u32 {
        BOND_API_MODE_ROUND_ROBIN = 1,
        BOND_API_MODE_ACTIVE_BACKUP = 2,
        BOND_API_MODE_XOR = 3,
        BOND_API_MODE_BROADCAST = 4,
        BOND_API_MODE_LACP = 5,
    }
    /// How a bond chooses a member for a packet.
    enum bond_lb_algo: u32 {
        BOND_API_LB_ALGO_L2 = 0,
        BOND_API_LB_ALGO_L34 = 1,
        BOND_API_LB_ALGO_L23 = 2,
        BOND_API_LB_ALGO_RR = 3,
        BOND_API_LB_ALGO_BC = 4,
        BOND_API_LB_ALGO_AB = 5,
    }
    /// Asks for bonds.
    dump sw_bond_interface_dump { sw_if_index: interface_index = 4294967295 } -> sw_bond_interface_details {
        sw_if_index: interface_index,
        id: u32,
        mode: bond_mode,
        lb: bond_lb_algo,
        numa_only: bool,
        active_members: u32,
        members: u32,
        interface_name: Text<64>,
    }
    /// An interface in a bridge domain.
    struct bridge_domain_sw_if { context: u32, sw_if_index: interface_index, shg: u8 }
    /// Asks for bridge domains.
    dump bridge_domain_dump { bd_id: u32 = 4294967295, sw_if_index: interface_index = 4294967295 } -> bridge_domain_details {
        bd_id: u32,
        flood: bool,
        uu_flood: bool,
        forward: bool,
        learn: bool,
        arp_term: bool,
        arp_ufwd: bool,
        mac_age: u8,
        bd_tag: Text<64>,
        bvi_sw_if_index: interface_index,
        uu_fwd_sw_if_index: interface_index,
        n_sw_ifs: Count<u32>,
        sw_if_details: Vec<bridge_domain_sw_if>,
    }
    /// Asks for cross-connects.
    dump l2_xconnect_dump { } -> l2_xconnect_details { rx_sw_if_index: interface_index, tx_sw_if_index: interface_index }
}

/// Registers the messages in the modules `bond` and `l2`.
pub(super) fn register(table: &mut Table<Context>) {
    table.module("bond", [2, 1, 0]).dump::<sw_bond_interface_dump, _>(|_, _| vapi::all(Vec::new()));
    table
        .module("l2", [3, 3, 0])
        .dump::<bridge_domain_dump, _>(|_, _| vapi::all(Vec::new()))
        .dump::<l2_xconnect_dump, _>(|_, _| vapi::all(Vec::new()));
}
