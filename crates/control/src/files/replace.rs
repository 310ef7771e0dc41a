//! Replaces files that clients name.
//!
//! If other users can change where the name leads, nothing is taken over from what lies there: such a user could give the new file a link as
//! its name, or permissions by which everyone can read it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use drivers::target::{Target, exposed, is_of_ours, kind};

/// Prefix and suffix of the name of a file that is being written.
const BEGUN: (&str, &str) = (".volley-save-", ".tmp");
/// The permissions of a new file.
const USUAL: u32 = 0o640;
/// The permissions that a file keeps at most.
const MOST: u32 = 0o664;
/// The permissions of a file in a directory that other users can write to. Its group and its access list may be theirs.
const LEAST: u32 = 0o600;
/// Maximum number of attempts to find an unused name.
const ATTEMPTS: usize = 100;

/// Replaces a file atomically: even after a crash or on a full disk, the file has either the old text or the new one. Also removes the
/// files that interrupted calls have left in the same folder, and returns their paths. To be called on a thread that may block.
///
/// Follows links, and keeps the group and the permissions of the old file, but neither rights to write for other users nor the right to
/// execute it. If other users can write to a parent directory, refuses links there, and only the owner can open the new file.
///
/// # Errors
/// If what lies there must not be replaced, or the system refuses. Then nothing was changed, unless the system cannot sync the folder.
pub fn replace(path: &Path, text: &str) -> io::Result<Vec<PathBuf>> {
    let target = Target::find(path)?;
    if is_begun(&target.name) {
        return Err(io::Error::other("files with such names are removed by the next save: use another name"));
    }
    let mut gone = Vec::new();
    // Another save may take the new file for one that was left behind, before this one has locked it.
    for _ in 0..ATTEMPTS {
        let rights = permissions(&target)?;
        gone.extend(remove_left_behind(&target));
        match write(&target, text, rights) {
            Err(Errno::ENOENT) => {}
            Err(Errno::EBUSY) => {
                return Err(io::Error::other("the file is a mount point: mount its directory instead"));
            }
            written => {
                let new = written?;
                let (found, ours) = (target.about()?, new.metadata()?);
                if found.is_none_or(|found| (found.st_dev, found.st_ino) != (ours.dev(), ours.ino())) {
                    return Err(exposed("replaced by another user meanwhile"));
                }
                let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
                File::from(openat(&target.folder, ".", flags, Mode::empty())?).sync_all()?;
                return Ok(gone);
            }
        }
    }
    // It is not another save: the folder was removed, or takes no files.
    Err(Errno::ENOENT.into())
}

/// Writes a temporary file, and renames it. Returns the file.
fn write(target: &Target, text: &str, (mode, group): (u32, Option<u32>)) -> nix::Result<File> {
    let (temporary, mut new) = create(&target.folder)?;
    let written = (|| {
        new.lock()?;
        new.write_all(text.as_bytes())?;
        let _ = group.map(|group| fchown(&new, None, Some(group)));
        // Without the right to give it to the old group, the members of another group must not get that group's rights.
        let other_group = group.is_some() && new.metadata()?.gid().ne(&group.unwrap_or_default());
        new.set_permissions(Permissions::from_mode(if other_group { mode & !0o070 } else { mode }))?;
        new.sync_all()
    })();
    let errno = |e: io::Error| e.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
    let written = written.map_err(errno).and_then(|()| {
        renameat(&target.folder, temporary.as_os_str(), &target.folder, target.name.as_os_str())
    });
    if written.is_err() {
        let _ = unlinkat(&target.folder, temporary.as_os_str(), UnlinkatFlags::NoRemoveDir);
    }
    written.map(|()| new)
}

/// True if a file with this name is being written, or was left behind.
fn is_begun(name: &OsStr) -> bool {
    name.to_str().is_some_and(|n| n.starts_with(BEGUN.0) && n.ends_with(BEGUN.1))
}

