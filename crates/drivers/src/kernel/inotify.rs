//! Watches that report when a file is gone, or changed by a system call (`inotify(7)`). A watch keeps no file or memory
//! allocated.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::sys;

/// An event of a watched file.
pub(crate) enum Event {
    /// The file of this watch is gone: no process has it open or mapped, and no path leads to it.
    Gone(i32),
    /// A process has written to the file of this watch, or removed pages from it.
    Changed(i32),
    /// The watch with this number was removed.
    Removed(i32),
    /// The kernel has dropped events.
    Lost,
}

/// An inotify instance with watches.
#[derive(Debug)]
pub(crate) struct Watches(OwnedFd);

impl Watches {
    /// Returns an instance without watches.
    ///
    /// # Errors
    /// The kernel's error; `EMFILE` if this user has too many instances (`/proc/sys/fs/inotify/max_user_instances`).
    pub(crate) fn new() -> io::Result<Watches> {
        // SAFETY: no memory is involved.
        let fd = sys::check(unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) } as isize)?;
        // SAFETY: the descriptor is new and has no other owner.
        Ok(Watches(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// Watches an open file, and reports when it is gone ([`Event::Gone`]). Returns the number of the watch.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn add(&self, file: BorrowedFd<'_>) -> io::Result<i32> {
        self.watch(file, libc::IN_DELETE_SELF)
    }

    /// Watches for the first change that a system call makes to an open file; writes through a mapping are not reported. Each watch has few
    /// events, so the queue cannot overflow: an event is lost only if the kernel has no memory for it. An instance with watches of this
    /// kind must have no other watches. Returns the number of the watch.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn add_first_change(&self, file: BorrowedFd<'_>) -> io::Result<i32> {
        self.watch(file, libc::IN_MODIFY | libc::IN_ONESHOT)
    }

    fn watch(&self, file: BorrowedFd<'_>, events: u32) -> io::Result<i32> {
        // A thread may have a table of its own: `/proc/self` would name files of another table.
        let path = CString::new(format!("/proc/thread-self/fd/{}", file.as_raw_fd()))?;
        // SAFETY: the path is a string that ends with a zero.
        let watch = unsafe { libc::inotify_add_watch(self.0.as_raw_fd(), path.as_ptr(), events) };
        sys::check(watch as isize).map(|watch| watch as i32)
    }

    /// Removes a watch, if the kernel has not done so.
    pub(crate) fn remove(&self, watch: i32) {
        // SAFETY: no memory is involved.
        unsafe { libc::inotify_rm_watch(self.0.as_raw_fd(), watch) };
    }

    /// Calls `each` for all events so far.
    pub(crate) fn read(&self, mut each: impl FnMut(Event)) {
        // A record of a watched file has no name, so records have one size.
        const RECORD: usize = size_of::<libc::inotify_event>();
        let mut records = [0; 64 * RECORD];
        loop {
            // SAFETY: the buffer is writable for its length.
            let n = unsafe { libc::read(self.0.as_raw_fd(), records.as_mut_ptr().cast(), records.len()) };
            let Some(read) = usize::try_from(n).ok().filter(|n| *n > 0) else { return };
            for record in records[..read].chunks_exact(RECORD) {
                let field = |at: usize| record[at..].first_chunk().copied().unwrap_or_default();
                let (watch, mask) = (i32::from_ne_bytes(field(0)), u32::from_ne_bytes(field(4)));
                if mask & libc::IN_Q_OVERFLOW != 0 {
                    each(Event::Lost);
                }
                if mask & libc::IN_MODIFY != 0 {
                    each(Event::Changed(watch));
                } else if mask & libc::IN_DELETE_SELF != 0 {
                    each(Event::Gone(watch));
                } else if mask & libc::IN_IGNORED != 0 {
                    each(Event::Removed(watch));
                }
            }
        }
    }
}
