//! Adjacencies: how to reach a neighbour over an interface.
//!
//! A record is immutable and swapped by index, so that whoever refers to it (a forwarding object, and through it any
//! number of routes) follows at once. The rewrite node applies it.

mod table;

pub use table::{Adjacencies, Adjacency, AdjacencyCounters, GLEAN, ethernet};
