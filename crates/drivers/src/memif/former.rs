//! Memory of former connections that peers still hold.
//!
//! The kernel charges a page of a shared file to the process that touches it first, and frees it when no process has the file
//! any more. So a peer that keeps the files of ended connections and connects again and again would fill this router's
//! memory. An inotify watch on each file reports when the last process has released it. The watch itself keeps nothing
//! allocated.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::kernel::sys;

/// Most former connections of an interface whose memory may still be held. This router itself frees memory on another
/// thread, so the last connections may be among them.
const MOST: usize = 4;

/// An interface: its socket and its ID.
type Interface = (u32, u32);

/// The watched files of all connections, present and former ones.
#[derive(Debug, Default)]
pub(super) struct Former {
    /// The inotify instance, once there is a file to watch.
    inotify: Option<OwnedFd>,
    /// The interface and the number of the connection, by watch descriptor.
    held: BTreeMap<i32, (Interface, u64)>,
    /// The number of the last connection.
    last: u64,
}

impl Former {
    /// Watches the files of a new connection of an interface.
    ///
    /// # Errors
    /// If the memory of too many former connections is still held, or a file cannot be watched. Nothing is watched anew
    /// then.
    pub(super) fn begin(&mut self, interface: Interface, files: &[BorrowedFd<'_>]) -> Result<(), String> {
        self.forget_released();
        self.last += 1;
        let mut watched = Vec::new();
        let added = files.iter().try_for_each(|file| {
            let watch = self.watch(*file)?;
            // A peer may bring the memory of its former connection again, which has the same watch.
            watched.push((watch, self.held.insert(watch, (interface, self.last))));
            Ok::<(), io::Error>(())
        });
        let refused = match added {
            Err(e) => Err(format!("cannot watch the memory (inotify): {e}")),
            Ok(()) => match self.count(interface) {
                0..=MOST => return Ok(()),
                former => Err(format!(
                    "the peer still holds the memory of {former} former connections: waiting until it releases some"
                )),
            },
        };
        for (watch, before) in watched.into_iter().rev() {
            match before {
                Some(before) => drop(self.held.insert(watch, before)),
                None => self.unwatch(watch),
            }
        }
        refused
    }

    /// Counts the connections of an interface before the last one whose memory somebody holds.
    fn count(&self, interface: Interface) -> usize {
        let former = self.held.values().filter(|(of, number)| *of == interface && *number != self.last);
        former.map(|(_, number)| number).collect::<BTreeSet<_>>().len()
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

    /// Forgets the files that no process has any more.
    fn forget_released(&mut self) {
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
        while let Err(why) = former.begin((0, 1), &[file.as_fd()]) {
            assert!(std::time::Instant::now() < until, "{why}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn memory_that_peers_keep_is_counted_until_they_release_it() {
        let mut former = Former::default();
        let mut kept: Vec<OwnedFd> = (0..=MOST).map(|_| file()).collect();
        for file in &kept {
            former.begin((0, 1), &[file.as_fd()]).unwrap();
        }
        let next = file();
        for _ in 0..2 {
            let why = former.begin((0, 1), &[next.as_fd()]).unwrap_err();
            assert!(why.contains("5 former connections"), "refused ones do not count: {why}");
        }
        former.begin((0, 2), &[next.as_fd()]).unwrap();
        kept.pop();
        // A mapping holds it, too.
        let (region, mapped) = Region::create(c"test", 8192).unwrap();
        begin_at_last(&mut former, &mapped);
        drop(mapped);
        let next = file();
        assert!(former.begin((0, 1), &[next.as_fd()]).is_err());
        drop(region);
        begin_at_last(&mut former, &next);
    }

    #[test]
    fn memory_that_a_peer_brings_again_counts_once() {
        let mut former = Former::default();
        let (one, other) = (file(), file());
        for _ in 0..3 * MOST {
            former.begin((0, 1), &[one.as_fd(), other.as_fd()]).unwrap();
        }
        assert_eq!(former.count((0, 1)), 0);
        // Regions of one connection count as one.
        former.begin((0, 1), &[file().as_fd()]).unwrap();
        assert_eq!(former.count((0, 1)), 1);
    }
}
