//! A socket that clients connect to.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use libc::c_int;

use super::raw;
use crate::kernel::{closing, sys};

/// Clients that may wait to be accepted.
const BACKLOG: c_int = 16;

/// A socket that clients connect to. Its file is gone when it is dropped.
pub(in crate::memif) struct Listener {
    socket: ManuallyDrop<OwnedFd>,
    path: PathBuf,
}

impl Listener {
    /// Listens. Replaces the socket's file that a process left behind.
    pub(in crate::memif) fn new(path: &Path) -> io::Result<Listener> {
        let socket = raw::socket()?;
        // Whoever may write to it may connect: the owner and the group.
        // SAFETY: no memory is involved.
        sys::check(unsafe { libc::fchmod(socket.as_raw_fd(), 0o660) } as isize)?;
        let bind = || {
            let (address, len) = raw::address(path)?;
            // SAFETY: the address lives through the call, and `len` is at most its size.
            sys::check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) } as isize)
        };
        match bind() {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && left_behind(path) => {
                std::fs::remove_file(path)?;
                bind()?;
            }
            done => drop(done?),
        }
        // SAFETY: no memory is involved.
        sys::check(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) } as isize)?;
        Ok(Listener { socket: ManuallyDrop::new(closing::above(socket)), path: path.to_owned() })
    }

    /// Takes a client that waits.
    ///
    /// # Errors
    /// `WouldBlock` when none does.
    pub(in crate::memif) fn accept(&self) -> io::Result<OwnedFd> {
        let (fd, none) = (self.as_fd().as_raw_fd(), std::ptr::null_mut());
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no address is asked for.
        let fd = sys::check(unsafe { libc::accept4(fd, none, std::ptr::null_mut(), flags) } as isize)?;
        // SAFETY: the descriptor is new, and nobody else's.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !raw::is_abstract(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
        // Nobody can connect any more, whenever it is closed.
        // SAFETY: no memory is involved.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
        // The kernel closes what clients that wait have sent: files too.
        // SAFETY: it is taken once, here.
        closing::close(vec![unsafe { ManuallyDrop::take(&mut self.socket) }], ());
    }
}

/// True if the file at `path` is a socket that nobody listens on.
fn left_behind(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    let refused = |e: io::Error| e.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && !raw::is_abstract(path) && raw::connect(path).err().is_some_and(refused)
}
