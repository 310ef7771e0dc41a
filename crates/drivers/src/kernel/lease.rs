//! Write leases on files (`fcntl(2)`, `F_SETLEASE`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use infra::cpu;

use super::sys;

/// `F_SETOWN_EX` and `F_OWNER_TID` of `fcntl(2)`.
const SET_OWNER: i32 = 15;
const OWNER_IS_THREAD: i32 = 0;

/// `struct f_owner_ex` of `fcntl(2)`.
#[repr(C)]
struct Owner {
    kind: i32,
    id: libc::pid_t,
}

/// Takes the write lease of a file, if the kernel has leases for such files and allows this process one. The lease lasts
/// until the file is closed. Opening the file elsewhere waits for it.
///
/// # Errors
/// `EAGAIN` while another open file of the same contents exists. Files from `memfd_create(2)` do not count.
pub(crate) fn take(file: BorrowedFd<'_>) -> io::Result<()> {
    // The kernel signals the owner when a process opens the file. The signal would end this process.
    block_signal()?;
    let owner = Owner { kind: OWNER_IS_THREAD, id: cpu::thread_id() };
    // SAFETY: the record lives through the call.
    sys::check(unsafe { libc::fcntl(file.as_raw_fd(), SET_OWNER, &raw const owner) } as isize)?;
    // SAFETY: no memory is involved.
    match sys::check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) } as isize) {
        Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => Err(e),
        _ => Ok(()),
    }
}

/// Blocks the signal of leases in this thread.
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
        take(own.as_fd()).unwrap();
        // The signal of this attempt stays pending, as this thread blocks it.
        assert_eq!(again(false).unwrap_err().raw_os_error(), Some(libc::EAGAIN));
        drop(own);
        again(false).unwrap();
    }
}
