//! What everything else stands on: memory, quiescence, tables that one thread writes and many read, counters,
//! rings, longest-prefix match, time and CPU topology.
//!
//! This crate knows nothing of packets. Its `unsafe` is confined to the modules that own raw memory or call the
//! kernel; what they offer is safe to use from crates that forbid `unsafe`.
pub mod class_a;
pub mod clock;
pub mod counters;
pub mod cpu;
pub mod doorbell;
pub mod hash;
pub mod lpm;
pub mod mem;
pub mod prefetch;
pub mod quiesce;
pub mod ring;
pub mod sync;
pub mod wait;

#[cfg(all(test, feature = "loom"))]
mod loom_tests;
