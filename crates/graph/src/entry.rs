//! One node's work on one traced packet, and what writes it out.

use buf::layout::FEATURE_LEN;
use buf::record::Snapshot;

use crate::edge::{NodeId, ReasonInfo};

/// Bytes of a packet that an entry keeps.
pub const BYTES: usize = 96;

/// One node's work on one traced packet.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Which traced packet.
    pub trace: u32,
    /// The node.
    pub node: NodeId,
    /// Time of the turn, nanoseconds of the monotonic clock.
    pub time: u64,
    /// The record before the node; `None` for an input node.
    pub before: Option<Snapshot>,
    /// The record after the node; `None` when the node gave the packet away.
    pub after: Option<Snapshot>,
    /// Where the packet went.
    pub fate: Fate,
    /// Bytes of all segments.
    pub total_len: u32,
    pub(crate) bytes_before: [u8; BYTES],
    pub(crate) bytes_after: [u8; BYTES],
    pub(crate) kept: [u8; 2],
    /// What features know of the packet behind the node.
    pub(crate) features: Features,
}

/// The feature bytes of a packet, if any feature wrote to them.
pub(crate) type Features = Option<[u8; FEATURE_LEN]>;

impl Entry {
    /// The first bytes of the packet as the node found it (as it brought it in, for an input node).
    pub fn bytes_before(&self) -> &[u8] {
        &self.bytes_before[..self.kept[0] as usize]
    }

    /// The first bytes of the packet as the node left it; as it found it if it gave it away.
    pub fn bytes_after(&self) -> &[u8] {
        &self.bytes_after[..self.kept[1] as usize]
    }
}

/// Where an entry is. The order is that of [`Tracer::entries`](crate::trace::Tracer::entries).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which traced packet.
    pub trace: u32,
    pub(crate) time: u64,
    pub(crate) log: usize,
    pub(crate) at: usize,
}

/// Where a packet went from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// By an edge, to this node.
    Next(NodeId),
    /// Dropped.
    Dropped(&'static ReasonInfo),
    /// Ignored: nothing is wrong with it, and the node has no use for it.
    Ignored(&'static ReasonInfo),
    /// The node keeps it.
    Held,
    /// The node took it (sent it, or used it up).
    Taken,
}

/// Writes a node's lines of a trace, without the line that names the node.
pub type TraceFn = fn(&Entry, &mut String);

/// For nodes with nothing to add.
pub fn plain(_: &Entry, _: &mut String) {}
