//! A trie for IPv6 with two kinds of nodes: lists where prefixes are sparse, and tables for one byte of the address where prefixes are
//! dense.
//!
//! The first 32 bits of an address select an entry of the first table, of which only the parts with routes take memory. An entry is a leaf,
//! or leads to a node (`node.rs`), whose entries again are leaves or lead to nodes. Each node has a default, the leaf of a shorter prefix.
//! A lookup remembers the last default that it has found. This default is the result if the lookup finds no longer prefix. Prefixes of up
//! to [`WIDEST`] bits, and longer ones of up to [`WIDE`] bits, are stored separately from the first table and from each other (`wide.rs`).
//!
//! The intervals of a published list never change. To add or remove a route, the writer builds a new list, or a new line of a two-level
//! list, and publishes it with one store into the entry that leads to it. If only the contents of an interval change, one store into the
//! interval's entry is enough. Replaced memory is reused after a grace period.
//!
//! The default that a reader remembers must be consistent with an entry that the reader reads later. If a new default is set, and then a
//! longer route below it is removed, no reader may find the old default and miss the longer route. For this, it is enough that no entry
//! below a changed default changes while a reader may remember the old default. So until all readers have passed the change of a default,
//! the writer does not change entries of nodes in place: all nodes above a new node are new as well, up to the first table. A reader that
//! starts there sees consistent nodes.
//!
//! No change rewrites everything below a prefix. It affects at most the 256 entries of a table, the intervals of a list, 2,048 entries of
//! the first table, or 4,096 leaves of the widest prefixes, and the defaults of the nodes to which these lead.

mod below;
mod build;
mod change;
mod cut;
mod list;
mod node;
#[cfg(all(test, feature = "loom"))]
mod one_list;
mod pool;
mod runs;
mod store;
#[cfg(all(test, not(any(feature = "loom", miri))))]
mod tests;
mod writer;

#[cfg(all(test, feature = "loom"))]
pub use one_list::{OneList, OneListReader};
pub use writer::TrieWriter;

use super::{Address, LpmLookup, NO_ROUTE, RouteCount, wide::WideReader};
use crate::{
    mem::SharedZeroed,
    prefetch,
    quiesce::Domain,
    sync::atomic::{AtomicU32, Ordering::Acquire},
};
use node::{CHILD, Nodes, Step, TABLE, child};
use std::io;

/// Number of address bits that select an entry of the first table.
const FIRST: u8 = 32;
/// Maximum length of the prefixes that are stored separately from the first table.
const WIDE: u8 = 20;
/// Maximum length of the widest prefixes, which are stored separately from the first table and from the other wide prefixes.
const WIDEST: u8 = 12;
/// Upper bound of the number of nodes on the path of an address. A path has at most two nodes for each of the 12 bytes after the first
/// table; the rest is a margin.
const DEEPEST: usize = 32;
/// Number of addresses that are looked up together.
const VECTOR: usize = 256;

/// Makes an empty table. It takes 22 GiB of address space, but memory only where there are routes.
///
/// # Errors
/// Fails if the kernel refuses the address space.
pub fn trie(domain: &Domain) -> io::Result<(TrieWriter, TrieReader)> {
    let writer = TrieWriter::new(domain, u32::MAX)?;
    let reader = writer.reader();
    Ok((writer, reader))
}

/// A handle with which readers look up addresses. Cheap to clone.
#[derive(Clone)]
pub struct TrieReader {
    /// The first table, with 2^[`FIRST`] entries.
    first: SharedZeroed<AtomicU32>,
    nodes: Nodes,
    /// Prefixes of more than [`WIDEST`] and at most [`WIDE`] bits.
    wide: WideReader<WIDE>,
    /// Prefixes of up to [`WIDEST`] bits.
    widest: WideReader<WIDEST>,
    count: RouteCount,
}

impl TrieReader {
    #[inline(always)]
    fn entry(&self, addr: u128) -> u32 {
        // SAFETY: a shift by all but 32 bits leaves 32, and `first` has 2^32 entries.
        unsafe { self.first.get_unchecked((addr >> (u128::BITS - u32::from(FIRST))) as usize) }.load(Acquire)
    }

    /// Prefetches the first node for an address. Returns the entry that leads to this node.
    fn fetch_node(&self, addr: u128) -> u32 {
        let entry = self.entry(addr);
        self.nodes.fetch(entry, &addr);
        entry
    }

    /// Prefetches the node that follows the node of `entry` on the path of an address.
    fn fetch_below(&self, entry: u32, addr: u128) {
        if entry & CHILD != 0 {
            self.nodes.fetch(self.nodes.in_child(entry, &addr).entry, &addr);
        }
    }

