//! Interfaces. Each device, sub-interface and loopback has one; they share one index space.
//!
//! Interfaces are data, not nodes. One input node per driver ([`input`]), one [`output`] and one [`tx`] node serve all
//! interfaces, so creating one does not change the graph.
//!
//! ```text
//! <driver>-input → (arc device-input) → ethernet-input … interface-output → (arc interface-output) → interface-tx
//! ```
//!
//! Features can have interfaces, too ([`InterfaceKind`]): `interface-tx` passes their frames to the feature's node.

mod by_frame;
mod input;
mod kind;
mod output;
mod placement;
mod table;
mod tx;

use drivers::INPUT_NODES;
use graph::{ArcKey, Builder};

pub(crate) use kind::MOST as MOST_KINDS;
pub use kind::{InterfaceKind, InterfaceKindInfo};
pub use placement::{Attention, Handoff, Placement, RxSlot};
pub use table::{Interface, InterfaceCounters, InterfaceTotals, Kind, Runs, TxPort};

use crate::Tables;

/// Name of the node that hands packets to devices.
pub(crate) const TX: &str = "interface-tx";

/// Adds the nodes and arcs of this feature.
pub fn install(b: &mut Builder, t: &Tables) {
    for name in INPUT_NODES {
        let tables = t.clone();
        b.input(name, move |s| input::DeviceInput::new(&tables, name, s.worker));
    }
    b.arc("device-input", "ethernet-input", ArcKey::Rx);
    let tables = t.clone();
    b.frame(move |s| output::InterfaceOutput::new(&tables, s.worker));
    b.arc("interface-output", "interface-tx", ArcKey::Tx);
    let tables = t.clone();
    b.frame(move |s| tx::InterfaceTx::new(&tables, s.worker));
}

#[cfg(test)]
mod segment_tests;
#[cfg(test)]
mod tests;
