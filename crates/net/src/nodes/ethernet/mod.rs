//! The node `ethernet-input`: decides whether a frame is for this router, and on which interface.
//!
//! A frame with VLAN tags belongs to the matching sub-interface of the device ([`Vlans`](crate::ethernet::Vlans)). Other frames belong to
//! the device's own interface, or to the sub-interface for untagged frames if there is one. If an interface is in a
//! [mode](crate::ethernet::PortMode), a feature takes all its frames. Otherwise a frame goes to the node that registered for its EtherType
//! ([`Tables::ethertypes`]).

mod input;
mod straight;

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
