//! Passes files between the main thread and a connection's thread, which have separate descriptor tables.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::kernel::{discard, passing};

/// The main thread's end of a socket pair. Dropping this end ends the connection's thread, which has the
/// other end.
///
/// Each byte wakes the thread at the other end and may carry a file.
#[derive(Debug)]
pub(in crate::memif) struct Pass(ManuallyDrop<OwnedFd>);

impl Pass {
    /// Creates a socket pair. Returns the main thread's end, and the end for the connection's thread.
    pub(super) fn new() -> io::Result<(Pass, OwnedFd)> {
        passing::pair().map(|[ours, theirs]| (Pass(ManuallyDrop::new(ours)), theirs))
    }

    /// Passes a copy of a file, or only wakes the thread.
    ///
    /// # Errors
    /// `WouldBlock` if the socket pair is full of earlier files and wakeups. Those wake the thread.
    pub(super) fn send(&self, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        send(self.0.as_fd(), file)
    }

    /// Takes the next file; `None` if there is none, or the process has no free descriptor for it.
    pub(super) fn take(&self) -> Option<OwnedFd> {
        passing::receive(self.0.as_fd(), &mut [0], false).ok()?.files.pop()
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        // SAFETY: it is taken once, here.
        let end = unsafe { ManuallyDrop::take(&mut self.0) };
        discard::elsewhere(move || {
            // The thread has other copies of all files in transit. The copies in transit are closed here, before the thread ends.
            // SAFETY: no memory is involved.
            unsafe { libc::shutdown(end.as_raw_fd(), libc::SHUT_RD) };
            while passing::receive(end.as_fd(), &mut [0], false).is_ok_and(|piece| piece.len > 0) {}
        });
    }
}

/// Passes a copy of a file to the thread at the other end of the socket pair, or only wakes that thread.
///
/// # Errors
/// `WouldBlock` if the socket pair is full of earlier files and wakeups.
pub(super) fn send(end: BorrowedFd<'_>, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    passing::send(end, &[0], file.as_slice()).map(drop)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::kernel::sys;

    #[test]
    fn files_pass_both_ways_and_the_end_is_detected() {
        let (ours, theirs) = Pass::new().unwrap();
        let file = sys::eventfd().unwrap();
        ours.send(Some(file.as_fd())).unwrap();
        ours.send(None).unwrap();
        let next = || passing::receive(theirs.as_fd(), &mut [0], false).map(|p| (p.len, p.files.len()));
        assert_eq!((next().unwrap(), next().unwrap()), ((1, 1), (1, 0)));
        assert_eq!(next().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        send(theirs.as_fd(), Some(file.as_fd())).unwrap();
        send(theirs.as_fd(), Some(file.as_fd())).unwrap();
        assert!(ours.take().is_some());
        drop(ours);
        let end = passing::receive(theirs.as_fd(), &mut [0], true).unwrap();
        assert_eq!((end.len, end.files.len()), (0, 0));
        let end = send(theirs.as_fd(), Some(file.as_fd()));
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
