//! Finds the folder of a file that is to be written, and decides whether other users can change where the name leads.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2, readlinkat};
use nix::sys::stat::{FileStat, SFlag, fstatat};
use nix::unistd::Uid;

use super::files::file_system;

/// Maximum number of links to follow, as in Linux.
const MOST_LINKS: usize = 40;

/// True if a user is root, or the user of this process.
pub fn is_of_ours(user: u32) -> bool {
    [0, Uid::effective().as_raw()].contains(&user)
}

/// Returns an error about a file in a place where other users can put one.
pub fn exposed(what: &str) -> io::Error {
    io::Error::other(format!(
        "it is {what}, and other users can write to a parent directory: use another directory"
    ))
}

/// Returns the kind of a file.
pub fn kind(found: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits())
}

/// A file that is to be written, by its folder.
#[derive(Debug)]
pub struct Target {
    /// The folder, open for finding files in it. Its path may lead elsewhere soon.
    pub folder: File,
    /// The file's name in the folder.
    pub name: OsString,
    /// The path of the file, for messages. If it is private, it has no links.
    pub path: PathBuf,
    /// True if only root and this process's user can change where the path leads, and what the folder contains. Otherwise other users may
    /// have put anything there, under any name.
    pub is_private: bool,
}

/// Who can change the entries of a directory.
#[derive(Clone, Copy, PartialEq)]
enum Control {
    /// Root and this process's user.
    Ours,
    /// Others can, but not those of root and this process's user: it has the sticky bit, as `/tmp`.
    Sticky,
    /// Others can.
    Others,
}

impl Control {
    fn of(directory: &Metadata) -> Control {
        // With an access list, the bit of the group also stands for all users and groups of the list.
        let is_open = directory.mode() & 0o022 != 0;
        match is_of_ours(directory.uid()) {
            true if !is_open => Control::Ours,
            true if directory.mode() & 0o1000 != 0 => Control::Sticky,
            _ => Control::Others,
        }
    }
}

/// True if only root and this process's user can change the entries of a directory.
///
/// # Errors
/// If the system refuses.
pub fn is_ours_alone(directory: &File) -> io::Result<bool> {
    Ok(!is_served(directory) && Control::of(&directory.metadata()?) == Control::Ours)
}

/// True if a program serves the file system of an open file (FUSE), and not that of `/`, too, as in some containers. A file system that does
/// not say counts as served.
fn is_served(file: &File) -> bool {
    let is_plain = file_system(file.as_fd()).is_ok_and(|kind| kind != libc::FUSE_SUPER_MAGIC);
    let device = |about: io::Result<Metadata>| about.ok().map(|about| about.dev());
    !is_plain && device(file.metadata()) != device(Path::new("/").symlink_metadata())
}

impl Target {
    /// Returns what lies there; `None` if nothing does.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn about(&self) -> io::Result<Option<FileStat>> {
        match fstatat(&self.folder, self.name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Err(Errno::ENOENT) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// Finds a file's place; the file need not exist. Follows links as far as only root and this process's user can have made them. Behind
    /// that, a link is an error; but the file itself may be a link there.
    ///
    /// # Errors
    /// If a folder does not exist, a link must not be followed, or the system refuses.
    pub fn find(path: &Path) -> io::Result<Target> {
        Target::search(path, true)
    }

    /// Like [`find`](Self::find), but does not follow the path's last component if that is a link.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn find_entry(path: &Path) -> io::Result<Target> {
        Target::search(path, false)
    }

    fn search(path: &Path, follows_last: bool) -> io::Result<Target> {
        let path = std::path::absolute(path)?;
        let mut rest: VecDeque<OsString> = parts(&path).collect();
        let (mut at, mut links) = (PathBuf::from("/"), 0);
        loop {
            let Some(name) = rest.pop_front() else {
                return Err(io::Error::other("it is not an ordinary file"));
            };
            if name == ".." {
                at.pop();
                continue;
            }
            let entry = at.join(&name);
            // One open folder answers all questions: the next lookup of its path may find another one.
            let folder = directory(&at)?;
            let above = folder.metadata()?;
            // A file system that another user serves may say anything about its owners, and lead its links anywhere.
            let control = if is_served(&folder) { Control::Others } else { Control::of(&above) };
            let found = match fstatat(&folder, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
                Err(Errno::ENOENT) if rest.is_empty() => None,
                found => Some(found?),
            };
            // Users can mount file systems on their directories there, and such a file system may lie about owners.
            let is_kept = match control {
                Control::Ours => true,
                Control::Sticky => {
                    !rest.is_empty()
                        && found
                            .as_ref()
                            .is_some_and(|found| is_of_ours(found.st_uid) && found.st_dev == above.dev())
                }
                Control::Others => false,
            };
            if !is_kept {
                rest.push_front(name);
                return Target::exposed(at, rest);
            }
            let is_link = found.is_some_and(|found| kind(&found) == SFlag::S_IFLNK)
                && (follows_last || !rest.is_empty());
            // Most links in /proc lead to what a process has open, whatever their text is.
            let is_magic = is_link && at.starts_with("/proc") && name != "self" && name != "thread-self";
            if is_magic && !rest.is_empty() {
                return Target::exposed(entry, rest);
            }
            if is_link && !is_magic {
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::ELOOP.into());
                }
                let target = PathBuf::from(readlinkat(&folder, name.as_os_str())?);
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                parts(&target).rev().for_each(|part| rest.push_front(part));
                continue;
            }
            if rest.is_empty() {
                return Ok(Target { folder, name, path: entry, is_private: true });
            }
            at = entry;
        }
    }

    /// Returns the file `rest` below the directory `base`, in which other users can change entries.
    fn exposed(base: PathBuf, mut rest: VecDeque<OsString>) -> io::Result<Target> {
        let name = rest.pop_back().filter(|name| name != "..");
        let name = name.ok_or_else(|| io::Error::other("it is not an ordinary file"))?;
        let below: PathBuf = rest.iter().collect();
        let open = directory(&base)?;

        let folder = match below.as_os_str().is_empty() {
            true => open,
            false => {
                let how = OpenHow::new()
                    .flags(OFlag::O_DIRECTORY | OFlag::O_PATH | OFlag::O_CLOEXEC)
                    .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
                match openat2(&open, &below, how) {
                    Err(Errno::ELOOP) => return Err(exposed("reached through a symbolic link")),
                    opened => File::from(opened?),
                }
            }
        };
        let path = base.join(below).join(&name);
        Ok(Target { folder, name, path, is_private: false })
    }
}

/// Opens a directory, without the right to list it.
fn directory(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_PATH;
    File::options().read(true).custom_flags(flags.bits()).open(path)
}

/// Returns the components of a path, without the root and without `.`.
fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}
