//! What the writer knows of an entry, and what is to become of some of them.

use super::node::{CHILD, INNER};
use crate::lpm::Address;
use std::ops::Range;

/// An entry, and the length of the prefix behind it: 0 for none. A child has none, or [`INNER`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    pub entry: u32,
    pub len: u8,
}

impl Slot {
    /// The slot of a child.
    pub fn child(entry: u32) -> Slot {
        Slot { entry, len: 0 }
    }

    pub fn is_child(self) -> bool {
        self.entry & CHILD != 0
    }

    /// Whether it leads from a list to more intervals of the same list.
    pub fn is_inner(self) -> bool {
        self.len == INNER
    }

    pub fn is_empty(self) -> bool {
        self.entry == 0
    }
}

/// What is to become of a prefix's addresses.
pub(super) struct Change {
    pub prefix: u128,
    pub len: u8,
    /// What they get: the prefix's leaf, or that of the next shorter one.
    pub to: Slot,
    pub adds: bool,
}

impl Change {
    /// Whether a prefix of this length gives way.
    pub fn replaces(&self, len: u8) -> bool {
        if self.adds { len <= self.len } else { len == self.len }
    }

    /// What the addresses get in a node that has prefixes longer than `depth`.
    pub fn to(&self, depth: u8) -> Slot {
        if self.to.len > depth { self.to } else { Slot::default() }
    }

    pub fn last(&self) -> u128 {
        self.prefix.last(self.len)
    }

    /// The values of the first bits that it covers.
    pub fn first_bits(&self, bits: u8) -> Range<usize> {
        let start = self.prefix.bits(0, bits) as usize;
        start..start + (1 << (bits - self.len))
    }

    /// Its addresses, or the one that it is in, cut to `depth` bits and counted from that of `origin`.
    pub fn points(&self, origin: u128, depth: u8) -> Range<i128> {
        let point = |address: u128| address.down(128 - depth).wrapping_sub(origin.down(128 - depth)) as i128;
        point(self.prefix)..point(self.last()) + 1
    }
}
