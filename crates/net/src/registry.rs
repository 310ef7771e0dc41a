//! Registries that assign nodes to received packets: by EtherType, IP protocol or UDP port.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use graph::{Builder, EdgeId, GraphError};

/// Marks a number without a node. It is larger than every edge.
const NOBODY: u8 = u8::MAX;
/// Marks a number reserved for the registry's own node.
const KEPT: u8 = u8::MAX - 1;

/// Maps each number below a limit to an edge of one node. It is filled while the graph is built. Clones share
/// the map.
#[derive(Clone)]
pub struct Registry {
    node: &'static str,
    edges: Arc<[AtomicU8]>,
}

impl Registry {
    /// Creates a registry for the node `node`, with the numbers below `size`.
    pub fn new(node: &'static str, size: usize) -> Registry {
        Registry { node, edges: (0..size).map(|_| AtomicU8::new(NOBODY)).collect() }
    }

    /// Registers the node `to` for packets with this number. The registry's own node must already be in the
    /// graph.
    ///
    /// # Errors
    /// If the number is out of range or taken, or if the registry's node does not exist or has no room for
    /// another edge.
    pub fn register(&self, b: &mut Builder, number: u16, to: &str) -> Result<(), GraphError> {
        let node = self.node;
        let Some(slot) = self.edges.get(usize::from(number)) else {
            return Err(GraphError(format!("cannot register \"{to}\" at \"{node}\": {number} is too large")));
        };
        match slot.load(Ordering::Relaxed) {
            NOBODY => {}
            KEPT => {
                return Err(GraphError(format!(
                    "cannot register \"{to}\": \"{node}\" handles {number} itself"
                )));
            }
            _ => {
                let message = format!(
                    "cannot register \"{to}\" at \"{node}\": number {number} already belongs to another node"
                );
                return Err(GraphError(message));
            }
        }
        slot.store(b.edge(node, to)?.to_raw(), Ordering::Relaxed);
        Ok(())
    }

    /// Reserves a number that the registry's own node handles, so that no other node can register for it.
    pub fn keep(&self, number: u16) {
        if let Some(slot) = self.edges.get(usize::from(number)) {
            slot.store(KEPT, Ordering::Relaxed);
        }
    }

    /// Returns the edge for a number; `None` if no node registered for it.
    #[inline(always)]
    pub fn get(&self, number: u16) -> Option<EdgeId> {
        let raw = self.edges.get(usize::from(number))?.load(Ordering::Relaxed);
        (raw < KEPT).then(|| EdgeId::from_raw(raw))
    }
}
