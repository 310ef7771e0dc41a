//! Adjacencies: how to reach a neighbor over an interface.
//!
//! A record is immutable, and is replaced under the same index. So all its users (a forwarding object, and
//! through this any number of routes) use the new record at once. The rewrite node applies it to packets.

mod table;

pub use table::{Adjacencies, Adjacency, AdjacencyCounters, GLEAN, ethernet};
