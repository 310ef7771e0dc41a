//! The journal file: a header, and one line per change.
//!
//! Lines are only appended. A file that has grown too large is replaced by one with the newest lines. Damaged lines are
//! skipped, so a torn write costs only its own record.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::record;
use crate::files;
use crate::intent::Entry;
use crate::process;

/// The name of the file in its directory.
const NAME: &str = "journal";
/// Name prefix of the temporary files that replace the journal.
const UNFINISHED: &str = ".journal-";
/// The first line of a journal file.
const HEAD: &str = "volley journal 1\n";
/// Maximum number of entries that are read, and that are kept when the file is replaced.
const MOST: usize = 1000;
/// Maximum time to wait for the lock on the file, which an earlier instance of the router may hold until its end.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sizes in bytes. A file larger than `full`, or with at least twice [`MOST`] lines, is replaced by its newest lines, at most `kept` bytes.
/// A file larger than `foreign` is not a journal.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    full: u64,
    kept: usize,
    foreign: u64,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { full: 8 << 20, kept: 4 << 20, foreign: 64 << 20 }
    }
}

/// The open and locked file.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    file: File,
    sizes: Sizes,
    bytes: u64,
    lines: usize,
}

/// The contents of the file at the start.
#[derive(Default)]
pub struct Found {
    /// The changes, oldest first.
    pub entries: Vec<Entry>,
    /// Number of unreadable lines.
    pub unread: usize,
}

impl Kept {
    /// Opens the file in a directory. Creates the directory and the file if they do not exist.
    ///
    /// # Errors
    /// If the system refuses, another router has locked the file, or it is not a journal of this user.
    pub fn open(directory: &Path, sizes: Sizes) -> io::Result<(Kept, Found)> {
        process::make_directory(directory)?;
        let path = directory.join(NAME);
        let mut file = files::private(&path)?;
        lock(&file)?;
        let about = file.metadata()?;
        if about.uid() != nix::unistd::geteuid().as_raw() || about.nlink() != 1 {
            return refused("it belongs to another user, or has more than one hard link: remove it");
        }
        if about.len() > sizes.foreign {
            return refused("it is too large for a journal: remove it");
        }
        // The lock on the file also protects the directory.
        remove_unfinished(directory)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let rest = match bytes.strip_prefix(HEAD.as_bytes()) {
            Some(rest) => rest,
            // The header is incomplete after a torn write.
            None if HEAD.as_bytes().starts_with(&bytes) => {
                file.set_len(0)?;
                bytes = HEAD.into();
                append(&file, HEAD.as_bytes(), 0)?;
                File::open(directory)?.sync_all()?;
                &[]
            }
            None => return refused("it is not a journal: remove it"),
        };
        let text = String::from_utf8_lossy(rest);
        let lines = text.lines().filter(|line| !line.is_empty());
        let read: Vec<Option<Entry>> = lines.map(record::entry).collect();
        let (lines, mut entries): (_, Vec<Entry>) = (read.len(), read.into_iter().flatten().collect());
        let unread = lines - entries.len();
        entries.drain(..entries.len().saturating_sub(MOST));
        let mut kept = Kept { path, file, sizes, bytes: bytes.len() as u64, lines };
        if bytes.last() != Some(&b'\n') {
            // The next record must begin on a new line.
            kept.append("\n")?;
        }
        Ok((kept, Found { entries, unread }))
    }

    /// Returns the path of the file in a directory.
    pub fn path_in(directory: &Path) -> PathBuf {
        directory.join(NAME)
    }

    /// Appends whole lines, and syncs them to disk.
    ///
    /// # Errors
    /// If the file was moved or replaced, or the system refuses. Then nothing was written.
    pub fn append(&mut self, lines: &str) -> io::Result<()> {
        self.is_in_place()?;
        if self.bytes > self.sizes.full || self.lines >= 2 * MOST {
            self.replace()?;
        }
        append(&self.file, lines.as_bytes(), self.bytes)?;
        self.bytes += lines.len() as u64;
        self.lines += lines.lines().count();
        Ok(())
    }

