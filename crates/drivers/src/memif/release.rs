//! Proof that a peer has released the memory of a connection.
//!
//! The kernel charges a page of a shared file to the process that touches it first, until no process uses the page. A peer can use pages
//! without the file: it splices them into a socket or a pipe (`sendfile(2)`), and closes the file. No event reports when such pages are
//! free.
//!
//! So the connection's thread keeps the memory after the connection until the kernel confirms, in this order:
//! - No process has the peer's file. The thread locks that file (`flock(2)`), closes it, and keeps a second open file of the same memory.
//!   The lock ends when the last copy of the peer's file is closed.
//! - No process has another open file of memory that this router has created. The kernel refuses a write lease (`fcntl(2)`, `F_SETLEASE`)
//!   while such a file is open. This check ignores open files from `memfd_create(2)`, so the peer gets one from `open(2)`
//!   ([`region::again`]).
//! - No page is in use. The kernel refuses `F_SEAL_WRITE` while one is.
//! - Nobody has tried to open memory created by this router since the lease was taken. The kernel would let such an attempt succeed after
//!   45 s.
//! - Memory created by this router vanishes when the thread closes it, which the thread's own inotify watch reports. If it does not vanish,
//!   another process still has a descriptor from `open(2)` with `O_PATH`, and could open the memory after the lease has ended.
//!
//! Memory that a client has created is not leased, for two reasons. The lease check ignores the client's file from `memfd_create(2)`. And a
//! client that is itself a Volley router takes a lease on the same memory: each of the two routers would wait until the other closes its
//! second open file. A client can undo the lock or open its file a second time. If the memory then still exists after this thread has
//! closed it, the watch of [`former.rs`](super::former) shows that. But `F_SEAL_WRITE` checks each page only once, at its start, and then
//! waits up to 0.2 s for pages in use. A client can keep one page in use, take other pages during the wait, and close its file. Then the
//! memory counts as released, but those pages stay charged to this router. Free memory limits the number of such pages: without enough free
//! memory, a [`Promise`](infra::mem::Promise) for new memory is refused.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::region;
use crate::kernel::inotify::{Event, Watches};
use crate::kernel::{lease, sys};

/// Pause after the first check. Each further pause is twice as long.
const SHORTEST: Duration = Duration::from_millis(1);
/// Longest pause between two checks.
const LONGEST: Duration = Duration::from_secs(1);

/// State of the proof for the memory of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// No proof is needed: the kernel does not charge the memory to this process, or this process no longer waits for the proof.
    #[default]
    Unwatched,
    /// The peer may still use the memory.
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
    /// Returns the state. When it is [`State::Released`], the connection's thread has already closed its copies of the files.
    pub(super) fn state(&self) -> State {
        *self.lock()
    }

    /// Requires the connection's thread to prove the release after the connection has ended.
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

    /// Waits for `time`. Returns false at once when the proof is no longer needed.
    fn pause(&self, time: Duration) -> bool {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, time, |state| *state == State::Held);
        *waited.unwrap_or_else(|e| e.into_inner()).0 == State::Held
    }
}

/// The duty of a connection's thread to prove that no process uses the connection's memory any more. Dropping a `Debt` without a
/// proof sets the state to [`State::Unknown`].
#[derive(Debug)]
pub(super) struct Debt {
    pub(super) release: Arc<Release>,
    /// True if this router has created the memory.
    pub(super) created: bool,
}

impl Debt {
    /// Waits until no process uses the memory in `files`, and then closes `files`, which are the thread's own copies. Returns at
    /// once if the memory is not watched.
    pub(super) fn settle(self, files: Vec<OwnedFd>) {
        if self.release.state() != State::Held {
            return files.into_iter().for_each(std::mem::forget);
        }
        if self.prove(files).is_ok() {
            let mut state = self.release.lock();
            if *state == State::Held {
                *state = State::Released;
            }
        }
    }

    fn prove(&self, files: Vec<OwnedFd>) -> io::Result<()> {
        // All files are taken over before one is closed: regions may have the same file.
        let mut own: Vec<OwnedFd> = files.iter().map(take_over).collect::<io::Result<_>>()?;
        drop(files);
        // If the same memory were checked a second time through another file, it would be sealed already.
        let mut known = BTreeSet::new();
        own.retain(|file| region::identity(file.as_fd()).is_none_or(|identity| known.insert(identity)));
        let mut leased = Vec::new();
        // No file is closed before the memory of all files is released: while this thread waits for some memory, a peer could use closed
        // memory again.
        for file in &own {
            let mut pause = SHORTEST;
            while !self.is_released(file.as_fd(), &mut leased)? {
                if !self.release.pause(pause) {
                    return Ok(());
                }
                pause = (2 * pause).min(LONGEST);
            }
        }
        if !leased.into_iter().all(lease::is_intact) {
            // A peer may have used pages after the kernel had checked them, and this check (by sealing) is possible only once.
            return Err(io::Error::other("a peer has tried to open the memory"));
        }
        if !self.created {
            return Ok(());
        }
        let watched = Vanishing::watch(&own, |pause| self.release.pause(pause))?;
        let vanished = watched.is_none_or(|vanishing| vanishing.close(own));
        if vanished { Ok(()) } else { Err(io::Error::other("a peer still has a descriptor of the memory")) }
    }

