//! Longest-prefix match: finds the leaf for an address. A leaf is the index of a forwarding object.
//!
//! A table has one writer and any number of readers. Readers take no locks and need no guard, because the
//! memory never moves. A reader should still be in a section of the table's quiescence domain during the
//! lookup and while it uses the leaf. Otherwise the leaf may belong to a route that has been removed in the
//! meantime.

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
use std::sync::Arc;
// Not of `sync`: readers use the number for nothing that must be consistent with the table.
use std::sync::atomic::{AtomicUsize, Ordering};

/// The result of a lookup if no route covers the address.
pub const NO_ROUTE: u32 = 0;

/// The largest leaf. Tables need the remaining bit of a 32-bit word for themselves.
pub const MAX_LEAF: u32 = (1 << 31) - 1;

/// The number of routes of a table, as the writer tells it to the readers.
#[derive(Clone, Default)]
struct RouteCount(Arc<AtomicUsize>);

impl RouteCount {
    fn set(&self, routes: usize) {
        self.0.store(routes, Ordering::Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The reason why a route was not added. The table is then unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LpmFull {
    /// All groups for prefixes longer than 24 bits are in use, or readers may still use them. The field is the number of groups.
    Groups(u32),
    /// The machine or a control group has no more memory.
    Memory,
    /// All blocks in the table's address range are in use, or readers may still use them.
    Blocks,
    /// This leaf is 0 or greater than [`MAX_LEAF`].
    Leaf(u32),
}

impl fmt::Display for LpmFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Groups(n) => write!(f, "all {n} groups for prefixes longer than /24 are in use"),
            Self::Memory => f.write_str("out of memory"),
            Self::Blocks => f.write_str("all memory blocks of the lookup table are in use"),
            Self::Leaf(leaf) => write!(f, "forwarding index {leaf} is out of range (1 to {MAX_LEAF})"),
        }
    }
}

impl std::error::Error for LpmFull {}

/// The writer's side of a table of prefixes. The host bits of a prefix are ignored. A length that is greater
/// than the address length counts as the address length.
pub trait Lpm {
    /// An address, in host byte order.
    type Addr: Address;

    /// Adds the route, or changes its leaf. Returns the previous leaf, if there was one.
    ///
    /// # Errors
    /// Fails if the table has no room or the leaf is out of range. Then nothing has changed.
    fn insert(&mut self, prefix: Self::Addr, len: u8, leaf: u32) -> Result<Option<u32>, LpmFull>;

    /// Removes the route. Returns the leaf of the route, or `None` if there was no such route. The trie also returns `None` if it has no
    /// memory for the change; the route then stays.
    fn remove(&mut self, prefix: Self::Addr, len: u8) -> Option<u32>;

    /// Returns the leaf of exactly this prefix, if there is such a route.
    fn exact(&self, prefix: Self::Addr, len: u8) -> Option<u32>;

    /// Returns all routes as (prefix, length, leaf), in no particular order.
    fn iter(&self) -> impl Iterator<Item = (Self::Addr, u8, u32)>;

    /// Number of routes.
    fn len(&self) -> usize;

    /// True if there are no routes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of bytes of memory in use.
    fn memory_bytes(&self) -> usize;
}

/// The readers' side of a table of prefixes.
pub trait LpmLookup {
    /// An address, in host byte order.
    type Addr: Address;

    /// Returns the leaf of the longest prefix that covers `addr`; [`NO_ROUTE`] if there is none.
    fn lookup(&self, addr: Self::Addr) -> u32;

    /// Returns the number of routes, or the number of a moment ago. It shows how well the table fits into caches.
    fn routes(&self) -> usize;

    /// Prefetches the first memory that a lookup of `addr` will read.
    fn fetch(&self, addr: Self::Addr);

    /// Looks up each of `addrs`, and writes the results to `leaves`. If the slices have different lengths,
    /// the shorter one counts.
    fn lookup_many(&self, addrs: &[Self::Addr], leaves: &mut [u32]) {
        for (addr, leaf) in addrs.iter().zip(leaves) {
            *leaf = self.lookup(*addr);
        }
    }
}
