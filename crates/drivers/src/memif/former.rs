//! Memory of former connections that peers still hold.
//!
//! The kernel charges a page of a shared file to the process that touches it first, and frees it when no process has the file
//! any more. So a peer that keeps the files of ended connections and connects again and again would fill this router's
//! memory. An inotify watch on each file reports when the last process has released it. The watch itself keeps nothing
//! allocated.
//!
//! Not covered: a peer can splice pages out of a file into sockets and close the file. The pages stay charged to this
//! router until the sockets are read or closed, and no watch reports that.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use std::sync::Arc;

use infra::mem::Promise;

use crate::kernel::sys;

/// Most former connections of a server's interface whose memory may still be held: this router frees its part on another
/// thread, and a client may connect again at once.
pub(super) const OF_SERVER: usize = 4;
/// The same of a client's interface, which connects again after a second: by then the memory is free, unless a thread of this
/// router that could not be made has left its copy of the file to another one.
pub(super) const OF_CLIENT: usize = 1;

/// An interface: its socket and its ID.
type Interface = (u32, u32);

/// A watched file.
#[derive(Debug)]
struct Held {
    interface: Interface,
    /// The number of the connection.
    connection: u64,
    /// What the kernel may still charge to this router for it.
    promise: Option<Arc<Promise>>,
}

/// The watched files of all connections, present and former ones.
#[derive(Debug, Default)]
pub(super) struct Former {
    /// The inotify instance, once there is a file to watch.
    inotify: Option<OwnedFd>,
    /// The files that somebody still has, by watch descriptor.
    held: BTreeMap<i32, Held>,
    /// The number of the last connection.
    last: u64,
}

