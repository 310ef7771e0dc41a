//! The protocols: one folder per feature. The same file names recur in each: `mod.rs` (what the feature does, then
//! `install`), one file per node, `table.rs` (the state, without graph types), `config.rs` (the feature's
//! configuration), `show.rs` (the output of its show commands), `tests.rs`.
//!
//! [`Router`](router::Router) is the control side of all of them: the main thread owns one, and every change goes
//! through it. [`Tables`] is the workers' side: read handles, cloned into every node.

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
mod jitter;
pub mod nd;
pub mod neighbor;
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
/// If the nodes do not fit together.
pub fn install(
    b: &mut graph::Builder,
    t: &Tables,
    hooks: &mut router::Hooks,
) -> Result<(), graph::GraphError> {
    interface::install(b, t);
    handoff::install(b, t);
    ethernet::install(b, t);
    neighbor::install(b, t, hooks)?;
    ip::install(b, t, hooks)?;
    icmp::install(b, t, hooks)?;
    udp::install(b, t, hooks)
}
