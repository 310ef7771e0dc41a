//! The nodes of interfaces. There is one input node per driver; one output node and one transmit node serve all interfaces.
//!
//! ```text
//! <driver>-input → (arc device-input) → ethernet-input … interface-output → (arc interface-output) → interface-tx
//! ```

mod by_frame;
mod input;
mod output;
mod tx;

use drivers::INPUT_NODES;
use graph::{ArcKey, Builder};

use crate::tables::Tables;

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
