//! Wakes a thread that sleeps in `poll` or `epoll`.

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

/// Whether the owner of a ring sleeps, so that whoever puts something into it rings for sleepers only.
///
/// The owner says that it is about to sleep, and looks at its ring once more; the other side puts its item into the
/// ring, and looks whether the owner sleeps. The fences between the two steps of each see to it that one of them sees
/// what the other did.
#[derive(Debug, Default)]
pub(crate) struct Sleep(AtomicBool);

impl Sleep {
    /// The owner is about to sleep, and looks at its rings after this.
    pub(crate) fn announce(&self) {
        // A store would do. But loom does not conclude that it comes behind the swap of a waker who found the owner awake.
        self.0.swap(true, Relaxed);
        fence(SeqCst);
    }

    /// The owner is awake.
    pub(crate) fn end(&self) {
        self.0.store(false, Relaxed);
    }

    /// Whether the owner has to be woken for what this thread put into a ring before: true for one of those who ask.
    #[inline]
    pub(crate) fn wake(&self) -> bool {
        fence(SeqCst);
        self.0.load(Relaxed) && self.0.swap(false, Relaxed)
    }
}

/// An eventfd: readable from the first [`ring`](Self::ring) until the next [`clear`](Self::clear).
#[derive(Debug)]
pub struct Doorbell {
    file: File,
    sleep: Sleep,
}

impl Doorbell {
    /// A doorbell that nobody has rung.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: plain system call.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: eventfd just returned it; nobody else owns it.
        Ok(Self { file: unsafe { File::from_raw_fd(fd) }, sleep: Sleep::default() })
    }

    /// Wakes the sleeper, or keeps it from falling asleep.
    pub fn ring(&self) {
        // The write fails only when the counter is at its limit: then the bell has been rung well enough.
        let _ = (&self.file).write(&1u64.to_ne_bytes());
    }

    /// Wakes an owner that sleeps, or is about to, for what this thread put into a ring before this call. Costs no
    /// system call while the owner is awake, which will look at the ring by itself.
    #[inline]
    pub fn ring_sleeper(&self) {
        if self.sleep.wake() {
            self.ring();
        }
    }

    /// The owner is about to sleep: it looks at all its rings after this call, and before it sleeps.
    pub fn about_to_sleep(&self) {
        self.sleep.announce();
    }

    /// The owner does not sleep after all.
    pub fn awake(&self) {
        self.sleep.end();
    }

    /// Makes the bell silent again, and says that its owner is awake; returns whether it had been rung.
    pub fn clear(&self) -> bool {
        self.sleep.end();
        (&self.file).read(&mut [0; 8]).is_ok()
    }
}

impl From<OwnedFd> for Doorbell {
    /// A copy of a doorbell's file, to ring it by.
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
