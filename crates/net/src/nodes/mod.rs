//! The nodes, in folders with the same names as the tables at the top of the crate. Each folder has one file per node, and the function
//! `install`, which adds the nodes to the graph.

pub mod ethernet;
pub mod handoff;
pub mod interface;
pub mod ip;
pub mod neighbor;
