//! Reservations for memory that is shared with another process, and that the kernel may charge to this process.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Room;
use super::room::LEFT;

/// Sum of the bytes of all promises.
static TOTAL: AtomicU64 = AtomicU64::new(0);
/// Lock that a thread holds while it adds a promise to `TOTAL`.
static ADDING: Mutex<()> = Mutex::new(());

/// A reservation for pages of a file that another process maps as well. The kernel charges such a page to the process that touches it
/// first, no matter which process made the file. [`Room`] does not count promised bytes as free.
#[derive(Debug)]
pub struct Promise {
    bytes: u64,
    blind: bool,
    account: Option<Account>,
}

/// Number of bytes promised to the peers of one socket, see [`Promise`]. Clones share the number.
#[derive(Clone, Debug, Default)]
pub struct Account(Arc<AtomicU64>);

impl Account {
    fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Promise {
    /// Reserves `bytes` bytes. Until the promise is dropped, those promised pages that are in use count twice: as promised and as
    /// used.
    ///
    /// # Errors
    /// Returns `OutOfMemory` for more than half of the free memory, so that this process always keeps some.
    pub fn of(bytes: u64) -> io::Result<Promise> {
        Promise::within(bytes, 0, None)
    }

    /// Promises `bytes` bytes that an untrusted peer may keep in use: missing pages of the peer's file, or memory that this process creates
    /// for the peer.
    ///
    /// # Errors
    /// Returns `OutOfMemory` if `bytes` is more than half of the free memory, after 64 MiB are set aside. So even if peers take all that
    /// they get, enough is left for clients of the CLI and for routes. If the limit of a control group cannot be read, also in these cases:
    ///
    /// * All promises together would have more than 256 MiB.
    /// * The promises of one `account` would have more than half of what the other accounts have left of these 256 MiB. So the peers of one
    ///   socket never take all.
    /// * A trial fails: a child process cannot fill all promised memory and another 64 MiB. A trial takes 0.1 s. After a failed one,
    ///   requests are refused for 1 to 64 s, without another trial.
    pub fn to_stranger(bytes: u64, account: &Account) -> io::Result<Promise> {
        if bytes == 0 || Room::sees_all() {
            return Promise::within(bytes, LEFT, None);
        }
        // Only one trial at a time: simultaneous trials would take each other's memory.
        let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
        let promise = Promise::within(bytes, LEFT, Some(account))?;
        try_once(&mut failed, Instant::now(), Promise::total() + LEFT, Room::try_unseen)?;
        Ok(promise)
    }

    /// Promises `bytes` bytes if they are at most half of the free memory, not counting `kept` bytes of it. With an `account`, the
    /// rules for a limit that cannot be read apply, too.
    fn within(bytes: u64, kept: u64, account: Option<&Account>) -> io::Result<Promise> {
        let _adding = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
        let room = Room::now();
        if let Some(account) = account {
            fits_blind(bytes, room.promised, account.bytes())?;
            account.0.fetch_add(bytes, Ordering::Relaxed);
        }
        let promise = Promise { bytes, blind: account.is_some(), account: account.cloned() };
        TOTAL.fetch_add(bytes, Ordering::Relaxed);
        // If the bytes do not fit, the promise is dropped here.
        fits(bytes, &room, kept).map(|()| promise)
    }

    /// Returns the number of promised bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True for a promise to a stranger that was made without knowing every memory limit: a control group may have a limit that cannot be
    /// read.
    pub fn is_blind(&self) -> bool {
        self.blind
    }

    /// Returns the sum of the bytes of all promises.
    pub(super) fn total() -> u64 {
        TOTAL.load(Ordering::Relaxed)
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        TOTAL.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(account) = &self.account {
            account.0.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// After a trial has failed, requests are refused for this time, and no further trial is made. The time doubles with each further failed
/// trial, up to `LONGEST`. In a trial, a child process fills memory. If the trial fails, the memory of the control group was full for a
/// moment, so peers must not cause many trials.
const HOLDS: Duration = Duration::from_secs(1);
/// Maximum waiting time after a failed trial. If no trial fails within this time after the waiting time, the next failed trial
/// counts as the first one.
const LONGEST: Duration = Duration::from_secs(64);

/// A failed trial.
#[derive(Debug)]
struct FailedTrial {
    at: Instant,
    /// Time for which requests are refused without another trial.
    holds: Duration,
    why: String,
}

/// The last failed trial.
static FAILED: Mutex<Option<FailedTrial>> = Mutex::new(None);

/// Runs `trial` for `bytes` bytes. If the waiting time after the last failed trial has not expired, returns that trial's error
/// instead.
fn try_once(
    failed: &mut Option<FailedTrial>,
    now: Instant,
    bytes: u64,
    trial: impl FnOnce(u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut holds = HOLDS;
    if let Some(last) = &*failed {
        let since = now.saturating_duration_since(last.at);
        if since < last.holds {
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, last.why.clone()));
        }
        if since < last.holds + LONGEST {
            holds = (last.holds * 2).min(LONGEST);
        }
    }
    // A successful trial does not reset the waiting time: otherwise peers could request small amounts between failed trials.
    trial(bytes).inspect_err(|e| *failed = Some(FailedTrial { at: now, holds, why: e.to_string() }))
}

/// Maximum sum of all promises in bytes, if a control group may have a limit that cannot be read.
const BLIND: u64 = 256 << 20;

/// Checks that another `bytes` bytes may be promised to an account if a limit cannot be read. All promises together have `promised`
/// bytes, and `own` of these belong to the account.
fn fits_blind(bytes: u64, promised: u64, own: u64) -> io::Result<()> {
    let most = BLIND.saturating_sub(promised.saturating_sub(own)) / 2;
    if own.saturating_add(bytes) <= most {
        return Ok(());
    }
    let why = format!(
        "the shared memory needs {} MiB more, but this socket may use at most {} MiB: all sockets share {} MiB, and each may use half of what the others leave. Connections of this socket that are open or ended in the last hour use {} MiB. This rule applies because a control group around this container may limit memory, and its limit cannot be read",
        bytes >> 20,
        most >> 20,
        BLIND >> 20,
        own >> 20
    );
    Err(io::Error::new(io::ErrorKind::OutOfMemory, why))
}

/// Checks that `bytes` bytes are at most half of the free memory, not counting `kept` bytes of it.
fn fits(bytes: u64, room: &Room, kept: u64) -> io::Result<()> {
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
        fits(100 << 20, &room(232), 0).unwrap();
        let error = fits(101 << 20, &room(232), 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        let told = error.to_string();
        assert!(told.starts_with("the shared memory needs 101 MiB more"), "{told}");
        assert!(told.ends_with("200 MiB free and 32 MiB reserved (memory.max)"), "{told}");
        fits(u64::MAX, &Room { bytes: u64::MAX, ..room(0) }, 0).unwrap();
        // Promises to untrusted peers must leave more memory free.
        fits(68 << 20, &room(232), LEFT).unwrap();
        let told = fits(69 << 20, &room(232), LEFT).unwrap_err().to_string();
        assert!(told.contains("half of the free memory beyond 64 MiB"), "{told}");
        fits(0, &room(0), LEFT).unwrap();
    }

    /// However many connections a socket's peers make, connections of other sockets still get memory.
    #[test]
    fn no_socket_takes_all_memory_if_a_limit_is_unknown() {
        const MIB: u64 = 1 << 20;
        let (mut total, mut left) = (0, BLIND);
        for _ in 0..5 {
            let mut own = 0;
            while fits_blind(MIB, total, own).is_ok() {
                (total, own) = (total + MIB, own + MIB);
            }
            assert_eq!(own, left / 2);
            left -= own;
        }
        let told = fits_blind(MIB, 100 * MIB, 78 * MIB).map_err(|e| e.to_string());
        assert_eq!(told, Ok(()));
        let told = fits_blind(40 * MIB, 100 * MIB, 78 * MIB).unwrap_err().to_string();
        assert!(told.contains("at most 117 MiB") && told.ends_with("its limit cannot be read"), "{told}");
    }

    #[test]
    fn a_promise_that_does_not_fit_leaves_nothing() {
        let (account, before) = (Account::default(), Promise::total());
        Promise::within(u64::MAX / 2, 0, None).unwrap_err();
        Promise::within(100 << 20, u64::MAX / 2, Some(&account)).unwrap_err();
        assert_eq!((account.bytes(), Promise::total()), (0, before));
    }

    /// After a failed trial, refused peers must not cause a new trial at once, whatever amounts they request.
    #[test]
    fn failed_trials_become_rare() {
        let fails = |_| Err(io::Error::other("killed"));
        let never = |_| panic!("a trial");
        let (mut failed, mut now) = (None, Instant::now());
        try_once(&mut failed, now, 100, |_| Ok(())).unwrap();
        for holds in [1, 2, 4, 8, 16, 32, 64, 64].map(Duration::from_secs) {
            try_once(&mut failed, now, 100, fails).unwrap_err();
            for bytes in [1, 100, 101] {
                let why = try_once(&mut failed, now + holds / 2, bytes, never).unwrap_err();
                assert_eq!((why.kind(), why.to_string()), (io::ErrorKind::OutOfMemory, "killed".to_string()));
            }
            now += holds;
            // A little in between changes nothing.
            try_once(&mut failed, now, 1, |_| Ok(())).unwrap();
        }
        now += 2 * LONGEST;
        try_once(&mut failed, now, 100, fails).unwrap_err();
        try_once(&mut failed, now + HOLDS, 100, |_| Ok(())).unwrap();
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
