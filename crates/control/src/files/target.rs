//! Finds the folder of a file that is to be written, and decides whether other users can change where the name leads.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::unistd::{Gid, Uid};

/// Maximum number of links to follow, as in Linux.
const MOST_LINKS: usize = 40;

/// True if a user is root, or the user of this process.
pub(super) fn is_of_ours(user: u32) -> bool {
    [0, Uid::effective().as_raw()].contains(&user)
}

/// Returns an error about a file in a place where other users can put one.
pub(super) fn exposed(what: &str) -> io::Error {
    io::Error::other(format!(
        "it is {what}, and other users can write to a parent directory: use another directory"
    ))
}

/// A file that is to be written, by its folder.
#[derive(Debug)]
pub(super) struct Target {
    /// The folder, open. Its path may lead elsewhere soon.
    pub(super) folder: File,
    /// The file's name in the folder.
    pub(super) name: OsString,
    /// The path of the file, without links.
    pub(super) path: PathBuf,
    /// True if only root and this process's user can change where the path leads, and what the folder contains. Otherwise other users may
    /// have put anything there, under any name.
    pub(super) is_private: bool,
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
        // The members of our own group count as our user: many systems give each user a group.
        let by_group = directory.mode() & 0o020 != 0 && directory.gid() != Gid::effective().as_raw();
        let is_open = directory.mode() & 0o002 != 0 || by_group;
        match is_of_ours(directory.uid()) {
            true if !is_open => Control::Ours,
            true if directory.mode() & 0o1000 != 0 => Control::Sticky,
            _ => Control::Others,
        }
    }
}

/// True if only root and this process's user can change the entries of a directory.
pub(super) fn is_ours_alone(directory: &File) -> io::Result<bool> {
    Ok(Control::of(&directory.metadata()?) == Control::Ours)
}

impl Target {
    /// Finds a file's place, which need not exist. Follows links as far as only root and this process's user can have made them. Behind
    /// that, a link is an error; but the file itself may be a link there.
    ///
    /// # Errors
    /// If a folder does not exist, a link must not be followed, or the system refuses.
    pub(super) fn find(path: &Path) -> io::Result<Target> {
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
            let control = Control::of(&at.symlink_metadata()?);
            let found = match entry.symlink_metadata() {
                Err(e) if e.kind() == io::ErrorKind::NotFound && rest.is_empty() => None,
                found => Some(found?),
            };
            let is_kept = match control {
                Control::Ours => true,
                Control::Sticky => {
                    !rest.is_empty() && found.as_ref().is_some_and(|found| is_of_ours(found.uid()))
                }
                Control::Others => false,
            };
            if !is_kept {
                rest.push_front(name);
                return Target::exposed(at, rest);
            }
            // The links in /proc lead to open files, which need not have a path.
            let in_proc = at.starts_with("/proc") && rest.is_empty();
            if found.is_some_and(|found| found.is_symlink() && !in_proc) {
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::ELOOP.into());
                }
                let target = entry.read_link()?;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                parts(&target).rev().for_each(|part| rest.push_front(part));
                continue;
            }
            if rest.is_empty() {
                let options = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
                let folder = File::options().read(true).custom_flags(options.bits()).open(&at)?;
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
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
        let open = File::options().read(true).custom_flags(flags.bits()).open(&base)?;
        let folder = match below.as_os_str().is_empty() {
            true => open,
            false => {
                let how = OpenHow::new()
                    .flags(OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC)
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

/// Returns the components of a path, without the root and without `.`.
fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}
