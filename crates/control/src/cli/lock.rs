//! The lock file beside a socket. Only one router can lock it.
//!
//! Every user who can open a file can lock it. So only the owner can open a lock file (mode 0600). A user who opened the file before it had
//! this mode may still hold its lock; then a new file replaces the old one.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};
use nix::unistd::Uid;

use crate::files;

/// An open lock file.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    file: File,
}

/// A process that holds a lock.
pub(super) struct Holder {
    pid: u32,
    /// Name and real user of the process; `None` if the process has ended, and the file is still open in another process.
    process: Option<(String, Uid)>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pid = self.pid;
        match &self.process {
            Some((name, user)) => write!(f, "process {pid} ({name}, user {user})"),
            None => write!(f, "an unknown process that inherited the file from process {pid} (ended)"),
        }
    }
}

impl Holder {
    /// True if the process has ended, or is not a router: routers run as root, or as the user of the calling process.
    fn is_stranger(&self) -> bool {
        self.process.as_ref().is_none_or(|(_, user)| !user.is_root() && *user != Uid::current())
    }
}

impl Lock {
    /// Opens the lock file, and creates it if there is none.
    ///
    /// # Errors
    /// If the path is not an ordinary file, or the system refuses.
    pub fn open(path: PathBuf) -> io::Result<Lock> {
        let file = files::private(&path)?;
        Ok(Lock { path, file })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tries to take the lock, without waiting. Returns true if this process now has the lock.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn try_lock(&mut self) -> io::Result<bool> {
        loop {
            let locked = try_lock(&self.file)?;
            if !names(&self.path, &self.file)? {
                // Another router has replaced the file, so the lock on the old one is void.
                self.file = files::private(&self.path)?;
            } else if locked || !self.take_from_strangers()? {
                return Ok(locked);
            }
        }
    }

    /// Makes the kernel close this file before the process's other files when the process ends ([`drivers::closed_first`]).
    pub fn closed_first(self) -> Lock {
        Lock { file: drivers::closed_first(self.file.into()).into(), ..self }
    }

    /// Returns the processes that hold the lock; empty if they cannot be found.
    pub fn holders(&self) -> Vec<Holder> {
        let (Ok(found), Ok(locks)) = (self.file.metadata(), fs::read_to_string("/proc/locks")) else {
            return Vec::new();
        };
        let pids = holders(&locks, (major(found.dev()), minor(found.dev())), found.ino());
        pids.into_iter().map(|pid| Holder { pid, process: process(pid) }).collect()
    }

    /// If only processes that are not routers hold the lock, removes the lock file, so that a new one can be created. Returns true if the
    /// caller should try again to take the lock.
    fn take_from_strangers(&self) -> io::Result<bool> {
        let are_strangers =
            |holders: &[Holder]| !holders.is_empty() && holders.iter().all(Holder::is_stranger);
        if !are_strangers(&self.holders()) {
            return Ok(false);
        }
        // Two routers may start at once: the second one must not remove the first one's new file.
        let mut guard = OsString::from(&self.path);
        guard.push(".guard");
        let guard = files::private(Path::new(&guard))?;
        if !try_lock(&guard)? {
            return Ok(false);
        }
        let holders = self.holders();
        if names(&self.path, &self.file)? && are_strangers(&holders) {
            let all = holders.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            tracing::warn!(
                "replacing lock file {}: not locked by a router, but by {all}",
                self.path.display()
            );
            fs::remove_file(&self.path)?;
        }
        Ok(true)
    }
}

fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

/// True if `path` refers to the open file `file`.
fn names(path: &Path, file: &File) -> io::Result<bool> {
    let found = match path.symlink_metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    let file = file.metadata()?;
    Ok((found.dev(), found.ino()) == (file.dev(), file.ino()))
}

/// Returns the IDs of the processes that have locked a file, from the text of `/proc/locks` (proc_locks(5)). Processes in a PID namespace
/// that is invisible here are left out: they are missing in the text, or have the ID 0.
fn holders(locks: &str, (major, minor): (u64, u64), inode: u64) -> Vec<u32> {
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    let pid = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, _, pid, of, ..] if of == file => pid.parse().ok().filter(|pid| *pid > 0),
            _ => None,
        }
    };
    locks.lines().filter_map(pid).collect()
}

/// Returns the name and real user of a process. The real user of a set-user-ID program is its caller.
fn process(pid: u32) -> Option<(String, Uid)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let user = of("Uid:")?.split_whitespace().next()?.parse().ok()?;
    Some((of("Name:")?.trim().to_string(), Uid::from_raw(user)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o7777
    }

    #[test]
    fn lock_file_is_private_and_an_ordinary_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.lock");
        drop(Lock::open(path.clone()).unwrap());
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let mut lock = Lock::open(path.clone()).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert!(lock.try_lock().unwrap());
        // A symbolic link and a pipe are refused.
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Lock::open(link).is_err());
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(Lock::open(pipe).is_err());
        // A hard link is refused, too: changing its mode would change the mode of another file.
        let (file, name) = (directory.path().join("file"), directory.path().join("name"));
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        fs::hard_link(&file, &name).unwrap();
        assert!(Lock::open(name).unwrap_err().to_string().contains("hard link"));
        assert_eq!(mode(&file), 0o644);
    }

    #[test]
    fn holders_finds_the_process_with_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.lock");
        let (mut first, mut second) = (Lock::open(path.clone()).unwrap(), Lock::open(path).unwrap());
        assert!(first.holders().is_empty());
        assert!(first.try_lock().unwrap() && !second.try_lock().unwrap());
        let holders = second.holders();
        let [holder] = &holders[..] else { panic!("{}", holders.len()) };
        assert!(holder.pid == std::process::id() && !holder.is_stranger(), "{holder}");
        let locks = "1: FLOCK  ADVISORY  WRITE 12 00:1a:7 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 13 00:1a:7 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 14 00:1a:7 0 EOF\n3: FLOCK  ADVISORY  READ 0 00:1a:7 0 EOF\n\
                     4: FLOCK  ADVISORY  READ 15 00:1a:7 0 EOF\n5: FLOCK  ADVISORY  WRITE 16 00:1a:77 0 EOF\n";
        assert_eq!(super::holders(locks, (0, 0x1a), 7), [12, 15]);
    }

    #[test]
    fn lock_of_a_removed_file_is_void() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.lock");
        let (mut first, mut second) = (Lock::open(path.clone()).unwrap(), Lock::open(path.clone()).unwrap());
        fs::remove_file(&path).unwrap();
        assert!(first.try_lock().unwrap() && path.exists());
        assert!(!second.try_lock().unwrap());
        drop(first);
        assert!(second.try_lock().unwrap());
    }
}
