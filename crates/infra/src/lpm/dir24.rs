//! DIR-24-8 (Gupta, Lin, McKeown: Routing Lookups in Hardware at Memory Access Speeds, INFOCOM 1998): one
//! entry for each /24, and a group of 256 entries for each /24 with longer prefixes.
//!
//! An entry is a leaf, 0, or (with the top bit set) the index of a group. It is 0 if no prefix longer than /8 covers the entry's addresses.
//! Prefixes of up to 8 bits are stored separately, in one leaf for each value of an address's first byte. That leaf applies where the
//! entries are 0. So a change of the widest routes writes at most 256 leaves, not millions of entries. Every change replaces one right
//! answer by another in one store: a group is complete before an entry refers to it, and an entry whose route is removed gets the covering
//! route's leaf. A group to which no entry refers any more is reused only after a grace period, because a reader may still read it.
//!
//! Only the writer needs the lengths of the prefixes that set the entries, so they are in separate arrays.
//! The writer also has a separate map of the routes.

use super::{
    Address, Lpm, LpmFull, LpmLookup, MAX_LEAF, NO_ROUTE, PrefixMap, RouteCount,
    first::{DENSE, First, PER_HUGE, resident},
    wide::{Wide, WideReader},
};
use crate::{
    class_a::Indices,
    mem::{Pages, SMALL, SharedZeroed, Zeroed},
    prefetch,
    quiesce::Domain,
    sync::atomic::{
        AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
};
use std::{io, ops::Range};

/// This bit is set in an entry of the first table if the entry is the index of a group, not a leaf.
const GROUP: u32 = 1 << 31;
/// Number of address bits that select an entry of the first table.
const FIRST: u8 = 24;
/// Maximum length of the prefixes that are stored separately.
const WIDE: u8 = 8;
/// Number of groups in a small page of the second table.
const GROUPS_PER_SMALL: usize = SMALL / (256 * size_of::<u32>());

/// Makes an empty table with room for `groups` groups (at most 2^24). A group is for a /24 that has longer prefixes. The table takes 80
/// MiB of address space and 1,282 bytes per group, but memory only where routes are written. With small pages, the entries take 4 KiB for
/// each block of 1,024 adjacent /24s with routes, and their prefix lengths 4 KiB for each block of 4,096, as long as there are few such
/// blocks.
///
/// # Errors
/// Fails if the kernel refuses the address space.
pub fn dir24(domain: &Domain, groups: u32, pages: Pages) -> io::Result<(Dir24Writer, Dir24Reader)> {
    let groups = groups.min(1 << FIRST);
    let group_entries = groups as usize * 256;
    let (first, wide) = (First::new(pages)?, Wide::new()?);
    let reader = Dir24Reader {
        first: first.entries.clone(),
        wide: wide.reader(),
        second: Zeroed::with_pages(group_entries, pages)?.share(),
        count: RouteCount::default(),
    };
    let writer = Dir24Writer {
        reader: reader.clone(),
        first,
        wide,
        second_len: Zeroed::with_pages(group_entries, Pages::Small)?,
        members: Zeroed::with_pages(groups as usize, Pages::Small)?,
        groups: Indices::new(domain.clone(), groups),
        routes: PrefixMap::new(),
        pages,
    };
    Ok((writer, reader))
}

/// A handle with which readers look up addresses. Cheap to clone.
#[derive(Clone)]
pub struct Dir24Reader {
    /// The first table, with 2^24 entries.
    first: SharedZeroed<AtomicU32>,
    /// Prefixes of up to 8 bits.
    wide: WideReader<WIDE>,
    /// The second table, with 256 entries for each group.
    second: SharedZeroed<AtomicU32>,
    count: RouteCount,
}

impl Dir24Reader {
    /// Returns the leaf for `addr`, given the address's `entry` in the first table. Returns [`NO_ROUTE`] if
    /// no prefix of more than 8 bits covers the address.
    #[inline(always)]
    fn narrow(&self, entry: u32, addr: u32) -> u32 {
        if entry & GROUP == 0 {
            return entry;
        }
        let at = ((entry & !GROUP) as usize) << 8 | (addr & 0xff) as usize;
        // SAFETY: the writer links only groups below the capacity, and `second` has 256 entries for each of
        // them.
        unsafe { self.second.get_unchecked(at) }.load(Acquire)
    }

    /// Returns the leaf for `addr`, given the address's `entry` in the first table.
    #[inline(always)]
    fn resolve(&self, entry: u32, addr: u32) -> u32 {
        match self.narrow(entry, addr) {
            NO_ROUTE => self.wide.settle(addr >> 24, || self.narrow(self.entry(addr), addr)),
            leaf => leaf,
        }
    }

    #[inline(always)]
    fn entry(&self, addr: u32) -> u32 {
        // SAFETY: a shift by 8 leaves 24 bits, and `first` has 2^24 entries.
        unsafe { self.first.get_unchecked((addr >> 8) as usize) }.load(Acquire)
    }
}

impl LpmLookup for Dir24Reader {
    type Addr = u32;

    #[inline(always)]
    fn lookup(&self, addr: u32) -> u32 {
        self.resolve(self.entry(addr), addr)
    }

    #[inline(always)]
    fn routes(&self) -> usize {
        self.count.get()
    }

    #[inline(always)]
    fn fetch(&self, addr: u32) {
        prefetch::read(self.first.as_ptr().wrapping_add((addr >> 8) as usize));
    }

    /// Looks up the addresses in two stages, so that the cache misses in the first table overlap.
    #[inline(always)]
    fn lookup_many(&self, addrs: &[u32], leaves: &mut [u32]) {
        let mut all_leaves = true;
        for (addr, leaf) in addrs.iter().zip(leaves.iter_mut()) {
            *leaf = self.entry(*addr);
            all_leaves &= (1..=MAX_LEAF).contains(leaf);
        }
        if !all_leaves {
            for (addr, leaf) in addrs.iter().zip(leaves) {
                *leaf = self.resolve(*leaf, *addr);
            }
        }
    }
}

/// The only handle with which the table can be changed.
pub struct Dir24Writer {
    reader: Dir24Reader,
    first: First<FIRST>,
    wide: Wide<WIDE>,
    /// For each entry of the second table, the length of the prefix that set it.
    second_len: Zeroed<u8>,
    /// Number of prefixes longer than /24 in each group.
    members: Zeroed<u16>,
    groups: Indices,
    routes: PrefixMap<u32>,
    pages: Pages,
}

impl Dir24Writer {
    /// Returns a handle for another reader.
    pub fn reader(&self) -> Dir24Reader {
        self.reader.clone()
    }

    /// Sets `leaf` and the prefix length `len` in the entries `range` of the first table. If an entry refers
    /// to a group, sets them in the group instead. An entry is changed only if `replaces` returns true for
    /// the length of its present prefix.
    fn paint_first(&mut self, range: Range<usize>, leaf: u32, len: u8, replaces: impl Fn(u8) -> bool + Copy) {
        self.first.touch(range.clone());
        for at in range {
            let entry = self.first.entries[at].load(Relaxed);
            if entry & GROUP != 0 {
                let start = ((entry & !GROUP) as usize) << 8;
                self.paint_second(start..start + 256, leaf, len, replaces);
            } else if replaces(self.first.len[at]) {
                self.first.entries[at].store(leaf, Release);
                self.first.len[at] = len;
            }
        }
    }

    fn paint_second(&mut self, range: Range<usize>, leaf: u32, len: u8, replaces: impl Fn(u8) -> bool) {
        let entries = self.reader.second[range.clone()].iter();
        for (entry, entry_len) in entries.zip(&mut self.second_len[range]) {
            if replaces(*entry_len) {
                entry.store(leaf, Release);
                *entry_len = len;
            }
        }
    }

    /// Adds a new prefix that is longer than /24.
    fn add_long(&mut self, prefix: u32, len: u8, leaf: u32) -> Result<(), LpmFull> {
        let at = (prefix >> 8) as usize;
        let entry = self.first.entries[at].load(Relaxed);
        if entry & GROUP != 0 {
            let group = entry & !GROUP;
            self.members[group as usize] += 1;
            self.paint_second(within(group, prefix, len), leaf, len, |old| old <= len);
            return Ok(());
        }
        let group = self.groups.take().map_err(|full| LpmFull::Groups(full.capacity))?;
        self.members[group as usize] = 1;
        self.first.touch(at..at + 1);
        // New groups are numbered in ascending order, so a group at the start of a page is the first one in
        // this page.
        let page = group as usize / GROUPS_PER_SMALL;
        if (group as usize).is_multiple_of(GROUPS_PER_SMALL)
            && page % PER_HUGE == DENSE - 1
            && self.pages == Pages::Small
        {
            self.reader.second.make_huge(page / PER_HUGE);
        }
        let start = (group as usize) << 8;
        self.paint_second(start..start + 256, entry, self.first.len[at], |_| true);
        self.paint_second(within(group, prefix, len), leaf, len, |_| true);
        // The group is complete, so it can be linked.
        self.first.entries[at].store(GROUP | group, Release);
        Ok(())
    }

    /// Removes a prefix that is longer than /24. Its entries get the leaf `cover` of the next shorter prefix,
    /// whose length is `cover_len`.
    fn remove_long(&mut self, prefix: u32, len: u8, cover: u32, cover_len: u8) {
        let at = (prefix >> 8) as usize;
        let entry = self.first.entries[at].load(Relaxed);
        let group = entry & !GROUP;
        self.members[group as usize] -= 1;
        if self.members[group as usize] > 0 {
            self.paint_second(within(group, prefix, len), cover, cover_len, |old| old == len);
            return;
        }
        // This was the group's last prefix, so `cover` now applies to the whole /24.
        self.first.len[at] = cover_len;
        self.first.entries[at].store(cover, Release);
        self.groups.release(group);
    }
}

/// For a prefix longer than /24, returns the indices of its entries in the second table. `group` is the
/// number of its /24's group.
fn within(group: u32, prefix: u32, len: u8) -> Range<usize> {
    let start = (group as usize) << 8 | (prefix & 0xff) as usize;
    start..start + (1 << (32 - len))
}

/// Returns the range of the values that the first byte can have in addresses of a prefix of up to 8 bits.
fn bytes(prefix: u32, len: u8) -> Range<usize> {
    let start = (prefix >> 24) as usize;
    start..start + (1 << (WIDE - len))
}

/// For a prefix of 9 to 24 bits, returns the indices of its entries in the first table.
fn covered(prefix: u32, len: u8) -> Range<usize> {
    let start = (prefix >> 8) as usize;
    start..start + (1 << (24 - len))
}

impl Lpm for Dir24Writer {
    type Addr = u32;

    fn insert(&mut self, prefix: u32, len: u8, leaf: u32) -> Result<Option<u32>, LpmFull> {
        let (prefix, len) = prefix.canonical(len);
        if leaf == NO_ROUTE || leaf > MAX_LEAF {
            return Err(LpmFull::Leaf(leaf));
        }
        self.routes.make_room(prefix, len)?;
        let old = self.routes.get(prefix, len);
        match len {
            0..=WIDE => self.wide.paint(bytes(prefix, len), leaf, len, |old| old <= len),
            9..=24 => self.paint_first(covered(prefix, len), leaf, len, |old| old <= len),
            _ if old.is_none() => self.add_long(prefix, len, leaf)?,
            _ => {
                let group = self.first.entries[(prefix >> 8) as usize].load(Relaxed) & !GROUP;
                self.paint_second(within(group, prefix, len), leaf, len, |old| old == len);
            }
        }
        self.routes.insert(prefix, len, leaf);
        self.reader.count.set(self.routes.len());
        Ok(old)
    }

    fn remove(&mut self, prefix: u32, len: u8) -> Option<u32> {
        let (prefix, len) = prefix.canonical(len);
        let old = self.routes.remove(prefix, len)?;
        self.reader.count.set(self.routes.len());
        // If no prefix of more than 8 bits covers this one, the entry is 0 and the leaf of the first byte
        // applies.
        let least = if len > WIDE { WIDE + 1 } else { 0 };
        let (cover, cover_len) = self.routes.cover(prefix, len, least).unwrap_or((NO_ROUTE, 0));
        match len {
            0..=WIDE => self.wide.paint(bytes(prefix, len), cover, cover_len, |old| old == len),
            9..=24 => self.paint_first(covered(prefix, len), cover, cover_len, |old| old == len),
            _ => self.remove_long(prefix, len, cover, cover_len),
        }
        Some(old)
    }

    fn exact(&self, prefix: u32, len: u8) -> Option<u32> {
        let (prefix, len) = prefix.canonical(len);
        self.routes.get(prefix, len)
    }

    fn iter(&self) -> impl Iterator<Item = (u32, u8, u32)> {
        self.routes.iter()
    }

    fn len(&self) -> usize {
        self.routes.len()
    }

    fn memory_bytes(&self) -> usize {
        let groups = self.groups.end() as usize;
        let group_pages = groups.div_ceil(GROUPS_PER_SMALL);
        let of_groups = (0..group_pages).step_by(PER_HUGE).map(|first| (group_pages - first).min(PER_HUGE));
        let second = resident(self.pages, of_groups) + (groups * 256).next_multiple_of(SMALL);
        let members = (groups * 2).next_multiple_of(SMALL);
        self.first.memory_bytes() + self.wide.memory_bytes() + second + members + self.routes.memory_bytes()
    }
}
