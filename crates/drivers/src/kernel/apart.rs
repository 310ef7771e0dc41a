//! Threads with their own file descriptor tables, for files from untrusted peers.
//!
//! Closing an untrusted file may block forever. If the file belongs to a FUSE file system, the FUSE server gets a request (`FLUSH`) for
//! each `close` and may never answer. If a peer watches the file with an `epoll` set, `close` waits for the set's lock. The peer can hold
//! that lock forever: its `epoll_wait` writes events to a memory page that the peer never provides. No signal ends these waits. A killed
//! process stays until the wait ends, with all files that it has not closed yet.
//!
//! So threads with almost empty tables receive untrusted files, and close none of them: the kernel closes them after the thread has ended.
//! If this close hangs, the thread holds nothing that others wait for: no lock, no memory, and no file of the router.
//!
//! Each table starts as a copy of the creating thread's table. So a single thread with almost no files, called the nursery, creates all
//! these threads: their tables then start small and without other peers' files.
//!
//! Signals are blocked in these threads: a signal handler that wrote to a descriptor of the process would miss it here, or write to
//! another file.
//!
//! A thread of this kind must not use descriptors of the rest of the process: the same number is another file in its
//! table.

use std::fs::File;
use std::io;
use std::mem::{self, ManuallyDrop};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use infra::wait;
use libc::{c_int, c_uint};

use super::{discard, passing, sys};

/// First descriptor number above those of untrusted files.
const ABOVE: RawFd = 4096;
/// First descriptor number after the standard streams, which point to `/dev/null` in the nursery thread's table.
const FIRST: RawFd = 3;

/// Moves a descriptor to a number above those of untrusted files, if the limit of open files permits. Use this for files that the next
/// router instance waits for, such as locks. The kernel closes a killed process's files from the highest number down, and it may block when
/// it closes the event descriptors of peers, which have lower numbers.
pub fn above(file: OwnedFd) -> OwnedFd {
    // SAFETY: no memory is involved.
    let moved = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, ABOVE) };
    match sys::check(moved as isize) {
        // SAFETY: the descriptor is new and has no other owner.
        Ok(moved) => unsafe { OwnedFd::from_raw_fd(moved as c_int) },
        Err(_) => file,
    }
}

/// A file that is never closed explicitly. The kernel closes it after the thread whose descriptor table contains it has ended.
pub(crate) type Kept = ManuallyDrop<OwnedFd>;

/// A group of threads; counts them by state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crew(Arc<Mutex<Vec<Arc<Life>>>>);

/// State of one thread of a crew.
#[derive(Debug, Default)]
struct Life {
    /// The kernel's thread ID, once the thread runs.
    id: AtomicI32,
    /// True after the thread's work has ended. The kernel then closes the thread's files.
    ended: AtomicBool,
}

impl Life {
    /// True if the work has ended but the thread still exists.
    fn hangs(&self) -> bool {
        let ended = self.ended.load(Ordering::Acquire);
        // SAFETY: signal 0 only asks whether this process has such a thread.
        let is_there = |id: i32| unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, 0) == 0 };
        ended && Some(self.id.load(Ordering::Acquire)).filter(|id| *id > 0).is_some_and(is_there)
    }
}

impl Crew {
    /// Returns the number of threads whose work has not ended.
    pub(crate) fn working(&self) -> usize {
        self.lock().iter().filter(|life| !life.ended.load(Ordering::Acquire)).count()
    }

    /// Returns the number of threads for which the kernel is closing files. Threads that hang stay in this count.
    pub(crate) fn hanging(&self) -> usize {
        let mut lives = self.lock();
        lives.retain(|life| !life.ended.load(Ordering::Acquire) || life.hangs());
        lives.iter().filter(|life| life.ended.load(Ordering::Acquire)).count()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Life>>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Marks the work as ended when dropped.
struct Ends(Arc<Life>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
    }
}

type Work = Box<dyn FnOnce(io::Result<Vec<Kept>>) + Send>;

struct Job {
    name: &'static str,
    /// Stack size in bytes.
    stack: usize,
    life: Ends,
    work: Work,
}

/// Connection to the nursery thread, which creates the other threads.
struct Nursery {
    door: OwnedFd,
    jobs: Sender<Job>,
}

static NURSERY: Mutex<Option<Nursery>> = Mutex::new(None);

/// Starts the nursery thread, which creates the threads for untrusted files, if it is not running. Call this before the process
/// receives files from untrusted peers.
///
/// # Errors
/// If the process has no free descriptor or thread.
pub fn prepare() -> io::Result<()> {
    nursery(|_| Ok(()))
}

fn nursery<T>(ask: impl FnOnce(&Nursery) -> io::Result<T>) -> io::Result<T> {
    let mut nursery = NURSERY.lock().unwrap_or_else(|e| e.into_inner());
    if nursery.is_none() {
        // A thread shares the table of its creator. If a thread apart started the discarding thread, the discarding thread would close
        // descriptors of the wrong table.
        discard::begin();
        *nursery = Some(Nursery::new()?);
    }
    let asked = nursery.as_ref().map(ask).unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()));
    if asked.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::BrokenPipe) {
        *nursery = None;
    }
    asked
}

