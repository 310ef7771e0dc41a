//! The nodes of the graph, one file per node. Each folder has the name of the module of this crate whose tables its nodes use. A
//! folder's function `install` adds its nodes to the graph.

pub mod ethernet;
pub mod handoff;
pub mod interface;
pub mod ip;
pub mod neighbor;
