//! Values by index, in chunks that never move: growth copies no values.

use std::ops::{Index, IndexMut};

/// Number of values in one chunk.
const CHUNK: usize = 1024;
/// No index.
pub(super) const NONE: u32 = u32::MAX;

/// Values by index. Indices of removed values are reused.
pub(super) struct Slab<T> {
    chunks: Vec<Vec<Slot<T>>>,
    /// The first free slot, which links to the next free slot; [`NONE`] if no slot is free.
    free: u32,
}

enum Slot<T> {
    Used(T),
    Free(u32),
}

impl<T> Slab<T> {
    pub fn new() -> Slab<T> {
        Slab { chunks: Vec::new(), free: NONE }
    }

    /// Stores a value at a free index. Returns `None` if there is no memory for it.
    pub fn insert(&mut self, value: T) -> Option<u32> {
        if self.free == NONE {
            self.grow()?;
        }
        let at = self.free;
        let slot = self.slot_mut(at);
        if let Slot::Free(next) = std::mem::replace(slot, Slot::Used(value)) {
            self.free = next;
        }
        Some(at)
    }

    fn grow(&mut self) -> Option<()> {
        let start = u32::try_from(self.chunks.len() * CHUNK).ok().filter(|s| *s < NONE - CHUNK as u32)?;
        let mut chunk = Vec::new();
        chunk.try_reserve_exact(CHUNK).ok()?;
        self.chunks.try_reserve(1).ok()?;
        let end = start + CHUNK as u32;
        chunk.extend((start + 1..end).chain([self.free]).map(Slot::Free));
        self.chunks.push(chunk);
        self.free = start;
        Some(())
    }

    /// Memory of one value in bytes.
    pub const OF_VALUE: usize = size_of::<Slot<T>>();

    /// Returns the memory of the chunks in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.chunks.len() * CHUNK * Self::OF_VALUE
    }

    /// Removes and returns the value at `at`; `None` if the slot is free.
    pub fn remove(&mut self, at: u32) -> Option<T> {
        let next = self.free;
        match std::mem::replace(self.slot_mut(at), Slot::Free(next)) {
            Slot::Used(value) => {
                self.free = at;
                Some(value)
            }
            free => {
                *self.slot_mut(at) = free;
                None
            }
        }
    }

    /// Returns the value at `at`, if there is one.
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        match self.chunks.get_mut(at as usize / CHUNK)?.get_mut(at as usize % CHUNK)? {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    fn slot_mut(&mut self, at: u32) -> &mut Slot<T> {
        &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }
}

/// Panics if there is no value at the index, which is a bug in the caller.
impl<T> Index<u32> for Slab<T> {
    type Output = T;
    fn index(&self, at: u32) -> &T {
        match &self.chunks[at as usize / CHUNK][at as usize % CHUNK] {
            Slot::Used(value) => value,
            Slot::Free(_) => panic!("no value at index {at}"),
        }
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        match self.slot_mut(at) {
            Slot::Used(value) => value,
            Slot::Free(_) => panic!("no value at index {at}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_has_one_value_at_a_time() {
        let mut s = Slab::new();
        let all: Vec<u32> = (0..3 * CHUNK).filter_map(|n| s.insert(n)).collect();
        assert_eq!(all, (0..3 * CHUNK as u32).collect::<Vec<_>>());
        assert_eq!((s.remove(7), s.remove(2000), s.remove(7)), (Some(7), Some(2000), None));
        assert_eq!((s.insert(1), s.insert(2), s.insert(3)), (Some(2000), Some(7), Some(3 * CHUNK as u32)));
        s[8] += 1;
        assert_eq!((s[2000], s[7], s[8]), (1, 2, 9));
    }
}
