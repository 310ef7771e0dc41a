//! Values by index.

use super::{
    indices::{Full, Indices},
    slab::Slab,
};
use crate::{
    mem::{SharedZeroed, Zeroed},
    quiesce::{Domain, Guard},
    sync::atomic::{
        AtomicPtr,
        Ordering::{Acquire, Relaxed, Release},
    },
};
use std::{
    io,
    ptr::{self, NonNull},
};

/// Makes a table of up to `capacity` values, which readers of `domain` look up by index. The table takes 8
/// bytes of address space per index, and memory only for the indices in use.
///
/// # Errors
/// Fails if the kernel refuses the address range.
pub fn slots<T: Send + Sync + 'static>(
    domain: &Domain,
    capacity: u32,
) -> io::Result<(SlotWriter<T>, SlotReader<T>)> {
    let reader = SlotReader { slots: Zeroed::new(capacity as usize)?.share(), domain: domain.id() };
    let indices = Indices::new(domain.clone(), capacity);
    Ok((SlotWriter { reader: reader.clone(), indices, values: Slab::new(), domain: domain.clone() }, reader))
}

/// The only handle with which the table can be changed. Dropping it empties the table.
pub struct SlotWriter<T: Send + Sync + 'static> {
    reader: SlotReader<T>,
    indices: Indices,
    values: Slab<T>,
    domain: Domain,
}

impl<T: Send + Sync + 'static> SlotWriter<T> {
    /// Puts `value` at a free index, and returns the index. Because an index is reused only after a grace
    /// period, a reader with an old index never finds a new value there.
    ///
    /// # Errors
    /// Fails if no index is free, or if there is no memory for a new one.
    pub fn insert(&mut self, value: T) -> Result<u32, Full> {
        let idx = self.indices.take()?;
        self.put(idx, Some(value));
        Ok(idx)
    }

    /// Takes a free index, and returns it. The index has no value yet: the caller [sets](Self::set) one later, or releases the index with
    /// [`remove`](Self::remove).
    ///
    /// # Errors
    /// Fails if no index is free, or if there is no memory for a new one.
    pub fn reserve(&mut self) -> Result<u32, Full> {
        self.indices.take()
    }

    /// Takes the index `idx` if it is free. As after [`reserve`](Self::reserve), the index has no value yet. Returns true if the index was
    /// free. Otherwise, and for an index that is not below the capacity, returns false and changes nothing.
    ///
    /// # Errors
    /// Fails if there is no memory for the index.
    pub fn claim(&mut self, idx: u32) -> Result<bool, Full> {
        let free = self.indices.is_free(idx);
        if free {
            self.indices.claim(idx)?;
        }
        Ok(free)
    }

    /// Puts `value` at `idx`, whether or not this index is in use, and without waiting for the grace period if it was released. A previous
    /// value is retired.
    ///
    /// # Errors
    /// Fails if `idx` is not below the capacity, or if there is no memory for the index.
    pub fn set(&mut self, idx: u32, value: T) -> Result<(), Full> {
        self.indices.claim(idx)?;
        self.put(idx, Some(value));
        Ok(())
    }

    /// Removes the value at `idx`, and releases the index. The value is retired. Returns true if there was a
    /// value.
    pub fn remove(&mut self, idx: u32) -> bool {
        let had = self.put(idx, None);
        self.indices.release(idx);
        had
    }

    /// Returns the value at `idx`, if there is one.
    pub fn get(&self, idx: u32) -> Option<&T> {
        let value = self.reader.slots.get(idx as usize)?.load(Relaxed);
        // SAFETY: null or a value of this table; only methods on &mut self take values out.
        unsafe { value.as_ref() }
    }

    /// Returns all values with their indices, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.iter_from(0)
    }

    /// Returns the values from index `first` on, with their indices, in ascending order.
    pub fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, &T)> {
        (first..self.indices.end()).filter_map(|idx| Some((idx, self.get(idx)?)))
    }

    /// Returns the number of indices in use, including those that are only reserved.
    pub fn len(&self) -> usize {
        self.indices.len() as usize
    }

    /// True if no index is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a handle for another reader.
    pub fn reader(&self) -> SlotReader<T> {
        self.reader.clone()
    }

    /// Stores or removes the value at `idx`, and retires the previous value. Returns true if there was one.
    fn put(&mut self, idx: u32, value: Option<T>) -> bool {
        let Some(slot) = self.reader.slots.get(idx as usize) else { return false };
        let old = slot.load(Relaxed);
        slot.store(value.map_or(ptr::null_mut(), |v| self.values.insert(v).as_ptr()), Release);
        let Some(old) = NonNull::new(old) else { return false };
        // SAFETY: `old` was inserted by this table and is out of it now, so it is adopted once; readers that
        // still see it are in sections of the domain, which keeps it until they have passed.
        self.domain.retire(Box::new(unsafe { self.values.adopt(old) }));
        true
    }
}

