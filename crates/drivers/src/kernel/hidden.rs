//! A place where a socket gets its mode and group before it gets its name.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Names that are tried.
const NAMES: usize = 64;

/// An empty directory that no other user can look into. Beside a socket's path, also where that directory is another user's: he could
/// otherwise put a link in the socket's place between two calls, and the second call would change the mode of the file behind the link.
pub struct Hidden {
    path: PathBuf,
    directory: File,
}

impl Hidden {
    /// Makes one beside `path`.
    ///
    /// # Errors
    /// When there can be none, or somebody has exchanged it.
    pub fn beside(path: &Path) -> io::Result<Hidden> {
        // A router that was killed may have left its own.
        for n in 0..NAMES {
            let path = path.with_file_name(format!(".volley-{}-{n}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            let directory =
                File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(&path)?;
            let hidden = Hidden { path, directory };
            let found = hidden.directory.metadata()?;
            // SAFETY: no memory is involved.
            if found.uid() != unsafe { libc::geteuid() } || found.mode() & 0o077 != 0 {
                return Err(io::Error::other("another user exchanges what is made in this directory"));
            }
            return Ok(hidden);
        }
        Err(io::Error::other(
            "remove the directories .volley-* beside it, which routers that were killed have left",
        ))
    }

    /// A name in it, which stays right whatever is done to the directories around it. It is for the thread that made it.
    pub fn inside(&self) -> PathBuf {
        format!("/proc/thread-self/fd/{}/socket", self.directory.as_raw_fd()).into()
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // One that is not empty is not this one any more.
        let _ = fs::remove_dir(&self.path);
    }
}
