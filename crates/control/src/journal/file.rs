//! The file of the journal: a head, and a line a change.
//!
//! Lines are only appended. A file that has grown too large is replaced by one with the newest lines. Whatever is not a line as it was written
//! is passed over, so a write that was torn costs its own record.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::record;
use crate::files;
use crate::intent::Entry;
use crate::process;

/// The name of the file in its directory.
const NAME: &str = "journal";
/// What it begins with.
const HEAD: &str = "volley journal 1\n";
/// Entries that are read at most, and kept when the file is replaced.
const MOST: usize = 1000;
/// How long the lock of an instance that is going away is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// When a file is replaced, and how much of it is kept, in bytes; and when it is none of ours.
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

/// The file, open and locked.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    file: File,
    sizes: Sizes,
    bytes: u64,
    lines: usize,
}

/// What was found in it.
#[derive(Default)]
pub struct Found {
    /// Changes, the oldest first.
    pub entries: Vec<Entry>,
    /// Lines that cannot be read.
    pub unread: usize,
}

impl Kept {
    /// Opens the file in a directory, and makes both if they are not there.
    ///
    /// # Errors
    /// The system refuses, another router has the file, or it is none that this router would have written.
    pub fn open(directory: &Path, sizes: Sizes) -> io::Result<(Kept, Found)> {
        process::make_directory(directory)?;
        let path = directory.join(NAME);
        let mut file = files::private(&path)?;
        lock(&file)?;
        let about = file.metadata()?;
        if about.uid() != nix::unistd::geteuid().as_raw() || about.nlink() != 1 {
            return refused("it belongs to another user, or has another name: remove it");
        }
        if about.len() > sizes.foreign {
            return refused("it is too large to be one: remove it");
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let rest = match bytes.strip_prefix(HEAD.as_bytes()) {
            Some(rest) => rest,
            // The write of the head was torn.
            None if HEAD.as_bytes().starts_with(&bytes) => {
                file.set_len(0)?;
                bytes = HEAD.into();
                append(&mut file, HEAD.as_bytes(), 0)?;
                File::open(directory)?.sync_all()?;
                &[]
            }
            None => return refused("it is no journal of a router: remove it"),
        };
        let text = String::from_utf8_lossy(rest);
        let lines = text.lines().filter(|line| !line.is_empty());
        let read: Vec<Option<Entry>> = lines.map(record::entry).collect();
        let (lines, mut entries): (_, Vec<Entry>) = (read.len(), read.into_iter().flatten().collect());
        let unread = lines - entries.len();
        entries.drain(..entries.len().saturating_sub(MOST));
        let mut kept = Kept { path, file, sizes, bytes: bytes.len() as u64, lines };
        if bytes.last() != Some(&b'\n') {
            // What comes next has a line of its own.
            kept.append("\n")?;
        }
        Ok((kept, Found { entries, unread }))
    }

    /// Where it is.
    pub fn path_in(directory: &Path) -> PathBuf {
        directory.join(NAME)
    }

    /// Writes a line, and has the disk keep it.
    ///
    /// # Errors
    /// The system refuses: nothing was written then.
    pub fn append(&mut self, line: &str) -> io::Result<()> {
        if self.file.metadata()?.nlink() == 0 {
            return refused("it was removed: restart the router to have a new one");
        }
        if self.bytes > self.sizes.full || self.lines >= 2 * MOST {
            self.replace()?;
        }
        append(&mut self.file, line.as_bytes(), self.bytes)?;
        self.bytes += line.len() as u64;
        self.lines += 1;
        Ok(())
    }

    /// Makes a file with the newest lines take its place.
    fn replace(&mut self) -> io::Result<()> {
        let text = String::from_utf8_lossy(&fs::read(&self.path)?).into_owned();
        let (mut newest, mut bytes) = (Vec::new(), 0);
        for line in text.lines().skip(1).collect::<Vec<_>>().into_iter().rev() {
            bytes += line.len() + 1;
            if newest.len() == MOST || bytes > self.sizes.kept {
                break;
            }
            newest.push(line);
        }
        let lines = newest.len();
        let text = newest.into_iter().rev().fold(String::from(HEAD), |text, line| text + line + "\n");
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut new = tempfile::Builder::new().prefix(".journal-").tempfile_in(folder)?;
        new.as_file().lock()?;
        new.write_all(text.as_bytes())?;
        new.as_file().sync_all()?;
        new.persist(&self.path)?;
        File::open(folder)?.sync_all()?;
        // By its name, for appending.
        let file = files::private(&self.path)?;
        self.file = file;
        lock(&self.file)?;
        (self.bytes, self.lines) = (text.len() as u64, lines);
        Ok(())
    }
}

fn refused<T>(why: &str) -> io::Result<T> {
    Err(io::Error::other(why))
}

/// Waits a while for the lock: a router that was killed has it until its memory is freed.
fn lock(file: &File) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    while let Err(e) = file.try_lock() {
        match e {
            fs::TryLockError::WouldBlock if Instant::now() < end => sleep(Duration::from_millis(20)),
            fs::TryLockError::WouldBlock => return refused("another router keeps its journal there"),
            fs::TryLockError::Error(e) => return Err(e),
        }
    }
    Ok(())
}

