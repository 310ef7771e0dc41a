//! Files that a client names, opened so that they cannot hold this process up.
//!
//! A client may name a pipe, a device, or a file of a file system that does not answer. So files are opened on threads of
//! their own, and only ordinary ones.

use std::fs::File;
use std::io::{self, Read, Take};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

/// The largest file that is read, in bytes: some millions of routes.
pub const LARGEST: u64 = 512 << 20;

/// Opens an ordinary file of at most [`LARGEST`] bytes for reading, and returns its size. Call it on a thread that may wait:
/// the file system may not answer.
///
/// # Errors
/// There is no such file, it is something else or too large, or the system refuses.
pub fn open(path: &Path) -> io::Result<(Take<File>, u64)> {
    // Only found, not opened: to open some devices does something, and who opens a pipe waits for its other end.
    let found = File::options().read(true).custom_flags(OFlag::O_PATH.bits()).open(path)?;
    let about = found.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is no ordinary file"));
    }
    if about.len() > LARGEST {
        return Err(io::Error::other(format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    // What was found, whatever has the name by now.
    let file = File::open(format!("/proc/self/fd/{}", found.as_raw_fd()))?;
    Ok((file.take(LARGEST), about.len()))
}

/// Reads a file of text as [`open`] opens it.
///
/// # Errors
/// As those of `open`; or it is no text.
pub fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.0.read_to_string(&mut text)?;
    Ok(text)
}

/// True if `one` and `other` are names of the same file. Asks the file system, as [`open`] does.
pub fn same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ordinary_files_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for other in [&path, directory.path(), Path::new("/dev/null"), Path::new("/dev/tty")] {
            assert_eq!(read(other).unwrap_err().to_string(), "it is no ordinary file", "{}", other.display());
        }
        std::fs::remove_file(&path).unwrap();
        File::create(&path).unwrap().set_len(LARGEST + 1).unwrap();
        assert_eq!(read(&path).unwrap_err().to_string(), "it is larger than 512 MiB");
        std::fs::write(&path, "text").unwrap();
        assert_eq!(read(&path).unwrap(), "text");
    }
}
