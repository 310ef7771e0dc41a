//! Writing files on threads of their own, because file systems may be slow, or may not answer.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Number of bytes that may wait to be written. Who writes more should wait.
const ROOM: usize = 16 << 20;
/// Maximum number of bytes of one system call, so that progress is seen.
pub(crate) const PIECE: usize = 64 << 10;
/// Interval at which the thread looks for bytes.
const LOOK: Duration = Duration::from_millis(5);
/// Longest time without progress for which the end of a file's thread is waited for.
const QUIET: Duration = Duration::from_millis(500);
/// The same while an earlier thread has not ended.
const LEAST: Duration = Duration::from_millis(50);
/// Longest time for which the end of a file's thread is waited for.
const MOST: Duration = Duration::from_secs(2);
/// Maximum number of threads that nobody waits for any more, and that have not ended.
const MOST_LEFT: usize = 16;

/// Number of threads that nobody waits for any more, and that have not ended.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// The end of a thread that writes a file.
#[derive(Debug)]
pub(crate) struct Leaving {
    /// The counter of threads that nobody waits for any more.
    left: &'static AtomicUsize,
    is_left: AtomicBool,
    has_ended: AtomicBool,
}

impl Default for Leaving {
    fn default() -> Leaving {
        Leaving { left: &LEFT, is_left: AtomicBool::new(false), has_ended: AtomicBool::new(false) }
    }
}

impl Leaving {
    /// Checks that a further thread may be started.
    ///
    /// # Errors
    /// If 16 earlier ones wait for file systems that do not answer.
    pub(crate) fn may_begin(&self) -> io::Result<()> {
        if self.left.load(Ordering::Relaxed) < MOST_LEFT {
            return Ok(());
        }
        let why = format!("{MOST_LEFT} files wait for file systems that do not answer: check those first");
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    }

