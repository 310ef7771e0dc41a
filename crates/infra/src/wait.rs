//! Sleeping until one of several files is readable.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Sleeps until one of `fds` is readable (or closed by its peer), but at most for `longest`. Returns true if
/// one is readable or closed.
///
/// # Errors
/// Fails if the kernel refuses the wait. If a signal interrupts the wait, the result is false.
pub fn any(fds: &[BorrowedFd<'_>], longest: Duration) -> io::Result<bool> {
    let mut set: Vec<libc::pollfd> =
        fds.iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
    let time = libc::timespec {
        tv_sec: longest.as_secs() as libc::time_t,
        tv_nsec: longest.subsec_nanos() as libc::c_long,
    };
    // SAFETY: `set` and `time` live through the call, and the length is that of the set.
    let n = unsafe { libc::ppoll(set.as_mut_ptr(), set.len() as libc::nfds_t, &time, std::ptr::null()) };
    match n {
        0.. => Ok(n > 0),
        _ => match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::Interrupted => Ok(false),
            e => Err(e),
        },
    }
}

/// Makes the kernel wake the calling thread exactly at the end of a sleep, instead of up to 50 µs later
/// together with other threads.
pub fn exactly() {
    // SAFETY: the call concerns only the calling thread's timers. It cannot fail with this argument.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}

#[cfg(all(test, not(any(feature = "loom", miri))))]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::doorbell::Doorbell;

    #[test]
    fn a_bell_wakes_and_silence_times_out() -> io::Result<()> {
        let bell = Doorbell::new()?;
        assert!(!any(&[bell.as_fd()], Duration::from_millis(1))?);
        bell.ring();
        assert!(any(&[bell.as_fd()], Duration::from_secs(5))?);
        Ok(())
    }
}
