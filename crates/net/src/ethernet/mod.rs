//! Ethernet: decides whether a frame is for this router, and for which interface.
//!
//! Frames with VLAN tags belong to the matching sub-interface of the device ([`Vlans`]), others to the device's own
//! interface or to the sub-interface of untagged frames. On interfaces in a [mode](PortMode), a feature takes all frames. Other frames go to the node that
//! registered for their EtherType ([`Tables::ethertypes`]).

mod input;
mod mode;
mod vlan;

use graph::Builder;
use wire::ethernet::ethertype;

pub(crate) use mode::MOST as MOST_MODES;
pub use mode::PortMode;
pub use vlan::{Match, Tags, Vlans};

use crate::Tables;

/// Length of an Ethernet header without tags, in bytes.
pub const HEADER: usize = 14;
/// Length of a VLAN tag, in bytes.
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