impl<T: Send + Sync + 'static> Drop for SlotWriter<T> {
    fn drop(&mut self) {
        for idx in 0..self.indices.end() {
            self.put(idx, None);
        }
    }
}

/// A handle with which readers look up values. Cheap to clone.
pub struct SlotReader<T: Send + Sync + 'static> {
    slots: SharedZeroed<AtomicPtr<T>>,
    domain: u64,
}

impl<T: Send + Sync + 'static> Clone for SlotReader<T> {
    fn clone(&self) -> Self {
        Self { slots: self.slots.clone(), domain: self.domain }
    }
}

impl<T: Send + Sync + 'static> SlotReader<T> {
    /// Returns the value at `idx`, if there is one. The reference stays valid while `guard` is borrowed.
    #[inline(always)]
    pub fn get<'g>(&self, guard: &'g Guard, idx: u32) -> Option<&'g T> {
        guard.check(self.domain);
        let value = self.slots.get(idx as usize)?.load(Acquire);
        // SAFETY: null or a published value. A value taken out is retired in this domain, and the guard
        // proves that a section of this domain is online for 'g.
        unsafe { value.as_ref() }
    }

    /// Returns a view of the table that is valid while `guard` is borrowed. `guard` is checked once for the view, not again for each value.
    #[inline(always)]
    pub fn view<'v>(&'v self, guard: &'v Guard) -> SlotView<'v, T> {
        guard.check(self.domain);
        SlotView { slots: &self.slots }
    }
}

/// A view of a table for one vector of packets, see [`SlotReader::view`].
pub struct SlotView<'v, T> {
    slots: &'v [AtomicPtr<T>],
}

impl<'v, T> SlotView<'v, T> {
    /// Returns the value at `idx`, if there is one.
    #[inline(always)]
    pub fn get(&self, idx: u32) -> Option<&'v T> {
        let value = self.slots.get(idx as usize)?.load(Acquire);
        // SAFETY: null or a published value. A value taken out is retired in the table's domain, and the
        // guard that `view` checked proves that a section of this domain is online for 'v.
        unsafe { value.as_ref() }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn slots_are_inserted_changed_and_removed() {
        let d = Domain::new();
        let mut p = d.register();
        let (mut w, r) = slots::<String>(&d, 3).unwrap();
        let (a, b) = (w.insert("a".into()).unwrap(), w.reserve().unwrap());
        let s = p.enter();
        let seen = r.get(s.guard(), a).unwrap();
        assert!(
            r.get(s.guard(), b).is_none() && r.get(s.guard(), 3).is_none() && r.get(s.guard(), !0).is_none()
        );
        w.set(b, "b".into()).unwrap();
        w.set(a, "c".into()).unwrap();
        assert_eq!(w.iter().collect::<Vec<_>>(), [(0, &"c".into()), (1, &"b".into())]);
        assert!(w.remove(a) && !w.remove(a) && !w.remove(7));
        assert_eq!((w.len(), w.get(a), r.get(s.guard(), a)), (1, None, None));
        d.collect();
        assert_eq!(seen, "a");
        assert_eq!(w.insert("d".into()), Ok(2));
        assert_eq!(w.insert("e".into()), Err(Full { capacity: 3 }));
        drop(s);
        assert_eq!(w.insert("e".into()), Ok(a));
        assert_eq!(w.set(3, "f".into()), Err(Full { capacity: 3 }));
        drop(w);
        assert_eq!(d.collect(), 5);
    }
}
