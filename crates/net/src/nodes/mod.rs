//! The nodes of the tables at the top of the crate, in folders of the same names. Each folder has one file per node, and
//! `install`, which adds them to the graph.

pub mod ethernet;
pub mod handoff;
pub mod interface;
pub mod ip;
pub mod neighbor;
