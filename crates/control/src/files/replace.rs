//! Replaces files that clients name.
//!
//! If other users can change where the name leads, nothing is taken over from what lies there: such a user could give the new file a link as
//! its name, or permissions by which everyone can read it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::{exposed, is_of_ours, is_private};

/// Prefix and suffix of the name of a file that is being written.
const BEGUN: (&str, &str) = (".volley-save-", ".tmp");
/// The permissions of a new file, and the most that a file keeps if other users can change where its name leads.
const USUAL: u32 = 0o640;
/// The permissions that a file keeps at most.
const MOST: u32 = 0o664;
/// Maximum number of attempts to find an unused name.
const ATTEMPTS: usize = 100;

/// Replaces a file atomically: even after a crash or on a full disk, the file has either the old text or the new one. Also removes the
/// files that interrupted calls have left in the same folder, and returns their paths. To be called on a thread that may block.
///
/// Follows links, and keeps the permissions of the old file, but neither rights to write for other users nor the right to execute it. If
/// other users can write to a parent directory, refuses links, files of other users, and files with several hard links.
///
/// # Errors
/// If what lies there must not be replaced, or the system refuses. Then nothing was changed.
pub fn replace(path: &Path, text: &str) -> io::Result<Vec<PathBuf>> {
    let given = std::path::absolute(path)?;
    let is_ours = is_private(&given)?;
    // Replaces the target of a link, not the link.
    let path = if is_ours { fs::canonicalize(&given).unwrap_or(given) } else { given };
    let is_ours = is_ours && is_private(&path)?;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other("it is not an ordinary file"));
    };
    let resolve = if is_ours { ResolveFlag::empty() } else { ResolveFlag::RESOLVE_NO_SYMLINKS };
    let how = OpenHow::new().flags(OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC).resolve(resolve);
    let directory = match openat2(AT_FDCWD, folder, how) {
        Err(Errno::ELOOP) => return Err(exposed("reached through a symbolic link")),
        opened => File::from(opened?),
    };
    let mode = permissions(&directory, name, is_ours)?;
    let gone = remove_left_behind(&directory, folder);
    let (temporary, mut new) = create(&directory)?;
    // The lock protects the file from other saves. If another save removed the file before it was locked, renaming it fails.
    let written = new.lock().and_then(|()| {
        new.write_all(text.as_bytes())?;
        new.set_permissions(Permissions::from_mode(mode))?;
        new.sync_all()?;
        Ok(renameat(&directory, temporary.as_os_str(), &directory, name)?)
    });
    if written.is_err() {
        let _ = unlinkat(&directory, temporary.as_os_str(), UnlinkatFlags::NoRemoveDir);
    }
    written?;
    directory.sync_all()?;
    Ok(gone)
}

/// Returns the permissions of the new file.
///
/// # Errors
/// If the old file must not be replaced.
fn permissions(directory: &File, name: &OsStr, is_ours: bool) -> io::Result<u32> {
    let old = match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Err(Errno::ENOENT) => return Ok(USUAL),
        old => old?,
    };
    if !is_ours {
        match kind(&old) {
            SFlag::S_IFLNK => return Err(exposed("a symbolic link")),
            _ if !is_of_ours(old.st_uid) => return Err(exposed(&format!("a file of user {}", old.st_uid))),
            SFlag::S_IFREG if old.st_nlink > 1 => return Err(exposed("a file with more than one hard link")),
            _ => {}
        }
    }
    if kind(&old) != SFlag::S_IFREG {
        return Err(io::Error::other("it is not an ordinary file"));
    }
    Ok(0o600 | old.st_mode & if is_ours { MOST } else { USUAL })
}

fn kind(found: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits())
}

