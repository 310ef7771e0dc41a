//! Uses of files whose file systems may not answer: each runs on a thread [apart](super::apart), and is given up after some time.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::apart::{Crew, Kept, run, spawn};
use super::passing;

/// Time limit for a file system's answer, for callers that make other threads wait.
pub(crate) const PATIENCE: Duration = Duration::from_millis(200);
/// Maximum number of uses of files that have timed out and still wait for a file system. At this number, further calls
/// fail at once.
pub(super) const MOST_HANGING: usize = 64;
/// Maximum number of these in one directory. A file system that does not answer then leaves places for files elsewhere, also if each use is
/// of another file, such as a daily save with the date in its name.
const MOST_OF_DIRECTORY: usize = 4;
/// Maximum number of files that are read at the same time, including those that nobody waits for any more. A file system may answer, but
/// slowly, and each has a thread and memory.
const MOST_READING: usize = 64;
/// Maximum number of these in one directory.
const READING_OF_DIRECTORY: usize = 16;
/// The directories of the files that are being read.
static READING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// Calls that nobody waits for any more.
static HANGING: Mutex<Vec<Late>> = Mutex::new(Vec::new());

/// A call that nobody waits for any more, once it has [`left`](Late::left).
#[derive(Clone, Debug)]
pub(super) struct Late {
    path: PathBuf,
    /// Valid while the thread still waits for the file system.
    waits: Weak<()>,
    /// The time of its last progress; `None` if it has waited for too long already.
    since: Option<Instant>,
}

impl Late {
    /// True if the file system does not answer. After progress, the call ends soon.
    fn hangs(&self) -> bool {
        self.since.is_none_or(|since| since.elapsed() >= SILENCE)
    }

    /// Notes that nobody waits for the call any more. `since` is the time of its last progress if it does not hang yet. Until the call has
    /// ended or made progress, further calls for the same path fail.
    pub(super) fn left(&self, since: Option<Instant>) {
        if self.waits.strong_count() > 0 {
            let left = Late { since, ..self.clone() };
            HANGING.lock().unwrap_or_else(|e| e.into_inner()).push(left);
        }
    }
}

/// A call that uses a file, and may wait for its file system. The thread keeps it until the file system has answered.
pub(super) struct Call(Arc<()>);