    /// Returns the leaf of the longest prefix of more than [`WIDE`] bits that covers the address; [`NO_ROUTE`] if there is none.
    fn narrow(&self, addr: u128) -> u32 {
        let (mut entry, mut best) = (self.entry(addr), NO_ROUTE);
        for _ in 0..DEEPEST {
            if entry & CHILD == 0 {
                break;
            }
            let step = self.nodes.in_child(entry, &addr);
            best = better(best, step.default);
            entry = step.entry;
        }
        if entry & CHILD == 0 { better(best, entry) } else { best }
    }

    /// Returns the leaf for an address that no prefix of more than [`WIDE`] bits covers.
    #[cold]
    fn settle(&self, addr: u128) -> u32 {
        let wide = || self.wide.settle(addr.bits(0, WIDE), || self.narrow(addr));
        self.widest.settle(addr.bits(0, WIDEST), wide)
    }

    /// Looks up the addresses, at most [`VECTOR`] of them.
    #[inline(always)]
    fn vector(&self, addrs: &[u128], leaves: &mut [u32]) {
        let n = addrs.len().min(leaves.len()).min(VECTOR);
        let (addrs, leaves) = (&addrs[..n], &mut leaves[..n]);
        // Addresses waiting for a list, and addresses waiting for a table: the number of the address, and the
        // child.
        let (mut lists, mut tables) = ([0u64; VECTOR + 1], [0u64; VECTOR + 1]);
        let (mut n_lists, mut n_tables) = (0usize, 0usize);
        // The address and its next node are written to both arrays, but only one of the two indexes advances: that of the array in which
        // the address waits.
        macro_rules! go_on {
            ($i:expr, $entry:expr, $addr:expr) => {
                self.nodes.fetch($entry, $addr);
                let waits = ($i as u64) << 32 | u64::from($entry);
                // SAFETY: each index was advanced once per waiting address, so at most once per address, and
                // there is one slot more than addresses in a vector.
                unsafe {
                    *lists.get_unchecked_mut(n_lists) = waits;
                    *tables.get_unchecked_mut(n_tables) = waits;
                }
                n_tables += usize::from($entry >= CHILD | TABLE);
                n_lists += usize::from($entry >> TABLE.trailing_zeros() == CHILD >> TABLE.trailing_zeros());
            };
        }
        macro_rules! round {
            ($from:ident, $n:ident, $step:ident) => {
                for at in 0..std::mem::take(&mut $n) {
                    // SAFETY: at least this many addresses wait in the array.
                    let waits = unsafe { *$from.get_unchecked(at) };
                    let i = (waits >> 32) as usize;
                    // SAFETY: every waiting item holds the number of one of the addresses, and there are as
                    // many leaves.
                    let (addr, leaf) = unsafe { (addrs.get_unchecked(i), leaves.get_unchecked_mut(i)) };
                    let Step { default, entry } = self.nodes.$step(waits as u32, addr);
                    *leaf = better(better(*leaf, default), entry & !child(entry));
                    go_on!(i, entry, addr);
                }
            };
        }
        let mut any = 0;
        for (addr, leaf) in addrs.iter().zip(leaves.iter_mut()) {
            *leaf = self.entry(*addr);
            any |= *leaf;
        }
        // Without a child, the entries are the leaves: no address waits.
        if any & CHILD != 0 {
            for (i, (addr, leaf)) in addrs.iter().zip(leaves.iter_mut()).enumerate() {
                let entry = *leaf;
                *leaf = entry & !child(entry);
                go_on!(i, entry, addr);
            }
        }
        for _ in 0..DEEPEST {
            if n_lists + n_tables == 0 {
                break;
            }
            round!(tables, n_tables, in_table);
            round!(lists, n_lists, in_list);
        }
        for (addr, leaf) in addrs.iter().zip(leaves.iter_mut()) {
            if *leaf == NO_ROUTE {
                *leaf = self.settle(*addr);
            }
        }
    }
}

/// Returns `longer`, or `leaf` if `longer` is [`NO_ROUTE`]. It avoids a branch, which would often be mispredicted.
#[inline(always)]
fn better(leaf: u32, longer: u32) -> u32 {
    std::hint::select_unpredictable(longer == NO_ROUTE, leaf, longer)
}

impl LpmLookup for TrieReader {
    type Addr = u128;

    #[inline(always)]
    fn lookup(&self, addr: u128) -> u32 {
        match self.narrow(addr) {
            NO_ROUTE => self.settle(addr),
            leaf => leaf,
        }
    }

    #[inline(always)]
    fn routes(&self) -> usize {
        self.count.get()
    }

    #[inline(always)]
    fn fetch(&self, addr: u128) {
        prefetch::read(self.first.as_ptr().wrapping_add((addr >> (u128::BITS - u32::from(FIRST))) as usize));
    }

    /// All addresses advance by one node at a time, so that the cache misses of many lookups overlap.
    fn lookup_many(&self, addrs: &[u128], leaves: &mut [u32]) {
        for (addrs, leaves) in addrs.chunks(VECTOR).zip(leaves.chunks_mut(VECTOR)) {
            self.vector(addrs, leaves);
        }
    }
}
