//! Closes files that strangers have as well.
//!
//! To close a file may take the lock of an `epoll` that watches it, which its owner can hold for ever (in `epoll_wait`, on a
//! page that never arrives), and no signal ends that wait. So such a file is closed by a thread of its own, whose table of
//! descriptors has nothing else: a process that was killed has all its other files closed at once, though that thread stays.
//!
//! Files that are open when the process dies the kernel closes from the highest number down (`fput` in the Linux kernel).
//! So what the next instance waits for is [moved above](above) the files of strangers, which get the lowest free numbers.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard};
use std::thread;

use libc::{c_int, c_uint};

use super::discard;
use super::sys;

/// Where the numbers of descriptors begin that strangers' files do not get.
const ABOVE: RawFd = 4096;

/// Held while a thread has copies of others' files, and while such files go: so the last to close a file is its own thread.
static COPIES: Mutex<()> = Mutex::new(());

fn copies() -> MutexGuard<'static, ()> {
    COPIES.lock().unwrap_or_else(|e| e.into_inner())
}

/// Gives a descriptor a number above those of strangers' files, where the limit of open files allows it: when the process
/// is killed, this file is closed, whatever holds up the closing of others.
pub fn above(file: OwnedFd) -> OwnedFd {
    // SAFETY: no memory is involved.
    let moved = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, ABOVE) };
    match sys::check(moved as isize) {
        // SAFETY: the descriptor is new, and nobody else's.
        Ok(moved) => unsafe { OwnedFd::from_raw_fd(moved as c_int) },
        Err(_) => file,
    }
}

/// Closes files on a thread that may hang for ever, and drops `meanwhile` when that is done. Where there can be no thread,
/// the files stay open.
pub(crate) fn close(files: Vec<OwnedFd>, meanwhile: impl Send + 'static) {
    // Miri wants all threads to have ended.
    if files.is_empty() || cfg!(miri) {
        return mem::forget(files);
    }
    let numbers: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
    let (to_discard, is_alone) = channel();
    let (to_closer, is_last) = channel();
    let closer = move || {
        // A file that nobody hears of is closed with the message.
        let _ = to_discard.send(keep_only(&numbers).is_ok());
        close_last(&numbers, &is_last);
        drop(meanwhile);
    };
    if thread::Builder::new().name("volley_closing".into()).spawn(closer).is_err() {
        return mem::forget(files);
    }
    discard::elsewhere(move || {
        let files = if is_alone.recv() == Ok(true) {
            // The thread has them in its own table: this does not wait.
            let _copies = copies();
            drop(files);
            Vec::new()
        } else {
            files
        };
        let _ = to_closer.send(files);
    });
}

/// Closes the files with these numbers in the table of this thread alone; or `given` ones, if they are in that of the process.
fn close_last(numbers: &[RawFd], given: &Receiver<Vec<OwnedFd>>) {
    if given.recv().is_ok_and(|files| files.is_empty()) {
        // SAFETY: the numbers are those of this thread's own table, which no other code uses.
        numbers.iter().for_each(|&number| drop(unsafe { OwnedFd::from_raw_fd(number) }));
    }
}

/// Gives this thread a table of descriptors of its own that has these only.
fn keep_only(numbers: &[RawFd]) -> io::Result<()> {
    let range = |first: RawFd, end: RawFd, flags: c_uint| {
        // SAFETY: the table is this thread's alone from the first call on, and it uses none of what is closed.
        let r = unsafe { libc::syscall(libc::SYS_close_range, first, end - 1, flags) };
        sys::check(r as isize).map(|_| ())
    };
    let _copies = copies();
    let mut kept = numbers.to_vec();
    kept.sort_unstable();
    // Those above are not even copied: nothing that the process closes stays open by this thread.
    let end = kept.last().map_or(0, |last| last + 1);
    range(end, RawFd::MAX, libc::CLOSE_RANGE_UNSHARE)?;
    let mut first = 0;
    for number in kept {
        if number > first {
            range(first, number, 0)?;
        }
        first = number + 1;
    }
    Ok(())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn descriptors_are_moved_above_those_of_strangers() {
        let file = above(sys::eventfd().unwrap());
        assert!(file.as_raw_fd() >= ABOVE);
    }

    #[test]
    fn files_are_closed_by_a_thread_that_has_no_others() {
        let files: Vec<OwnedFd> = (0..3).map(|_| sys::eventfd().unwrap()).collect();
        let numbers: Vec<RawFd> = files[1..].iter().map(AsRawFd::as_raw_fd).collect();
        let alone = thread::spawn(move || {
            keep_only(&numbers).unwrap();
            let open = std::fs::read_dir("/proc/thread-self/fd").unwrap();
            let open = open.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
            // With that of the directory itself.
            let open: Vec<RawFd> = open.filter(|n| *n != 0).collect();
            (numbers, open)
        });
        let (numbers, open) = alone.join().unwrap();
        assert_eq!(open, numbers);

        let (number, guard) = (files[0].as_raw_fd(), Arc::new(()));
        close(files, guard.clone());
        let is_open = || std::fs::exists(format!("/proc/self/fd/{number}")).unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while is_open() || Arc::strong_count(&guard) > 1 {
            assert!(Instant::now() < end);
            thread::yield_now();
        }
    }
}
