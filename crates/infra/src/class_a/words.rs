//! 64-bit values by index, stored in the table itself.

use super::indices::{Full, Indices};
use crate::{
    mem::{SharedZeroed, Zeroed},
    quiesce::Domain,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Release},
    },
};
use std::io;

/// Makes a table of up to `capacity` words. The table takes 8 bytes of address space per index, and memory only for the indices in use.
/// [`insert`](WordWriter::insert) reuses an index only when no reader of `domain` can still use it.
///
/// # Errors
/// Fails if the kernel refuses the address range.
pub fn words(domain: &Domain, capacity: u32) -> io::Result<(WordWriter, WordReader)> {
    let reader = WordReader { words: Zeroed::new(capacity as usize)?.share() };
    Ok((WordWriter { reader: reader.clone(), indices: Indices::new(domain.clone(), capacity) }, reader))
}

/// The only handle with which the table can be changed.
pub struct WordWriter {
    reader: WordReader,
    indices: Indices,
}

impl WordWriter {
    /// Puts `word` at a free index, and returns the index. An index is reused only after a grace period.
    ///
    /// # Errors
    /// Fails if no index is free, or if there is no memory for a new one.
    pub fn insert(&mut self, word: u64) -> Result<u32, Full> {
        let idx = self.indices.take()?;
        self.put(idx, word);
        Ok(idx)
    }

    /// Puts `word` at `idx`, whether or not this index is in use, and without waiting for the grace period if it was released.
    ///
    /// # Errors
    /// Fails if `idx` is not below the capacity, or if there is no memory for the index.
    pub fn set(&mut self, idx: u32, word: u64) -> Result<(), Full> {
        self.indices.claim(idx)?;
        self.put(idx, word);
        Ok(())
    }

    /// Sets the word at `idx` to 0, and releases the index. Returns the previous word.
    pub fn remove(&mut self, idx: u32) -> u64 {
        let old = self.get(idx);
        self.put(idx, 0);
        self.indices.release(idx);
        old
    }

    /// Returns the word at `idx`; 0 if `idx` is not below the capacity.
    pub fn get(&self, idx: u32) -> u64 {
        self.reader.get(idx)
    }

    /// Returns the number of indices in use.
    pub fn len(&self) -> usize {
        self.indices.len() as usize
    }

    /// True if no index is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a handle for another reader.
    pub fn reader(&self) -> WordReader {
        self.reader.clone()
    }

    fn put(&mut self, idx: u32, word: u64) {
        if let Some(slot) = self.reader.words.get(idx as usize) {
            slot.store(word, Release);
        }
    }
}

/// A handle with which readers look up words. Cheap to clone. Readers get a copy of the word, so they need no
/// guard.
#[derive(Clone)]
pub struct WordReader {
    words: SharedZeroed<AtomicU64>,
}

impl WordReader {
    /// Returns the word at `idx`; 0 if none was set, or if `idx` is not below the capacity.
    #[inline(always)]
    pub fn get(&self, idx: u32) -> u64 {
        self.words.get(idx as usize).map_or(0, |word| word.load(Acquire))
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn words_are_inserted_changed_and_removed() {
        let d = Domain::new();
        let mut p = d.register();
        let (mut w, r) = words(&d, 3).unwrap();
        assert_eq!((w.insert(10), w.insert(11)), (Ok(0), Ok(1)));
        let s = p.enter();
        assert_eq!((w.remove(0), w.remove(0), w.remove(9)), (10, 0, 0));
        assert_eq!((w.insert(12), w.insert(13)), (Ok(2), Err(Full { capacity: 3 })));
        drop(s);
        assert_eq!(w.insert(13), Ok(0));
        assert_eq!(w.set(3, 1), Err(Full { capacity: 3 }));
        w.set(1, 21).unwrap();
        assert_eq!([0, 1, 2, 3, u32::MAX].map(|i| r.get(i)), [13, 21, 12, 0, 0]);
    }
}