/// Runs `work` on a thread of `crew` that has copies of `files` and no other files. If that thread cannot be created, the nursery
/// thread, which creates these threads, calls `work` with the error.
///
/// # Errors
/// If no thread can run `work`.
pub(crate) fn run(
    crew: &Crew,
    name: &'static str,
    stack: usize,
    files: &[BorrowedFd<'_>],
    work: impl FnOnce(io::Result<Vec<Kept>>) + Send + 'static,
) -> io::Result<()> {
    let life = Arc::<Life>::default();
    let job = Job { name, stack, life: Ends(life.clone()), work: Box::new(work) };
    nursery(|nursery| {
        passing::send(nursery.door.as_fd(), &[0], files)?;
        nursery.jobs.send(job).map_err(|_| io::ErrorKind::BrokenPipe.into())
    })?;
    crew.lock().push(life);
    Ok(())
}

/// Runs `work` on a thread with its own descriptor table, which contains only the standard streams at first. `work` may open files, and
/// must close only those.
///
/// # Errors
/// If the thread cannot be created.
pub fn spawn(name: &'static str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    run(&Crew::default(), name, 2 << 20, &[], |files| drop(files.map(|_| work())))
}

/// Runs `work` on a thread whose descriptor table has only a copy of this file and the standard streams. Returns when the work has
/// begun. If the thread hangs, it keeps no other file of this process open.
///
/// # Errors
/// If the thread cannot be created.
pub fn spawn_with(
    name: &'static str,
    file: BorrowedFd<'_>,
    work: impl FnOnce(&File) + Send + 'static,
) -> io::Result<()> {
    let (begun, is_there) = sync_channel(1);
    let work = move |files: io::Result<Vec<Kept>>| {
        let one = files.and_then(|files| files.into_iter().next().ok_or(io::ErrorKind::NotFound.into()));
        match one {
            Err(e) => drop(begun.send(Err(e))),
            Ok(file) => {
                let file = ManuallyDrop::new(File::from(ManuallyDrop::into_inner(file)));
                drop(begun.send(Ok(())));
                work(&file);
            }
        }
    };
    run(&Crew::default(), name, 2 << 20, &[file], work)?;
    is_there.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
}

/// Closes a file on a new thread of `crew`: the kernel closes the file after the thread has ended. If no thread can be created, the file
/// stays open.
pub(crate) fn close(crew: &Crew, name: &'static str, file: OwnedFd) {
    match run(crew, name, 0, &[file.as_fd()], drop) {
        // Another copy still exists, so this close does not block.
        Ok(()) => drop(file),
        Err(_) => mem::forget(file),
    }
}

impl Nursery {
    fn new() -> io::Result<Nursery> {
        let [door, inside] = passing::pair()?;
        let (jobs, to_do) = channel();
        let (to_us, ready) = sync_channel::<io::Result<()>>(1);
        let number = inside.as_raw_fd();
        thread::Builder::new().name("volley_nursery".into()).spawn(move || {
            // The threads that this one creates inherit its signal mask.
            block_signals();
            let made = || -> io::Result<OwnedFd> {
                keep_only(&[number])?;
                // SAFETY: the descriptor table is this thread's alone, so the number has no other owner.
                let inside = unsafe { OwnedFd::from_raw_fd(number) };
                let nowhere = File::options().read(true).write(true).open("/dev/null")?;
                for number in 0..FIRST {
                    // SAFETY: no memory is involved, and these numbers have no owner in this thread's own table.
                    sys::check(unsafe { libc::dup2(nowhere.as_raw_fd(), number) } as isize)?;
                }
                Ok(inside)
            };
            match made() {
                Ok(inside) => {
                    let _ = to_us.send(Ok(()));
                    serve(&inside, &to_do);
                }
                Err(e) => drop(to_us.send(Err(e))),
            }
        })?;
        ready.recv().map_err(|_| io::ErrorKind::BrokenPipe)??;
        Ok(Nursery { door, jobs })
    }
}

/// Interval between attempts to close leftover files: those of jobs for which no thread could be created.
const RETRY: Duration = Duration::from_secs(1);

/// Runs the nursery thread: creates a thread for each job, until the process drops the `Nursery`.
fn serve(door: &OwnedFd, to_do: &Receiver<Job>) {
    // Files of threads that could not be created. This thread does not close them, because that may block.
    let mut left: Vec<OwnedFd> = Vec::new();
    loop {
        if !left.is_empty() {
            close_on_a_thread(&mut left);
        }
        if !left.is_empty() && matches!(wait::any(&[door.as_fd()], RETRY), Ok(false)) {
            continue;
        }
        let files = match passing::receive(door.as_fd(), &mut [0], true) {
            Ok(piece) if piece.len > 0 => piece.files,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            _ => break,
        };
        let Ok(job) = to_do.recv() else { break };
        let numbers: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
        match make(job, numbers.clone(), numbers) {
            // The thread has copies, so closing these does not block.
            Ok(()) => drop(files),
            Err((job, e)) => {
                left.extend(files);
                (job.work)(Err(e));
            }
        }
    }
    mem::forget(left);
}

/// Closes the files in `left` on a new thread: the thread gets copies of the files and ends, so that the kernel closes the copies
/// there. If no thread can be created, the files stay in `left`.
fn close_on_a_thread(left: &mut Vec<OwnedFd>) {
    let (closed, is_closed) = sync_channel::<()>(1);
    let wait = move |_: io::Result<Vec<Kept>>| is_closed.recv().unwrap_or_default();
    let job = Job { name: "volley_files", stack: 0, life: Ends(Arc::default()), work: Box::new(wait) };
    if make(job, Vec::new(), left.iter().map(AsRawFd::as_raw_fd).collect()).is_ok() {
        left.clear();
    }
    // The thread's copies are the last ones now.
    drop(closed);
}

/// Creates a thread for `job` with its own descriptor table. The table has only the standard streams and copies of the files with the
/// descriptors `numbers`, under the same numbers. The job's work gets the copies whose numbers are in `own`.
fn make(job: Job, own: Vec<RawFd>, numbers: Vec<RawFd>) -> Result<(), (Job, io::Error)> {
    let (to_nursery, is_apart) = sync_channel(1);
    let (to_thread, takes_job) = sync_channel::<Job>(1);
    let stack = job.stack.max(64 << 10);
    let thread = move || {
        let apart = keep_only(&numbers);
        let failed = apart.is_err();
        let _ = to_nursery.send(apart);
        let Ok(Job { life, work, .. }) = takes_job.recv() else { return };
        if failed {
            return;
        }
        // SAFETY: no memory is involved.
        life.0.id.store(unsafe { libc::gettid() }, Ordering::Release);
        // SAFETY: the files are in the table of this thread alone, under these numbers, without another owner.
        let kept = own.into_iter().map(|n| ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(n) }));
        work(Ok(kept.collect()));
        drop(life);
    };
    let made = thread::Builder::new().name(job.name.into()).stack_size(stack).spawn(thread);
    let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    match made.and_then(|_| is_apart.recv().map_err(gone)?) {
        Ok(()) => to_thread.send(job).map_err(|e| (e.0, io::ErrorKind::BrokenPipe.into())),
        Err(e) => Err((job, e)),
    }
}

