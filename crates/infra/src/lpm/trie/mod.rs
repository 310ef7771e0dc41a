//! A trie for IPv6 of two kinds of nodes: lists, where prefixes are few, and tables of a byte, where they are many.
//!
//! The first 24 bits of an address choose an entry of a table that is in memory only where there are routes. An entry is a leaf, or leads to
//! a node (`node.rs`), and so do the node's entries. On its way a lookup remembers the last leaf that it met as the default of
//! a node; that is the answer where no longer prefix is found. Prefixes of up to [`WIDE`] bits lie beside the table (`wide.rs`).
//!
//! A node that readers can find never changes, but for the default of one that hangs on the first table. Whoever
//! adds or removes a route makes new nodes from the changed one up to the first table, and puts the
//! uppermost there by one store; what hangs below is shared with the old ones. So a reader, wherever it is, looks at the table of one moment: a default that it
//! remembers and an entry that it reads later belong together. The nodes that were replaced are used again after a
//! grace period.
//!
//! No change repaints what lies below a prefix: it reaches the 256 entries of a table, the intervals of a list, or 2,048 entries of the first
//! table, and the defaults of the nodes there.

mod build;
mod node;
mod pool;
#[cfg(all(test, not(any(loom, miri))))]
mod tests;
mod writer;

pub use writer::TrieWriter;

use super::{Address, LpmLookup, NO_ROUTE, first, wide::WideReader};
use crate::{
    mem::SharedZeroed,
    quiesce::Domain,
    sync::atomic::{AtomicU32, Ordering::Acquire},
};
use node::{CHILD, Nodes, Step, TABLE};

const TABLE_BIT: u32 = TABLE.trailing_zeros();
use std::io;

/// Length of the longest prefix that lies beside the table.
const WIDE: u8 = 12;
/// More nodes than there can be one below the other: two lists for each byte of an address behind the first three.
const DEEPEST: usize = 32;
/// So many addresses are looked up at a time.
const VECTOR: usize = 256;

/// Makes an empty table. It takes 2.1 GiB of address space, but memory only for routes.
///
/// # Errors
/// When the kernel refuses the address space.
pub fn trie(domain: &Domain) -> io::Result<(TrieWriter, TrieReader)> {
    let writer = TrieWriter::new(domain, u32::MAX)?;
    let reader = writer.reader();
    Ok((writer, reader))
}

/// A handle to look up addresses; cheap to clone.
#[derive(Clone)]
pub struct TrieReader {
    /// [`first::ENTRIES`] entries.
    first: SharedZeroed<AtomicU32>,
    nodes: Nodes,
    /// Prefixes of up to [`WIDE`] bits.
    wide: WideReader<WIDE>,
}

impl TrieReader {
    #[inline(always)]
    fn entry(&self, addr: u128) -> u32 {
        // SAFETY: a shift by all but 24 bits leaves 24, and `first` has 2^24 entries.
        unsafe { self.first.get_unchecked((addr >> (u128::BITS - u32::from(first::BITS))) as usize) }
            .load(Acquire)
    }

    /// TEMP
    pub fn path(&self, addr: u128) -> String {
        let mut entry = self.entry(addr);
        let mut p = String::new();
        while entry & CHILD != 0 {
            let is_table = entry & TABLE != 0;
            p.push(if is_table { 't' } else { 'l' });
            entry =
                if is_table { self.nodes.in_table(entry, &addr) } else { self.nodes.in_list(entry, &addr) }
                    .entry;
        }
        p
    }

    /// The leaf of the longest prefix of more than [`WIDE`] bits.
    fn narrow(&self, addr: u128) -> u32 {
        let (mut entry, mut best) = (self.entry(addr), NO_ROUTE);
        for _ in 0..DEEPEST {
            if entry & CHILD == 0 {
                break;
            }
            let step = if entry & TABLE == 0 {
                self.nodes.in_list(entry, &addr)
            } else {
                self.nodes.in_table(entry, &addr)
            };
            best = better(best, step.default);
            entry = step.entry;
        }
        if entry & CHILD == 0 { better(best, entry) } else { best }
    }

    /// What there is to say when no prefix of more than [`WIDE`] bits covers the address.
    #[cold]
    fn settle(&self, addr: u128) -> u32 {
        self.wide.settle(addr.bits(0, WIDE), || self.narrow(addr))
    }

    #[inline(always)]
    fn vector(&self, addrs: &[u128], leaves: &mut [u32]) {
        let n = addrs.len().min(leaves.len()).min(VECTOR);
        let (addrs, leaves) = (&addrs[..n], &mut leaves[..n]);
        // The node that each address comes to next; and which addresses wait for a list, and which for a table.
        let mut nodes = [0u32; VECTOR];
        let (mut lists, mut tables) = ([0u8; VECTOR + 1], [0u8; VECTOR + 1]);
        let (mut n_lists, mut n_tables) = (0usize, 0usize);
        for i in 0..n {
            let entry = self.entry(addrs[i]);
            let child = child(entry);
            leaves[i] = entry & !child;
            nodes[i] = entry;
            self.nodes.fetch(entry & child);
            lists[n_lists] = i as u8;
            tables[n_tables] = i as u8;
            let is_child = child & 1;
            let is_table = is_child & entry >> TABLE_BIT;
            n_lists += (is_child ^ is_table) as usize;
            n_tables += is_table as usize;
        }
        for _ in 0..DEEPEST {
            if n_lists + n_tables == 0 {
                break;
            }
            macro_rules! round {
                ($from:ident, $n:ident, $step:ident) => {
                    for at in 0..std::mem::take(&mut $n) {
                        // SAFETY: only numbers of addresses wait, each in one place, and there is one place more than addresses.
                        unsafe {
                            let i = usize::from(*$from.get_unchecked(at));
                            let Step { default, entry } = self.nodes.$step(nodes[i], addrs.get_unchecked(i));
                            let child = child(entry);
                            let leaf = leaves.get_unchecked_mut(i);
                            *leaf = better(better(*leaf, default), entry & !child);
                            nodes[i] = entry;
                            self.nodes.fetch(entry & child);
                            *lists.get_unchecked_mut(n_lists) = i as u8;
                            *tables.get_unchecked_mut(n_tables) = i as u8;
                            let is_child = child & 1;
                            let is_table = is_child & entry >> TABLE_BIT;
                            n_lists += (is_child ^ is_table) as usize;
                            n_tables += is_table as usize;
                        }
                    }
                };
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

/// All ones if the entry is a child, else zeros.
#[inline(always)]
fn child(entry: u32) -> u32 {
    (entry as i32 >> 31) as u32
}

/// The second if it is a leaf, else the first. Which of them, nobody can foretell: a branch would often be wrong.
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

    /// All addresses advance by a node at a time, so that the misses of many overlap.
    fn lookup_many(&self, addrs: &[u128], leaves: &mut [u32]) {
        for (addrs, leaves) in addrs.chunks(VECTOR).zip(leaves.chunks_mut(VECTOR)) {
            self.vector(addrs, leaves);
        }
    }
}
