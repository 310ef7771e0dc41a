//! Memory that somebody else may take in this process's name.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Room;

/// What all promises are of, in bytes.
static TOTAL: AtomicU64 = AtomicU64::new(0);
/// Held by who adds to it.
static ADDING: Mutex<()> = Mutex::new(());

/// Memory that has been promised: nobody else is told that it is free. Pages of a file that two processes map belong to the one that
/// touches them first, whoever made the file and whenever that is.
#[derive(Debug)]
pub struct Promise(u64);

impl Promise {
    /// Promises so many bytes. What of them is taken later counts twice while the promise lasts.
    ///
    /// # Errors
    /// `OutOfMemory` when less is free, and what bounds it.
    pub fn of(bytes: u64) -> io::Result<Promise> {
        let _adding = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
        Room::now().must_have(bytes)?;
        TOTAL.fetch_add(bytes, Ordering::Relaxed);
        Ok(Promise(bytes))
    }

    /// What all promises are of, in bytes.
    pub(super) fn total() -> u64 {
        TOTAL.load(Ordering::Relaxed)
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        TOTAL.fetch_sub(self.0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(feature = "loom"), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_promised_is_free_for_nobody_else() {
        let part = Room::now().spare().unwrap() / 4;
        let promises: Vec<Promise> = (0..8).map_while(|_| Promise::of(part).ok()).collect();
        assert!((2..=4).contains(&promises.len()), "{}", promises.len());
        let error = Promise::of(2 * part).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        drop(promises);
        Promise::of(2 * part).unwrap();
    }
}
