//! The widest prefixes, beside a table of all others.
//!
//! There is one leaf for each value of an address's first bits, as many as the longest of these prefixes has. Where the
//! table says that no longer prefix covers an address, it decides. So the change of a default route changes a few
//! hundred or thousand words, and not all of a table. What it lies beside may be a table with one such already.

use super::NO_ROUTE;
use crate::{
    mem::{Pages, SMALL, SharedZeroed, Zeroed},
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};
use std::{collections::BTreeSet, io, ops::Range};

/// What readers see of prefixes of up to `BITS` bits.
#[derive(Clone)]
pub(super) struct WideReader<const BITS: u8> {
    /// The leaf for each value of the first bits; in the upper half, how often it has changed.
    words: SharedZeroed<AtomicU64>,
}

impl<const BITS: u8> WideReader<BITS> {
    /// The leaf for an address of which these are the first `BITS` bits. `narrow` asks the table beside it for the leaf
    /// of a longer prefix, and has just said that there was none.
    #[inline(always)]
    pub fn settle(&self, first: u32, narrow: impl Fn() -> u32) -> u32 {
        let first = first as usize & ((1 << BITS) - 1);
        loop {
            let wide = self.words[first].load(Acquire);
            // A longer route may have come before the wide one went, and may have gone again since: two answers of
            // different times are none of the table's. There was no longer route at a time when the wide one was this
            // very one, and no other came and went in between, or its number of changes would tell.
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

/// What the writer knows of them.
pub(super) struct Wide<const BITS: u8> {
    reader: WideReader<BITS>,
    /// Length of the prefix behind each leaf.
    len: Zeroed<u8>,
    /// The pages of words that were written to.
    touched: BTreeSet<usize>,
}

/// Words in a page.
const PER_PAGE: usize = SMALL / size_of::<u64>();

impl<const BITS: u8> Wide<BITS> {
    /// No prefixes.
    pub fn new() -> io::Result<Self> {
        let words = Zeroed::with_pages(1 << BITS, Pages::Small)?.share();
        let len = Zeroed::with_pages(1 << BITS, Pages::Small)?;
        Ok(Self { reader: WideReader { words }, len, touched: BTreeSet::new() })
    }

    /// What readers see.
    pub fn reader(&self) -> WideReader<BITS> {
        self.reader.clone()
    }

    /// Gives `leaf` to the addresses whose first bits are in `range` and whose present prefix `replaces` says to give
    /// way; notes `len` as the new prefix's length.
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

    /// Memory in use, in bytes: pages of words, and of lengths one for eight of those.
    pub fn memory_bytes(&self) -> usize {
        let lengths: BTreeSet<usize> = self.touched.iter().map(|page| page / size_of::<u64>()).collect();
        (self.touched.len() + lengths.len()) * SMALL
    }
}
