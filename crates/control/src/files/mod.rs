//! Opens files that clients name, without blocking this process.
//!
//! A client may name a pipe, a device, or a file on a file system that hangs. Therefore separate threads open, read and write files, and
//! they use only ordinary files. These threads have no other files open: a killed process must not wait for a file system before it
//! releases its sockets and interfaces.

mod replace;

use std::fs::{File, Permissions};
use std::io::{self, Read};
use std::ops::Deref;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use drivers::target::{Target, exposed, is_of_ours, is_ours_alone, kind};
use drivers::{Patience, Progress, Stream};
use infra::mem::Room;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, SFlag};
pub use replace::replace;

/// Maximum size of a file to read, in bytes. This is enough for some millions of routes.
pub const LARGEST: u64 = 512 << 20;

/// Size in bytes above which a file is read only if enough memory is free.
const LARGE: u64 = 2 << 20;
/// Bytes of memory for each byte of a configuration file. 2.4 were measured.
const PER_BYTE: u64 = 3;

/// Maximum number of files to write, and of network namespaces, that are being opened at the same time. A file system that hangs blocks the
/// threads that use it, even after their clients are gone.
const MOST_OPEN: usize = 64;
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// The permission to have one file open, out of [`MOST_OPEN`].
pub struct Place(&'static AtomicUsize);

impl Place {
    /// Takes a place for a file to write.
    ///
    /// # Errors
    /// If there is none.
    pub fn to_write() -> io::Result<Place> {
        static WRITTEN: AtomicUsize = AtomicUsize::new(0);
        Place::take(&WRITTEN)
    }

    fn take(count: &'static AtomicUsize) -> io::Result<Place> {
        let take = |open: usize| (open < MOST_OPEN).then_some(open + 1);
        match count.try_update(Ordering::AcqRel, Ordering::Acquire, take) {
            Ok(_) => Ok(Place(count)),
            Err(_) => Err(io::Error::other(format!(
                "{MOST_OPEN} files of clients are being opened or written, the maximum: try again later, or check if a file system hangs"
            ))),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

const DIED: &str = "internal error: the thread that uses the file system died";

/// Runs `work` on a thread of its own, because a file system may block it, and waits for the result. The thread has none of this process's
/// open files. So `work` must neither log nor wake another thread through a file descriptor.
///
/// # Errors
/// If the thread cannot be started, or panics.
pub fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (done, result) = sync_channel(1);
    drivers::spawn_apart("volley_files", move || drop(done.send(work())))?;
    result.recv().map_err(|_| io::Error::other(DIED))
}

/// Reads a file by `read`, on a thread as in [`apart`]. Waits while there is `patience`. To be called on
/// a thread that may block.
///
/// # Errors
/// If the time is over, the thread cannot be started or panics, or too many files hang. Further reads of the file fail until its file system
/// has answered.
pub fn read_by<T: Send + 'static>(
    path: &Path,
    patience: &Patience,
    read: impl FnOnce(&Path, &Progress) -> T + Send + 'static,
) -> io::Result<T> {
    drivers::read_apart(path, patience, read)
}

/// Opens a file with `open` on a separate thread, and waits for the result. To be called on a thread that may block.
///
/// # Errors
/// As `open`; or if the thread cannot be started, or too many files are open.
pub fn open_by(
    path: &Path,
    open: impl FnOnce(&Path) -> io::Result<File> + Send + 'static,
) -> io::Result<File> {
    let place = Place::take(&OPEN)?;
    drivers::open_apart(path, Duration::MAX, move |path| {
        let _place = place;
        open(path)
    })
}

/// Checks that a file can be created or replaced. Does not follow links. To be called on a thread that may block.
///
/// # Errors
/// If it is not an ordinary file, the thread cannot be started, or too many files are open.
pub fn may_be_made(path: &Path) -> io::Result<()> {
    let place = Place::take(&OPEN)?;
    let path = path.to_owned();
    apart(move || {
        let _place = place;
        match Target::find_entry(&path)?.about()? {
            Some(there) if kind(&there) != SFlag::S_IFREG => {
                Err(io::Error::other("it is not an ordinary file"))
            }
            _ => Ok(()),
        }
    })?
}

/// An ordinary file that is being read.
#[derive(Debug)]
pub struct Reader {
    /// Size of the file in bytes.
    pub size: u64,
    file: Stream,
}

impl Read for Reader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.file.read(to)
    }
}

