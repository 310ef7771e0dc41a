//! Who takes packets: by Ethernet type, by IP protocol, by UDP port.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use graph::{Builder, EdgeId, GraphError};

/// What stands for "nobody"; edges have lower numbers.
const NOBODY: u8 = u8::MAX;
/// What stands for the registry's own node, which does not ask for such a number.
const KEPT: u8 = u8::MAX - 1;

/// An edge of one node for each of a range of numbers. Filled while the graph is built; copies share it.
#[derive(Clone)]
pub struct Registry {
    node: &'static str,
    edges: Arc<[AtomicU8]>,
}

impl Registry {
    /// A registry for edges of `node`, for the numbers below `size`.
    pub fn new(node: &'static str, size: usize) -> Registry {
        Registry { node, edges: (0..size).map(|_| AtomicU8::new(NOBODY)).collect() }
    }

    /// From now on, packets with this number go to the node `to`. The registry's own node must have been added.
    ///
    /// # Errors
    /// When there is no such number, or it is taken; when the registry's node is not there, or has no room for another
    /// edge.
    pub fn register(&self, b: &mut Builder, number: u16, to: &str) -> Result<(), GraphError> {
        let node = self.node;
        let Some(slot) = self.edges.get(usize::from(number)) else {
            return Err(GraphError(format!(
                "\"{to}\" is registered at \"{node}\" for {number}, which is too large"
            )));
        };
        match slot.load(Ordering::Relaxed) {
            NOBODY => {}
            KEPT => return Err(GraphError(format!("\"{node}\" takes {number} itself, and \"{to}\" cannot"))),
            _ => {
                let message = format!("\"{to}\" is the second node at \"{node}\" for {number}");
                return Err(GraphError(message));
            }
        }
        slot.store(b.edge(node, to)?.to_raw(), Ordering::Relaxed);
        Ok(())
    }

    /// Keeps a number for the registry's own node: nobody can register for it.
    pub fn keep(&self, number: u16) {
        if let Some(slot) = self.edges.get(usize::from(number)) {
            slot.store(KEPT, Ordering::Relaxed);
        }
    }

    /// The edge for this number.
    #[inline(always)]
    pub fn get(&self, number: u16) -> Option<EdgeId> {
        let raw = self.edges.get(usize::from(number))?.load(Ordering::Relaxed);
        (raw < KEPT).then(|| EdgeId::from_raw(raw))
    }
}
