//! A table with an entry for each value of an address's first bits. Only the written parts take memory.

use crate::{
    mem::{HUGE, Pages, SMALL, SharedZeroed, Zeroed},
    sync::atomic::AtomicU32,
};
use std::{collections::BTreeMap, io, ops::Range};

/// Number of entries in a small page.
const PER_SMALL: usize = SMALL / size_of::<u32>();
/// Number of small pages in a huge page.
pub(super) const PER_HUGE: usize = HUGE / SMALL;
/// Minimum number of written small pages in a huge page, out of 512. With fewer, a huge page would waste too much memory.
pub(super) const DENSE: usize = 64;

/// The writer's side of a table that is indexed by the first `BITS` bits of an address. The meaning of an entry depends on the
/// lookup table that uses it.
pub(super) struct First<const BITS: u8> {
    /// The entries. Readers have clones of this handle.
    pub entries: SharedZeroed<AtomicU32>,
    /// For each entry, the length of the prefix that set it.
    pub len: Zeroed<u8>,
    touched: Touched,
    pages: Pages,
}

impl<const BITS: u8> First<BITS> {
    /// Returns a table in which all entries are zero. It takes five bytes of address space for each of the 2^`BITS` entries.
    pub fn new(pages: Pages) -> io::Result<Self> {
        Ok(First {
            entries: Zeroed::with_pages(1 << BITS, pages)?.share(),
            len: Zeroed::with_pages(1 << BITS, Pages::Small)?,
            touched: Touched::default(),
            pages,
        })
    }

    /// Records that the entries in `range` are written. With [`Pages::Small`], turns 2 MiB of the table into a huge page once [`DENSE`] of
    /// their small pages are written.
    pub fn touch(&mut self, range: Range<usize>) {
        for page in range.start / PER_SMALL..range.end.div_ceil(PER_SMALL) {
            if self.touched.note(page) == Some(DENSE) && self.pages == Pages::Small {
                self.entries.make_huge(page / PER_HUGE);
            }
        }
    }

    /// Returns the number of bytes of memory in use.
    pub fn memory_bytes(&self) -> usize {
        resident(self.pages, self.touched.counts()) + self.touched.of_lengths() * SMALL
    }
}

/// Returns how many bytes of memory a table uses. `touched` is the number of written small pages in each huge page. With
/// [`Pages::Small`], [`DENSE`] or more small pages are replaced by a huge page.
pub(super) fn resident(pages: Pages, touched: impl Iterator<Item = usize>) -> usize {
    let is_huge = |n: usize| if pages == Pages::Huge { n > 0 } else { n >= DENSE };
    touched.map(|n| if is_huge(n) { HUGE } else { n * SMALL }).sum()
}

/// The small pages of the table that are written: for each huge page by number, one bit for each small page.
#[derive(Default)]
struct Touched(BTreeMap<usize, [u64; PER_HUGE / 64]>);

impl Touched {
    /// Records that a small page is written. Returns the number of written pages in its huge page; `None` if this page was written before.
    fn note(&mut self, page: usize) -> Option<usize> {
        let huge = self.0.entry(page / PER_HUGE).or_default();
        let (word, bit) = (&mut huge[page % PER_HUGE / 64], 1 << (page % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new.then(|| count(huge))
    }

    /// Returns the number of written pages in each huge page.
    fn counts(&self) -> impl Iterator<Item = usize> {
        self.0.values().map(|huge| count(huge))
    }

    /// Returns the number of written pages in the array of prefix lengths. This array has one byte for each entry, so one of its
    /// pages is for four pages of entries.
    fn of_lengths(&self) -> usize {
        let quarters = |word: u64| (0..64).step_by(4).filter(|at| word >> at & 0xf != 0).count();
        self.0.values().flatten().map(|word| quarters(*word)).sum()
    }
}

fn count(words: &[u64]) -> usize {
    words.iter().map(|w| w.count_ones() as usize).sum()
}
