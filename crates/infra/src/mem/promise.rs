//! Memory that another process can make the kernel charge to this one.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Room;
use super::room::LEFT;

/// Bytes of all promises.
static TOTAL: AtomicU64 = AtomicU64::new(0);
/// Serializes additions to it.
static ADDING: Mutex<()> = Mutex::new(());

/// A reservation for pages of a file that another process maps as well. The kernel charges such a page to the process that touches it
/// first, whoever made the file. [`Room`] does not count promised bytes as free.
#[derive(Debug)]
pub struct Promise {
    bytes: u64,
    blind: bool,
}

impl Promise {
    /// Promises `bytes`. While it lasts, promised pages that are taken count twice: as promised and as used.
    ///
    /// # Errors
    /// `OutOfMemory` for more than half of the free memory: the process itself always keeps some.
    pub fn of(bytes: u64) -> io::Result<Promise> {
        Promise::within(bytes, u64::MAX, 0, false)
    }

    /// Promises `bytes` that an untrusted peer may keep: for missing pages of its file, or for memory that this process
    /// creates.
    ///
    /// # Errors
    /// `OutOfMemory` for more than half of the free memory beyond 64 MiB: peers that take all they get leave enough for
    /// clients of the CLI and for routes. If a control group may have a limit that cannot be read, also if all promises
    /// exceed 256 MiB, or if a child process cannot fill all promised memory. Such a trial takes 0.1 s.
    pub fn to_stranger(bytes: u64) -> io::Result<Promise> {
        if bytes == 0 || Room::sees_all() {
            return Promise::within(bytes, u64::MAX, LEFT, false);
        }
        // One at a time: trials at once would take each other's memory.
        let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
        let promise = Promise::within(bytes, BLIND, LEFT, true)?;
        try_once(&mut failed, Instant::now(), Promise::total() + LEFT, Room::try_unseen)?;
        Ok(promise)
    }

    fn within(bytes: u64, most: u64, kept: u64, blind: bool) -> io::Result<Promise> {
        let _adding = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
        fits(bytes, &Room::now(), most, kept)?;
        TOTAL.fetch_add(bytes, Ordering::Relaxed);
        Ok(Promise { bytes, blind })
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if a control group may have a limit that cannot be read.
    pub fn is_blind(&self) -> bool {
        self.blind
    }

    /// Returns the bytes of all promises.
    pub(super) fn total() -> u64 {
        TOTAL.load(Ordering::Relaxed)
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        TOTAL.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Time after a failed trial during which requests for as much memory or more are refused without a trial.
const HOLDS: Duration = Duration::from_secs(1);

/// A failed trial: when it failed, its bytes, and the reason.
type FailedTrial = (Instant, u64, String);

/// The last one.
static FAILED: Mutex<Option<FailedTrial>> = Mutex::new(None);

/// Tries to take `bytes`, unless a trial of as much or less has just failed.
fn try_once(
    failed: &mut Option<FailedTrial>,
    now: Instant,
    bytes: u64,
    trial: impl FnOnce(u64) -> io::Result<()>,
) -> io::Result<()> {
    if let Some((at, least, why)) = &*failed
        && bytes >= *least
        && now.saturating_duration_since(*at) < HOLDS
    {
        return Err(io::Error::new(io::ErrorKind::OutOfMemory, why.clone()));
    }
    let tried = trial(bytes);
    *failed = tried.as_ref().err().map(|e| (now, bytes, e.to_string()));
    tried
}

/// Maximum bytes of all promises if a control group may have a limit that cannot be read.
const BLIND: u64 = 256 << 20;

/// Checks that `bytes` may be promised: all promises together are at most `most`, and `bytes` is at most half of the
/// free memory beyond `kept`.
fn fits(bytes: u64, room: &Room, most: u64, kept: u64) -> io::Result<()> {
    if room.promised.saturating_add(bytes) > most {
        let why = format!(
            "the shared memory needs {} MiB more, but all shared memory may use at most {} MiB, including that of connections that ended in the last hour: a control group around this container may limit memory, and its limit cannot be read",
            bytes >> 20,
            most >> 20
        );
        return Err(io::Error::new(io::ErrorKind::OutOfMemory, why));
    }
    if room.spare().is_none_or(|spare| bytes <= spare.saturating_sub(kept) / 2) {
        return Ok(());
    }
    let but = if kept == 0 { String::new() } else { format!(" beyond {} MiB", kept >> 20) };
    let why = format!(
        "the shared memory needs {} MiB more, but may use only half of the free memory{but}: {room}",
        bytes >> 20
    );
    Err(io::Error::new(io::ErrorKind::OutOfMemory, why))
}

#[cfg(all(test, not(feature = "loom"), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_free_memory_can_be_promised() {
        let room = |mib: u64| Room { bytes: mib << 20, promised: 0, bound: "memory.max".into(), huge: None };
        fits(100 << 20, &room(232), u64::MAX, 0).unwrap();
        let error = fits(101 << 20, &room(232), u64::MAX, 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        let told = error.to_string();
        assert!(told.starts_with("the shared memory needs 101 MiB more"), "{told}");
        assert!(told.ends_with("200 MiB free and 32 MiB reserved (memory.max)"), "{told}");
        fits(u64::MAX, &Room { bytes: u64::MAX, ..room(0) }, u64::MAX, 0).unwrap();
        // Untrusted peers leave more.
        fits(68 << 20, &room(232), u64::MAX, LEFT).unwrap();
        let told = fits(69 << 20, &room(232), u64::MAX, LEFT).unwrap_err().to_string();
        assert!(told.contains("half of the free memory beyond 64 MiB"), "{told}");
        fits(0, &room(0), u64::MAX, LEFT).unwrap();
        // Other promises count.
        let shared = Room { promised: 100 << 20, ..room(2000) };
        fits(156 << 20, &shared, BLIND, LEFT).unwrap();
        let told = fits(157 << 20, &shared, BLIND, LEFT).unwrap_err().to_string();
        assert!(told.contains("at most 256 MiB") && told.ends_with("its limit cannot be read"), "{told}");
    }

    /// Refused peers cannot cause one trial after the other.
    #[test]
    fn a_failed_trial_holds_for_a_second() {
        let fails = |_| Err(io::Error::other("killed"));
        let never = |_| panic!("a trial");
        let (mut failed, start) = (None, Instant::now());
        try_once(&mut failed, start, 100, |_| Ok(())).unwrap();
        try_once(&mut failed, start, 100, fails).unwrap_err();
        for bytes in [100, 101] {
            let why = try_once(&mut failed, start + HOLDS / 2, bytes, never).unwrap_err();
            assert_eq!((why.kind(), why.to_string()), (io::ErrorKind::OutOfMemory, "killed".to_string()));
        }
        try_once(&mut failed, start + HOLDS / 2, 99, |_| Ok(())).unwrap();
        try_once(&mut failed, start, 100, fails).unwrap_err();
        try_once(&mut failed, start + HOLDS, 100, |_| Ok(())).unwrap();
    }

    #[test]
    fn promised_memory_is_not_free_while_the_promise_lasts() {
        let before = Promise::total();
        let promise = Promise::of(1 << 20).unwrap();
        assert_eq!((Promise::total(), Room::now().promised), (before + (1 << 20), before + (1 << 20)));
        drop(promise);
        assert_eq!(Promise::total(), before);
    }
}
