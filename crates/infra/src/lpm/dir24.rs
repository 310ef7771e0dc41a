//! DIR-24-8 (Gupta, Lin, McKeown: Routing Lookups in Hardware at Memory Access Speeds, INFOCOM 1998): one entry
//! for each /24, and for a /24 with longer prefixes in it a group of 256 entries.
//!
//! An entry is a leaf, 0 where no prefix longer than /8 covers it, or, with its top bit set, the index of a
//! group. Prefixes of up to 8 bits lie beside the entries, in one leaf for each value of an address's first byte: where
//! the entries say 0, it decides. So the widest routes change 256 leaves, not millions of entries.
//! Every change of an entry goes from one right answer to another, in one store: a group is complete before it
//! is linked, and an entry whose route goes away gets the covering route's leaf in its place. A group that is no
//! longer linked is used again only after a grace period, because a reader may still be on its way to it.
//!
//! What length the prefix behind an entry has is the writer's business and lies in arrays of its own, as do the
//! routes themselves.

use super::{Address, Lpm, LpmFull, LpmLookup, MAX_LEAF, NO_ROUTE, PrefixMap};
use crate::{
    class_a::Indices,
    mem::{HUGE, Pages, SMALL, SharedZeroed, Zeroed},
    quiesce::Domain,
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};
use std::{io, ops::Range};

/// Set in an entry of the first table that holds the index of a group.
const GROUP: u32 = 1 << 31;
/// Entries of the first table, one for each /24.
const ENTRIES: usize = 1 << 24;
/// Values of an address's first byte, each with a leaf for prefixes that are no longer.
const WIDE: usize = 256;
/// Length of the longest prefix that lies there.
const WIDE_LEN: u8 = 8;
/// Entries of the first table in a small page.
const PER_SMALL: usize = SMALL / size_of::<u32>();
/// Small pages in a huge one.
const PER_HUGE: usize = HUGE / SMALL;
/// Of 512 small pages so many are written to when one huge page is worth its memory.
const DENSE: usize = 64;
/// Groups in a small page of the second table.
const GROUPS_PER_SMALL: usize = SMALL / (256 * size_of::<u32>());

/// Makes an empty table with room for `groups` /24s that have longer prefixes in them (at most 2^24). It takes 80 MiB of
/// address space and 1,282 bytes a group, but memory only as routes touch it: with small pages, 4 KiB for each 1,024
/// neighbouring /24s that have routes, as long as there are few of them.
///
/// # Errors
/// When the kernel refuses the address space.
pub fn dir24(domain: &Domain, groups: u32, pages: Pages) -> io::Result<(Dir24Writer, Dir24Reader)> {
    let groups = groups.min(ENTRIES as u32);
    let group_entries = groups as usize * 256;
    let reader = Dir24Reader {
        first: Zeroed::with_pages(ENTRIES, pages)?.share(),
        wide: Zeroed::with_pages(WIDE, Pages::Small)?.share(),
        second: Zeroed::with_pages(group_entries, pages)?.share(),
    };
    let writer = Dir24Writer {
        reader: reader.clone(),
        first_len: Zeroed::with_pages(ENTRIES, Pages::Small)?,
        wide_len: [0; WIDE],
        second_len: Zeroed::with_pages(group_entries, Pages::Small)?,
        members: Zeroed::with_pages(groups as usize, Pages::Small)?,
        groups: Indices::new(domain.clone(), groups),
        routes: PrefixMap::new(),
        touched: Touched::new(),
        pages,
    };
    Ok((writer, reader))
}

/// The small pages of the first table that were written to.
struct Touched(Box<[[u64; PER_HUGE / 64]; ENTRIES / PER_SMALL / PER_HUGE]>);

impl Touched {
    fn new() -> Touched {
        Touched(Box::new([[0; PER_HUGE / 64]; ENTRIES / PER_SMALL / PER_HUGE]))
    }