    /// Waits until a thread has ended, or `is_done`, while there is `progress`, and not for long: others wait for the caller. Returns true if
    /// the thread has ended or is done.
    pub(crate) fn wait(
        &self,
        thread: &JoinHandle<()>,
        is_done: impl Fn() -> bool,
        progress: impl Fn() -> u64,
    ) -> bool {
        let (begun, mut since, mut last) = (Instant::now(), Instant::now(), progress());
        loop {
            thread.thread().unpark();
            if thread.is_finished() {
                return true;
            }
            if last != progress() {
                (since, last) = (Instant::now(), progress());
            }
            let quiet = if self.left.load(Ordering::Relaxed) > 0 { LEAST } else { QUIET };
            if since.elapsed() >= quiet || begun.elapsed() >= MOST {
                self.left.fetch_add(1, Ordering::Relaxed);
                self.is_left.store(true, Ordering::SeqCst);
                if self.has_ended.load(Ordering::SeqCst) {
                    self.arrived();
                }
                return is_done();
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Called at the end of the thread.
    fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        if self.is_left.load(Ordering::SeqCst) {
            self.arrived();
        }
    }

    /// Notes once that the thread has ended.
    fn arrived(&self) {
        if self.is_left.swap(false, Ordering::SeqCst) {
            self.left.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Notes the end of a thread when it is dropped, also if the thread panics.
pub(crate) struct Ends<'l>(pub &'l Leaving);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Vec<u8>>,
    /// Number of bytes that wait, or are being written.
    unwritten: AtomicUsize,
    written: AtomicU64,
    over: AtomicBool,
    /// Why the file cannot be continued: the check says so, or, if true, a write has failed.
    failed: Mutex<Option<(bool, String)>>,
    has_failed: AtomicBool,
    leaving: Leaving,
}

/// A file that a thread writes. Writing to it never waits, and never fails: look at its [state](Behind::state).
pub struct Behind {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

impl Behind {
    /// Starts the thread that writes the file. Before each write, `check` gets the number of bytes that wait, and may return why the file must
    /// not be continued. What waits is written nevertheless.
    ///
    /// # Errors
    /// If the thread cannot be created, or 16 earlier ones wait for file systems that do not answer.
    pub fn start(
        file: File,
        check: impl Fn(&File, usize) -> Option<String> + Send + 'static,
    ) -> io::Result<Behind> {
        Behind::started(file, check, Leaving::default())
    }

    fn started(
        mut file: File,
        check: impl Fn(&File, usize) -> Option<String> + Send + 'static,
        leaving: Leaving,
    ) -> io::Result<Behind> {
        leaving.may_begin()?;
        let shared = Arc::new(Shared { leaving, ..Shared::default() });
        let own = Arc::clone(&shared);
        let work = move || {
            let _end = Ends(&own.leaving);
            own.write(&mut file, check);
            drop(file);
        };
        let thread = Some(thread::Builder::new().name("volley_writer".into()).spawn(work)?);
        Ok(Behind { shared, thread })
    }

    /// Returns a handle on the state of the file.
    pub fn state(&self) -> BehindState {
        BehindState(Arc::clone(&self.shared))
    }

    /// Ends the file. Waits a moment until all is written, but not for a file system that does not answer. Returns why the file is not
    /// complete, if so. The thread may still complete it.
    pub fn finish(mut self) -> Option<String> {
        let shared = &self.shared;
        shared.over.store(true, Ordering::Release);
        let is_done = || shared.unwritten.load(Ordering::Acquire) == 0;
        let written = || shared.written.load(Ordering::Relaxed);
        let thread = self.thread.take()?;
        if !shared.leaving.wait(&thread, is_done, written) {
            return Some(
                "its file system does not answer, or is slow: the last bytes are not written yet".into(),
            );
        }
        let failed = lock(&shared.failed).clone();
        failed.filter(|(is_lost, _)| *is_lost).map(|(_, why)| why)
    }
}

impl Drop for Behind {
    /// The thread writes what waits, and ends.
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

/// The state of a file that a thread writes.
pub struct BehindState(Arc<Shared>);

impl BehindState {
    /// True if so many bytes wait that the writer should wait, too.
    pub fn is_full(&self) -> bool {
        self.0.unwritten.load(Ordering::Relaxed) >= ROOM
    }

    /// True if the file cannot be continued.
    pub fn is_over(&self) -> bool {
        self.0.has_failed.load(Ordering::Acquire)
    }
}

impl Write for Behind {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.shared.unwritten.fetch_add(bytes.len(), Ordering::Relaxed);
        lock(&self.shared.waiting).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    /// Writes what waits until the file ends, or a write fails.
    fn write(&self, file: &mut File, check: impl Fn(&File, usize) -> Option<String>) {
        let mut full = Vec::new();
        loop {
            // Read before the buffer is swapped, so that the last bytes are written.
            let over = self.over.load(Ordering::Acquire);
            std::mem::swap(&mut *lock(&self.waiting), &mut full);
            for piece in full.chunks(PIECE) {
                let goes_on = !self.has_failed.load(Ordering::Relaxed);
                let waits = self.unwritten.load(Ordering::Relaxed);
                if let Some(why) = goes_on.then(|| check(file, waits)).flatten() {
                    self.fail(false, why);
                }
                if let Err(e) = file.write_all(piece) {
                    return self.fail(true, e.to_string());
                }
                self.written.fetch_add(piece.len() as u64, Ordering::Relaxed);
                self.unwritten.fetch_sub(piece.len(), Ordering::Release);
            }
            full.clear();
            if over {
                return;
            }
            thread::park_timeout(LOOK);
        }
    }

    fn fail(&self, is_lost: bool, why: String) {
        *lock(&self.failed) = Some((is_lost, why));
        self.has_failed.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    fn behind(file: File, left: &'static AtomicUsize, why: Option<&str>) -> Behind {
        let why = why.map(str::to_owned);
        Behind::started(file, move |_, _| why.clone(), Leaving { left, ..Leaving::default() }).unwrap()
    }

    #[test]
    fn all_bytes_are_written_also_after_a_check_that_ends_the_file() {
        static LEFT: AtomicUsize = AtomicUsize::new(0);
        for why in [None, Some("enough")] {
            let file = tempfile::NamedTempFile::new().unwrap();
            let mut behind = behind(file.reopen().unwrap(), &LEFT, why);
            let bytes: Vec<u8> = (0..3_000_000u32).map(|n| n as u8).collect();
            bytes.chunks(1000).for_each(|piece| behind.write_all(piece).unwrap());
            while why.is_some() && !behind.state().is_over() {
                thread::yield_now();
            }
            assert_eq!(behind.finish(), None);
            assert!(std::fs::read(file.path()).unwrap() == bytes);
        }
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut behind = behind(full, &LEFT, None);
        behind.write_all(b"x").unwrap();
        while !behind.state().is_over() {
            thread::yield_now();
        }
        assert!(behind.finish().is_some_and(|why| why.contains("No space")));
    }

    /// A pipe that nobody reads takes no more bytes at some time.
    #[test]
    fn a_file_that_takes_no_bytes_keeps_nobody_waiting() {
        static LEFT: AtomicUsize = AtomicUsize::new(0);
        let bytes = vec![7; 1 << 20];
        let (mut readers, mut took, mut sent) = (Vec::new(), Vec::new(), 0);
        for _ in 0..2 {
            let (reader, writer) = io::pipe().unwrap();
            let mut stuck = behind(File::from(OwnedFd::from(writer)), &LEFT, None);
            while !stuck.state().is_full() {
                stuck.write_all(&bytes).unwrap();
                sent += bytes.len() as u64;
            }
            thread::sleep(4 * LOOK);
            let begun = Instant::now();
            assert!(stuck.finish().is_some_and(|why| why.contains("does not answer")));
            took.push(begun.elapsed());
            readers.push(reader);
        }
        assert!(took[0] >= QUIET && took[1] < QUIET / 2, "the second one is not waited for: {took:?}");
        assert_eq!(LEFT.load(Ordering::Relaxed), 2);
        // They complete the files when they can.
        let received: u64 = readers.iter_mut().map(|from| io::copy(from, &mut io::sink()).unwrap()).sum();
        assert_eq!(received, sent);
        let end = Instant::now() + Duration::from_secs(20);
        while LEFT.load(Ordering::Relaxed) > 0 {
            assert!(Instant::now() < end);
            thread::yield_now();
        }
    }

    /// What was written before the check ended the file is lost, if writing it fails.
    #[test]
    fn a_failure_after_the_check_is_told() {
        static LEFT: AtomicUsize = AtomicUsize::new(0);
        let (reader, writer) = io::pipe().unwrap();
        let mut behind = behind(File::from(OwnedFd::from(writer)), &LEFT, Some("enough"));
        behind.write_all(b"x").unwrap();
        while !behind.state().is_over() {
            thread::yield_now();
        }
        drop(reader);
        behind.write_all(b"x").unwrap();
        assert!(behind.finish().is_some_and(|why| why.contains("Broken pipe")));
    }

    #[test]
    fn files_that_hang_are_few() {
        static LEFT: AtomicUsize = AtomicUsize::new(MOST_LEFT);
        let refused = Leaving { left: &LEFT, ..Leaving::default() }.may_begin();
        assert!(refused.unwrap_err().to_string().starts_with("16 files wait for file systems"));
    }
}
