//! The writer's view of entries, and the changes to entries.

use super::node::{CHILD, INNER};
use crate::lpm::Address;
use std::ops::Range;

/// An entry, and the length of the prefix that set it; 0 if no prefix did. For a child, the length is 0 or
/// [`INNER`].
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

    /// True if this slot of a list leads to more intervals of the same list.
    pub fn is_inner(self) -> bool {
        self.len == INNER
    }

    pub fn is_empty(self) -> bool {
        self.entry == 0
    }
}

/// The addition or removal of a route, which changes the entries for the addresses of the route's prefix.
pub(super) struct Change {
    pub prefix: u128,
    pub len: u8,
    /// The new slot for the prefix's addresses: the prefix's leaf, or after a removal the leaf of the next
    /// shorter prefix.
    pub to: Slot,
    pub adds: bool,
}

impl Change {
    /// True if the change replaces an entry that a prefix of length `len` set.
    pub fn replaces(&self, len: u8) -> bool {
        if self.adds { len <= self.len } else { len == self.len }
    }

    /// Returns the new slot for the changed addresses, in a node that stores only prefixes longer than `depth`.
    /// The slot is empty if the prefix whose leaf now applies to them is not that long.
    pub fn to(&self, depth: u8) -> Slot {
        if self.to.len > depth { self.to } else { Slot::default() }
    }

    pub fn last(&self) -> u128 {
        self.prefix.last(self.len)
    }

    /// Returns the range of the values that the first `bits` bits can have in addresses of the changed
    /// prefix.
    pub fn first_bits(&self, bits: u8) -> Range<usize> {
        let start = self.prefix.bits(0, bits) as usize;
        start..start + (1 << (bits - self.len))
    }

    /// Returns the range of points that the changed prefix covers. A point is an address truncated to `depth`
    /// bits. Points are counted from the point of `origin`. A prefix longer than `depth` has a single point.
    pub fn points(&self, origin: u128, depth: u8) -> Range<i128> {
        let point = |address: u128| address.down(128 - depth).wrapping_sub(origin.down(128 - depth)) as i128;
        point(self.prefix)..point(self.last()) + 1
    }
}
