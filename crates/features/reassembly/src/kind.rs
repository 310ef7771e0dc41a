//! What tells the kinds of reassembly apart.

use crate::waiting::Limits;

/// A second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;

/// What a table of fragments is to the operator and to the main thread.
#[derive(Debug)]
pub struct KindInfo {
    /// The node that keeps fragments in it, by which commands name it.
    pub name: &'static str,
    /// What it is, for the help of commands: `the reassembly of ...`.
    pub about: &'static str,
    /// What is counted when a datagram is complete: `became whole`.
    pub completed: &'static str,
    /// The limits as long as nobody says otherwise, if there are buffers enough.
    pub usual: Limits,
    /// The node that the main thread tells that the time of some datagrams is over.
    pub expire: &'static str,
}
