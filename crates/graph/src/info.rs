//! Description of a node in a built graph.

use std::sync::Arc;

use crate::edge::ReasonInfo;
use crate::entry::TraceFn;

/// Target of an edge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) node: u32,
    /// Row of the arc that this edge enters, or `NO_ROW`.
    pub(crate) row: u16,
}

pub(crate) const NO_ROW: u16 = u16::MAX;
/// In place of a node that does not exist.
pub(crate) const NO_NODE: u32 = u32::MAX;

/// Description of a built node, for show commands.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// Name of the node.
    pub name: &'static str,
    /// True for an input node.
    pub input: bool,
    /// Names of the node's edges: nodes, arcs, or [`CONTINUE`](crate::CONTINUE).
    pub edges: Vec<String>,
    /// The reasons for which the node drops or counts packets.
    pub reasons: Arc<[&'static ReasonInfo]>,
    /// Number of the node's first reason among the reasons of all nodes.
    pub first_reason: u32,
    pub(crate) trace: TraceFn,
    pub(crate) targets: Vec<Target>,
    /// The edges that enter an arc.
    pub(crate) arc_edges: Vec<u8>,
    /// The nodes through which this node can take packets itself, [`NO_NODE`] in place of one that does not exist.
    pub(crate) through: Vec<u32>,
}

impl NodeInfo {
    /// Returns the node's reasons, each with its number among the reasons of all nodes.
    pub(crate) fn numbered_reasons(&self) -> impl Iterator<Item = (u32, &'static ReasonInfo)> {
        (self.first_reason..).zip(self.reasons.iter().copied())
    }

    /// True if an edge leads to the node at position `index` of
    /// [`Blueprint::nodes`](crate::Blueprint::nodes).
    pub fn leads_to(&self, index: usize) -> bool {
        self.targets.iter().any(|t| t.node as usize == index)
    }
}
