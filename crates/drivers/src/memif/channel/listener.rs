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

/// Clients that may wait to be accepted.
const BACKLOG: c_int = 16;

/// A socket that clients connect to. Its file is gone when it is dropped.
pub(in crate::memif) struct Listener {
    socket: ManuallyDrop<OwnedFd>,
    path: PathBuf,
    crew: Crew,
}

impl Listener {
    /// Listens. Replaces the socket's file that a process left behind. A thread of `crew` closes it.
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

/// A socket of this name.
fn bound(path: &Path) -> io::Result<OwnedFd> {
    let (socket, (address, len)) = (raw::socket()?, raw::address(path)?);
    // SAFETY: the address lives through the call, and `len` is at most its size.
    sys::check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) } as isize)?;
    Ok(socket)
}

/// A socket whose file the owner and the group may write to, so that they may connect, whatever the umask takes from new files. It does
/// not take the place of another file.
fn named(path: &Path) -> io::Result<OwnedFd> {
    // No client could connect to a longer name.
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

/// Takes a client that waits.
///
/// # Errors
/// `WouldBlock` when none does.
pub(super) fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let none = std::ptr::null_mut();
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no address is asked for.
    let fd = unsafe { libc::accept4(listener.as_raw_fd(), none, std::ptr::null_mut(), flags) };
    let fd = sys::check(fd as isize)?;
    // SAFETY: the descriptor is new, and nobody else's.
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
        // Nobody can connect any more, whenever it is closed.
        raw::hang_up(self.as_fd());
        // The kernel closes what clients that wait have sent: files too.
        // SAFETY: it is taken once, here.
        apart::close(&self.crew, THREAD, unsafe { ManuallyDrop::take(&mut self.socket) });
    }
}

/// True if the file at `path` is a socket that nobody listens on.
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
