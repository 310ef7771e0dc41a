//! The protocols.
//!
//! * At the bottom are tables, one folder for each protocol: [`ethernet`], [`interface`], [`ip`], [`neighbor`], and so on. They do not use
//!   the graph's nodes. [`Tables`] are the read handles of all tables; each worker node has a clone.
//! * [`Router`](router::Router) controls all tables: the main thread owns a `Router`, and every change goes through it.
//! * On top are the nodes: [`nodes`] has folders with the same names as the tables. [`icmp`] and [`udp`] have no tables. Each folder has
//!   one file per node, and the function `install`, which adds the nodes to the graph.
//!
//! The same file names recur in each folder: `table.rs` (the state, without graph types), `config.rs` (the
//! configuration), `show.rs` (the output of show commands), `tests.rs`.

#![forbid(unsafe_code)]

pub mod adjacency;
pub mod checksum;
pub mod ethernet;
pub mod feature;
pub mod gso;
pub mod handoff;
pub mod icmp;
pub mod interface;
pub mod ip;
pub mod jitter;
pub mod nd;
pub mod neighbor;
pub mod nodes;
pub mod objects;
pub mod pieces;
pub mod registry;
pub mod router;
pub mod setting;
pub mod tables;
pub mod trace;
pub mod udp;
mod unused;
mod waiting;

pub use tables::Tables;
pub use unused::Unused;

#[cfg(any(test, feature = "testing"))]
pub mod testing;

/// Adds the nodes that every router has.
///
/// # Errors
/// If the graph refuses a node or a connection between nodes.
pub fn install(
    b: &mut graph::Builder,
    t: &Tables,
    hooks: &mut router::Hooks,
) -> Result<(), graph::GraphError> {
    nodes::interface::install(b, t);
    nodes::handoff::install(b, t);
    nodes::ethernet::install(b, t);
    nodes::neighbor::install(b, t, hooks)?;
    nodes::ip::install(b, t, hooks)?;
    icmp::install(b, t, hooks)?;
    udp::install(b, t, hooks)
}