    /// Notes a page; gives how many there are now in its huge page if it is a new one.
    fn note(&mut self, page: usize) -> Option<usize> {
        let huge = &mut self.0[page / PER_HUGE];
        let (word, bit) = (&mut huge[page % PER_HUGE / 64], 1 << (page % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new.then(|| count(huge))
    }

    /// How many there are in each huge page.
    fn counts(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|huge| count(huge))
    }

    /// Pages of the array of lengths, which has a byte for each entry: one for four pages of entries.
    fn of_lengths(&self) -> usize {
        let quarters = |word: u64| (0..64).step_by(4).filter(|at| word >> at & 0xf != 0).count();
        self.0.as_flattened().iter().map(|word| quarters(*word)).sum()
    }
}

fn count(words: &[u64]) -> usize {
    words.iter().map(|w| w.count_ones() as usize).sum()
}

/// A handle to look up addresses; cheap to clone.
#[derive(Clone)]
pub struct Dir24Reader {
    /// [`ENTRIES`] entries.
    first: SharedZeroed<AtomicU32>,
    /// The leaf of prefixes of up to 8 bits for each first byte; in the upper half, how often it has changed.
    wide: SharedZeroed<AtomicU64>,
    /// 256 entries for each group.
    second: SharedZeroed<AtomicU32>,
}

impl Dir24Reader {
    /// The leaf that an entry of the first table means for `addr`; [`NO_ROUTE`] where no prefix of more than 8 bits does.
    #[inline(always)]
    fn narrow(&self, entry: u32, addr: u32) -> u32 {
        if entry & GROUP == 0 {
            return entry;
        }
        let at = ((entry & !GROUP) as usize) << 8 | (addr & 0xff) as usize;
        // SAFETY: the writer links only groups below the capacity, for which `second` has 256 entries each.
        unsafe { self.second.get_unchecked(at) }.load(Acquire)
    }

    /// What an entry of the first table means for `addr`.
    #[inline(always)]
    fn resolve(&self, mut entry: u32, addr: u32) -> u32 {
        loop {
            let leaf = self.narrow(entry, addr);
            if leaf != NO_ROUTE {
                return leaf;
            }
            let wide = self.wide(addr);
            // A longer route may have come before the wide one went, and may have gone again since: two answers of
            // different times are none of the table's. There was no longer route at a time when the wide one was this
            // very one, and no other came and went in between, or its number of changes would tell.
            entry = self.entry(addr);
            if self.narrow(entry, addr) == NO_ROUTE && self.wide(addr) == wide {
                return wide as u32;
            }
        }
    }

