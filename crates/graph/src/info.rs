//! What is known of a node of a built graph.

use crate::edge::ReasonInfo;
use crate::entry::TraceFn;

/// Where an edge leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) node: u32,
    /// The row of the arc that is entered here, or `NO_ROW`.
    pub(crate) row: u16,
}

pub(crate) const NO_ROW: u16 = u16::MAX;

/// What is known of a built node, for those who show it.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// Its name.
    pub name: &'static str,
    /// Whether it brings packets in.
    pub input: bool,
    /// Names of its edges: nodes, arcs, features.
    pub edges: Vec<String>,
    /// Its drop reasons.
    pub reasons: &'static [ReasonInfo],
    /// The number of its first reason among all.
    pub first_reason: u32,
    pub(crate) trace: TraceFn,
    pub(crate) targets: Vec<Target>,
    /// Edges that enter an arc.
    pub(crate) arc_edges: Vec<u8>,
}

impl NodeInfo {
    /// Whether an edge leads to the node at `index` (of [`Blueprint::nodes`](crate::Blueprint::nodes)).
    pub fn leads_to(&self, index: usize) -> bool {
        self.targets.iter().any(|t| t.node as usize == index)
    }
}