    /// Checks that the path still leads to the open file. If it does not, the next run of the router would not find lines written to the
    /// open file.
    fn is_in_place(&self) -> io::Result<()> {
        let ours = self.file.metadata()?;
        match self.path.symlink_metadata() {
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => Ok(()),
            Ok(_) => refused("it was replaced by another file: move it back, or restart the router"),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                refused("it was removed or renamed: move it back, or restart the router to create a new one")
            }
            Err(e) => Err(e),
        }
    }

    /// Replaces the file by one with the newest lines. Reads only the open file, never a file by its name: the directory's owner may have
    /// changed what the names lead to.
    fn replace(&mut self) -> io::Result<()> {
        let size = self.file.metadata()?.len().min(self.sizes.foreign);
        let mut old = vec![0; size as usize];
        self.file.read_exact_at(&mut old, 0)?;
        let old = String::from_utf8_lossy(&old);
        let (mut newest, mut bytes) = (Vec::new(), 0);
        for line in old.lines().skip(1).collect::<Vec<_>>().into_iter().rev() {
            bytes += line.len() + 1;
            if newest.len() == MOST || bytes > self.sizes.kept {
                break;
            }
            newest.push(line);
        }
        let lines = newest.len();
        let text = newest.into_iter().rev().fold(String::from(HEAD), |text, line| text + line + "\n");
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut new = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder)?;
        new.as_file().lock()?;
        new.write_all(text.as_bytes())?;
        new.as_file().sync_all()?;
        self.file = new.persist(&self.path)?;
        (self.bytes, self.lines) = (text.len() as u64, lines);
        File::open(folder)?.sync_all()
    }
}

/// Removes temporary files of routers that were killed while replacing the file.
fn remove_unfinished(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)?.take(1000) {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes())
            && entry.file_type()?.is_file()
        {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn refused<T>(why: &str) -> io::Result<T> {
    Err(io::Error::other(why))
}

/// Locks the file. Waits up to [`PATIENCE`], because a killed router holds the lock until the kernel has freed its memory.
fn lock(file: &File) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    while let Err(e) = file.try_lock() {
        match e {
            fs::TryLockError::WouldBlock if Instant::now() < end => sleep(Duration::from_millis(20)),
            fs::TryLockError::WouldBlock => return refused("another router uses it"),
            fs::TryLockError::Error(e) => return Err(e),
        }
    }
    Ok(())
}

