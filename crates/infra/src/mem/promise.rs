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
    /// `OutOfMemory` when that is more than half of what is free: some is always left for what the process itself does.
    pub fn of(bytes: u64) -> io::Result<Promise> {
        let _adding = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
        fits(bytes, &Room::now())?;
        TOTAL.fetch_add(bytes, Ordering::Relaxed);
        Ok(Promise(bytes))
    }

    /// What it is of, in bytes.
    pub fn bytes(&self) -> u64 {
        self.0
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

/// Makes sure that so many bytes may be promised.
fn fits(bytes: u64, room: &Room) -> io::Result<()> {
    if room.spare().is_none_or(|spare| bytes <= spare / 2) {
        return Ok(());
    }
    let why = format!(
        "its memory has {} MiB that nobody has filled yet; {room}, and half of that may be promised",
        bytes >> 20
    );
    Err(io::Error::new(io::ErrorKind::OutOfMemory, why))
}

#[cfg(all(test, not(feature = "loom"), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_free_may_be_promised() {
        let room = |mib: u64| Room { bytes: mib << 20, promised: 0, bound: "memory.max".into(), huge: None };
        fits(100 << 20, &room(232)).unwrap();
        let error = fits(101 << 20, &room(232)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        let why = "its memory has 101 MiB that nobody has filled yet; 200 MiB of memory are free beside 32 MiB that are kept back";
        assert!(error.to_string().starts_with(why), "{error}");
        fits(u64::MAX, &Room { bytes: u64::MAX, ..room(0) }).unwrap();
    }

    #[test]
    fn what_is_promised_is_free_for_nobody_else_while_the_promise_lasts() {
        let before = Promise::total();
        let promise = Promise::of(1 << 20).unwrap();
        assert_eq!((Promise::total(), Room::now().promised), (before + (1 << 20), before + (1 << 20)));
        drop(promise);
        assert_eq!(Promise::total(), before);
    }
}
