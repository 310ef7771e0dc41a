//! The differences between the kinds of reassembly.

use crate::waiting::Limits;

/// A second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;

/// A table of fragments, for the operator and for the main thread.
#[derive(Debug)]
pub struct KindInfo {
    /// The node that keeps fragments in it; its name in commands.
    pub name: &'static str,
    /// A description for the help of commands: `the reassembly of ...`.
    pub about: &'static str,
    /// The label of the count of complete datagrams: `became whole`.
    pub completed: &'static str,
    /// The default limits of a router with enough buffers.
    pub usual: Limits,
    /// The node that receives the main thread's message about expired datagrams.
    pub expire: &'static str,
}