impl Call {
    /// Begins a call.
    ///
    /// # Errors
    /// If an earlier call for this file still waits, 4 calls for other files of its directory, or `most` calls in all.
    pub(super) fn begin(path: &Path, most: usize) -> io::Result<Call> {
        let mut hanging = HANGING.lock().unwrap_or_else(|e| e.into_inner());
        hanging.retain(|late| late.waits.strong_count() > 0);
        if hanging.iter().any(|late| late.path == path && late.hangs()) {
            return Err(silent());
        }
        let hanging = || hanging.iter().filter(|late| late.hangs());
        let mut beside = hanging().filter(|late| late.path.parent() == path.parent());
        if let Some(other) = beside.nth(MOST_OF_DIRECTORY - 1) {
            let (directory, other) = (path.parent().unwrap_or(path).display(), other.path.display());
            let why = format!(
                "{MOST_OF_DIRECTORY} files in {directory}, such as {other}, wait for a file system that does not answer: check it first"
            );
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        if hanging().count() >= most {
            let why = format!("{most} files wait for file systems that do not answer: check those first");
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        Ok(Call(Arc::new(())))
    }

    /// Returns the record of this call for the time when nobody waits for it any more.
    pub(super) fn late(&self, path: &Path) -> Late {
        Late { path: path.to_owned(), waits: Arc::downgrade(&self.0), since: None }
    }
}

/// The permission to read one file of a directory, out of [`MOST_READING`].
pub(super) struct Place(PathBuf);

impl Place {
    pub(super) fn take(file: &Path) -> io::Result<Place> {
        let directory = file.parent().unwrap_or(file);
        let mut reading = READING.lock().unwrap_or_else(|e| e.into_inner());
        let most = if reading.len() >= MOST_READING {
            format!("{MOST_READING} files")
        } else if reading.iter().filter(|other| *other == directory).count() >= READING_OF_DIRECTORY {
            format!("{READING_OF_DIRECTORY} files of {}", directory.display())
        } else {
            reading.push(directory.to_owned());
            return Ok(Place(directory.to_owned()));
        };
        let why =
            format!("{most} are being read, the maximum: try again later, or check if a file system is slow");
        Err(io::Error::other(why))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut reading = READING.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(at) = reading.iter().position(|directory| *directory == self.0) {
            reading.swap_remove(at);
        }
    }
}

/// The progress of a call of [`read`].
#[derive(Debug, Default)]
pub struct Progress {
    pieces: AtomicU64,
    given_up: AtomicBool,
}

impl Progress {
    /// Notes that the file system has answered.
    ///
    /// # Errors
    /// If nobody waits for the file any more.
    pub fn advance(&self) -> io::Result<()> {
        self.pieces.fetch_add(1, Ordering::Relaxed);
        if self.given_up.load(Ordering::Relaxed) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

/// The time that a caller has for reading a file, or several. All clones share it.
#[derive(Clone, Debug)]
pub struct Patience {
    /// The time at which it ends; `None` if it has no end.
    until: Option<Instant>,
    /// Longest time without progress.
    pub(super) quiet: Duration,
    ended: Arc<AtomicBool>,
}

impl Patience {
    /// Returns the patience to wait for this time from now, and at most for [`QUIET`] without progress.
    pub fn of(time: Duration) -> Patience {
        Patience { until: Instant::now().checked_add(time), quiet: QUIET, ended: Arc::default() }
    }

    /// Returns the patience to wait while there is progress.
    pub fn without_end() -> Patience {
        Patience::of(Duration::MAX)
    }

    /// Returns the patience to wait until the file system answers, however long that takes: for the start, which a signal can end.
    pub fn for_ever() -> Patience {
        Patience { quiet: Duration::MAX, ..Patience::without_end() }
    }

    /// Ends it now: a reading fails within [`LOOK`], or with its current piece.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// True if its time is over, or it was ended.
    pub fn is_over(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// Ends a [`Patience`] when it is dropped, because nobody needs the files then.
#[derive(Debug)]
pub struct Waiter(pub Patience);

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Longest time without progress while a file is read.
const QUIET: Duration = Duration::from_secs(5);

/// Interval at which those who wait for a file look at its progress, and at their patience.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// Time without progress after which a file that nobody waits for any more counts as hanging. If there was progress, the reading ends soon.
const SILENCE: Duration = Duration::from_secs(1);

pub(super) fn silent() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the file system does not answer")
}

pub(super) fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the file was not read in time")
}

pub(super) fn died() -> io::Error {
    io::Error::other("internal error: the thread that uses the file system died")
}

/// Opens a file by `open`, on a thread without other files, and waits for at most `patience`. After a timeout of this or of a [`read`],
/// further opens of this path fail until the file system has answered.
///
/// # Errors
/// If `open` fails, the file system does not answer, 4 earlier calls for files of the directory or 64 in all wait for an answer, or the
/// thread cannot be created.
pub fn open(
    path: &Path,
    patience: Duration,
    open: impl FnOnce(&Path) -> io::Result<File> + Send + 'static,
) -> io::Result<File> {
    let call = Call::begin(path, MOST_HANGING)?;
    let left = call.late(path);
    let [ours, theirs] = passing::pair()?;
    let (to_us, opened) = sync_channel(1);
    let name = path.to_owned();
    let work = move |files: io::Result<Vec<Kept>>| {
        let done = files.and_then(|files| {
            let file = ManuallyDrop::new(open(&name)?);
            let door = files.first().ok_or(io::ErrorKind::NotFound)?;
            passing::send(door.as_fd(), &[0], &[file.as_fd()]).map(|_| ())
        });
        drop(call);
        let _ = to_us.send(done);
    };
    run(&Crew::default(), "volley_files", 2 << 20, &[theirs.as_fd()], work)?;
    match opened.recv_timeout(patience) {
        Ok(done) => done?,
        Err(RecvTimeoutError::Timeout) => {
            left.left(None);
            return Err(silent());
        }
        Err(RecvTimeoutError::Disconnected) => return Err(died()),
    }
    let mut piece = passing::receive(ours.as_fd(), &mut [0], false)?;
    piece
        .files
        .pop()
        .map(File::from)
        .ok_or_else(|| io::Error::other("no file descriptor is free: raise LimitNOFILE of the service"))
}

/// Reads a file by `read`, on a thread without other files. Waits while there is `patience`. After a timeout, `read` should end at its next progress; until it has ended, further reads and opens of this path fail.
///
/// # Errors
/// If the time is over, 4 earlier calls for files of the directory or 32 in all wait for an answer, 16 files of the directory or 64 in all
/// are being read, or the thread cannot be created or panics.
pub fn read<T: Send + 'static>(
    path: &Path,
    patience: &Patience,
    read: impl FnOnce(&Path, &Progress) -> T + Send + 'static,
) -> io::Result<T> {
    // Half of the calls, so that others can still open files if many captures are on a file system that hangs.
    let call = Call::begin(path, MOST_HANGING / 2)?;
    let place = Place::take(path)?;
    let (left, name) = (call.late(path), path.to_owned());
    let progress = Arc::new(Progress::default());
    let (to_us, result) = sync_channel(1);
    let noted = progress.clone();
    spawn("volley_files", move || {
        let done = read(&name, &noted);
        drop((call, place));
        let _ = to_us.send(done);
    })?;
    let (mut pieces, mut since) = (0, Instant::now());
    loop {
        match result.recv_timeout(LOOK) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Disconnected) => return Err(died()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = progress.pieces.load(Ordering::Relaxed);
        if now != pieces {
            (pieces, since) = (now, Instant::now());
        }
        let hangs = since.elapsed() >= patience.quiet;
        if hangs || patience.is_over() {
            progress.given_up.store(true, Ordering::Relaxed);
            left.left((!hangs).then_some(since));
            return Err(if hangs { silent() } else { late() });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    fn until(done: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !done() {
            assert!(Instant::now() < end);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Threads with their own descriptor table block signals. A signal handler could write to a descriptor that is missing in that table,
    /// or that is another file there.
    #[test]
    fn a_file_is_opened_by_a_thread_or_times_out() {
        use std::io::Read;
        let mut text = String::new();
        let opened = open(Path::new("/proc/self/comm"), PATIENCE, |path| File::open(path));
        opened.unwrap().read_to_string(&mut text).unwrap();
        assert!(!text.is_empty());
        let missing = open(Path::new("/nowhere"), PATIENCE, |path| File::open(path));
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
        // A file system that does not answer until the test lets it.
        let (tell, told) = channel::<()>();
        let path = Path::new("/dev/zero");
        let mute = open(path, Duration::ZERO, move |path| {
            told.recv().map_or_else(|_| File::open(path), |()| File::open(path))
        });
        assert_eq!(mute.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let again = open(path, Duration::MAX, |path| File::open(path));
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::TimedOut, "it is not opened again");
        drop(tell);
        until(|| open(path, Duration::MAX, |path| File::open(path)).is_ok());
    }

    #[test]
    fn a_read_that_nobody_waits_for_hangs_only_without_progress() {
        let late = |path: &Path, patience: &Patience| {
            read(path, patience, |_, _: &Progress| ()).err().map(|e| e.to_string())
        };
        let over = || {
            let patience = Patience::without_end();
            drop(Waiter(patience.clone()));
            patience
        };
        // It makes progress, and ends when it notices.
        let path = Path::new("/nowhere/slow");
        let slow = read(path, &over(), |_, progress| while progress.advance().is_ok() {});
        assert_eq!(slow.unwrap_err().to_string(), "the file was not read in time");
        assert_eq!(late(path, &Patience::without_end()), None);
        // It makes none.
        let path = Path::new("/nowhere/mute");
        let (tell, told) = channel::<()>();
        let mute = read(path, &over(), move |_, _| told.recv().is_ok());
        assert_eq!(mute.unwrap_err().to_string(), "the file was not read in time");
        until(|| late(path, &Patience::without_end()).is_some_and(|why| why.contains("does not answer")));
        drop(tell);
        until(|| late(path, &Patience::without_end()).is_none());
    }

    /// Each use is of another file, as with a daily save. Other directories keep their places.
    #[test]
    fn a_directory_that_hangs_leaves_places_for_others() {
        let (tell, told) = channel::<()>();
        let told = Arc::new(Mutex::new(told));
        let refused = (0..8).map(|day| {
            let told = told.clone();
            let path = format!("/nowhere/daily/save-{day}");
            let opened = open(Path::new(&path), Duration::ZERO, move |path| {
                let _ = told.lock().unwrap_or_else(|e| e.into_inner()).recv();
                File::open(path)
            });
            opened.unwrap_err().to_string()
        });
        let refused: Vec<String> = refused.collect();
        assert_eq!(refused.iter().filter(|why| why.contains("files in /nowhere/daily, such as")).count(), 4);
        assert!(open(Path::new("/proc/self/comm"), PATIENCE, |path| File::open(path)).is_ok());
        drop(tell);
        until(|| {
            let again = open(Path::new("/nowhere/daily/again"), PATIENCE, |path| File::open(path));
            again.is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
        });
    }
}
