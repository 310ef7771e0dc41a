//! Proof that a peer has released the memory of a connection.
//!
//! The kernel charges a page of a shared file to the process that touches it first, until nobody uses the page. A peer can
//! use pages without the file: it splices them into a socket or a pipe (`sendfile(2)`), and closes the file. No event
//! reports when such pages are free.
//!
//! So the connection's thread keeps the memory after the connection until the kernel confirms both:
//! - No process has the peer's file. The thread locks that file (`flock(2)`), and keeps only a second open file of the same
//!   memory. The lock ends with the last copy of the peer's file.
//! - No page is in use. The kernel refuses `F_SEAL_WRITE` while one is.
//!
//! A peer can undo the lock, or open the file a second time. Then the memory still exists after this thread has closed it,
//! which [`former.rs`](super::former) sees by its watch: what happens to the pages later is unknown.
//!
//! Not covered: the seal looks at each page once, at its start, and waits for pages in use for up to 0.2 s. A peer with a
//! second open file can keep one page in use, take the others meanwhile, and close its file. Then the memory counts as
//! released, and the pages stay charged to this router.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::region;
use crate::kernel::sys;

/// Pauses between two checks.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(1);

/// Knowledge about the memory of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// The peer never had memory for which this process pays.
    #[default]
    Unwatched,
    /// The peer may have it.
    Held,
    /// No page is in use, and this process has closed the memory.
    Released,
    /// The proof failed: pages may be in use.
    Unknown,
}

/// State of a connection's memory, shared by the main thread and the connection's thread.
#[derive(Debug, Default)]
pub(super) struct Release {
    state: Mutex<State>,
    changed: Condvar,
}

impl Release {
    /// Returns the state. The connection's thread has closed its copies before it reports [`State::Released`].
    pub(super) fn state(&self) -> State {
        *self.lock()
    }

    /// Demands the proof when the connection has ended.
    pub(super) fn watch(&self) {
        *self.lock() = State::Held;
    }

    /// Ends the wait for the proof.
    pub(super) fn unwatch(&self) {
        *self.lock() = State::Unwatched;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Pauses. Returns false if the proof is not needed any more.
    fn pause(&self, time: Duration) -> bool {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, time, |state| *state == State::Held);
        *waited.unwrap_or_else(|e| e.into_inner()).0 == State::Held
    }
}

/// The end of the connection's thread, which owes the proof.
#[derive(Debug)]
pub(super) struct Debt(pub(super) Arc<Release>);

impl Debt {
    /// Waits until no process uses the memory in `files`, which are the thread's copies. Closes them. Returns at once if
    /// the memory is not watched.
    pub(super) fn settle(self, files: Vec<OwnedFd>) {
        if self.0.state() != State::Held {
            return files.into_iter().for_each(std::mem::forget);
        }
        if self.prove(files).is_ok() {
            let mut state = self.0.lock();
            if *state == State::Held {
                *state = State::Released;
            }
        }
    }

    fn prove(&self, files: Vec<OwnedFd>) -> io::Result<()> {
        // All files are taken over before one is closed: regions may have the same file.
        let own: Vec<OwnedFd> = files.iter().map(take_over).collect::<io::Result<_>>()?;
        drop(files);
        // A peer may use the memory again that this thread has closed, while it waits for other memory.
        for file in &own {
            let mut pause = SHORTEST;
            while !is_released(file.as_fd())? {
                if !self.0.pause(pause) {
                    return Ok(());
                }
                pause = (2 * pause).min(LONGEST);
            }
        }
        Ok(())
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if *state == State::Held {
            *state = State::Unknown;
        }
    }
}

/// Locks the peer's file, and returns a second open file of the same memory.
fn take_over(file: &OwnedFd) -> io::Result<OwnedFd> {
    // This thread has a table of its own: `/proc/self` would name files of another table. The peer may have a lease on the
    // file, so the call must not block.
    let path = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    let own = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    lock(file.as_fd(), libc::LOCK_EX)?;
    Ok(own.into())
}

fn lock(file: BorrowedFd<'_>, kind: i32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    sys::check(unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) } as isize).map(|_| ())
}

/// True if no process has the peer's file, and no page of the memory is in use. May wait for 0.2 s.
fn is_released(own: BorrowedFd<'_>) -> io::Result<bool> {
    let checked = lock(own, libc::LOCK_SH).and_then(|()| region::seal_unused(own));
    match checked {
        Ok(()) => Ok(true),
        Err(e) if matches!(e.raw_os_error(), Some(libc::EWOULDBLOCK | libc::EBUSY)) => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;
    use crate::memif::region::Region;

    /// Starts a thread that settles the debt for a file, and returns the state.
    fn settle(file: OwnedFd) -> Arc<Release> {
        let release = Arc::<Release>::default();
        release.watch();
        let debt = Debt(release.clone());
        std::thread::spawn(move || debt.settle(vec![file]));
        release
    }

    fn file() -> OwnedFd {
        let (_, file) = Region::create(c"test", 1 << 20).unwrap();
        let file = File::from(file);
        // Pages without contents are never passed on: the kernel passes zeros instead.
        file.write_all_at(&[1; 65536], 0).unwrap();
        file.into()
    }

    #[track_caller]
    fn becomes(release: &Release, state: State) {
        let until = Instant::now() + Duration::from_secs(20);
        while release.state() != state {
            assert!(Instant::now() < until, "{:?}", release.state());
            std::thread::yield_now();
        }
    }

    #[track_caller]
    fn stays_held(release: &Release) {
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(release.state(), State::Held);
    }

    #[test]
    fn memory_is_held_as_long_as_a_peer_has_the_file_or_a_mapping() {
        let ours = file();
        let theirs = ours.try_clone().unwrap();
        let mapped = Region::of_peer(theirs.as_fd(), 1 << 20, false).unwrap();
        let release = settle(ours);
        stays_held(&release);
        drop(theirs);
        stays_held(&release);
        drop(mapped);
        becomes(&release, State::Released);
    }

    #[test]
    fn memory_is_held_as_long_as_its_pages_are_in_a_socket() {
        let ours = file();
        let theirs = ours.try_clone().unwrap();
        let (from, to) = UnixStream::pair().unwrap();
        // SAFETY: no memory is involved.
        let sent =
            unsafe { libc::sendfile(from.as_raw_fd(), theirs.as_raw_fd(), std::ptr::null_mut(), 65536) };
        assert!(sent > 0);
        drop(theirs);
        let release = settle(ours);
        stays_held(&release);
        drop((from, to));
        becomes(&release, State::Released);
    }

    #[test]
    fn a_peer_that_prevents_the_proof_is_found() {
        let ours = file();
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SEAL) }, 0);
        becomes(&settle(ours), State::Unknown);
        let ours = file();
        let other = File::open(format!("/proc/self/fd/{}", ours.as_raw_fd())).unwrap();
        lock(other.as_fd(), libc::LOCK_SH).unwrap();
        becomes(&settle(ours), State::Unknown);
    }

    #[test]
    fn a_wait_for_the_proof_can_be_ended() {
        let ours = file();
        let _theirs = ours.try_clone().unwrap();
        let release = settle(ours);
        stays_held(&release);
        release.unwatch();
        let until = Instant::now() + Duration::from_millis(900);
        while Arc::strong_count(&release) > 1 {
            assert!(Instant::now() < until);
            std::thread::yield_now();
        }
        assert_eq!(release.state(), State::Unwatched);
    }
}
