//! Longest-prefix match: from an address to a leaf, the index of a forwarding object.
//!
//! A table has one writer and any number of readers, which take no locks and need no guard, because the memory
//! never moves. A reader should still be inside of a section of the table's quiescence domain while it looks up
//! and while it uses the leaf: outside of one, what it finds may belong to a route that was removed meanwhile.

mod address;
mod dir24;
mod first;
#[cfg(all(test, feature = "loom"))]
pub(crate) mod loom_tests;
mod naive;
mod prefix_map;
#[cfg(all(test, not(any(feature = "loom", miri))))]
mod tests;
mod trie;
mod wide;

pub use address::Address;
pub use dir24::{Dir24Reader, Dir24Writer, dir24};
pub use naive::NaiveLpm;
pub use prefix_map::PrefixMap;
pub use trie::{TrieReader, TrieWriter, trie};

use std::fmt;

/// What a lookup gives when no route covers the address.
pub const NO_ROUTE: u32 = 0;

/// Leaves are below this: tables need a bit for themselves.
pub const MAX_LEAF: u32 = (1 << 31) - 1;

/// Why a route was not added. The table is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LpmFull {
    /// All groups for prefixes longer than 24 bits are in use, or wait for readers to pass.
    Groups(u32),
    /// The machine, or a control group, has no more memory.
    Memory,
    /// Every block that the table has addresses for is in use, or waits for readers to pass.
    Blocks,
    /// The leaf is 0 or above [`MAX_LEAF`].
    Leaf(u32),
}

impl fmt::Display for LpmFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Groups(n) => write!(f, "all {n} groups for prefixes longer than /24 are in use"),
            Self::Memory => f.write_str("there is no memory for it"),
            Self::Blocks => f.write_str("all blocks of the lookup table are in use"),
            Self::Leaf(leaf) => write!(f, "forwarding index {leaf} is out of range (1 to {MAX_LEAF})"),
        }
    }
}

impl std::error::Error for LpmFull {}

/// The writer's side of a table of prefixes. Bits of a prefix beyond its length are ignored, and a length beyond
/// the address's counts as the address's.
pub trait Lpm {
    /// An address, in host byte order.
    type Addr: Address;

    /// Adds the route, or changes its leaf. Returns the former leaf.
    ///
    /// # Errors
    /// When the table has no room or the leaf is out of range; nothing has changed then.
    fn insert(&mut self, prefix: Self::Addr, len: u8, leaf: u32) -> Result<Option<u32>, LpmFull>;

    /// Removes the route. Returns its leaf, or `None` when there was no such route.
    fn remove(&mut self, prefix: Self::Addr, len: u8) -> Option<u32>;

    /// The leaf of this very prefix.
    fn exact(&self, prefix: Self::Addr, len: u8) -> Option<u32>;

    /// All routes as (prefix, length, leaf), in no order.
    fn iter(&self) -> impl Iterator<Item = (Self::Addr, u8, u32)>;

    /// How many routes there are.
    fn len(&self) -> usize;

    /// Whether there is no route.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory in use, in bytes.
    fn memory_bytes(&self) -> usize;
}

/// The readers' side of a table of prefixes.
pub trait LpmLookup {
    /// An address, in host byte order.
    type Addr: Address;

    /// The leaf of the longest prefix that covers `addr`; [`NO_ROUTE`] when none does.
    fn lookup(&self, addr: Self::Addr) -> u32;

    /// Says that `addr` is about to be looked up: what is read first comes into the cache meanwhile.
    fn fetch(&self, addr: Self::Addr);

    /// Looks up each of `addrs`; as many as both slices have room for.
    fn lookup_many(&self, addrs: &[Self::Addr], leaves: &mut [u32]) {
        for (addr, leaf) in addrs.iter().zip(leaves) {
            *leaf = self.lookup(*addr);
        }
    }
}
