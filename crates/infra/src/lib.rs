//! The basis of all other crates: memory, quiescence, tables with one writer and many readers, counters,
//! rings, longest-prefix match, time, and the cores of the machine.
//!
//! This crate knows nothing about packets. Its `unsafe` code is only in the modules that own raw memory or
//! call the kernel. Crates that forbid `unsafe` can use the interfaces of these modules safely.
pub mod class_a;
pub mod class_b;
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