    #[inline(always)]
    fn wide(&self, addr: u32) -> u64 {
        // SAFETY: a shift by 24 leaves 8 bits, and `wide` has 256 words.
        unsafe { self.wide.get_unchecked((addr >> 24) as usize) }.load(Acquire)
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

    /// In two stages, so that the misses in the first table overlap.
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

/// The one handle that may change the table.
pub struct Dir24Writer {
    reader: Dir24Reader,
    /// Length of the prefix behind each entry of the first table that is no group; 0 where the entry is 0.
    first_len: Zeroed<u8>,
    /// Length of the prefix behind the leaf of each first byte.
    wide_len: [u8; WIDE],
    /// The same for the second table.
    second_len: Zeroed<u8>,
    /// How many prefixes longer than /24 each group holds.
    members: Zeroed<u16>,
    groups: Indices,
    routes: PrefixMap<u32>,
    touched: Touched,
    pages: Pages,
}

impl Dir24Writer {
    /// Another handle for readers.
    pub fn reader(&self) -> Dir24Reader {
        self.reader.clone()
    }

    /// Notes that an entry of the first table is written to.
    fn touch(&mut self, page: usize) {
        if self.touched.note(page) == Some(DENSE) && self.pages == Pages::Small {
            self.reader.first.make_huge(page / PER_HUGE);
        }
    }

    /// Bytes in memory of either table of entries whose small pages, so many in each huge page, were written to.
    fn resident(&self, touched: impl Iterator<Item = usize>) -> usize {
        let is_huge = |n: usize| if self.pages == Pages::Huge { n > 0 } else { n >= DENSE };
        touched.map(|n| if is_huge(n) { HUGE } else { n * SMALL }).sum()
    }

    /// Gives `leaf` to the entries of the first table in `range`, and of groups linked there, whose present
    /// prefix `replaces` says to give way, and notes `len` as the new prefix's length.
    fn paint_first(&mut self, range: Range<usize>, leaf: u32, len: u8, replaces: impl Fn(u8) -> bool + Copy) {
        for page in range.start / PER_SMALL..range.end.div_ceil(PER_SMALL) {
            self.touch(page);
        }
        for at in range {
            let entry = self.reader.first[at].load(Relaxed);
            if entry & GROUP != 0 {
                let start = ((entry & !GROUP) as usize) << 8;
                self.paint_second(start..start + 256, leaf, len, replaces);
            } else if replaces(self.first_len[at]) {
                self.reader.first[at].store(leaf, Release);
                self.first_len[at] = len;
            }
        }
    }

    /// The same for a prefix of up to 8 bits.
    fn paint_wide(&mut self, prefix: u32, len: u8, leaf: u32, leaf_len: u8, replaces: impl Fn(u8) -> bool) {
        let start = (prefix >> 24) as usize;
        for byte in start..start + (1 << (WIDE_LEN - len)) {
            if replaces(self.wide_len[byte]) {
                let wide = &self.reader.wide[byte];
                let changes = (wide.load(Relaxed) >> 32).wrapping_add(1);
                wide.store(changes << 32 | u64::from(leaf), Release);
                self.wide_len[byte] = leaf_len;
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

    /// Adds a prefix longer than /24 that was not there.
    fn add_long(&mut self, prefix: u32, len: u8, leaf: u32) -> Result<(), LpmFull> {
        let at = (prefix >> 8) as usize;
        let entry = self.reader.first[at].load(Relaxed);
        if entry & GROUP != 0 {
            let group = entry & !GROUP;
            self.members[group as usize] += 1;
            self.paint_second(within(group, prefix, len), leaf, len, |old| old <= len);
            return Ok(());
        }
        let group = self.groups.take().map_err(|full| LpmFull::Groups(full.capacity))?;
        self.members[group as usize] = 1;
        self.touch(at / PER_SMALL);
        // Groups are taken from the lowest on: this one begins the last page that it takes.
        let page = group as usize / GROUPS_PER_SMALL;
        if (group as usize).is_multiple_of(GROUPS_PER_SMALL)
            && page % PER_HUGE == DENSE - 1
            && self.pages == Pages::Small
        {
            self.reader.second.make_huge(page / PER_HUGE);
        }
        let start = (group as usize) << 8;
        self.paint_second(start..start + 256, entry, self.first_len[at], |_| true);
        self.paint_second(within(group, prefix, len), leaf, len, |_| true);
        // The group is complete: readers may come.
        self.reader.first[at].store(GROUP | group, Release);
        Ok(())
    }

    /// Takes away a prefix longer than /24; `cover` and its length stand behind it.
    fn remove_long(&mut self, prefix: u32, len: u8, cover: u32, cover_len: u8) {
        let at = (prefix >> 8) as usize;
        let entry = self.reader.first[at].load(Relaxed);
        let group = entry & !GROUP;
        self.members[group as usize] -= 1;
        if self.members[group as usize] > 0 {
            self.paint_second(within(group, prefix, len), cover, cover_len, |old| old == len);
            return;
        }
        // The last one: what is left is the one route that covers the whole /24, which is this one's cover.
        self.first_len[at] = cover_len;
        self.reader.first[at].store(cover, Release);
        self.groups.release(group);
    }
}

/// The entries of `group` that a prefix longer than /24 covers.
fn within(group: u32, prefix: u32, len: u8) -> Range<usize> {
    let start = (group as usize) << 8 | (prefix & 0xff) as usize;
    start..start + (1 << (32 - len))
}

/// The entries of the first table that a prefix of 9 to 24 bits covers.
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
            0..=WIDE_LEN => self.paint_wide(prefix, len, leaf, len, |old| old <= len),
            9..=24 => self.paint_first(covered(prefix, len), leaf, len, |old| old <= len),
            _ if old.is_none() => self.add_long(prefix, len, leaf)?,
            _ => {
                let group = self.reader.first[(prefix >> 8) as usize].load(Relaxed) & !GROUP;
                self.paint_second(within(group, prefix, len), leaf, len, |old| old == len);
            }
        }
        self.routes.insert(prefix, len, leaf);
        Ok(old)
    }

    fn remove(&mut self, prefix: u32, len: u8) -> Option<u32> {
        let (prefix, len) = prefix.canonical(len);
        let old = self.routes.remove(prefix, len)?;
        // Where no prefix of more than 8 bits covers this one, an entry says nothing: the leaf of the first byte does.
        let least = if len > WIDE_LEN { WIDE_LEN + 1 } else { 0 };
        let (cover, cover_len) = self.routes.cover(prefix, len, least).unwrap_or((NO_ROUTE, 0));
        match len {
            0..=WIDE_LEN => self.paint_wide(prefix, len, cover, cover_len, |old| old == len),
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
        let entries = self.resident(self.touched.counts()) + self.resident(of_groups) + SMALL;
        let bookkeeping =
            self.touched.of_lengths() + (groups * 256).div_ceil(SMALL) + (groups * 2).div_ceil(SMALL);
        entries + bookkeeping * SMALL + self.routes.memory_bytes()
    }
}
