//! Wakes a peer by its event descriptor, without ever waiting for it.
//!
//! An event descriptor is one file with two owners. A peer that sets its counter to the limit, and takes `O_NONBLOCK`
//! away, would have whoever writes to it sleep for ever; to ask first whether a write would wait leaves a moment between
//! the two. What never waits is the kernel's own signal: that of an asynchronous read that has ended (`io_submit(2)`,
//! `IOCB_FLAG_RESFD`). So a signal is a read of nothing, from `/dev/null`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::ring::Fault;
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
/// So many slow ones behind each other are no accident.
const MOST_SLOW: u8 = 4;

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

/// Counts the slow signals to one peer.
#[derive(Default)]
pub(super) struct Pace(u8);

impl Pace {
    /// Runs a signal.
    ///
    /// # Errors
    /// When it was one slow signal too many.
    pub(super) fn take(&mut self, signal: impl FnOnce()) -> Result<(), Fault> {
        // After one that was slow, the time counts that this thread has worked: on a busy machine it may only have waited for
        // its turn. To ask for that time costs a system call.
        let clock = if self.0 == 0 { monotonic } else { worked };
        let begun = clock();
        signal();
        self.0 = if clock().saturating_sub(begun) < SLOW { 0 } else { self.0 + 1 };
        if self.0 < MOST_SLOW { Ok(()) } else { Err(Fault::SlowBell) }
    }
}

/// Signals of one sender.
pub(super) struct Signals {
    context: libc::c_ulong,
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
        Ok(Signals { context, null })
    }

    /// Wakes whoever waits for `bell`.
    ///
    /// # Errors
    /// `InvalidInput` when it is no event descriptor.
    pub(super) fn ring(&self, bell: BorrowedFd<'_>) -> io::Result<()> {
        match self.submit(bell) {
            // So many have ended that there is no room for their results.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.collect();
                self.submit(bell)
            }
            done => done,
        }
    }

    fn submit(&self, bell: BorrowedFd<'_>) -> io::Result<()> {
        let mut request = Request {
            opcode: READ,
            file: self.null.as_raw_fd() as u32,
            flags: SIGNALS,
            event_file: bell.as_raw_fd() as u32,
            ..Request::default()
        };
        if cfg!(miri) {
            return Ok(());
        }
        let mut list = [&raw mut request];
        // SAFETY: the kernel copies the request, and reads no bytes to the buffer that it has not.
        let r = unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, list.as_mut_ptr()) };
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
                self.context,
                0 as libc::c_long,
                PENDING,
                done.as_mut_ptr(),
                &raw const at_once,
            )
        };
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        if cfg!(not(miri)) {
            // SAFETY: the handle is ours; no read is under way, as each ends at once.
            unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
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

    #[test]
    fn a_peer_whose_signals_are_all_slow_is_known() {
        let mut pace = Pace::default();
        let slow = || {
            let end = worked() + 2 * SLOW;
            while worked() < end {}
        };
        for _ in 0..20 {
            (1..MOST_SLOW).for_each(|_| assert_eq!(pace.take(slow), Ok(())));
            assert_eq!(pace.take(|| {}), Ok(()), "one that is not slow begins anew");
        }
        (1..MOST_SLOW).for_each(|_| assert_eq!(pace.take(slow), Ok(())));
        assert_eq!(pace.take(slow), Err(Fault::SlowBell));
        // A thread that waits for its turn.
        let mut pace = Pace::default();
        (0..20).for_each(|_| assert_eq!(pace.take(|| std::thread::sleep(2 * SLOW)), Ok(())));
    }
}