/// Creates a file with an unused name that only its owner can open. Returns the name and the file.
fn create(directory: &File) -> io::Result<(OsString, File)> {
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    for _ in 0..ATTEMPTS {
        let name = format!("{}{:016x}{}", BEGUN.0, RandomState::new().hash_one(()), BEGUN.1);
        match openat(directory, name.as_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR) {
            Err(Errno::EEXIST) => {}
            created => return Ok((name.into(), created?.into())),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Removes the files that interrupted calls have left in a folder, and returns their paths. A running call locks its file, so its file
/// stays. Files of other users stay, too: they may be anything.
fn remove_left_behind(directory: &File, folder: &Path) -> Vec<PathBuf> {
    let begun = |name: &OsStr| name.to_str().is_some_and(|n| n.starts_with(BEGUN.0) && n.ends_with(BEGUN.1));
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let left = names.filter(|name| begun(name) && is_left_behind(directory, name));
    let gone = left.filter(|name| unlinkat(directory, name.as_os_str(), UnlinkatFlags::NoRemoveDir).is_ok());
    gone.map(|name| folder.join(name)).collect()
}

/// True if an entry of a folder is an ordinary file of this process's user or root, and no call writes it.
fn is_left_behind(directory: &File, name: &OsStr) -> bool {
    // Another user may replace the file by a pipe at any time.
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let is_ordinary = |found: &FileStat| kind(found) == SFlag::S_IFREG && is_of_ours(found.st_uid);
    let found = fstatat(directory.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW);
    if !found.as_ref().is_ok_and(is_ordinary) {
        return false;
    }
    let Ok(file) = openat(directory, name, flags, Mode::empty()).map(File::from) else { return false };
    file.metadata().is_ok_and(|found| found.is_file() && is_of_ours(found.uid())) && file.try_lock().is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use nix::sys::stat::Mode;
    use nix::unistd::{Uid, mkfifo};

    use super::*;

    /// A folder that other users can write to, as `/tmp`, or not.
    fn folder(mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::set_permissions(&inner, Permissions::from_mode(mode)).unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        (folder, inner)
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_file_keeps_harmless_permissions_only() {
        for (of_folder, cases) in [
            (0o755, [(0o644, 0o644), (0o6777, 0o664), (0o600, 0o600), (0o4755, 0o644), (0o000, 0o600)]),
            (0o1777, [(0o644, 0o640), (0o6777, 0o640), (0o600, 0o600), (0o4755, 0o640), (0o000, 0o600)]),
            (0o777, [(0o644, 0o640), (0o6777, 0o640), (0o600, 0o600), (0o4755, 0o640), (0o000, 0o600)]),
        ] {
            let (_folder, inner) = folder(of_folder);
            let file = inner.join("a.yaml");
            replace(&file, "new").unwrap();
            assert_eq!(mode(&file), 0o640);
            for (old, new) in cases {
                fs::set_permissions(&file, Permissions::from_mode(old)).unwrap();
                replace(&file, "text").unwrap();
                assert_eq!(
                    (mode(&file), fs::read_to_string(&file).unwrap()),
                    (new, "text".into()),
                    "{old:o}"
                );
            }
            assert_eq!(fs::read_dir(&inner).unwrap().count(), 1, "no other file is left");
        }
    }

    #[test]
    fn links_are_followed_only_where_nobody_else_can_make_one() {
        for (of_folder, follows) in [(0o755, true), (0o1777, false), (0o777, false), (0o775, false)] {
            let (folder, inner) = folder(of_folder);
            let (target, link) = (folder.path().join("target"), inner.join("link"));
            fs::write(&target, "old").unwrap();
            symlink(&target, &link).unwrap();
            let replaced = replace(&link, "new");
            let text = fs::read_to_string(&target).unwrap();
            assert_eq!((replaced.is_ok(), text.as_str()), (follows, if follows { "new" } else { "old" }));
            assert!(link.is_symlink());
            // A link above the file. Nobody can replace our link in a folder with the sticky bit.
            let follows_above = follows || of_folder == 0o1777;
            let (other, way) = (folder.path().join("other"), inner.join("way"));
            fs::create_dir(&other).unwrap();
            symlink(&other, &way).unwrap();
            let replaced = replace(&way.join("file"), "new");
            assert_eq!(
                (replaced.is_ok(), other.join("file").exists()),
                (follows_above, follows_above),
                "{of_folder:o}"
            );
            if let Err(e) = replaced {
                assert!(e.to_string().contains("other users can write to a parent directory"), "{e}");
            }
            // A second name of another file.
            let second = inner.join("second");
            fs::hard_link(&target, &second).unwrap();
            assert_eq!(replace(&second, "new").is_ok(), follows);
        }
    }

    /// A link of ours that leads to a folder of everyone.
    #[test]
    fn the_target_of_a_link_is_checked_as_well() {
        let (folder, inner) = folder(0o1777);
        let (link, file) = (folder.path().join("link"), inner.join("file"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        symlink(&file, &link).unwrap();
        replace(&link, "new").unwrap();
        assert_eq!(mode(&file), 0o640);
        fs::hard_link(&file, folder.path().join("second")).unwrap();
        assert!(replace(&link, "new").is_err());
    }

    #[test]
    fn a_file_of_another_user_is_not_replaced() {
        if !Uid::effective().is_root() {
            return testkit::skip::skipped("needs root, to make a file of another user");
        }
        for (of_folder, replaces) in [(0o755, true), (0o1777, false)] {
            let (folder, inner) = folder(of_folder);
            let file = inner.join("file");
            fs::write(&file, "theirs").unwrap();
            if std::os::unix::fs::chown(&file, Some(65_534), None).is_err() {
                return testkit::skip::skipped("needs the user 65534 in this user namespace");
            }
            // A link above the file.
            let (other, way) = (folder.path().join("other"), inner.join("way"));
            fs::create_dir(&other).unwrap();
            symlink(&other, &way).unwrap();
            std::os::unix::fs::lchown(&way, Some(65_534), None).unwrap();
            assert_eq!(replace(&way.join("file"), "ours").is_ok(), replaces);
            let replaced = replace(&file, "ours");
            assert_eq!(replaced.is_ok(), replaces, "{replaced:?}");
            assert!(replaced.is_ok() || replaced.unwrap_err().to_string().contains("a file of user 65534"));
        }
    }

    #[test]
    fn a_pipe_with_the_name_of_a_temporary_file_blocks_nothing() {
        let (_folder, inner) = folder(0o1777);
        mkfifo(&inner.join(".volley-save-1.tmp"), Mode::S_IRWXU).unwrap();
        let (done, result) = channel();
        let file = inner.join("file");
        std::thread::spawn(move || done.send(replace(&file, "text")));
        let gone = result.recv_timeout(Duration::from_secs(20)).expect("it does not wait").unwrap();
        assert_eq!(gone, Vec::<PathBuf>::new());
    }
}
