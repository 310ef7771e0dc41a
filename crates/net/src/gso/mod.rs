//! Segmentation in software: what a device cannot cut or sum by itself.
//!
//! ```text
//! interface-output → gso → interface-output → (arc interface-output) → interface-tx
//! ```
//!
//! Packets come here instead of to the arc, and enter it afterwards, so that its features see each once, as it will be
//! on the wire.

mod node;

use graph::{Builder, GraphError};
pub(crate) use node::{Reason, cut};

use crate::Tables;
use crate::router::Hooks;

/// Adds the node of this feature.
///
/// # Errors
/// None; the type is that of every feature.
pub fn install(b: &mut Builder, _: &Tables, _: &mut Hooks) -> Result<(), GraphError> {
    b.frame(|_| Ok(node::GsoNode::default()));
    Ok(())
}

#[cfg(test)]
mod tests;
