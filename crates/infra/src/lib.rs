//! The foundation: memory, quiescence, tables with one writer and many readers, counters, rings,
//! longest-prefix match, time and CPU topology.
//!
//! This crate contains nothing about packets. Its `unsafe` code is confined to the modules that own raw
//! memory or call the kernel; their interfaces are safe to use from crates that forbid `unsafe`.
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
