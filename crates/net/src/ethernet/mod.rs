//! Ethernet: which packets are for this router, and for which of its interfaces.
//!
//! Packets with VLAN tags belong to the device's sub-interface that matches them ([`Vlans`]), others to the device's
//! own interface. A feature takes all frames of interfaces in its [mode](PortMode). Of others, whoever takes the packets of an Ethernet
//! type says which node has them ([`Tables::ethertypes`]).

mod input;
mod mode;
mod vlan;

use graph::Builder;
use wire::ethernet::ethertype;

pub(crate) use mode::MOST as MOST_MODES;
pub use mode::PortMode;
pub use vlan::{Tags, Vlans};

use crate::Tables;

/// Bytes of an Ethernet header without tags.
pub const HEADER: usize = 14;
/// Bytes of a VLAN tag.
pub const TAG: usize = 4;

/// Adds the node of this feature.
pub fn install(b: &mut Builder, t: &Tables) {
    let tables = t.clone();
    b.frame(move |s| input::EthernetInput::new(&tables, s.worker));
    for tag in [ethertype::VLAN, ethertype::QINQ, ethertype::QINQ_LEGACY] {
        t.ethertypes.keep(tag);
    }
}

#[cfg(test)]
mod tests;
