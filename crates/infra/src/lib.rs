//! What everything else stands on: memory, quiescence, tables that one thread writes and many read, counters.
//!
//! This crate knows nothing of packets. Its `unsafe` is confined to the modules that own raw memory; what they
//! offer is safe to use from crates that forbid `unsafe`.
pub mod class_a;
pub mod counters;
pub mod mem;
pub mod quiesce;
pub mod sync;
