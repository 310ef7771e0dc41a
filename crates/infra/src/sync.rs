//! Atomics, locks and threads: the standard library's, or loom's when built with `--cfg loom`.
//!
//! Concurrent code in this workspace takes these from here and nowhere else, so that loom can explore every
//! interleaving of it.

#[cfg(loom)]
pub use loom::{
    hint,
    sync::{Arc, Mutex, MutexGuard, atomic},
    thread,
};
#[cfg(not(loom))]
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
