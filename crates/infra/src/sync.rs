//! Atomics, locks and threads: the standard library's, or loom's when built with the feature `loom`.
//!
//! Concurrent code in this workspace takes these from here and nowhere else, so that loom can explore every
//! interleaving of it.

#[cfg(feature = "loom")]
pub use loom::{
    hint,
    sync::{Arc, Mutex, MutexGuard, atomic},
    thread,
};
#[cfg(not(feature = "loom"))]
pub use std::{
    hint,
    sync::{Arc, Mutex, MutexGuard, atomic},
    thread,
};

use std::sync::PoisonError;

/// Locks `mutex`, also after a thread panicked while it held the lock.
///
/// The states behind the locks of this crate are valid at every point where a panic could leave them.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A cell for data that atomics elsewhere guard: loom's, which finds data races, or a plain one of the same shape.
#[cfg(feature = "loom")]
pub use loom::cell::UnsafeCell;

/// A cell for data that atomics elsewhere guard: loom's, which finds data races, or a plain one of the same shape.
#[cfg(not(feature = "loom"))]
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(feature = "loom"))]
impl<T> UnsafeCell<T> {
    /// Wraps `value`.
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls `f` with a pointer to read through; nobody may write meanwhile.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Calls `f` with a pointer to write through; nobody else may read or write meanwhile.
    #[inline(always)]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
