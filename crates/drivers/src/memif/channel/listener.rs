//! A socket that clients connect to.

use std::fs::{self, Permissions};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use libc::c_int;

use super::{THREAD, raw};
use crate::kernel::apart::{self, Crew};
use crate::kernel::hidden::Hidden;
use crate::kernel::sys;

/// Maximum number of clients waiting to be accepted.
const BACKLOG: c_int = 16;

/// A socket that clients connect to. Dropping it removes its file.
pub(in crate::memif) struct Listener {
    socket: ManuallyDrop<OwnedFd>,
    path: PathBuf,
    crew: Crew,
}

impl Listener {
    /// Listens on `path`. Replaces a socket file left behind by another process. A thread of `crew` closes the
    /// socket.
    pub(in crate::memif) fn new(path: &Path, crew: &Crew) -> io::Result<Listener> {
        let socket = if raw::is_abstract(path) {
            bound(path)?
        } else {
            match named(path) {
                Err(e) if e.kind() == io::ErrorKind::AddrInUse && left_behind(path, crew) => {
                    fs::remove_file(path)?;
                    named(path)?
                }
                done => done?,
            }
        };
        let socket = ManuallyDrop::new(apart::above(socket));
        let listener = Listener { socket, path: path.to_owned(), crew: crew.clone() };
        // SAFETY: no memory is involved.
        sys::check(unsafe { libc::listen(listener.socket.as_raw_fd(), BACKLOG) } as isize)?;
        Ok(listener)
    }
}

/// Creates a socket bound to this address.
fn bound(path: &Path) -> io::Result<OwnedFd> {
    let (socket, (address, len)) = (raw::socket()?, raw::address(path)?);
    // SAFETY: the address lives through the call, and `len` is at most its size.
    sys::check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) } as isize)?;
    Ok(socket)
}

/// Creates a socket file with mode 0660, so that the owner and the group may connect, regardless of the umask. Does
/// not replace an existing file.
fn named(path: &Path) -> io::Result<OwnedFd> {
    // Checks the length of the name: no client could connect to a longer one.
    raw::address(path)?;
    let hidden = Hidden::beside(path)?;
    let inside = hidden.inside();
    let socket = bound(&inside)?;
    let ready = || {
        fs::set_permissions(&inside, Permissions::from_mode(0o660))?;
        fs::hard_link(&inside, path)
    };
    let done = ready();
    fs::remove_file(&inside)?;
    match done {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            Err(io::Error::from_raw_os_error(libc::EADDRINUSE))
        }
        done => done.map(|()| socket),
    }
}

/// Accepts a waiting client.
///
/// # Errors
/// `WouldBlock` if no client is waiting.
pub(super) fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let none = std::ptr::null_mut();
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no address is asked for.
    let fd = unsafe { libc::accept4(listener.as_raw_fd(), none, std::ptr::null_mut(), flags) };
    let fd = sys::check(fd as isize)?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !raw::is_abstract(&self.path) {
            let _ = fs::remove_file(&self.path);
        }
        // No client can connect from now on, even if the close comes later.
        raw::hang_up(self.as_fd());
        // Closing also closes files that waiting clients have sent.
        // SAFETY: it is taken once, here.
        apart::close(&self.crew, THREAD, unsafe { ManuallyDrop::take(&mut self.socket) });
    }
}

/// True if the file at `path` is a socket without a listener.
fn left_behind(path: &Path, crew: &Crew) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if !is_socket || raw::is_abstract(path) {
        return false;
    }
    match raw::connect(path) {
        Ok(socket) => {
            apart::close(crew, THREAD, socket);
            false
        }
        Err(e) => e.kind() == io::ErrorKind::ConnectionRefused,
    }
}
