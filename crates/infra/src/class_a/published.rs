//! One value that a writer replaces as a whole.

use crate::{
    quiesce::{Domain, Guard},
    sync::{
        Arc,
        atomic::{
            AtomicPtr,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

/// Owns the current value. When the last handle is dropped, a reader may still be using the value. So the
/// value is then retired, not freed.
struct Shared<T: Send + Sync + 'static> {
    current: AtomicPtr<T>,
    domain: Domain,
}

impl<T: Send + Sync + 'static> Shared<T> {
    fn retire(&self, old: *mut T) {
        // SAFETY: `old` came from Box::into_raw and was taken out of `current`, so this is its only owner. Readers that still use the value
        // are in sections of the domain. The domain keeps the value until they have left these sections or passed a quiescent point.
        self.domain.retire(unsafe { Box::from_raw(old) });
    }
}

impl<T: Send + Sync + 'static> Drop for Shared<T> {
    fn drop(&mut self) {
        self.retire(self.current.load(Relaxed));
    }
}

/// Publishes `value` to the readers of `domain`. Returns the handle that can replace the value, and a handle
/// for readers.
pub fn published<T: Send + Sync + 'static>(domain: &Domain, value: T) -> (Writer<T>, Reader<T>) {
    let current = AtomicPtr::new(Box::into_raw(Box::new(value)));
    let reader = Reader { domain: domain.id(), shared: Arc::new(Shared { current, domain: domain.clone() }) };
    (Writer { reader: reader.clone() }, reader)
}

/// The only handle with which the value can be replaced.
pub struct Writer<T: Send + Sync + 'static> {
    reader: Reader<T>,
}

impl<T: Send + Sync + 'static> Writer<T> {
    /// The current value.
    pub fn get(&self) -> &T {
        // SAFETY: only set() takes the value away, and it needs &mut self.
        unsafe { &*self.reader.shared.current.load(Relaxed) }
    }

    /// Replaces the value: readers see the new value from now on, and the old value is retired.
    pub fn set(&mut self, value: T) {
        let new = Box::into_raw(Box::new(value));
        let shared = &self.reader.shared;
        let old = shared.current.load(Relaxed);
        shared.current.store(new, Release);
        shared.retire(old);
    }

    /// Returns a handle for another reader.
    pub fn reader(&self) -> Reader<T> {
        self.reader.clone()
    }
}

/// A handle with which a reader reads the value. Cheap to clone.
pub struct Reader<T: Send + Sync + 'static> {
    shared: Arc<Shared<T>>,
    domain: u64,
}

impl<T: Send + Sync + 'static> Clone for Reader<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), domain: self.domain }
    }
}

impl<T: Send + Sync + 'static> Reader<T> {
    /// Returns the current value. The reference stays valid while `guard` is borrowed.
    #[inline(always)]
    pub fn get<'g>(&self, guard: &'g Guard) -> &'g T {
        guard.check(self.domain);
        // SAFETY: `current` always points to a value. A value taken out of it is retired in this domain, and
        // the guard proves that a section of this domain is online for 'g.
        unsafe { &*self.shared.current.load(Acquire) }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn an_old_value_lives_until_its_reader_ends() {
        let d = Domain::new();
        let mut p = d.register();
        let (mut w, r) = published(&d, String::from("old"));
        let s = p.enter();
        let old = r.get(s.guard());
        w.set("new".into());
        d.collect();
        assert_eq!((old.as_str(), r.get(s.guard()).as_str(), w.get().as_str()), ("old", "new", "new"));
        drop((w, r));
        d.collect();
        assert_eq!(old, "old");
        drop(s);
        assert_eq!(d.collect(), 2);
    }
}
