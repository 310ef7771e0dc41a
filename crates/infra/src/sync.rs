//! Atomics, locks and threads of the standard library, or of loom with the feature `loom`.
//!
//! All concurrent code in this workspace uses these types, so that loom can explore its interleavings.

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

/// Locks `mutex`, even if a thread panicked while it held the lock.
///
/// This is safe because the data that the locks of this crate protect stay valid when a thread panics, at any
/// point.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A cell for data that is guarded by atomics outside of the cell: loom's cell, which finds data races, or a plain cell with the same
/// methods.
#[cfg(feature = "loom")]
pub use loom::cell::UnsafeCell;

/// A cell for data that is guarded by atomics outside of the cell: loom's cell, which finds data races, or a plain cell with the same
/// methods.
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

    /// Calls `f` with a pointer for reading; there must be no writer meanwhile.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Calls `f` with a pointer for writing; there must be no other access meanwhile.
    #[inline(always)]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
