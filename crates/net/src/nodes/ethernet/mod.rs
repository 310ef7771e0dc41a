//! The node of Ethernet: decides whether a frame is for this router, and for which interface.
//!
//! Frames with VLAN tags belong to the matching sub-interface of the device ([`Vlans`](crate::ethernet::Vlans)), others to
//! the device's own interface or to the sub-interface of untagged frames. On interfaces in a
//! [mode](crate::ethernet::PortMode), a feature takes all frames. Other frames go to the node that registered for their
//! EtherType ([`Tables::ethertypes`]).

mod input;

use graph::Builder;
use wire::ethernet::ethertype;

use crate::tables::Tables;

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
