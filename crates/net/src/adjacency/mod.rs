//! Adjacencies: how to reach a neighbor over an interface.
//!
//! A record is immutable and replaced by index. So its users (a forwarding object, and through it any number
//! of routes) follow immediately. The rewrite node applies it.

mod table;

pub use table::{Adjacencies, Adjacency, AdjacencyCounters, GLEAN, ethernet};