    /// True if no process has the peer's file and no page of the memory is in use. For memory created by this router, no
    /// process may have another open file of it either. May wait for 0.2 s. Adds the file to `leased` if a lease was taken.
    fn is_released<'f>(&self, own: BorrowedFd<'f>, leased: &mut Vec<BorrowedFd<'f>>) -> io::Result<bool> {
        let checked = || {
            lock(own, libc::LOCK_SH)?;
            let has_lease = self.created && lease::take(own)?;
            region::seal_unused(own).map(|()| has_lease)
        };
        match checked() {
            Ok(has_lease) => {
                leased.extend(has_lease.then_some(own));
                Ok(true)
            }
            Err(e) if matches!(e.raw_os_error(), Some(libc::EWOULDBLOCK | libc::EBUSY)) => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// Watches on files that must vanish when they are closed.
struct Vanishing {
    watches: Watches,
    /// Number of files.
    count: usize,
}

impl Vanishing {
    /// Watches `files`, which must all be different. If other processes of this user have taken all inotify instances, calls `pause` and
    /// tries again. Returns `None` if `pause` returns false.
    fn watch(files: &[OwnedFd], pause: impl Fn(Duration) -> bool) -> io::Result<Option<Vanishing>> {
        let watches = loop {
            match Watches::new() {
                Ok(watches) => break watches,
                Err(e) if e.raw_os_error() == Some(libc::EMFILE) => {}
                Err(e) => return Err(e),
            }
            if !pause(LONGEST) {
                return Ok(None);
            }
        };
        files.iter().try_for_each(|file| watches.add(file.as_fd()).map(drop))?;
        Ok(Some(Vanishing { watches, count: files.len() }))
    }

    /// Closes the files. True if all have vanished.
    fn close(self, files: Vec<OwnedFd>) -> bool {
        drop(files);
        let mut gone = 0;
        self.watches.read(|event| gone += usize::from(matches!(event, Event::Gone(_))));
        gone == self.count
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        let mut state = self.release.lock();
        if *state == State::Held {
            *state = State::Unknown;
        }
    }
}

/// Locks the peer's file, and returns a second open file of the same memory.
fn take_over(file: &OwnedFd) -> io::Result<OwnedFd> {
    let own = region::again(file.as_fd())?;
    lock(file.as_fd(), libc::LOCK_EX)?;
    Ok(own)
}

fn lock(file: BorrowedFd<'_>, kind: i32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    sys::check(unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) } as isize).map(|_| ())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;
    use crate::memif::region::Region;

    /// Starts a thread that waits until no process uses the memory in `file`. Returns the state of the release.
    fn settle(file: OwnedFd) -> Arc<Release> {
        settle_of(false, file)
    }

    fn settle_of(created: bool, file: OwnedFd) -> Arc<Release> {
        let release = Arc::<Release>::default();
        release.watch();
        let debt = Debt { release: release.clone(), created };
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
        let mapped = Region::of_peer(theirs.as_fd(), 1 << 20, Some(&infra::mem::Account::default())).unwrap();
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

    /// While a peer has the memory open a second time, the thread gets no lease and waits. Under the lease, no process can start to use a
    /// page that the kernel has already checked.
    #[test]
    fn created_memory_is_held_as_long_as_a_peer_has_it_open_a_second_time() {
        let ours = file();
        let second = File::open(format!("/proc/self/fd/{}", ours.as_raw_fd())).unwrap();
        let release = settle_of(true, ours);
        stays_held(&release);
        drop(second);
        becomes(&release, State::Released);
    }

    /// If another process opens the file, the kernel ends the lease after 45 s, although the thread may still be waiting for
    /// pages in use. So such an attempt must be found.
    #[test]
    fn a_peer_that_tries_to_open_created_memory_under_the_lease_is_found() {
        let (ours, other) = (file(), file());
        let path = format!("/proc/self/fd/{}", ours.as_raw_fd());
        let way = File::options().read(true).custom_flags(libc::O_PATH).open(path).unwrap();
        let kept = other.try_clone().unwrap();
        let release = Arc::<Release>::default();
        release.watch();
        let debt = Debt { release: release.clone(), created: true };
        std::thread::spawn(move || debt.settle(vec![ours, other]));
        // The thread has sealed the first file by then, and waits for the second one.
        stays_held(&release);
        let path = format!("/proc/self/fd/{}", way.as_raw_fd());
        let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        assert_eq!(opened.unwrap_err().raw_os_error(), Some(libc::EWOULDBLOCK));
        drop(kept);
        becomes(&release, State::Unknown);
    }

    /// A peer that keeps an `O_PATH` descriptor could open the memory with it after the lease has ended. It could then pass pages
    /// to another process before the main thread checks.
    #[test]
    fn a_peer_with_a_path_to_created_memory_is_found() {
        let path_to = |file: &OwnedFd| {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            File::options().read(true).custom_flags(libc::O_PATH).open(path).unwrap()
        };
        for keeps in [true, false] {
            let ours = file();
            let path = path_to(&ours);
            let theirs = ours.try_clone().unwrap();
            let release = settle_of(true, ours);
            stays_held(&release);
            let path = keeps.then_some(path);
            drop(theirs);
            becomes(&release, if keeps { State::Unknown } else { State::Released });
            drop(path);
        }
    }

    #[test]
    fn a_peer_that_has_sealed_the_memory_itself_is_found() {
        for created in [false, true] {
            let ours = file();
            // Another thread unmaps the memory, which may take a moment.
            while let Err(e) = region::seal_unused(ours.as_fd()) {
                assert_eq!(e.raw_os_error(), Some(libc::EBUSY));
            }
            becomes(&settle_of(created, ours), State::Unknown);
        }
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
