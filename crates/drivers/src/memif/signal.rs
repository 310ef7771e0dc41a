//! Wakes a peer by its event descriptor, without ever waiting for it.
//!
//! An event descriptor is one file with two owners. A peer that sets its counter to the limit, and takes `O_NONBLOCK`
//! away, would have whoever writes to it sleep for ever; to ask first whether a write would wait leaves a moment between
//! the two. What never waits is the kernel's own signal: that of an asynchronous read that has ended (`io_submit(2)`,
//! `IOCB_FLAG_RESFD`). So a signal is a read of nothing, from `/dev/null`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::patience::Debt;
use super::ring::Fault;
use super::shared::lock;
use crate::kernel::sys;

/// Reads that are not collected at once; there is room for a few more.
const PENDING: libc::c_long = 32;

/// A request (`struct iocb`, `linux/aio_abi.h`).
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// A result (`struct io_event`).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Done([u64; 4]);

const READ: u16 = 0;
const SIGNALS: u32 = 1;

/// A signal that takes longer is slow. The kernel wakes all who watch a descriptor before it returns, and a peer may have a
/// million of them.
const SLOW: Duration = Duration::from_millis(1);
/// One that takes longer on a thread that has not been interrupted much is no accident.
const TOO_SLOW: Duration = Duration::from_millis(4);
/// After a slow signal others are looked at more closely for so long.
const SUSPICION: Duration = Duration::from_secs(10);
/// Slow signals may have taken so long together, in nanoseconds...
const MOST: u64 = 200_000_000;
/// ... and are forgotten while so many times as much passes.
const FORGOTTEN: u64 = 20;

/// The time since some moment in the past.
fn monotonic() -> Duration {
    time(libc::CLOCK_MONOTONIC)
}

/// The time that this thread has had a processor.
fn worked() -> Duration {
    time(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn time(clock: libc::clockid_t) -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time. It knows both clocks, so this does not fail.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Runs a signal for the first time; whether it took far too long.
pub(super) fn is_slow(signal: impl FnOnce()) -> bool {
    let begun = worked();
    signal();
    worked().saturating_sub(begun) > TOO_SLOW
}

/// Counts the time of slow signals to the peers of one interface. It outlives a connection: who comes again is not given as
/// much time again.
#[derive(Default)]
pub(super) struct Pace {
    /// Until when signals are looked at closely, in nanoseconds of the monotonic clock.
    suspected_until: AtomicU64,
    debt: Mutex<Debt>,
}

impl Pace {
    /// Runs a signal.
    ///
    /// # Errors
    /// When slow ones have taken too long together.
    pub(super) fn take(&self, signal: impl FnOnce()) -> Result<(), Fault> {
        let begun = monotonic();
        // On a busy machine a thread may only have waited for its turn, so the time counts that it has worked. To ask for
        // that costs a system call, so the first slow one is free.
        let suspected = begun.as_nanos() < self.suspected_until.load(Ordering::Relaxed).into();
        let before = suspected.then(worked);
        signal();
        let now = monotonic();
        if now.saturating_sub(begun) < SLOW {
            return Ok(());
        }
        self.was_slow(now, before.map(|before| worked().saturating_sub(before)).unwrap_or_default())
    }

    #[cold]
    fn was_slow(&self, now: Duration, worked: Duration) -> Result<(), Fault> {
        self.suspected_until.store((now + SUSPICION).as_nanos() as u64, Ordering::Relaxed);
        if worked < SLOW {
            return Ok(());
        }
        let fits = lock(&self.debt).add(now.as_nanos() as u64, worked.as_nanos() as u64, MOST, FORGOTTEN);
        if fits { Ok(()) } else { Err(Fault::SlowBell) }
    }
}

/// The kernel's side of signals. It has no descriptor, so threads with a table of their own may share it, whoever of them is the
/// last to let go.
pub(super) struct Context(libc::c_ulong);

/// Signals of one sender.
pub(super) struct Signals {
    context: Arc<Context>,
    null: File,
}

impl Signals {
    pub(super) fn new() -> io::Result<Signals> {
        let null = File::open("/dev/null")?;
        let mut context: libc::c_ulong = 0;
        // Miri knows no asynchronous I/O.
        if cfg!(not(miri)) {
            // SAFETY: the kernel writes the handle to `context`.
            sys::check(unsafe { libc::syscall(libc::SYS_io_setup, PENDING, &raw mut context) } as isize)?;
        }
        Ok(Signals { context: Arc::new(Context(context)), null })
    }

    /// Wakes whoever waits for `bell`.
    ///
    /// # Errors
    /// `InvalidInput` when it is no event descriptor.
    pub(super) fn ring(&self, bell: BorrowedFd<'_>) -> io::Result<()> {
        self.context.ring(self.null(), bell)
    }

    /// The file that signals are reads of.
    pub(super) fn null(&self) -> BorrowedFd<'_> {
        self.null.as_fd()
    }

    /// What threads share that have a copy of [the file](Signals::null) under a number of their own.
    pub(super) fn context(&self) -> Arc<Context> {
        self.context.clone()
    }
}

impl Context {
    /// Wakes whoever waits for `bell`, by a read of this file.
    ///
    /// # Errors
    /// As [`Signals::ring`].
    pub(super) fn ring(&self, null: BorrowedFd<'_>, bell: BorrowedFd<'_>) -> io::Result<()> {
        match self.submit(null, bell) {
            // So many have ended that there is no room for their results.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.collect();
                self.submit(null, bell)
            }
            done => done,
        }
    }

    fn submit(&self, null: BorrowedFd<'_>, bell: BorrowedFd<'_>) -> io::Result<()> {
        let mut request = Request {
            opcode: READ,
            file: null.as_raw_fd() as u32,
            flags: SIGNALS,
            event_file: bell.as_raw_fd() as u32,
            ..Request::default()
        };
        if cfg!(miri) {
            return Ok(());
        }
        let mut list = [&raw mut request];
        // SAFETY: the kernel copies the request, and reads no bytes to the buffer that it has not.
        let r = unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1, list.as_mut_ptr()) };
        sys::check(r as isize)?;
        Ok(())
    }

    fn collect(&self) {
        let mut done = [Done::default(); PENDING as usize];
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes at most PENDING results, and reads the time.
        unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.0,
                0 as libc::c_long,
                PENDING,
                done.as_mut_ptr(),
                &raw const at_once,
            )
        };
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if cfg!(not(miri)) {
            // SAFETY: the handle is ours; no read is under way, as each ends at once.
            unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
        }
    }
}