/// Returns the permissions of the new file, and its group if the file must keep one.
///
/// # Errors
/// If the old file must not be replaced.
fn permissions(target: &Target) -> io::Result<(u32, Option<u32>)> {
    let is_private = target.is_private;
    let Some(old) = target.about()? else {
        return Ok((if is_private { USUAL } else { LEAST }, None));
    };
    match kind(&old) {
        SFlag::S_IFREG if is_private => Ok((LEAST | old.st_mode & MOST, Some(old.st_gid))),
        SFlag::S_IFREG => Ok((LEAST, None)),
        SFlag::S_IFLNK if !is_private => Err(exposed("a symbolic link")),
        _ => Err(io::Error::other("it is not an ordinary file")),
    }
}

/// Creates a file with an unused name that only its owner can open. Returns the name and the file.
fn create(folder: &File) -> nix::Result<(OsString, File)> {
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    for _ in 0..ATTEMPTS {
        let name = format!("{}{:016x}{}", BEGUN.0, RandomState::new().hash_one(()), BEGUN.1);
        match openat(folder, name.as_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR) {
            Err(Errno::EEXIST) => {}
            created => return Ok((name.into(), created?.into())),
        }
    }
    Err(Errno::EEXIST)
}

/// Maximum number of entries of a folder to look at: a file system may have no end of them.
const MOST_ENTRIES: usize = 10_000;

/// Removes the files that interrupted calls have left in a folder, and returns their paths. A running call locks its file, so its file
/// stays. Files of other users stay, too: they may be anything.
fn remove_left_behind(target: &Target) -> Vec<PathBuf> {
    let folder = &target.folder;
    // The path may lead elsewhere by now.
    let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let Ok(entries) = Dir::openat(folder, ".", flags, Mode::empty()) else { return Vec::new() };
    // After an error, each further entry may be the same error.
    let names = entries.into_iter().map_while(Result::ok).take(MOST_ENTRIES);
    let names = names.map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
    let left = names.filter(|name| is_begun(name) && is_left_behind(folder, name));
    let gone = left.filter(|name| unlinkat(folder, name.as_os_str(), UnlinkatFlags::NoRemoveDir).is_ok());
    gone.map(|name| target.path.with_file_name(name)).collect()
}