/// Appends to a file that is so long. If that fails, it is so long again.
fn append(file: &mut File, bytes: &[u8], at: u64) -> io::Result<()> {
    let written = file.write_all(bytes).and_then(|()| file.sync_data());
    if written.is_err() {
        // Should that fail, too, the next one to open the file passes over what is there.
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
    fn what_is_appended_is_found_again_by_its_owner_only() {
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

    /// Wherever a write was torn, and whatever stands in the file instead: what was whole before is found, and what comes then as well.
    #[test]
    fn a_torn_file_costs_its_last_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let all = entries(0..4);
        fill(&mut open(folder.path()).0, &all[..3]);
        let whole = fs::read(&path).unwrap();
        let ends: Vec<usize> = (1..=whole.len()).filter(|n| whole[n - 1] == b'\n').collect();
        for end in (0..whole.len()).step_by(7) {
            fs::write(&path, &whole[..end]).unwrap();
            let (mut kept, found) = open(folder.path());
            // A line without its line feed is whole.
            let before = ends.iter().skip(1).filter(|n| **n <= end + 1).count() as u64;
            assert_eq!(numbers(&found), (1..=before).collect::<Vec<_>>(), "{end}");
            fill(&mut kept, &all[3..]);
            drop(kept);
            assert_eq!(numbers(&open(folder.path()).1), (1..=before).chain([4]).collect::<Vec<_>>());
        }
        // Rubbish in the middle.
        let mut garbled = whole.clone();
        let second = ends[1]..ends[2] - 1;
        garbled[second].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(7) | 0x80);
        fs::write(&path, &garbled).unwrap();
        let found = open(folder.path()).1;
        assert_eq!((numbers(&found), found.unread), (vec![1, 3], 1));
    }

    #[test]
    fn files_of_others_are_refused_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let refused = || Kept::open(folder.path(), Sizes::default()).err().unwrap().to_string();
        fs::write(&path, "precious").unwrap();
        assert!(refused().contains("it is no journal of a router"));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        fs::remove_file(&path).unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "").unwrap();
        symlink(&other, &path).unwrap();
        refused();
        fs::remove_file(&path).unwrap();
        fs::hard_link(&other, &path).unwrap();
        assert!(refused().contains("has another name"));
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        refused();
        fs::remove_file(&path).unwrap();
        File::create(&path).unwrap().set_len(65 << 20).unwrap();
        assert!(refused().contains("too large"));
        fs::remove_file(&path).unwrap();
        let _first = open(folder.path());
        assert!(refused().contains("another router keeps its journal there"));
        assert_eq!(fs::metadata(&other).unwrap().len(), 0);
    }

    #[test]
    fn a_file_that_is_full_is_replaced_by_its_newest_lines() {
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
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing lies about");
        let mode = folder.path().join(NAME).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
    }
}