/// Appends to a file of length `at`. After a failure, truncates the file to this length again.
fn append(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    let written = file.write_all_at(bytes, at).and_then(|()| file.sync_data());
    if written.is_err() {
        // If this fails too, the next reader skips the damaged line.
        let _ = file.set_len(at);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::record::tests::entries;
    use crate::testing::catalog;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn open(directory: &Path) -> (Kept, Found) {
        Kept::open(directory, Sizes::default()).unwrap()
    }

    fn numbers(found: &Found) -> Vec<u64> {
        found.entries.iter().map(|entry| entry.number).collect()
    }

    fn fill(kept: &mut Kept, all: &[Entry]) {
        all.iter().for_each(|entry| kept.append(&record::line(entry, &catalog())).unwrap());
    }

    #[test]
    fn appended_lines_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("state/volley");
        let (mut kept, found) = open(&directory);
        assert!(found.entries.is_empty());
        fill(&mut kept, &entries(0..3));
        let path = directory.join(NAME);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
        drop(kept);
        let (mut kept, found) = open(&directory);
        assert_eq!((numbers(&found), found.unread), (vec![1, 2, 3], 0));
        fill(&mut kept, &entries(0..4)[3..]);
        drop(kept);
        assert_eq!(numbers(&open(&directory).1), [1, 2, 3, 4]);
    }

    /// For many places at which a write may be torn: earlier records are read, and later ones can be appended.
    #[test]
    fn torn_write_costs_one_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let all = entries(0..4);
        fill(&mut open(folder.path()).0, &all[..3]);
        let whole = fs::read(&path).unwrap();
        let ends: Vec<usize> = (1..=whole.len()).filter(|n| whole[n - 1] == b'\n').collect();
        for end in (0..whole.len()).step_by(7) {
            fs::write(&path, &whole[..end]).unwrap();
            let (mut kept, found) = open(folder.path());
            // A line that lacks only its line feed is complete.
            let before = ends.iter().skip(1).filter(|n| **n <= end + 1).count() as u64;
            assert_eq!(numbers(&found), (1..=before).collect::<Vec<_>>(), "{end}");
            fill(&mut kept, &all[3..]);
            drop(kept);
            assert_eq!(numbers(&open(folder.path()).1), (1..=before).chain([4]).collect::<Vec<_>>());
        }
        // A damaged line in the middle.
        let mut garbled = whole.clone();
        let second = ends[1]..ends[2] - 1;
        garbled[second].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(7) | 0x80);
        fs::write(&path, &garbled).unwrap();
        let found = open(folder.path()).1;
        assert_eq!((numbers(&found), found.unread), (vec![1, 3], 1));
    }

    #[test]
    fn foreign_files_are_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let refused = || Kept::open(folder.path(), Sizes::default()).err().unwrap().to_string();
        fs::write(&path, "precious").unwrap();
        assert!(refused().contains("it is not a journal"));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        fs::remove_file(&path).unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "").unwrap();
        symlink(&other, &path).unwrap();
        refused();
        fs::remove_file(&path).unwrap();
        fs::hard_link(&other, &path).unwrap();
        assert!(refused().contains("has more than one hard link"));
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        refused();
        fs::remove_file(&path).unwrap();
        File::create(&path).unwrap().set_len(65 << 20).unwrap();
        assert!(refused().contains("too large"));
        fs::remove_file(&path).unwrap();
        let _first = open(folder.path());
        assert!(refused().contains("another router uses it"));
        assert_eq!(fs::metadata(&other).unwrap().len(), 0);
    }

    /// The directory's owner may move the file, or put anything in its place, while the router runs. The router then reports an error and
    /// writes to neither file.
    #[test]
    fn moved_or_replaced_file_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join(NAME), folder.path().join("other"));
        let sizes = Sizes { full: 100, kept: 3000, foreign: 1 << 20 };
        let (mut kept, _) = Kept::open(folder.path(), sizes).unwrap();
        let lines: Vec<String> = entries(0..4).iter().map(|entry| record::line(entry, &catalog())).collect();
        kept.append(&lines[0]).unwrap();
        fs::rename(&path, &other).unwrap();
        let before = fs::read(&other).unwrap();
        let mut refused = || kept.append(&lines[1]).unwrap_err().to_string();
        assert!(refused().starts_with("it was removed or renamed"));
        symlink("/dev/zero", &path).unwrap();
        assert!(refused().starts_with("it was replaced by another file"));
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(refused().starts_with("it was replaced by another file"));
        assert_eq!(fs::read(&other).unwrap(), before);
        // When the file is back in its place, changes are written again. The file is full by then, so a new one replaces it.
        fs::rename(&other, &path).unwrap();
        kept.append(&lines[1]).unwrap();
        assert_ne!(fs::metadata(&path).unwrap().len(), before.len() as u64);
        // A temporary file of a killed router is removed.
        fs::write(folder.path().join(".journal-abc"), "").unwrap();
        kept.append(&lines[2]).unwrap();
        drop(kept);
        assert_eq!(numbers(&open(folder.path()).1), [1, 2, 3]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn full_file_is_replaced_by_its_newest_lines() {
        let folder = tempfile::tempdir().unwrap();
        let (mut kept, _) =
            Kept::open(folder.path(), Sizes { full: 6000, kept: 3000, foreign: 1 << 20 }).unwrap();
        let all = entries(0..200);
        for entry in &all {
            fill(&mut kept, std::slice::from_ref(entry));
            assert!(fs::metadata(folder.path().join(NAME)).unwrap().len() < 7000);
        }
        assert!(Kept::open(folder.path(), Sizes::default()).is_err(), "it is locked");
        drop(kept);
        let found = open(folder.path()).1;
        let numbers = numbers(&found);
        assert!(numbers.len() > 5 && numbers.last() == Some(&200), "{numbers:?}");
        assert!(numbers.is_sorted_by(|one, next| one + 1 == *next) && found.unread == 0, "{numbers:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file is left");
        let mode = folder.path().join(NAME).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
    }
}
