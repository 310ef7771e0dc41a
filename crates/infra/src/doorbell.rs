//! Wakes a thread that sleeps in `poll` or `epoll`.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, BorrowedFd, FromRawFd},
};

/// An eventfd: readable from the first [`ring`](Self::ring) until the next [`clear`](Self::clear).
#[derive(Debug)]
pub struct Doorbell(File);

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
        Ok(Self(unsafe { File::from_raw_fd(fd) }))
    }

    /// Wakes the sleeper, or keeps it from falling asleep.
    pub fn ring(&self) {
        // The write fails only when the counter is at its limit: then the bell has been rung well enough.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    /// Makes the bell silent again; returns whether it had been rung.
    pub fn clear(&self) -> bool {
        (&self.0).read(&mut [0; 8]).is_ok()
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(all(test, not(any(loom, miri))))]
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
}
