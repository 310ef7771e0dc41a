//! Tests whether overcommitted memory is really available. The test runs in a child process, which the kernel may kill.
//!
//! A process cannot see every limit, such as the limit of a control group above its container's group. If the process fills more memory
//! than a hidden limit allows, the kernel kills it without a message. So a child process in the same groups first fills the same amount,
//! and makes itself the OOM killer's first choice. That takes 7 ms for the router's default of 43 MiB of buffers. There is no trial if
//! every limit is visible.

use std::ffi::CStr;
use std::time::Duration;
use std::{io, ptr, thread};

use libc::{c_int, c_uint, c_void};

/// Minimum size of a trial in bytes. A smaller amount is not tried: the process itself already uses about as much memory.
const LEAST: usize = 16 << 20;

/// Bytes of memory that a router needs soon after its start, besides its buffers: for tables, workers, and 60,000 routes. The trial
/// for the buffers includes them, because the kernel would soon kill a router that cannot get them.
pub(super) const BESIDE: usize = 64 << 20;

/// Number of stand-ins: dummy processes that the kernel kills rather than this process. After the kernel has killed a trial
/// process, it needs some time to free the memory. If this process allocates memory in that time, the kernel kills another process:
/// a stand-in, or this process if there is none.
const STAND_INS: usize = 3;
/// Bytes that each stand-in allocates, so that the kernel gains some memory by killing it.
const STOOD_IN: usize = 2 << 20;
/// Time for which stand-ins outlive a killed trial.
const FREED: Duration = Duration::from_millis(100);

/// Exit code of the child if it has filled the memory.
const FILLED: c_int = 0;
/// Exit code of the child if the kernel has refused to give it the memory.
const REFUSED: c_int = 1;

/// Fills `bytes` plus `beside` bytes of memory in a child process, which then ends. Does nothing for less than 16 MiB.
///
/// # Errors
/// `OutOfMemory` if the kernel killed the child or refused to give it the memory. If no child can be started, there is no trial, and the
/// result is `Ok`.
pub(super) fn fill(bytes: usize, beside: usize) -> io::Result<()> {
    if bytes + beside < LEAST {
        return Ok(());
    }
    let stand_ins: Vec<_> = (0..STAND_INS).filter_map(|_| fork(stand_in)).collect();
    let Some(id) = fork(|| child(bytes + beside)) else { return Ok(()) };
    let status = wait(id.0);
    if status.as_ref().is_ok_and(|status| libc::WIFSIGNALED(*status)) {
        thread::sleep(FREED);
    }
    drop(stand_ins);
    std::mem::forget(id);
    fate(status?, bytes, beside)
}

/// A child process; killed on drop.
struct Child(libc::pid_t);

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: no memory is involved, and the process is a child that has not been waited for.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        let _ = wait(self.0);
    }
}

/// Starts a child process; `None` if that is impossible. The child may only make system calls. It must not take a lock, because
/// another thread of this process may have held the lock during the fork.
fn fork(child: impl FnOnce() -> c_int) -> Option<Child> {
    // SAFETY: the callers' children make only system calls and exit, and take no lock.
    match unsafe { libc::fork() } {
        // SAFETY: ends this process, and no other code of it runs.
        0 => unsafe { libc::_exit(child()) },
        id => (id > 0).then_some(Child(id)),
    }
}

/// Makes this child process the OOM killer's first choice, and closes its copies of the router's files.
fn give_way() {
    const SCORE: &CStr = c"/proc/self/oom_score_adj";
    const MOST: &[u8] = b"1000";
    // SAFETY: the strings are constants; the closed files belong to this process, which runs no other code of ours.
    unsafe {
        // Without this, the files would stay open if the router were killed during the trial.
        libc::syscall(libc::SYS_close_range, 0 as c_uint, c_uint::MAX, 0 as c_uint);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let score = libc::open(SCORE.as_ptr(), libc::O_WRONLY);
        libc::write(score, MOST.as_ptr().cast(), MOST.len());
    }
}

/// Maps `bytes` bytes; `None` if the kernel refuses.
fn map(bytes: usize) -> Option<*mut c_void> {
    let (rw, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, which nothing else uses.
    let at = unsafe { libc::mmap(ptr::null_mut(), bytes, rw, kind | libc::MAP_NORESERVE, -1, 0) };
    (at != libc::MAP_FAILED).then_some(at)
}

/// Runs in a stand-in process (see `STAND_INS`), and waits until it is killed. Makes only system calls.
fn stand_in() -> c_int {
    give_way();
    if let Some(at) = map(STOOD_IN) {
        // SAFETY: the mapping is new and has this length.
        unsafe { libc::madvise(at, STOOD_IN, libc::MADV_POPULATE_WRITE) };
    }
    loop {
        // SAFETY: no memory is involved.
        unsafe { libc::pause() };
    }
}

/// Runs in the child process of the trial; returns its exit code. Makes only system calls.
fn child(bytes: usize) -> c_int {
    give_way();
    let Some(at) = map(bytes) else { return REFUSED };
    // SAFETY: the mapping is new and has this length.
    unsafe {
        libc::madvise(at, bytes, libc::MADV_HUGEPAGE);
        let filled = libc::madvise(at, bytes, libc::MADV_POPULATE_WRITE) == 0;
        // Kernels before 5.14 do not know this advice: the trial then counts as successful.
        let unknown = !filled && *libc::__errno_location() == libc::EINVAL;
        if filled || unknown { FILLED } else { REFUSED }
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

/// Converts the child's exit status to the result of the trial.
fn fate(status: c_int, bytes: usize, beside: usize) -> io::Result<()> {
    let why = if libc::WIFSIGNALED(status) {
        "the kernel killed a trial process that allocated this memory: a control group has a limit that cannot be read from here (such as \
         memory.max of a group around a container)"
    } else if libc::WEXITSTATUS(status) == REFUSED {
        "the kernel refused this memory to a trial process"
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

    /// A stand-in is the OOM killer's first choice, and ends when it is dropped.
    #[test]
    fn a_stand_in_gives_way_and_ends_with_its_trial() {
        let child = fork(stand_in).unwrap();
        let score = format!("/proc/{}/oom_score_adj", child.0);
        let end = std::time::Instant::now() + Duration::from_secs(20);
        while std::fs::read_to_string(&score).unwrap().trim() != "1000" {
            assert!(std::time::Instant::now() < end);
            thread::yield_now();
        }
        drop(child);
        assert!(std::fs::read_to_string(&score).is_err());
    }

    /// The test kills the child, as the kernel does when memory runs out.
    #[test]
    fn a_killed_child_means_no_memory() {
        let child = fork(stand_in).unwrap();
        // SAFETY: no memory is involved, and the process is ours.
        assert_eq!(unsafe { libc::kill(child.0, libc::SIGKILL) }, 0);
        let error = fate(wait(child.0).unwrap(), 64 << 20, 32 << 20).unwrap_err();
        std::mem::forget(child);
        assert!(
            error
                .to_string()
                .starts_with("64 MiB of memory needed, and 32 MiB for the rest of the process: ")
                && error.to_string().contains("killed")
        );
    }
}
