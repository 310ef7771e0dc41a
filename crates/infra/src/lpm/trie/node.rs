//! The memory layout of nodes, and how a lookup reads them.
//!
//! An **entry** has 32 bits: 0 for nothing, a leaf, or with the top bit set a child, which is another node.
//! Each node has a **default**: the leaf of the longest prefix that covers the whole node. It applies where
//! the node's entries are 0.
//!
//! A **list** resolves addresses to `depth` bits: it counts points, which are addresses truncated to `depth`
//! bits. It has up to seven adjacent intervals with one entry each. The first interval begins at `base`, and
//! the end of each interval is counted in points from `base`, at most 65,535. The default applies to all
//! other addresses. An interval whose entry is a child has a single point, or the child is a list of the same
//! depth with more intervals; so two levels of lists have up to 49 intervals. In words of 64 bits, in
//! little-endian order:
//!
//! | word | contents |
//! |---|---|
//! | 0 | `base`: the 64 bits of the address that end at `depth`, or at bit 72 if that is more; truncated to `depth` |
//! | 1, 2 | the ends of the intervals, 16 bits each, from the last interval to the first; 0 for unused ends |
//! | 2 | in the top 16 bits, the numbers from [`cut`] for `base` |
//! | 3 | default; entry of the last interval |
//! | 4 to 6 | entries of the intervals before it |
//! | 7 | lengths of the prefixes of the entries, the last first, or [`INNER`]; in the top byte, that of the default |
//!
//! A list with a single interval ends after word 3, and has the prefix lengths in the upper half of word 1.
//!
//! A **table** has an entry for each value of one byte of the address.
//!
//! | word | contents |
//! |---|---|
//! | 0 | default; the length of its prefix |
//! | 4 to 131 | entries |
//! | 132 to 163 | lengths of the prefixes of the entries |

use super::pool::{Size, UNIT, UNIT_BITS, UNIT_BYTES};
use crate::{
    mem::SharedZeroed,
    prefetch,
    sync::atomic::{AtomicU64, Ordering::Acquire},
};
use std::io;

/// This bit is set in an entry that is a child.
pub(super) const CHILD: u32 = 1 << 31;
/// This bit is set in a child that is a table.
pub(super) const TABLE: u32 = 1 << 30;
/// Position of the lowest of four bits in an entry that leads to a table. These bits are the number of
/// address bytes after the byte that selects an entry of the table.
const BYTE_SHIFT: u32 = UNIT_BITS;
/// Marks an entry of a list that leads to the second level of the same list: a list of the same depth with
/// more intervals. The entry has this value in place of a prefix length.
pub(super) const INNER: u8 = 255;
/// Maximum number of intervals of a list.
pub(super) const INTERVALS: usize = 7;
/// Index of the first word with entries, in a table.
pub(super) const TABLE_ENTRIES: usize = 4;
/// Index of the first word with prefix lengths, in a table.
pub(super) const TABLE_LENGTHS: usize = 132;

/// Returns the entry for a list at `unit`.
pub(super) fn list(unit: u32) -> u32 {
    CHILD | unit
}

/// Returns the entry for a table at `unit`. The table is for the byte that begins at bit `depth` of the
/// address.
pub(super) fn table(unit: u32, depth: u8) -> u32 {
    CHILD | TABLE | u32::from(15 - depth / 8) << BYTE_SHIFT | unit
}

/// Returns a word with all bits set if the entry is a child, otherwise 0.
#[inline(always)]
pub(super) fn child(entry: u32) -> u32 {
    (entry as i32 >> 31) as u32
}

/// Returns the number of the unit at which a child begins.
#[inline(always)]
pub(super) fn unit(entry: u32) -> u32 {
    entry & ((1 << UNIT_BITS) - 1)
}

/// Returns which 64 bits of an address are used by a list of depth `depth`: the number of address bytes after
/// these bits (at most 7), and the right shift that drops the bits beyond `depth`.
pub(super) fn cut(depth: u8) -> (u8, u8) {
    if depth <= 72 { (7, 72 - depth) } else { ((128 - depth) / 8, 0) }
}

/// The inverse of [`cut`]: returns the depth.
pub(super) fn depth((bytes, bits): (u8, u8)) -> u8 {
    128 - 8 * bytes - bits
}

/// Shifts an address right by `bytes` bytes (at most 7), and returns the lowest 64 bits.
#[inline(always)]
fn middle(address: &u128, bytes: u64) -> u64 {
    #[cfg(target_endian = "little")]
    {
        let from = (&raw const *address).cast::<u8>();
        // SAFETY: eight bytes from one of the first eight on are inside the sixteen of the address.
        unsafe { from.add((bytes & 7) as usize).cast::<u64>().read_unaligned() }
    }
    #[cfg(target_endian = "big")]
    {
        (*address >> (8 * (bytes & 7))) as u64
    }
}

/// Shifts an address right by `behind` bytes (at most 15), and returns the lowest byte.
#[inline(always)]
fn byte(address: &u128, behind: u32) -> u8 {
    #[cfg(target_endian = "little")]
    {
        let from = (&raw const *address).cast::<u8>();
        // SAFETY: the address has 16 bytes.
        unsafe { from.add((behind & 15) as usize).read() }
    }
    #[cfg(target_endian = "big")]
    {
        (*address >> (8 * (behind & 15))) as u8
    }
}

