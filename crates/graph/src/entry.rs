//! Trace entries, each for one traced packet at one node, and the functions that describe them.

use buf::layout::FEATURE_LEN;
use buf::record::Snapshot;

use crate::edge::{NodeId, ReasonInfo};

/// Maximum number of a packet's bytes that an entry records.
pub const BYTES: usize = 96;

/// A trace entry: a traced packet before and after one node.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Number of the traced packet.
    pub trace: u32,
    /// The node.
    pub node: NodeId,
    /// Start time of the worker's turn (one round of polling its input nodes), in nanoseconds of the monotonic clock.
    pub time: u64,
    /// The packet's metadata before the node ran; `None` for an input node.
    pub before: Option<Snapshot>,
    /// The packet's metadata after the node ran; `None` if the node took the packet.
    pub after: Option<Snapshot>,
    /// The VRF number that the trace shows for `after`. At first this is the VRF's index; a caller may
    /// replace it by the table ID.
    pub vrf: u32,
    /// The node's result for the packet.
    pub fate: Fate,
    /// Length of the packet in bytes, over all its buffers: after the node ran, or before it ran if the node took the packet.
    pub total_len: u32,
    pub(crate) bytes_before: [u8; BYTES],
    pub(crate) bytes_after: [u8; BYTES],
    pub(crate) kept: [u8; 2],
    /// The packet's feature fields after the node ran, or before it ran if the node took the packet.
    pub(crate) features: Features,
}

/// The feature bytes of a packet, if any feature wrote to them.
pub(crate) type Features = Option<[u8; FEATURE_LEN]>;

impl Entry {
    /// Returns the first bytes of the packet before the node (for an input node, as received).
    pub fn bytes_before(&self) -> &[u8] {
        &self.bytes_before[..self.kept[0] as usize]
    }

    /// Returns the packet's first bytes after the node has run. If the node took the packet, these are its
    /// first bytes before the node ran.
    pub fn bytes_after(&self) -> &[u8] {
        &self.bytes_after[..self.kept[1] as usize]
    }
}

/// Position of an entry. Positions have the order of [`Tracer::entries`](crate::trace::Tracer::entries).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Number of the traced packet.
    pub trace: u32,
    pub(crate) time: u64,
    pub(crate) log: usize,
    pub(crate) at: usize,
}

/// The result of a node for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Sent by an edge to the node with this number.
    Next(NodeId),
    /// Dropped.
    Dropped(&'static ReasonInfo),
    /// Ignored: the packet is valid, but the node has no use for it.
    Ignored(&'static ReasonInfo),
    /// Held by the node.
    Held,
    /// Taken by the node (sent or consumed).
    Taken,
}

/// Writes a node's part of a trace, without the line that names the node.
pub type TraceFn = fn(&Entry, &mut String);

/// Writes nothing: for nodes without details.
pub fn plain(_: &Entry, _: &mut String) {}
