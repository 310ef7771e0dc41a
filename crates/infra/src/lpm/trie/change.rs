//! The writer's view of an entry, and the changes to entries.

use super::node::{CHILD, INNER};
use crate::lpm::Address;
use std::ops::Range;

/// An entry, and the length of the prefix behind it: 0 for none. A child has 0 or [`INNER`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    pub entry: u32,
    pub len: u8,
}

impl Slot {
    /// Returns the slot of a child.
    pub fn child(entry: u32) -> Slot {
        Slot { entry, len: 0 }
    }

    pub fn is_child(self) -> bool {
        self.entry & CHILD != 0
    }

    /// True if it leads from a list to more intervals of the same list.
    pub fn is_inner(self) -> bool {
        self.len == INNER
    }

    pub fn is_empty(self) -> bool {
        self.entry == 0
    }
}

/// The change of a prefix's addresses.
pub(super) struct Change {
    pub prefix: u128,
    pub len: u8,
    /// New slot of the prefix's addresses: the prefix's leaf, or that of the next shorter prefix.
    pub to: Slot,
    pub adds: bool,
}

impl Change {
    /// True if a prefix of this length is replaced.
    pub fn replaces(&self, len: u8) -> bool {
        if self.adds { len <= self.len } else { len == self.len }
    }

    /// Returns the new slot of the addresses in a node with prefixes longer than `depth`.
    pub fn to(&self, depth: u8) -> Slot {
        if self.to.len > depth { self.to } else { Slot::default() }
    }

    pub fn last(&self) -> u128 {
        self.prefix.last(self.len)
    }

    /// Returns the values of an address's first `bits` bits that the change covers.
    pub fn first_bits(&self, bits: u8) -> Range<usize> {
        let start = self.prefix.bits(0, bits) as usize;
        start..start + (1 << (bits - self.len))
    }

    /// Returns the points of the change: its addresses cut to `depth` bits, counted from the point of `origin`. A
    /// single point if the prefix is longer.
    pub fn points(&self, origin: u128, depth: u8) -> Range<i128> {
        let point = |address: u128| address.down(128 - depth).wrapping_sub(origin.down(128 - depth)) as i128;
        point(self.prefix)..point(self.last()) + 1
    }
}