/// True if an entry of a folder is an ordinary file of this process's user or root, and no call writes it.
fn is_left_behind(folder: &File, name: &OsStr) -> bool {
    // Another user may replace the file by a pipe at any time.
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let is_ordinary = |found: &FileStat| kind(found) == SFlag::S_IFREG && is_of_ours(found.st_uid);
    let found = fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW);
    if !found.as_ref().is_ok_and(is_ordinary) {
        return false;
    }
    let Ok(file) = openat(folder, name, flags, Mode::empty()).map(File::from) else { return false };
    file.metadata().is_ok_and(|found| found.is_file() && is_of_ours(found.uid())) && file.try_lock().is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{chown, lchown, symlink};
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
        for (of_folder, keeps) in [(0o755, true), (0o1777, false), (0o777, false), (0o775, false)] {
            let (_folder, inner) = folder(of_folder);
            let file = inner.join("a.yaml");
            replace(&file, "new").unwrap();
            assert_eq!(mode(&file), if keeps { 0o640 } else { 0o600 });
            for (old, new) in
                [(0o644, 0o644), (0o6777, 0o664), (0o600, 0o600), (0o4755, 0o644), (0o000, 0o600)]
            {
                fs::set_permissions(&file, Permissions::from_mode(old)).unwrap();
                replace(&file, "text").unwrap();
                let expected = if keeps { new } else { 0o600 };
                assert_eq!(
                    (mode(&file), fs::read_to_string(&file).unwrap()),
                    (expected, "text".into()),
                    "{old:o}"
                );
            }
            assert_eq!(fs::read_dir(&inner).unwrap().count(), 1, "no other file is left");
        }
    }

    #[test]
    fn links_are_followed_only_where_nobody_else_can_make_one() {
        for (of_folder, follows) in [(0o755, true), (0o1777, false), (0o777, false)] {
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
            symlink("../other", &way).unwrap();
            let replaced = replace(&way.join("file"), "new");
            assert_eq!(
                (replaced.is_ok(), other.join("file").exists()),
                (follows_above, follows_above),
                "{of_folder:o}"
            );
            if let Err(e) = replaced {
                assert!(e.to_string().contains("other users can write to a parent directory"), "{e}");
            }
            // Another name of a file is replaced; the file itself stays.
            let second = inner.join("second");
            fs::hard_link(&target, &second).unwrap();
            replace(&second, "other").unwrap();
            assert_eq!(fs::read_to_string(&target).unwrap(), text);
        }
    }

    #[test]
    fn a_link_to_a_missing_file_makes_the_file() {
        let (folder, inner) = folder(0o755);
        let (target, link) = (folder.path().join("target"), inner.join("link"));
        symlink(&target, &link).unwrap();
        replace(&link, "text").unwrap();
        assert!(link.is_symlink() && fs::read_to_string(&target).unwrap() == "text");
        symlink(&link, inner.join("round")).unwrap();
        fs::remove_file(&link).unwrap();
        symlink(inner.join("round"), &link).unwrap();
        assert!(replace(&link, "text").is_err(), "links in a circle");
    }

    /// A link of ours that leads to a folder of everyone, or over one.
    #[test]
    fn each_step_of_a_link_is_checked() {
        let (folder, inner) = folder(0o777);
        let (link, file) = (folder.path().join("link"), inner.join("file"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        symlink(&file, &link).unwrap();
        replace(&link, "new").unwrap();
        assert_eq!(mode(&file), 0o600);
        // Somebody has put a link to a folder of ours in the place of the folder that our link leads to.
        let (secret, way) = (folder.path().join("secret"), folder.path().join("way"));
        fs::create_dir(&secret).unwrap();
        symlink(&secret, inner.join("folder")).unwrap();
        symlink(inner.join("folder"), &way).unwrap();
        let refused = replace(&way.join("file"), "text").unwrap_err().to_string();
        assert!(refused.contains("reached through a symbolic link"), "{refused}");
        assert!(!secret.join("file").exists());
    }

    #[test]
    fn files_of_other_users_are_replaced_but_their_links_are_not_followed() {
        if !Uid::effective().is_root() {
            return testkit::skip::skipped("needs root, to make a file of another user");
        }
        for (of_folder, follows) in [(0o755, true), (0o1777, false)] {
            let (folder, inner) = folder(of_folder);
            let file = inner.join("file");
            fs::write(&file, "theirs").unwrap();
            if chown(&file, Some(65_534), None).is_err() {
                return testkit::skip::skipped("needs the user 65534 in this user namespace");
            }
            // A link above the file.
            let (other, way) = (folder.path().join("other"), inner.join("way"));
            fs::create_dir(&other).unwrap();
            symlink(&other, &way).unwrap();
            lchown(&way, Some(65_534), None).unwrap();
            assert_eq!(replace(&way.join("file"), "ours").is_ok(), follows);
            replace(&file, "ours").unwrap();
            assert_eq!(file.metadata().unwrap().uid(), 0);
        }
        // A folder whose group gets new files.
        let (_folder, inner) = folder(0o2755);
        chown(&inner, Some(65_534), Some(65_534)).unwrap();
        fs::set_permissions(&inner, Permissions::from_mode(0o2755)).unwrap();
        let file = inner.join("file");
        replace(&file, "ours").unwrap();
        assert_eq!(
            (file.metadata().unwrap().gid(), mode(&file)),
            (65_534, 0o600),
            "its group cannot read it"
        );
    }

    #[test]
    fn a_folder_that_takes_no_files_is_reported() {
        let refused = replace(Path::new("/proc/self/file"), "text").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotFound, "{refused}");
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