/// A file that sleepers watch in place of a peer's event descriptor, which comes and goes. It is readable from a peer's
/// signal until [`clear`](Watch::clear). The descriptor itself is never read: that might wait, too.
pub(super) struct Watch(OwnedFd);

impl Watch {
    pub(super) fn new() -> io::Result<Watch> {
        sys::epoll().map(Watch)
    }

    /// Heeds a peer's descriptor from now on.
    pub(super) fn add(&self, bell: BorrowedFd<'_>) -> io::Result<()> {
        // Each signal counts once (EPOLLET), as the counter stays what it is.
        sys::epoll_add(self.0.as_fd(), bell, 0, libc::EPOLLIN | libc::EPOLLET)
    }

    /// Heeds it no longer. Closing it would not do, as long as the peer has it open.
    pub(super) fn remove(&self, bell: BorrowedFd<'_>) {
        sys::epoll_remove(self.0.as_fd(), bell);
    }

    /// Forgets signals so far.
    pub(super) fn clear(&self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 16];
        let _ = sys::epoll_take(self.0.as_fd(), &mut events);
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

const _: () = assert!(size_of::<Request>() == 64 && size_of::<Done>() == 32);

#[cfg(test)]
mod tests {
    use super::*;

    /// Works for as long.
    fn work(time: Duration) {
        let end = worked() + time;
        while worked() < end {}
    }

    #[test]
    fn peers_whose_signals_are_slow_are_known_whoever_connects_again() {
        let pace = Pace::default();
        let slow = || pace.take(|| work(10 * SLOW));
        let borne = (0..1000).take_while(|_| slow().is_ok()).count() as u64;
        // The first is free, and as much is forgotten as fits the time that this took.
        let most = MOST / (10 * SLOW.as_nanos() as u64);
        assert!((most / 2..2 * most).contains(&borne), "{borne}");
        // Fast ones are borne, but no slow one soon.
        assert_eq!((pace.take(|| {}), slow()), (Ok(()), Err(Fault::SlowBell)));
    }

    #[test]
    fn a_thread_that_waits_for_its_turn_is_not_slow() {
        let pace = Pace::default();
        (0..20).for_each(|_| assert_eq!(pace.take(|| std::thread::sleep(20 * SLOW)), Ok(())));
        assert!(!is_slow(|| std::thread::sleep(2 * TOO_SLOW)) && is_slow(|| work(2 * TOO_SLOW)));
    }
}
