//! A hidden directory in which a new socket gets its mode and group, before the socket appears at its path.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Number of directory names to try.
const NAMES: usize = 64;

/// An empty directory, next to a socket's path, that no other user can enter. Without it, a user who owns the parent
/// directory could replace the socket by a link between two calls. The second call would then change the mode of the
/// link's target.
pub struct Hidden {
    path: PathBuf,
    directory: File,
}

impl Hidden {
    /// Creates a hidden directory next to `path`.
    ///
    /// # Errors
    /// If the directory cannot be created, another user has replaced it, or killed routers have left too many of these directories.
    pub fn beside(path: &Path) -> io::Result<Hidden> {
        // A killed router may have left its directory behind.
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
                return Err(io::Error::other(
                    "another user has replaced the directory that the router had just created here",
                ));
            }
            return Ok(hidden);
        }
        Err(io::Error::other("too many .volley-* directories left by killed routers: remove them"))
    }

    /// Returns the path of a socket in the directory. The path stays valid if parent directories are renamed or replaced, but only threads
    /// with the caller's descriptor table can use it.
    pub fn inside(&self) -> PathBuf {
        format!("/proc/thread-self/fd/{}/socket", self.directory.as_raw_fd()).into()
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // This fails if another user has replaced the directory; it is not this router's then.
        let _ = fs::remove_dir(&self.path);
    }
}
