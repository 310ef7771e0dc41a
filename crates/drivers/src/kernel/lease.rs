//! Write leases on files (`fcntl(2)`, `F_SETLEASE`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use infra::cpu;

use super::sys;

/// `F_SETOWN_EX` of `fcntl(2)`.
const SET_OWNER: i32 = 15;
/// `F_OWNER_TID` of `fcntl(2)`.
const OWNER_IS_THREAD: i32 = 0;

/// `struct f_owner_ex` of `fcntl(2)`.
#[repr(C)]
struct Owner {
    kind: i32,
    id: libc::pid_t,
}

/// Takes the write lease of a file. Another `open` of the file then blocks until the lease ends, by default for at most
/// 45 s (`/proc/sys/fs/lease-break-time`). Returns false if the kernel does not support leases on such files, or denies
/// this process the lease.
///
/// # Errors
/// `EAGAIN` while the file has another open file description (one from `memfd_create(2)` does not count). Also if a
/// process has tried to open the file since an earlier lease was taken; the next call then takes a new lease.
pub(crate) fn take(file: BorrowedFd<'_>) -> io::Result<bool> {
    // The kernel signals the owner when a process opens the file. The signal would end this process.
    block_signal()?;
    let owner = Owner { kind: OWNER_IS_THREAD, id: cpu::thread_id() };
    // SAFETY: the record lives through the call.
    sys::check(unsafe { libc::fcntl(file.as_raw_fd(), SET_OWNER, &raw const owner) } as isize)?;
    match set(file, libc::F_WRLCK) {
        Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => Err(e),
        Err(_) => Ok(false),
        // The timeout of an earlier attempt to open the file still runs.
        Ok(()) if !is_intact(file) => {
            set(file, libc::F_UNLCK)?;
            Err(io::Error::from_raw_os_error(libc::EAGAIN))
        }
        Ok(()) => Ok(true),
    }
}

/// True if no process has tried to open the file since the lease was taken.
pub(crate) fn is_intact(file: BorrowedFd<'_>) -> bool {
    // SAFETY: no memory is involved.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) == libc::F_WRLCK }
}

fn set(file: BorrowedFd<'_>, kind: i32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    sys::check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) } as isize).map(|_| ())
}

/// Blocks, in this thread, the signal that the kernel sends when another process opens a leased file.
fn block_signal() -> io::Result<()> {
    // SAFETY: zeros are a valid set, and the calls fill and read it.
    let error = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGIO);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut())
    };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    #[test]
    fn a_leased_file_has_no_other_opener() {
        let memory = sys::memory_file(c"test").unwrap();
        let again = |write| {
            let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
            File::options().read(true).write(write).custom_flags(libc::O_NONBLOCK).open(path)
        };
        let own = again(true).unwrap();
        for write in [false, true] {
            let other = again(write).unwrap();
            let refused = take(own.as_fd()).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EAGAIN));
            drop(other);
        }
        for write in [false, true] {
            assert!(take(own.as_fd()).unwrap() && is_intact(own.as_fd()));
            // The signal of this attempt stays pending, as this thread blocks it.
            assert_eq!(again(write).unwrap_err().raw_os_error(), Some(libc::EAGAIN));
            assert!(!is_intact(own.as_fd()));
            assert_eq!(take(own.as_fd()).unwrap_err().raw_os_error(), Some(libc::EAGAIN));
        }
        drop(own);
        again(false).unwrap();
    }
}