/// Blocks all signals in this thread, except those by which the kernel reports a fault of the thread itself.
fn block_signals() {
    let mut signals = mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initializes the set, which is local. Only the mask of this thread changes.
    unsafe {
        libc::sigfillset(signals.as_mut_ptr());
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS] {
            libc::sigdelset(signals.as_mut_ptr(), fault);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, signals.as_ptr(), std::ptr::null_mut());
    }
}

/// Gives this thread its own descriptor table with only the standard streams and these files.
fn keep_only(numbers: &[RawFd]) -> io::Result<()> {
    let range = |first: RawFd, end: RawFd, flags: c_uint| {
        // SAFETY: the first call (`CLOSE_RANGE_UNSHARE`) gives this thread its own table, and the thread uses none of the closed files.
        let r = unsafe { libc::syscall(libc::SYS_close_range, first, end - 1, flags) };
        sys::check(r as isize).map(|_| ())
    };
    let mut kept = numbers.to_vec();
    kept.sort_unstable();
    // The new table gets no files above the last kept one.
    let end = kept.last().map_or(FIRST, |last| last + 1).max(FIRST);
    range(end, RawFd::MAX, libc::CLOSE_RANGE_UNSHARE)?;
    let mut first = FIRST;
    for number in kept.into_iter().filter(|number| *number >= FIRST) {
        if number > first {
            range(first, number, 0)?;
        }
        first = number + 1;
    }
    Ok(())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn until(done: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !done() {
            assert!(Instant::now() < end);
            thread::yield_now();
        }
    }

    /// Threads with their own descriptor table block signals. A signal handler could write to a descriptor that is missing in that table,
    /// or that is another file there.
    #[test]
    fn threads_apart_handle_no_signals() {
        let (to_us, mask) = sync_channel(1);
        spawn("test_signals", move || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let blocked =
                status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim().to_owned();
            to_us.send(u64::from_str_radix(&blocked, 16).unwrap()).unwrap();
        })
        .unwrap();
        let mask = mask.recv().unwrap();
        let is_blocked = |signal: c_int| mask >> (signal - 1) & 1 == 1;
        assert!(
            [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1].into_iter().all(is_blocked),
            "{mask:x}"
        );
        assert!(!is_blocked(libc::SIGSEGV) && !is_blocked(libc::SIGBUS), "{mask:x}");
    }

    #[test]
    fn descriptors_are_moved_above_the_range_for_peers() {
        let file = above(sys::eventfd().unwrap());
        assert!(file.as_raw_fd() >= ABOVE);
    }

    #[test]
    fn a_thread_has_only_the_files_passed_to_it() {
        let files: Vec<OwnedFd> = (0..3).map(|_| sys::eventfd().unwrap()).collect();
        let (to_us, from_thread) = channel();
        let work = move |given: io::Result<Vec<Kept>>| {
            let given: Vec<RawFd> = given.unwrap().iter().map(|file| file.as_raw_fd()).collect();
            let open = std::fs::read_dir("/proc/thread-self/fd").unwrap();
            let open: Vec<_> = open.map(|entry| entry.unwrap().path()).collect();
            let open = open.into_iter().map(|path| {
                let number = path.file_name().unwrap().to_str().unwrap().parse::<RawFd>().unwrap();
                (number, std::fs::read_link(&path).map(|what| what.display().to_string()))
            });
            let open: Vec<_> = open.collect();
            to_us.send((given, open)).unwrap();
        };
        let crew = Crew::default();
        run(&crew, "test", 1 << 20, &files.iter().map(AsFd::as_fd).collect::<Vec<_>>(), work).unwrap();
        let (given, open) = from_thread.recv().unwrap();
        assert_eq!(given.len(), 3);
        for (number, what) in open {
            // The directory's own descriptor is closed when its link is read.
            let Ok(what) = what else { continue };
            let expected = if number < FIRST { "/dev/null" } else { "anon_inode:[eventfd]" };
            assert!(what == expected && (number < FIRST || given.contains(&number)), "{number}: {what}");
        }
        until(|| (crew.working(), crew.hanging()) == (0, 0));
    }

    #[test]
    fn a_file_is_closed_by_the_end_of_the_thread() {
        let [here, there] = passing::pair().unwrap();
        close(&Crew::default(), "test", there);
        let end = passing::receive(here.as_fd(), &mut [0], true);
        assert!(end.is_ok_and(|piece| piece.len == 0));
    }

    /// The files for a thread that cannot be created must be closed. A thread created later must not get them, because it may live
    /// long.
    #[test]
    fn files_of_a_thread_that_cannot_be_created_are_closed() {
        let [here, there] = passing::pair().unwrap();
        let (to_us, failed) = channel();
        let work = move |files: io::Result<Vec<Kept>>| to_us.send(files.is_err()).unwrap();
        // No address space has room for this stack.
        run(&Crew::default(), "test", 1 << 60, &[there.as_fd()], work).unwrap();
        drop(there);
        assert!(failed.recv().unwrap());
        let (_go, wait) = channel::<()>();
        run(&Crew::default(), "test", 0, &[], move |_| wait.recv().unwrap_or_default()).unwrap();
        assert!(wait::any(&[here.as_fd()], Duration::from_secs(20)).unwrap(), "the file is still open");
        let end = passing::receive(here.as_fd(), &mut [0], true);
        assert!(end.is_ok_and(|piece| piece.len == 0));
    }

    #[test]
    fn finished_work_is_not_counted_as_hanging() {
        let (go, wait) = channel::<()>();
        let crew = Crew::default();
        run(&crew, "test", 0, &[], move |_| assert!(wait.recv().is_err())).unwrap();
        assert_eq!((crew.working(), crew.hanging()), (1, 0));
        drop(go);
        until(|| (crew.working(), crew.hanging()) == (0, 0));
    }
}