/// Opens an ordinary file of at most [`LARGEST`] bytes for reading. Opening and reading it waits as in [`read_by`]. To be called on a thread
/// that may block.
///
/// # Errors
/// If the file does not exist, is not ordinary or too large, the system refuses, the time is over, or too many files are being read.
pub fn open(path: &Path, patience: &Patience) -> io::Result<Reader> {
    let (size, file) = drivers::stream_apart(path, patience, find)?;
    Ok(Reader { size, file })
}

/// A file that has the size that it had when it was opened: there is memory for that.
#[derive(Debug)]
struct FixedSize {
    file: File,
    left: u64,
}

impl Read for FixedSize {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if to.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            return match self.file.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(io::Error::other("it grew while it was read")),
            };
        }
        let most = to.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let n = self.file.read(to.get_mut(..most).unwrap_or_default())?;
        self.left -= n as u64;
        Ok(n)
    }
}

/// Finds and opens an ordinary file. Returns its size in bytes, and the open file, for reading on the calling thread.
fn find(path: &Path) -> io::Result<(u64, FixedSize)> {
    let file = File::open(drivers::find_ordinary(path)?.path())?;
    let size = file.metadata()?.len();
    if size > LARGEST {
        return Err(io::Error::other(format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    Ok((size, FixedSize { file, left: size }))
}

/// Opens a file of this process for reading and appending; only its owner can open it. Creates it if missing.
///
/// # Errors
/// If the path is a symbolic link, or is not an ordinary file; if the file has several hard links, and a mode other than 0600; or if the
/// system refuses.
pub fn private(path: &Path) -> io::Result<File> {
    // Does not wait for the other end of a pipe.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mut options = File::options();
    options.create(true).read(true).append(true).mode(0o600).custom_flags(flags.bits());
    let file = options.open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other(format!("{} is not an ordinary file", path.display())));
    }
    if found.mode() & 0o7777 != 0o600 {
        // Users who may write to the directory can give this name to any file of the same file system.
        if found.nlink() > 1 {
            let text = format!("{0} has more than one hard link: delete {0}", path.display());
            return Err(io::Error::other(text));
        }
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Opens a file that the start configuration names, such as the log, for writing. Creates it with these permissions
/// if missing, and keeps its contents. Does not wait for the reader of a pipe.
///
/// If other users can write to a parent directory, refuses symbolic links, because they could lead anywhere. Then also refuses files of
/// other users, files with several hard links, and pipes in a directory that other users can write to. Those users could read, forge or
/// erase what the router writes.
///
/// # Errors
/// If the path is such a link, pipe or file, a pipe without a reader, or a directory; or if the system refuses.
pub fn to_append(path: &Path, mode: u32) -> io::Result<File> {
    let Target { folder, name, is_private, .. } = Target::find(path)?;
    // The group and the access list of a new file may be those of other users.
    let mode = if is_private { mode } else { mode & !0o070 };
    let no_links = if is_private { OFlag::empty() } else { OFlag::O_NOFOLLOW };
    let how = OFlag::O_NONBLOCK
        | OFlag::O_NOCTTY
        | OFlag::O_CREAT
        | OFlag::O_APPEND
        | OFlag::O_WRONLY
        | OFlag::O_CLOEXEC;
    let file = match openat(&folder, name.as_os_str(), how | no_links, Mode::from_bits_truncate(mode)) {
        Err(Errno::ELOOP) => return Err(exposed("reached through a symbolic link")),
        opened => File::from(opened?),
    };
    if is_private {
        return Ok(file);
    }
    let found = file.metadata()?;
    let kind = found.file_type();
    match kind.is_file() {
        true if found.nlink() > 1 => Err(exposed("a file with more than one hard link")),
        true if !is_of_ours(found.uid()) => Err(exposed(&format!("a file of user {}", found.uid()))),
        // Only we can have put a pipe into a directory of ours.
        false if kind.is_fifo() && !is_ours_alone(&folder)? => Err(exposed("a pipe")),
        _ => Ok(file),
    }
}

/// Number of bytes of memory for the texts that are being parsed.
static PARSED: Mutex<u64> = Mutex::new(0);

fn parsed() -> MutexGuard<'static, u64> {
    PARSED.lock().unwrap_or_else(|e| e.into_inner())
}

/// The memory for parsing a text, in bytes. Texts that are parsed at the same time share what is free.
#[derive(Debug, Default)]
#[must_use = "to be kept until the text is parsed"]
pub struct Parsing(u64);

impl Parsing {
    /// Takes the memory for parsing a text of this length, in bytes.
    ///
    /// # Errors
    /// If memory is not sufficient. The error says how much memory is needed, and how much is free.
    pub fn of(length: u64) -> io::Result<Parsing> {
        if length <= LARGE {
            return Ok(Parsing(0));
        }
        let bytes = PER_BYTE * length;
        let mut parsed = parsed();
        Room::now().must_have(bytes + *parsed).map_err(|e| match *parsed {
            0 => e,
            others => io::Error::other(format!("{e}; {} MiB of it for other texts", others >> 20)),
        })?;
        *parsed += bytes;
        Ok(Parsing(bytes))
    }
}

impl Drop for Parsing {
    fn drop(&mut self) {
        *parsed() -= self.0;
    }
}

/// The text of a file. To be kept until it is parsed.
#[derive(Debug, Default)]
pub struct Text {
    text: String,
    _memory: Parsing,
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// Reads a text file, opened as by [`open`].
///
/// # Errors
/// As [`open`]; or if there is not enough free memory, or the file is not text in UTF-8.
pub fn read(path: &Path, patience: &Patience) -> io::Result<Text> {
    let (mut file, mut text) = (open(path, patience)?, String::new());
    let _memory = Parsing::of(file.size)?;
    file.read_to_string(&mut text)?;
    Ok(Text { text, _memory })
}

/// True if `one` and `other` are names of the same file. If one of the names cannot be resolved, compares the names themselves. Waits as
/// [`read_by`] does for the file system of `other`. To be called on a thread that may block.
///
/// # Errors
/// As [`read_by`].
pub fn same(one: &Path, other: &Path, patience: &Patience) -> io::Result<bool> {
    let name = one.to_owned();
    let resolve = move |other: &Path, _: &Progress| match [&*name, other].map(Path::canonicalize) {
        [Ok(one), Ok(other)] => Some(one == other),
        _ => None,
    };
    Ok(read_by(other, patience, resolve)?.unwrap_or(one == other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(path: &Path) -> io::Result<String> {
        read(path, &Patience::without_end()).map(|text| text.to_string())
    }

    #[test]
    fn only_ordinary_files_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for other in [
            &path,
            directory.path(),
            Path::new("/dev/null"),
            Path::new("/dev/tty"),
            Path::new("/proc/version"),
        ] {
            assert_eq!(
                all(other).unwrap_err().to_string(),
                "it is not an ordinary file",
                "{}",
                other.display()
            );
        }
        std::fs::remove_file(&path).unwrap();
        File::create(&path).unwrap().set_len(LARGEST + 1).unwrap();
        assert_eq!(all(&path).unwrap_err().to_string(), "it is larger than 512 MiB");
        std::fs::write(&path, "text").unwrap();
        assert_eq!(all(&path).unwrap(), "text");
    }

    /// Several texts that fit alone do not fit together.
    #[test]
    fn texts_that_are_parsed_together_share_the_memory() {
        let Some(spare) = Room::now().spare() else {
            return testkit::skip::skipped("no memory limit is known");
        };
        // Two of these need a third more than there is.
        let large = spare / PER_BYTE / 3 * 2;
        assert!(large > LARGE, "{large}");
        let first = Parsing::of(large).unwrap();
        let why = Parsing::of(large).unwrap_err().to_string();
        assert!(why.contains("of it for other texts"), "{why}");
        drop(first);
        assert!(Parsing::of(large).is_ok());
    }

    #[test]
    fn a_file_that_grows_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "begin").unwrap();
        let (size, mut found) = find(file.path()).unwrap();
        assert_eq!(size, 5);
        std::fs::write(file.path(), "begin and go on").unwrap();
        let mut text = String::new();
        let grew = found.read_to_string(&mut text);
        assert_eq!(grew.unwrap_err().to_string(), "it grew while it was read");
        assert!(text.len() <= 5, "{text}");
    }

    #[test]
    fn number_of_open_files_is_limited() {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let places: Vec<Place> = (0..MOST_OPEN).map(|_| Place::take(&COUNT).unwrap()).collect();
        assert!(
            Place::take(&COUNT)
                .is_err_and(|e| e.to_string().starts_with("64 files of clients are being opened"))
        );
        drop(places);
        assert!(Place::take(&COUNT).is_ok());
    }
}
