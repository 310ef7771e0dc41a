//! The list of bonds, which this router cannot have.
//!
//! vppcfg requests this list before each plan, and fails if the router lacks the message for it. The answer is that of a
//! VPP router without bonds. The messages that create bonds are missing, so a client sees that they are not supported.
#![allow(non_camel_case_types)]

use vapi::types::interface_index;
use vapi::wire::Text;
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
}

/// Registers the message in the module `bond`.
pub(super) fn register(table: &mut Table<Context>) {
    table.module("bond", [2, 1, 0]).dump::<sw_bond_interface_dump, _>(|_, _| vapi::all(Vec::new()));
}
