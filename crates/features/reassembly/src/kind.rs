//! The differences between the kinds of reassembly.

use crate::waiting::Limits;

/// A second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;

/// Properties of a kind of table of fragments: its names, its default limits, and the node that removes expired datagrams.
#[derive(Debug)]
pub struct KindInfo {
    /// The name of the node that stores fragments in the table; also the table's name in commands.
    pub name: &'static str,
    /// The kind of reassembly, as the help texts of commands describe it: `the reassembly of ...`.
    pub about: &'static str,
    /// The label of the number of complete datagrams: `became whole`.
    pub completed: &'static str,
    /// The default limits, for a router with enough buffers.
    pub usual: Limits,
    /// The node to which the main thread sends a message when datagrams have expired.
    pub expire: &'static str,
}
