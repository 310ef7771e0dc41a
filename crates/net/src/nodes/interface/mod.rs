//! The nodes of interfaces. Each driver adds its input node; one output node and one transmit node serve all interfaces.
//!
//! ```text
//! <driver>-input → (arc device-input) → ethernet-input … interface-output → (arc interface-output) → interface-tx
//! ```

mod by_frame;
mod input;
mod output;
mod tx;

use graph::{ArcKey, Builder};

use crate::tables::Tables;

/// Adds the input node of a driver.
pub fn install_input(b: &mut Builder, t: &Tables, node: &'static str) {
    let tables = t.clone();
    b.input(node, move |s| input::DeviceInput::new(&tables, node, s.worker));
}

/// Adds the nodes and arcs that all drivers share.
pub fn install(b: &mut Builder, t: &Tables) {
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
