//! Registries that assign nodes to packets: by EtherType, IP protocol, UDP port or another number. Another registry selects, by type, the
//! ICMP messages that are punted to the main thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use graph::{Builder, EdgeId, GraphError, PuntReason};

/// Marks a number for which no node is registered. It is larger than every edge number.
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
    /// Creates an empty registry for the numbers below `size`. `node` is the name of the node that passes packets on by these
    /// numbers.
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
            return Err(GraphError(format!(
                "cannot register \"{to}\" at \"{node}\": number {number} is too large"
            )));
        };
        match slot.load(Ordering::Relaxed) {
            NOBODY => {}
            KEPT => {
                return Err(GraphError(format!(
                    "cannot register \"{to}\" at \"{node}\": \"{node}\" handles number {number} itself"
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

/// Marks a type of messages that no feature has registered.
const UNPUNTED: u32 = u32::MAX;
/// Marks a type of messages that the router itself needs.
const OWN: u32 = u32::MAX - 1;

/// Maps each type of ICMP messages to the punt reason that a feature registered for it, if any. It is filled while the graph is built.
/// Clones share the map.
#[derive(Clone)]
pub struct IcmpTypes {
    node: &'static str,
    reasons: Arc<[AtomicU32; 256]>,
}

impl IcmpTypes {
    /// Creates a registry for the node `node`.
    pub(crate) fn new(node: &'static str) -> IcmpTypes {
        IcmpTypes { node, reasons: Arc::new([const { AtomicU32::new(UNPUNTED) }; 256]) }
    }

    fn slot(&self, kind: u8) -> &AtomicU32 {
        &self.reasons[usize::from(kind)]
    }

    /// Punts messages of the type `kind` with this reason.
    ///
    /// # Errors
    /// If another feature has registered the type, or the router itself needs it.
    pub fn register(&self, kind: u8, reason: PuntReason) -> Result<(), GraphError> {
        let by = match self.slot(kind).load(Ordering::Relaxed) {
            UNPUNTED => {
                self.slot(kind).store(reason.0, Ordering::Relaxed);
                return Ok(());
            }
            OWN => "itself",
            _ => "for another feature",
        };
        let node = self.node;
        Err(GraphError(format!("cannot register for messages of type {kind}: \"{node}\" takes them {by}")))
    }

    /// Reserves types that the router itself needs.
    pub(crate) fn keep(&self, kinds: impl IntoIterator<Item = u8>) {
        kinds.into_iter().for_each(|kind| self.slot(kind).store(OWN, Ordering::Relaxed));
    }

    /// Returns the punt reason of a type; `None` if no feature registered it.
    pub(crate) fn get(&self, kind: u8) -> Option<PuntReason> {
        let reason = self.slot(kind).load(Ordering::Relaxed);
        (reason < OWN).then_some(PuntReason(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_icmp_type_has_one_owner() {
        let types = IcmpTypes::new("icmp4-input");
        types.keep([8]);
        assert_eq!((types.register(0, PuntReason(3)), types.get(0)), (Ok(()), Some(PuntReason(3))));
        let refused = |kind| types.register(kind, PuntReason(4)).unwrap_err().0;
        assert!(refused(0).contains("\"icmp4-input\" takes them for another feature"));
        assert!(refused(8).contains("\"icmp4-input\" takes them itself"));
        assert_eq!([8, 1].map(|kind| types.get(kind)), [None, None]);
    }
}
