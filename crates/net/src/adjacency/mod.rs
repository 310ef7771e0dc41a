//! Adjacencies: how to reach a neighbor over an interface.
//!
//! A record is immutable. A change puts a new record at the same index, so the forwarding object with this index, and all routes that use
//! the object, use the new record at once. The rewrite node applies the record to packets.

mod table;

pub use table::{Adjacencies, Adjacency, AdjacencyCounters, GLEAN, ethernet};
