//! Memory in which the values of a table are adjacent.
//!
//! A heap scatters the values and puts its own words between them. A vector of packets that needs a thousand
//! values would then fill the cache with unused bytes.

use crate::sync::{Arc, Mutex, lock};
use std::{mem::MaybeUninit, ptr::NonNull};

/// Size of a chunk in bytes. A slab grows by chunks.
const CHUNK: usize = 64 * 1024;

/// Slots for values of `T` that never move. All clones use the same memory.
pub(super) struct Slab<T>(Arc<Mutex<Places<T>>>);

struct Places<T> {
    /// Free slots; the one freed last is at the end.
    free: Vec<NonNull<T>>,
    chunks: Vec<NonNull<[MaybeUninit<T>]>>,
}

// SAFETY: the pointers refer to memory that `Places` owns as a Vec would. A slot is owned by an `Entry`, or
// it is free.
unsafe impl<T: Send> Send for Places<T> {}

impl<T> Slab<T> {
    /// Returns a slab without memory.
    pub fn new() -> Slab<T> {
        Slab(Arc::new(Mutex::new(Places { free: Vec::new(), chunks: Vec::new() })))
    }

    /// Puts a value into a free slot. The caller must later [adopt](Self::adopt) the value, or else the slot is never freed.
    pub fn insert(&self, value: T) -> NonNull<T> {
        let at = lock(&self.0).take();
        // SAFETY: `take` gives a slot to one caller only, aligned and large enough for a T.
        unsafe { at.write(value) };
        at
    }

    /// Returns an entry that owns the value at `at`. Dropping the entry drops the value.
    ///
    /// # Safety
    /// `at` must be from [`insert`](Self::insert) of this slab, and must not be adopted yet. Nothing may
    /// access it after the entry is dropped.
    pub unsafe fn adopt(&self, at: NonNull<T>) -> Entry<T> {
        Entry { at, slab: Slab(self.0.clone()) }
    }
}

impl<T> Places<T> {
    fn take(&mut self) -> NonNull<T> {
        if let Some(at) = self.free.pop() {
            return at;
        }
        let n = (CHUNK / size_of::<T>().max(1)).max(1);
        let chunk = NonNull::from(Box::leak(Box::<[T]>::new_uninit_slice(n)));
        self.chunks.push(chunk);
        let first = chunk.cast::<T>();
        // Add the slots from the last to the first, so that they are used in order. SAFETY: i < n, so each
        // slot is inside the chunk.
        self.free.extend((1..n).rev().map(|i| unsafe { first.add(i) }));
        first
    }
}

impl<T> Drop for Places<T> {
    fn drop(&mut self) {
        for chunk in &self.chunks {
            // SAFETY: leaked by `take`, once. A value left in the chunk is leaked and never accessed again.
            drop(unsafe { Box::from_raw(chunk.as_ptr()) });
        }
    }
}

/// A value that was removed from its table. Dropping the entry drops the value and frees the value's slot.
pub(super) struct Entry<T> {
    at: NonNull<T>,
    slab: Slab<T>,
}

// SAFETY: an Entry owns its value as a Box does.
unsafe impl<T: Send> Send for Entry<T> {}

impl<T> Drop for Entry<T> {
    fn drop(&mut self) {
        // SAFETY: the caller of `adopt` guaranteed that the value exists and that we own it.
        unsafe { self.at.drop_in_place() };
        lock(&self.slab.0).free.push(self.at);
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn values_are_adjacent_and_places_are_reused() {
        let slab = Slab::new();
        let witness = std::sync::Arc::new(());
        let n = if cfg!(miri) { 1_000 } else { 100_000 };
        let all: Vec<_> = (0..n).map(|i| slab.insert((i, witness.clone()))).collect();
        let near = all.windows(2).filter(|w| w[1].as_ptr() as usize - w[0].as_ptr() as usize == 16).count();
        assert!(near > n - n / 100, "{near} of {n} directly follow the one before");
        for (i, at) in all.iter().enumerate() {
            // SAFETY: inserted above, and not adopted yet.
            assert_eq!(unsafe { at.as_ref() }.0, i);
        }
        // SAFETY: inserted above, adopted once.
        drop(unsafe { slab.adopt(all[7]) });
        assert_eq!(slab.insert((7, witness.clone())), all[7]);
        for at in all {
            // SAFETY: as above; the one at 7 was inserted again.
            drop(unsafe { slab.adopt(at) });
        }
        assert_eq!(std::sync::Arc::strong_count(&witness), 1);
    }
}
