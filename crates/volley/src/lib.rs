//! Volley: a software router. The library holds the list of features, so that benchmarks and tests build the very graph
//! that the binary runs.

#![forbid(unsafe_code)]

pub mod features;
