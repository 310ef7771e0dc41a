//! The file of the journal: a head, and a line a change.
//!
//! Lines are only appended. A file that has grown too large is replaced by one with the newest lines. Whatever is not a line as it was written
//! is passed over, so a write that was torn costs its own record.

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
/// What the names of files begin with that are to take its place.
const UNFINISHED: &str = ".journal-";
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
        // The lock of the file is that of the directory, too.
        remove_unfinished(directory)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let rest = match bytes.strip_prefix(HEAD.as_bytes()) {
            Some(rest) => rest,
            // The write of the head was torn.
            None if HEAD.as_bytes().starts_with(&bytes) => {
                file.set_len(0)?;
                bytes = HEAD.into();
                append(&file, HEAD.as_bytes(), 0)?;
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
        self.is_in_place()?;
        if self.bytes > self.sizes.full || self.lines >= 2 * MOST {
            self.replace()?;
        }
        append(&self.file, line.as_bytes(), self.bytes)?;
        self.bytes += line.len() as u64;
        self.lines += 1;
        Ok(())
    }

    /// Makes sure that the name still leads to the file: what is written to another one nobody finds.
    fn is_in_place(&self) -> io::Result<()> {
        let ours = self.file.metadata()?;
        match self.path.symlink_metadata() {
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => Ok(()),
            Ok(_) => refused("another file took its place: move it back, or restart the router"),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                refused("it was removed or renamed: move it back, or restart the router to have a new one")
            }
            Err(e) => Err(e),
        }
    }

    /// Makes a file with the newest lines take its place. Names are only written to: who owns the directory may have made anything of them.
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

/// Removes what routers have left that were killed while they replaced a file.
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
fn append(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    let written = file.write_all_at(bytes, at).and_then(|()| file.sync_data());
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

    /// Who owns the directory may move the file, or make anything of its name, while the router runs.
    #[test]
    fn a_file_whose_name_leads_elsewhere_is_not_written() {
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
        assert!(refused().starts_with("another file took its place"));
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(refused().starts_with("another file took its place"));
        assert_eq!(fs::read(&other).unwrap(), before);
        // Back in its place it goes on; and it is replaced by what it has, for it is full.
        fs::rename(&other, &path).unwrap();
        kept.append(&lines[1]).unwrap();
        assert_ne!(fs::metadata(&path).unwrap().len(), before.len() as u64);
        // What a killed router has left goes.
        fs::write(folder.path().join(".journal-abc"), "").unwrap();
        kept.append(&lines[2]).unwrap();
        drop(kept);
        assert_eq!(numbers(&open(folder.path()).1), [1, 2, 3]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
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
