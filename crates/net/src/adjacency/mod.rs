//! Adjacencies: how to reach a neighbor over an interface.
//!
//! A record is immutable. A change puts a new record at the same index, so all users of the index use the new record at once: the
//! forwarding object, and through it any number of routes. The rewrite node applies the record to packets.

mod table;

pub use table::{Adjacencies, Adjacency, AdjacencyCounters, GLEAN, ethernet};
