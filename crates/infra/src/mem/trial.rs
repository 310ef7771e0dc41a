//! A trial of whether overcommitted memory is really available, by a process that may be killed for it.
//!
//! A control group's limit may be invisible from inside, for example that of a group above a container's. A
//! process that fills more memory than such a limit allows is killed without a message. So a child process
//! first fills the same amount in the same groups, and makes itself the OOM killer's first choice. That takes 7 ms for
//! the router's default of 43 MiB of buffers. There is no trial if every limit is visible.

use std::ffi::CStr;
use std::{io, ptr};

use libc::{c_int, c_uint};

/// Minimum size of a trial in bytes: this process itself takes as much.
const LEAST: usize = 16 << 20;

/// Bytes that a router takes soon after its start besides its buffers: tables, workers, and 60,000 routes.
/// They are tried together with the buffers, since a router without them would be killed soon.
pub(super) const BESIDE: usize = 64 << 20;

/// Exit codes of the child: it has filled the memory, or the kernel refused it.
const FILLED: c_int = 0;
const REFUSED: c_int = 1;

/// Fills `bytes` and another `beside` bytes of memory in a child process, which then ends.
///
/// # Errors
/// `OutOfMemory` if the child was killed meanwhile or the kernel refused the memory. If no child can be
/// started, there is no trial.
pub(super) fn fill(bytes: usize, beside: usize) -> io::Result<()> {
    if bytes + beside < LEAST {
        return Ok(());
    }
    // SAFETY: the child runs `child` only, which makes system calls and exits: it takes no lock that another
    // thread may hold.
    let id = unsafe { libc::fork() };
    match id {
        0 => child(bytes + beside),
        id if id < 0 => Ok(()),
        id => fate(wait(id)?, bytes, beside),
    }
}

/// The child process. Makes system calls only.
fn child(bytes: usize) -> ! {
    const SCORE: &CStr = c"/proc/self/oom_score_adj";
    const MOST: &[u8] = b"1000";
    // SAFETY: the strings are constants; the new mapping has no other user; the closed files belong to this
    // process, which runs no other code of ours.
    unsafe {
        // The router's open files would outlive it if it were killed meanwhile, and the child does not need
        // them.
        libc::syscall(libc::SYS_close_range, 0 as c_uint, c_uint::MAX, 0 as c_uint);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let score = libc::open(SCORE.as_ptr(), libc::O_WRONLY);
        libc::write(score, MOST.as_ptr().cast(), MOST.len());
        let (rw, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let at = libc::mmap(ptr::null_mut(), bytes, rw, kind | libc::MAP_NORESERVE, -1, 0);
        if at == libc::MAP_FAILED {
            libc::_exit(REFUSED);
        }
        libc::madvise(at, bytes, libc::MADV_HUGEPAGE);
        let filled = libc::madvise(at, bytes, libc::MADV_POPULATE_WRITE) == 0;
        // A kernel without this advice is older than 5.14: there is no trial.
        let unknown = !filled && *libc::__errno_location() == libc::EINVAL;
        libc::_exit(if filled || unknown { FILLED } else { REFUSED })
    }
}

/// Waits for the end of a child. Returns its status.
fn wait(id: libc::pid_t) -> io::Result<c_int> {
    let mut status = 0;
    loop {
        // SAFETY: `status` lives through the call.
        if unsafe { libc::waitpid(id, &raw mut status, 0) } == id {
            return Ok(status);
        }
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
}

/// Converts the child's status to a result.
fn fate(status: c_int, bytes: usize, beside: usize) -> io::Result<()> {
    let why = if libc::WIFSIGNALED(status) {
        "the kernel killed a trial process that took it: a control group has a limit that cannot be read from here (such as \
         memory.max of a group around a container)"
    } else if libc::WEXITSTATUS(status) == REFUSED {
        "the kernel refused it to a trial process"
    } else {
        return Ok(());
    };
    let beside = match beside >> 20 {
        0 => String::new(),
        mib => format!(", and {mib} MiB for the rest of the process"),
    };
    let message = format!("{} MiB of memory needed{beside}: {why}", bytes >> 20);
    Err(io::Error::new(io::ErrorKind::OutOfMemory, message))
}

#[cfg(all(test, not(feature = "loom"), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_filled_and_more_is_refused() {
        fill(2 * LEAST, LEAST).unwrap();
        // More than the address space.
        let error = fill(1 << 60, 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("refused"), "{error}");
    }

    /// The test kills the child, as the kernel does if memory runs out.
    #[test]
    fn a_killed_child_means_no_memory() {
        // SAFETY: the child makes one system call.
        let id = unsafe { libc::fork() };
        if id == 0 {
            loop {
                // SAFETY: no memory is involved.
                unsafe { libc::pause() };
            }
        }
        // SAFETY: no memory is involved, and the process is ours.
        assert_eq!(unsafe { libc::kill(id, libc::SIGKILL) }, 0);
        let error = fate(wait(id).unwrap(), 64 << 20, 32 << 20).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("64 MiB of memory needed, and 32 MiB for the rest of the process: ")
                && error.to_string().contains("killed")
        );
    }
}
