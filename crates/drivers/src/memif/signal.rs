//! Wakes a peer through its event descriptor, without ever blocking.
//!
//! An event descriptor is one file with two owners. A peer can set its counter to the limit and clear `O_NONBLOCK`; a write would then
//! block forever. A check before the write would leave a race. But the kernel never blocks when it signals the end of an asynchronous read
//! (`io_submit(2)`, `IOCB_FLAG_RESFD`). So the router signals a peer by an empty asynchronous read from `/dev/null`.

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

/// Minimum number of results that the kernel must be able to store until the router collects them.
const PENDING: libc::c_long = 32;

/// An I/O request (`struct iocb`, `linux/aio_abi.h`).
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

/// An I/O result (`struct io_event`).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Done([u64; 4]);

const READ: u16 = 0;
const SIGNALS: u32 = 1;

/// Duration above which a signal is slow. The kernel wakes all watchers of a descriptor before it returns, and a peer may have a million of
/// them.
const SLOW: Duration = Duration::from_millis(1);
/// CPU time above which a connection's first signal is too slow.
const TOO_SLOW: Duration = Duration::from_millis(4);
/// How long the CPU time of signals is measured after a slow signal.
const SUSPICION: Duration = Duration::from_secs(10);
/// Limit of the accumulated time of slow signals in nanoseconds.
const MOST: u64 = 200_000_000;
/// The accumulated time decreases by one nanosecond each time this many nanoseconds pass.
const FORGOTTEN: u64 = 20;

/// Returns the monotonic time.
fn monotonic() -> Duration {
    time(libc::CLOCK_MONOTONIC)
}

/// Returns the CPU time of this thread.
fn worked() -> Duration {
    time(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn time(clock: libc::clockid_t) -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time. It knows both clocks, so this does not fail.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Runs `signal`, which signals a connection's peer for the first time. Returns true if the signal uses far too much CPU time.
pub(super) fn is_slow(signal: impl FnOnce()) -> bool {
    let begun = worked();
    signal();
    worked().saturating_sub(begun) > TOO_SLOW
}

/// Accumulates the time that slow signals to an interface's peers have taken. The total is kept when a connection ends, so a peer
/// that reconnects does not get a new allowance.
#[derive(Default)]
pub(super) struct Pace {
    /// Until this time, in nanoseconds of the monotonic clock, the CPU time of signals is measured, because a signal was slow.
    suspected_until: AtomicU64,
    debt: Mutex<Debt>,
}

impl Pace {
    /// Runs `signal`, which signals a peer, and measures its time.
    ///
    /// # Errors
    /// If slow signals have taken too long in total.
    pub(super) fn take(&self, signal: impl FnOnce()) -> Result<(), Fault> {
        let begun = monotonic();
        // On a busy machine the thread may only have waited for its turn, so CPU time counts. Reading the CPU time costs a system call, so
        // the first slow signal is free.
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

/// An asynchronous I/O context of the kernel (`io_setup(2)`). It is not a file descriptor, so threads with separate descriptor tables can
/// share it.
pub(super) struct Context(libc::c_ulong);

/// An asynchronous I/O context, and `/dev/null`, from which it reads.
pub(super) struct Signals {
    context: Arc<Context>,
    null: File,
}

impl Signals {
    pub(super) fn new() -> io::Result<Signals> {
        let null = File::open("/dev/null")?;
        let mut context: libc::c_ulong = 0;
        // Miri does not support asynchronous I/O.
        if cfg!(not(miri)) {
            // SAFETY: the kernel writes the context's ID to `context`.
            sys::check(unsafe { libc::syscall(libc::SYS_io_setup, PENDING, &raw mut context) } as isize)?;
        }
        Ok(Signals { context: Arc::new(Context(context)), null })
    }

    /// Wakes the waiters of `bell`.
    ///
    /// # Errors
    /// `InvalidInput` if `bell` is not an event descriptor.
    pub(super) fn ring(&self, bell: BorrowedFd<'_>) -> io::Result<()> {
        self.context.ring(self.null(), bell)
    }

    /// Returns `/dev/null`, the file that signals read from.
    pub(super) fn null(&self) -> BorrowedFd<'_> {
        self.null.as_fd()
    }

    /// Returns the asynchronous I/O context, for threads that have their own copy of [`/dev/null`](Signals::null).
    pub(super) fn context(&self) -> Arc<Context> {
        self.context.clone()
    }
}

impl Context {
    /// Wakes the waiters of `bell`, by a read of `null`.
    ///
    /// # Errors
    /// As for [`Signals::ring`].
    pub(super) fn ring(&self, null: BorrowedFd<'_>, bell: BorrowedFd<'_>) -> io::Result<()> {
        match self.submit(null, bell) {
            // There is no room for more results: collect the results of earlier reads.
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
        // SAFETY: the kernel copies the request, and the read has a length of zero, so it writes no bytes.
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
            // SAFETY: the context is ours; no read is under way, as each read ends at once.
            unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
        }
    }
}

/// A file that workers sleep on in place of a peer's event descriptors, which change with each connection. A peer's signal makes this file
/// readable until [`clear`](Watch::clear). The event descriptors are never read, because a read might block, too.
pub(super) struct Watch(OwnedFd);

impl Watch {
    pub(super) fn new() -> io::Result<Watch> {
        sys::epoll().map(Watch)
    }

    /// Starts watching a peer's event descriptor.
    pub(super) fn add(&self, bell: BorrowedFd<'_>) -> io::Result<()> {
        // EPOLLET reports each signal once, because the counter is never reset.
        sys::epoll_add(self.0.as_fd(), bell, 0, libc::EPOLLIN | libc::EPOLLET)
    }

    /// Stops watching an event descriptor. Closing it would not suffice while the peer has it open.
    pub(super) fn remove(&self, bell: BorrowedFd<'_>) {
        sys::epoll_remove(self.0.as_fd(), bell);
    }

    /// Discards signals received so far.
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

    /// Uses this much CPU time.
    fn work(time: Duration) {
        let end = worked() + time;
        while worked() < end {}
    }

    #[test]
    fn slow_signals_are_limited_across_reconnects() {
        let pace = Pace::default();
        let slow = || pace.take(|| work(10 * SLOW));
        let borne = (0..1000).take_while(|_| slow().is_ok()).count() as u64;
        // The first slow signal is free, and some time is forgiven while this runs.
        let most = MOST / (10 * SLOW.as_nanos() as u64);
        assert!((most / 2..2 * most).contains(&borne), "{borne}");
        // Fast signals stay allowed, but no slow signal for a while.
        assert_eq!((pace.take(|| {}), slow()), (Ok(()), Err(Fault::SlowBell)));
    }

    #[test]
    fn waiting_for_a_processor_does_not_count_as_slow() {
        let pace = Pace::default();
        (0..20).for_each(|_| assert_eq!(pace.take(|| std::thread::sleep(20 * SLOW)), Ok(())));
        assert!(!is_slow(|| std::thread::sleep(2 * TOO_SLOW)) && is_slow(|| work(2 * TOO_SLOW)));
    }
}