impl Former {
    /// Watches the files of a new connection of an interface. Returns the watches.
    ///
    /// # Errors
    /// If the memory of more than `most` former connections is still held, or a file cannot be watched. Nothing is watched
    /// anew then.
    pub(super) fn begin(
        &mut self,
        interface: Interface,
        files: &[BorrowedFd<'_>],
        most: usize,
    ) -> Result<Vec<i32>, String> {
        self.forget_released();
        self.last += 1;
        let mut watched = Vec::new();
        let added = files.iter().try_for_each(|file| {
            let watch = self.watch(*file)?;
            let held = Held { interface, connection: self.last, promise: None };
            // A peer may bring the memory of its former connection again, which has the same watch.
            watched.push((watch, self.held.insert(watch, held)));
            Ok::<(), io::Error>(())
        });
        let refused = match added {
            Err(e) => format!("cannot watch the memory (inotify): {e}"),
            Ok(()) => match self.count(interface) {
                former if former <= most => return Ok(watched.into_iter().map(|(watch, _)| watch).collect()),
                former => format!(
                    "the peer still holds the memory of {former} former connections: waiting until it releases it"
                ),
            },
        };
        for (watch, before) in watched.into_iter().rev() {
            match before {
                Some(before) => drop(self.held.insert(watch, before)),
                None => self.unwatch(watch),
            }
        }
        Err(refused)
    }

    /// Keeps a promise for a watched file until it is released.
    pub(super) fn keep(&mut self, watch: i32, promise: Option<Arc<Promise>>) {
        if let Some(held) = self.held.get_mut(&watch) {
            held.promise = promise;
        }
    }

    /// Counts the connections of an interface before the last one whose memory somebody holds.
    fn count(&self, interface: Interface) -> usize {
        let of =
            self.held.values().filter(|held| held.interface == interface && held.connection != self.last);
        of.map(|held| held.connection).collect::<BTreeSet<_>>().len()
    }

    /// Watches a file, and returns the watch's descriptor.
    fn watch(&mut self, file: BorrowedFd<'_>) -> io::Result<i32> {
        let inotify = match &self.inotify {
            Some(inotify) => inotify,
            None => {
                // SAFETY: no memory is involved.
                let fd = sys::check(
                    unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) } as isize
                )?;
                // SAFETY: the descriptor is new and has no other owner.
                self.inotify.insert(unsafe { OwnedFd::from_raw_fd(fd as i32) })
            }
        };
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        // SAFETY: the path is a string that ends with a zero.
        let watch =
            unsafe { libc::inotify_add_watch(inotify.as_raw_fd(), path.as_ptr(), libc::IN_DELETE_SELF) };
        sys::check(watch as isize).map(|watch| watch as i32)
    }

    fn unwatch(&mut self, watch: i32) {
        self.held.remove(&watch);
        if let Some(inotify) = &self.inotify {
            // SAFETY: no memory is involved. It fails if the kernel has removed the watch, as is wanted.
            unsafe { libc::inotify_rm_watch(inotify.as_raw_fd(), watch) };
        }
    }

    /// True if something is promised for memory that may have been released meanwhile.
    pub(super) fn keeps_promises(&self) -> bool {
        self.held.values().any(|held| held.promise.is_some())
    }

    /// Forgets the files that no process has any more, and what was promised for them.
    pub(super) fn forget_released(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        // A record of a watched file has no name, so records have one size.
        const RECORD: usize = size_of::<libc::inotify_event>();
        let mut records = [0; 64 * RECORD];
        loop {
            // SAFETY: the buffer is writable for its length.
            let n = unsafe { libc::read(inotify.as_raw_fd(), records.as_mut_ptr().cast(), records.len()) };
            let Some(read) = usize::try_from(n).ok().filter(|n| *n > 0) else { return };
            for record in records[..read].chunks_exact(RECORD) {
                let field = |at: usize| record[at..].first_chunk().copied().unwrap_or_default();
                let (watch, mask) = (i32::from_ne_bytes(field(0)), u32::from_ne_bytes(field(4)));
                if mask & libc::IN_Q_OVERFLOW != 0 {
                    // Which ones were released is lost: count anew.
                    self.held.clear();
                }
                if mask & (libc::IN_DELETE_SELF | libc::IN_IGNORED) != 0 {
                    self.held.remove(&watch);
                }
            }
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::memif::region::Region;

    fn file() -> OwnedFd {
        Region::create(c"test", 8192).unwrap().1
    }

    /// Begins a connection as soon as enough memory is released: mappings of this process end on another thread.
    fn begin_at_last(former: &mut Former, file: &OwnedFd) {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while let Err(why) = former.begin((0, 1), &[file.as_fd()], OF_SERVER) {
            assert!(std::time::Instant::now() < until, "{why}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn memory_that_peers_keep_is_counted_until_they_release_it() {
        let mut former = Former::default();
        let mut kept: Vec<OwnedFd> = (0..=OF_SERVER).map(|_| file()).collect();
        for file in &kept {
            former.begin((0, 1), &[file.as_fd()], OF_SERVER).unwrap();
        }
        let next = file();
        for _ in 0..2 {
            let why = former.begin((0, 1), &[next.as_fd()], OF_SERVER).unwrap_err();
            assert!(why.contains("5 former connections"), "refused ones do not count: {why}");
        }
        former.begin((0, 2), &[next.as_fd()], OF_CLIENT).unwrap();
        kept.pop();
        // A mapping holds it, too.
        let (region, mapped) = Region::create(c"test", 8192).unwrap();
        begin_at_last(&mut former, &mapped);
        drop(mapped);
        let next = file();
        assert!(former.begin((0, 1), &[next.as_fd()], OF_SERVER).is_err());
        drop(region);
        begin_at_last(&mut former, &next);
    }

    #[test]
    fn a_promise_for_memory_lasts_until_its_release() {
        let mut former = Former::default();
        let (kept, promise) = (file(), Arc::new(Promise::of(4096).unwrap()));
        let watch = former.begin((0, 1), &[kept.as_fd()], OF_CLIENT).unwrap();
        former.keep(watch[0], Some(promise.clone()));
        // A client's interface does without the memory of one connection, no more.
        let (other, next) = (file(), file());
        former.begin((0, 1), &[other.as_fd()], OF_CLIENT).unwrap();
        assert!(former.begin((0, 1), &[next.as_fd()], OF_CLIENT).is_err());
        assert!(former.keeps_promises() && Arc::strong_count(&promise) == 2);
        drop(kept);
        // Whether or not somebody connects.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while former.keeps_promises() {
            assert!(std::time::Instant::now() < until);
            std::thread::yield_now();
            former.forget_released();
        }
        assert_eq!(Arc::strong_count(&promise), 1);
        former.begin((0, 1), &[next.as_fd()], OF_CLIENT).unwrap();
    }

    #[test]
    fn memory_that_a_peer_reuses_counts_once() {
        let mut former = Former::default();
        let (one, other) = (file(), file());
        for _ in 0..3 * OF_SERVER {
            former.begin((0, 1), &[one.as_fd(), other.as_fd()], OF_CLIENT).unwrap();
        }
        assert_eq!(former.count((0, 1)), 0);
        // Regions of one connection count as one.
        former.begin((0, 1), &[file().as_fd()], OF_SERVER).unwrap();
        assert_eq!(former.count((0, 1)), 1);
    }
}
