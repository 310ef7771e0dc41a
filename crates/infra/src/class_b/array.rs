//! An array of lines of entries.

use std::io;

use crate::hash::mix64;
use crate::mem::{SharedZeroed, ZeroValid, Zeroed};
use crate::prefetch;
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Release},
};

/// Number of entries of a line.
const ENTRIES: usize = 4;
/// Number of lines in which an entry may be: the first that had room when it was inserted.
const PROBES: u64 = 8;

/// In the word of a key: the entry is being inserted or removed, and lookups do not find it.
const DEAD: u64 = 1 << 63;
/// In the word of a line's first key: entries that found no room in this line may be in the next one. This stays set.
const OVER: u64 = 1 << 62;
/// The largest key.
pub(super) const KEY: u64 = OVER - 1;

/// The entries of one cache line. A key of 0 is a free entry. A value of 0 is that of an entry that is being removed.
#[repr(C, align(64))]
struct Line {
    keys: [AtomicU64; ENTRIES],
    values: [AtomicU64; ENTRIES],
}

// SAFETY: atomics, for which zero is valid, as for their integers; no Drop.
unsafe impl ZeroValid for Line {
    fn zero() -> Line {
        Line {
            keys: std::array::from_fn(|_| AtomicU64::zero()),
            values: std::array::from_fn(|_| AtomicU64::zero()),
        }
    }
}

/// An array of a power of two of lines.
#[derive(Clone)]
pub(super) struct Array {
    lines: SharedZeroed<Line>,
    seed: u64,
}

/// The place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    line: usize,
    entry: usize,
}

impl Array {
    /// Makes an array for at least `entries` entries.
    ///
    /// # Errors
    /// Fails if the kernel refuses the address range.
    pub(super) fn new(entries: usize, seed: u64) -> io::Result<Array> {
        let lines = entries.div_ceil(ENTRIES / 2).max(1).checked_next_power_of_two();
        let lines = lines.ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Array { lines: Zeroed::new(lines)?.share(), seed })
    }

    /// Makes an empty array of twice the size.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(super) fn larger(&self) -> io::Result<Array> {
        let lines = self.lines().checked_mul(2).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Array { lines: Zeroed::new(lines)?.share(), seed: self.seed })
    }

    /// Number of lines.
    pub(super) fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Maximum number of entries. With more, entries would be far from their first lines.
    pub(super) fn most(&self) -> usize {
        self.lines() * ENTRIES * 3 / 5
    }

    /// Number of entries above which the array should be replaced by a larger one.
    pub(super) fn enough(&self) -> usize {
        self.lines() * ENTRIES / 2
    }

    /// Size in bytes, if all pages are in use.
    pub(super) fn bytes(&self) -> usize {
        self.lines() * size_of::<Line>()
    }

    /// Returns the hash of a key. The upper bits choose the lock, the lower ones the line.
    #[inline(always)]
    pub(super) fn hash(&self, key: u64) -> u64 {
        mix64(key ^ self.seed)
    }

    #[inline(always)]
    fn at(&self, hash: u64, probe: u64) -> usize {
        // An odd step reaches different lines.
        let step = (hash >> 32) | 1;
        (hash.wrapping_add(probe.wrapping_mul(step)) as usize) & (self.lines.len() - 1)
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch::read(&raw const self.lines[self.at(hash, 0)]);
    }

    /// Returns the place of a key.
    #[inline(always)]
    pub(super) fn find(&self, key: u64, hash: u64) -> Option<Place> {
        for probe in 0..PROBES {
            let line = self.at(hash, probe);
            let keys = &self.lines[line].keys;
            let first = keys[0].load(Acquire);
            // All keys are compared, without a branch for each: which of them it is cannot be predicted.
            let mut found = u32::from(first & !OVER == key);
            for (n, other) in keys.iter().enumerate().skip(1) {
                found |= u32::from(other.load(Acquire) == key) << n;
            }
            if found != 0 {
                return Some(Place { line, entry: found.trailing_zeros() as usize });
            }
            if first & OVER == 0 {
                return None;
            }
        }
        None
    }

    #[inline(always)]
    pub(super) fn value(&self, at: Place) -> &AtomicU64 {
        &self.lines[at.line].values[at.entry]
    }

    fn key(&self, at: Place) -> &AtomicU64 {
        &self.lines[at.line].keys[at.entry]
    }

    /// Inserts an entry whose key is not in the array. The caller holds the lock of the key. Returns its place, or `None` if there is no room.
    pub(super) fn insert(&self, key: u64, hash: u64, value: u64) -> Option<Place> {
        for probe in 0..PROBES {
            let line = self.at(hash, probe);
            for entry in 0..ENTRIES {
                let at = Place { line, entry };
                let claim = |word: u64| (word & !OVER == 0).then_some(word | key | DEAD);
                if self.key(at).fetch_update(AcqRel, Acquire, claim).is_ok() {
                    self.value(at).store(value, Release);
                    self.key(at).fetch_and(!DEAD, Release);
                    return Some(at);
                }
            }
            self.lines[line].keys[0].fetch_or(OVER, Release);
        }
        None
    }

    /// Removes an entry if its value is `seen`. The caller holds the lock of the key. Lookups may use the value until they have ended; then
    /// the caller [frees](Self::free) the place.
    pub(super) fn remove(&self, at: Place, seen: u64) -> Result<(), u64> {
        self.value(at).compare_exchange(seen, 0, AcqRel, Acquire)?;
        self.key(at).fetch_or(DEAD, Release);
        Ok(())
    }

    /// Makes the place of a removed entry free.
    pub(super) fn free(&self, at: Place) {
        self.key(at).fetch_and(OVER, Release);
    }

    /// Returns the entries of a line: their places, keys and values.
    pub(super) fn entries(&self, line: usize) -> impl Iterator<Item = (Place, u64, u64)> + '_ {
        (0..ENTRIES).filter_map(move |entry| {
            let at = Place { line, entry };
            let key = self.key(at).load(Acquire) & !OVER;
            let value = self.value(at).load(Acquire);
            // An entry may be removed, but not replaced by another one, before the owner frees the place.
            (key != 0 && key & DEAD == 0 && value != 0).then_some((at, key, value))
        })
    }
}