/// Counts the ends that are above `at`, from the lowest lane up to the first end that is not above it. The
/// seven ends are in the lowest seven 16-bit lanes of `low` and `high`.
#[inline(always)]
pub(super) fn ends_above(low: u64, high: u64, at: u16) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        // SAFETY: SSE2 is part of x86-64.
        let not_above = unsafe {
            let ends = _mm_set_epi64x(high as i64, low as i64);
            let rest = _mm_subs_epu16(ends, _mm_set1_epi16(at as i16));
            let zero = _mm_setzero_si128();
            _mm_movemask_epi8(_mm_packs_epi16(_mm_cmpeq_epi16(rest, zero), zero))
        };
        (not_above as u32 | 1 << INTERVALS).trailing_zeros()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let end = |lane: usize| ([low, high][lane / 4] >> (lane % 4 * 16)) as u16;
        (0..INTERVALS).position(|lane| end(lane) <= at).unwrap_or(INTERVALS) as u32
    }
}

/// The memory of the nodes, as readers see it. A reader in a section of the domain sees nodes as they were
/// published. A reader outside of a section may see arbitrary contents, but only reads words that exist.
#[derive(Clone)]
pub(super) struct Nodes(SharedZeroed<AtomicU64>);

/// Result of a lookup in one node: the node's default, and the entry for the address.
pub(super) struct Step {
    pub default: u32,
    pub entry: u32,
}

impl Nodes {
    /// Returns the readers' view of a pool's memory. `words` must be from [`words`](super::pool::words).
    ///
    /// # Errors
    /// Fails if there are fewer words than `words` in `pool.rs` returns.
    pub fn new(words: SharedZeroed<AtomicU64>) -> io::Result<Nodes> {
        // `word` relies on this.
        if words.len() < ((1 << UNIT_BITS) + Size::Table.units() as usize) * UNIT {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Nodes(words))
    }

    /// Like [`new`](Self::new), but accepts fewer words, because under loom all accesses are checked.
    #[cfg(all(test, feature = "loom"))]
    pub fn of_any(words: SharedZeroed<AtomicU64>) -> Nodes {
        Nodes(words)
    }

    /// Reads word `at` of the node at `unit`. `unit` must be below 2^[`UNIT_BITS`], and `at` below 164, the
    /// number of words of the largest node.
    #[inline(always)]
    fn word(&self, unit: u32, at: usize) -> u64 {
        debug_assert!(unit < 1 << UNIT_BITS && at < Size::Table.units() as usize * UNIT);
        let at = unit as usize * UNIT + at;
        #[cfg(feature = "loom")]
        return self.0[at].load(Acquire);
        // SAFETY: `new` has checked that there are words for the largest node at each unit. All callers mask
        // the unit to its bits, and ask for words of such a node.
        #[cfg(not(feature = "loom"))]
        unsafe { self.0.get_unchecked(at) }.load(Acquire)
    }

    /// Reads half word `at` (32 bits) of the node at `unit`.
    #[inline(always)]
    fn half(&self, unit: u32, at: usize) -> u32 {
        (self.word(unit, at / 2) >> (at % 2 * 32)) as u32
    }

    /// Looks up an address in the list `child`.
    #[inline(always)]
    pub fn in_list(&self, child: u32, address: &u128) -> Step {
        let unit = unit(child);
        let (base, low, high) = (self.word(unit, 0), self.word(unit, 1), self.word(unit, 2));
        let at = middle(address, high >> 48).wrapping_sub(base) >> (high >> 56 & 63);
        let above = ends_above(low, high, at.min(u16::MAX.into()) as u16);
        Step { default: self.word(unit, 3) as u32, entry: self.half(unit, 6 + above as usize) }
    }

    /// Looks up an address in the table `child`.
    #[inline(always)]
    pub fn in_table(&self, child: u32, address: &u128) -> Step {
        let unit = unit(child);
        let byte = usize::from(byte(address, child >> BYTE_SHIFT));
        Step { default: self.word(unit, 0) as u32, entry: self.half(unit, 2 * TABLE_ENTRIES + byte) }
    }

    /// Looks up an address in the node `child`.
    #[inline(always)]
    pub fn in_child(&self, child: u32, address: &u128) -> Step {
        if child & TABLE == 0 { self.in_list(child, address) } else { self.in_table(child, address) }
    }

    /// Prefetches the cache line that a lookup of the address will read in the node to which `entry` leads:
    /// the line of a list, or the line with the table's entry for the address. If `entry` does not lead to a
    /// node, prefetches an arbitrary line.
    #[inline(always)]
    pub fn fetch(&self, entry: u32, address: &u128) {
        let of_entry = TABLE_ENTRIES * 8 + 4 * usize::from(byte(address, entry >> BYTE_SHIFT));
        let is_table = 0usize.wrapping_sub((entry >> TABLE.trailing_zeros() & 1) as usize);
        let at = unit(entry & child(entry)) as usize * UNIT_BYTES + (of_entry & is_table);
        prefetch::read(self.0.as_ptr().cast::<u8>().wrapping_add(at));
    }
}
