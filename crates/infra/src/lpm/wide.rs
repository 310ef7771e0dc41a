//! The widest prefixes, stored separately from the table that has all other prefixes.
//!
//! There is one leaf for each value of an address's first bits. The number of these bits is the maximum
//! length of the widest prefixes. The leaf applies if the table has no longer prefix for the address. So a
//! change of the default route writes a few hundred or thousand words, and not the whole table. The table may
//! itself be combined with another set of wide prefixes.

use super::NO_ROUTE;
use crate::{
    mem::{Pages, SMALL, SharedZeroed, Zeroed},
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};
use std::{collections::BTreeSet, io, ops::Range};

/// The readers' side of the prefixes of up to `BITS` bits.
#[derive(Clone)]
pub(super) struct WideReader<const BITS: u8> {
    /// One word for each value of the first bits. The lower half of a word is the leaf; the upper half counts
    /// how often the leaf has changed.
    words: SharedZeroed<AtomicU64>,
}

impl<const BITS: u8> WideReader<BITS> {
    /// Returns the leaf for an address whose first `BITS` bits are `first`. Call this only after a lookup of
    /// the longer prefixes had no result. `narrow` repeats that lookup.
    #[inline(always)]
    pub fn settle(&self, first: u32, narrow: impl Fn() -> u32) -> u32 {
        let first = first as usize & ((1 << BITS) - 1);
        loop {
            let wide = self.words[first].load(Acquire);
            // A longer route may have been added before the wide one was removed, and may have been removed since: two answers from
            // different times do not match any state of the table. If the word still has the same leaf and the same number of changes, the
            // wide route has not changed meanwhile. So there was a time when it applied and there was no longer route.
            let leaf = narrow();
            if leaf != NO_ROUTE {
                return leaf;
            }
            if self.words[first].load(Acquire) == wide {
                return wide as u32;
            }
        }
    }
}

/// The writer's side of the prefixes of up to `BITS` bits.
pub(super) struct Wide<const BITS: u8> {
    reader: WideReader<BITS>,
    /// For each leaf, the length of the prefix that set it.
    len: Zeroed<u8>,
    /// Numbers of the written pages of `words`.
    touched: BTreeSet<usize>,
}

/// Number of words in a page.
const PER_PAGE: usize = SMALL / size_of::<u64>();

impl<const BITS: u8> Wide<BITS> {
    /// Returns an empty set of prefixes.
    pub fn new() -> io::Result<Self> {
        let words = Zeroed::with_pages(1 << BITS, Pages::Small)?.share();
        let len = Zeroed::with_pages(1 << BITS, Pages::Small)?;
        Ok(Self { reader: WideReader { words }, len, touched: BTreeSet::new() })
    }

    /// Returns the readers' side.
    pub fn reader(&self) -> WideReader<BITS> {
        self.reader.clone()
    }

    /// Sets `leaf` and the prefix length `len` for the addresses whose first bits are in `range`. A leaf is
    /// changed only if `replaces` returns true for the length of its present prefix.
    pub fn paint(&mut self, range: Range<usize>, leaf: u32, len: u8, replaces: impl Fn(u8) -> bool) {
        self.touched.extend(range.start / PER_PAGE..range.end.div_ceil(PER_PAGE));
        for first in range {
            if replaces(self.len[first]) {
                let word = &self.reader.words[first];
                let changes = (word.load(Relaxed) >> 32).wrapping_add(1);
                word.store(changes << 32 | u64::from(leaf), Release);
                self.len[first] = len;
            }
        }
    }

    /// Returns the number of bytes of memory in use: the written pages of words, and one page of lengths for
    /// every eight adjacent pages of words.
    pub fn memory_bytes(&self) -> usize {
        let lengths: BTreeSet<usize> = self.touched.iter().map(|page| page / size_of::<u64>()).collect();
        (self.touched.len() + lengths.len()) * SMALL
    }
}
