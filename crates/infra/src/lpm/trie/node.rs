//! The words of nodes, and how a lookup reads them.
//!
//! An **entry** is 32 bits: 0 for nothing, a leaf, or a child with the top bit set. Each node has a
//! **default**, the leaf of the longest prefix that covers the whole node; it applies where the node's
//! entries are 0.
//!
//! A **list** resolves addresses to `depth` bits. It has up to seven adjacent intervals with an entry each,
//! from `base` on, which is the lower end of the first one. Their ends are counted from `base`, in addresses
//! cut to `depth` bits, at most 65,535; elsewhere the default applies. An interval with a child is one such
//! address. Or the child is a list of the same depth with the interval's contents, so that two levels of lists
//! hold 49 intervals. In words of 64 bits, in little-endian order:
//!
//! | word | contents |
//! |---|---|
//! | 0 | `base`: the 64 bits of the address that end at `depth`, or at bit 72 if that is more; cut to `depth`
//! |
//! | 1, 2 | the intervals' ends, 16 bits each, the last first; 0 after the first; then the bits of `base`,
//! [`cut`] |
//! | 3 | default; entry of the last interval |
//! | 4 to 6 | entries of the intervals before it |
//! | 7 | lengths of the prefixes of the entries, the last first, or [`INNER`]; that of the default in the top
//! byte |
//!
//! A list with a single interval ends with word 3, and has the lengths in the upper half of word 1.
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

/// Set in an entry that is a child.
pub(super) const CHILD: u32 = 1 << 31;
/// Set in a child that is a table.
pub(super) const TABLE: u32 = 1 << 30;
/// Lowest of the four bits, in a child that is a table, with the number of address bytes after the table's byte.
const BYTE_SHIFT: u32 = UNIT_BITS;
/// In place of a prefix length: the child is a list of more intervals of the same list.
pub(super) const INNER: u8 = 255;
/// Maximum number of intervals of a list.
pub(super) const INTERVALS: usize = 7;
/// Number of words of a table before its entries.
pub(super) const TABLE_ENTRIES: usize = 4;
/// Number of words of a table before its lengths.
pub(super) const TABLE_LENGTHS: usize = 132;

/// Returns the child for the list at `unit`.
pub(super) fn list(unit: u32) -> u32 {
    CHILD | unit
}

/// Returns the child for a table at `unit`, for the byte that begins at bit `depth` of the address.
pub(super) fn table(unit: u32, depth: u8) -> u32 {
    CHILD | TABLE | u32::from(15 - depth / 8) << BYTE_SHIFT | unit
}

/// Returns all ones if the entry is a child, else zeros.
#[inline(always)]
pub(super) fn child(entry: u32) -> u32 {
    (entry as i32 >> 31) as u32
}

/// Returns the unit of a child.
#[inline(always)]
pub(super) fn unit(entry: u32) -> u32 {
    entry & ((1 << UNIT_BITS) - 1)
}

/// Returns the position of the 64 address bits that a list of this depth uses: the number of bytes after them (at
/// most 7), and the right shift that drops their bits from `depth` on.
pub(super) fn cut(depth: u8) -> (u8, u8) {
    if depth <= 72 { (7, 72 - depth) } else { ((128 - depth) / 8, 0) }
}

/// Returns the depth of a cut.
pub(super) fn depth((bytes, bits): (u8, u8)) -> u8 {
    128 - 8 * bytes - bits
}

/// Returns the 64 bits of an address with this many bytes after them, at most 7.
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

/// Returns the byte of an address with this many bytes after it, at most 15.
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

/// Returns how many of the seven ends are above `at`, up to the first one that is not. The ends are in the lowest
/// seven 16-bit lanes of the two words.
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

/// The words of nodes, as readers see them. A reader in a section of the domain sees nodes as they were
/// published. Any other reader may see arbitrary contents, but only existing words.
#[derive(Clone)]
pub(super) struct Nodes(SharedZeroed<AtomicU64>);

/// A step of a lookup: a node's answer for an address.
pub(super) struct Step {
    pub default: u32,
    pub entry: u32,
}

impl Nodes {
    /// Wraps the words of a pool: [`words`](super::pool::words).
    pub fn new(words: SharedZeroed<AtomicU64>) -> io::Result<Nodes> {
        // `word` relies on this.
        if words.len() < ((1 << UNIT_BITS) + Size::Table.units() as usize) * UNIT {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Nodes(words))
    }

    /// Wraps any words: loom's accesses are checked.
    #[cfg(all(test, feature = "loom"))]
    pub fn of_any(words: SharedZeroed<AtomicU64>) -> Nodes {
        Nodes(words)
    }

    /// Reads a word of the node at `unit`, which has at most [`UNIT_BITS`] bits; the largest node has 164
    /// words.
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

    /// Reads the half word `at` of a node.
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

    /// Looks up an address in a child.
    #[inline(always)]
    pub fn in_child(&self, child: u32, address: &u128) -> Step {
        if child & TABLE == 0 { self.in_list(child, address) } else { self.in_table(child, address) }
    }

    /// Prefetches the line that a lookup will read: a list's, or that of a table's entry. For an entry that
    /// is no child, any line.
    #[inline(always)]
    pub fn fetch(&self, entry: u32, address: &u128) {
        let of_entry = TABLE_ENTRIES * 8 + 4 * usize::from(byte(address, entry >> BYTE_SHIFT));
        let is_table = 0usize.wrapping_sub((entry >> TABLE.trailing_zeros() & 1) as usize);
        let at = unit(entry & child(entry)) as usize * UNIT_BYTES + (of_entry & is_table);
        prefetch::read(self.0.as_ptr().cast::<u8>().wrapping_add(at));
    }
}
