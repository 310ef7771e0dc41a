//! Wakes a thread that sleeps in `poll` or `epoll`. The thread is the owner of the doorbell.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd},
};

use crate::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, SeqCst},
    fence,
};

/// Whether the owner of a ring sleeps. Other threads ring the bell only for a sleeping owner.
///
/// The owner announces its sleep, and then checks its ring once more. Another thread puts an item into the
/// ring, and then checks whether the owner sleeps. Each side has a fence between its two steps. So at least
/// one side sees what the other has done.
#[derive(Debug, Default)]
pub(crate) struct Sleep(AtomicBool);

impl Sleep {
    /// Announces that the owner will sleep. The owner must check its rings after this call.
    pub(crate) fn announce(&self) {
        // A store would be enough. But loom does not order a store after the swap of a waker that found the owner awake.
        self.0.swap(true, Relaxed);
        fence(SeqCst);
    }

    /// Withdraws the announcement, because the owner is awake.
    pub(crate) fn end(&self) {
        self.0.store(false, Relaxed);
    }

    /// After this thread has put an item into the ring, returns true if this thread must wake the owner. If
    /// several threads call this, only one gets true.
    #[inline]
    pub(crate) fn wake(&self) -> bool {
        fence(SeqCst);
        self.0.load(Relaxed) && self.0.swap(false, Relaxed)
    }
}

/// An eventfd. It is readable from the first [`ring`](Self::ring) until the next [`clear`](Self::clear).
#[derive(Debug)]
pub struct Doorbell {
    file: File,
    sleep: Sleep,
}

impl Doorbell {
    /// Returns a doorbell that is not ringing.
    ///
    /// # Errors
    /// Fails if the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: plain system call.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: eventfd just returned it, and it has no other owner.
        Ok(Self { file: unsafe { File::from_raw_fd(fd) }, sleep: Sleep::default() })
    }

    /// Wakes the owner, or keeps it from falling asleep.
    pub fn ring(&self) {
        // The write fails only if the counter is at its limit; the bell is ringing then.
        let _ = (&self.file).write(&1u64.to_ne_bytes());
    }

    /// Wakes the owner if it sleeps or is about to sleep. Call this after putting an item into the owner's ring. While the owner is
    /// awake, this needs no system call, because the owner checks the ring itself.
    #[inline]
    pub fn ring_sleeper(&self) {
        if self.sleep.wake() {
            self.ring();
        }
    }

    /// Announces that the owner will sleep. The owner must check all its rings after this call and before it
    /// sleeps.
    pub fn about_to_sleep(&self) {
        self.sleep.announce();
    }

    /// Withdraws the announcement, because the owner does not sleep after all.
    pub fn awake(&self) {
        self.sleep.end();
    }

    /// Stops the ringing, and marks the owner as awake. Returns true if the bell was ringing.
    pub fn clear(&self) -> bool {
        self.sleep.end();
        (&self.file).read(&mut [0; 8]).is_ok()
    }
}

impl From<OwnedFd> for Doorbell {
    /// Makes a doorbell from a copy of another doorbell's descriptor. The new doorbell can only ring.
    fn from(file: OwnedFd) -> Self {
        Self { file: file.into(), sleep: Sleep::default() }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(all(test, not(any(feature = "loom", miri))))]
mod tests {
    use super::*;
    use crate::wait;
    use std::time::Duration;

    fn readable(bell: &Doorbell) -> bool {
        wait::any(&[bell.as_fd()], Duration::ZERO).unwrap()
    }

    #[test]
    fn rings_until_cleared() {
        let bell = Doorbell::new().unwrap();
        assert!(!readable(&bell) && !bell.clear());
        bell.ring();
        bell.ring();
        assert!(readable(&bell) && bell.clear());
        assert!(!readable(&bell) && !bell.clear());
    }

    #[test]
    fn rings_for_a_sleeper_only() {
        let bell = Doorbell::new().unwrap();
        bell.ring_sleeper();
        assert!(!bell.clear());
        bell.about_to_sleep();
        bell.ring_sleeper();
        bell.ring_sleeper();
        assert!(readable(&bell) && bell.clear());
        bell.ring_sleeper();
        assert!(!readable(&bell), "the owner was awake again");
    }
}
