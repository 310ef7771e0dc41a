//! Sockets of the control channel: addresses, and messages of 128 bytes with passed files.

use std::ffi::CStr;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use libc::c_int;

use crate::kernel::apart::Kept;
use crate::kernel::{passing, sys};
use crate::memif::message;

/// Name of a region's file.
pub(in crate::memif) const MEMORY_NAME: &CStr = c"volley-memif";

/// A message from an untrusted peer.
pub(super) struct Piece {
    /// Number of bytes; [`message::LEN`] + 1 if the message was longer.
    pub(super) len: usize,
    pub(super) bytes: [u8; message::LEN],
    pub(super) files: Vec<Kept>,
    /// True if the process had no free descriptor for some of the files.
    pub(super) files_lost: bool,
}

/// Creates a non-blocking socket of the type that memif uses, `SOCK_SEQPACKET`.
pub(super) fn socket() -> io::Result<OwnedFd> {
    sys::socket_of_strangers(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK, 0)
}

/// Connects to a listener.
pub(super) fn connect(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket()?;
    let (address, len) = address(path)?;
    // SAFETY: the address lives through the call, and `len` is at most its size.
    sys::check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), len) } as isize)?;
    Ok(socket)
}

/// True if the address is an abstract name, `@NAME`, not a file.
pub(super) fn is_abstract(path: &Path) -> bool {
    path.as_os_str().as_bytes().first() == Some(&b'@')
}

/// Returns the address for a path or `@NAME`, and its length.
///
/// # Errors
/// If the path or name cannot be a socket's address.
pub(super) fn address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    // SAFETY: zeros are a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || bytes == b"@" || bytes.contains(&0) {
        return Err(invalid("the name is empty or contains a zero byte"));
    }
    // Including the final zero.
    if bytes.len() >= address.sun_path.len() {
        return Err(invalid("the name is longer than 107 bytes, the limit for sockets"));
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    let mut len = size_of::<libc::sa_family_t>() + bytes.len();
    if is_abstract(path) {
        address.sun_path[0] = 0;
    } else {
        len += 1;
    }
    Ok((address, len as libc::socklen_t))
}

/// Sends a message, with a file if one is given.
///
/// # Errors
/// `WouldBlock` if the peer has not read earlier messages.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8; message::LEN],
    file: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    match passing::send(socket, bytes, file.as_slice())? {
        message::LEN => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Receives the next message; `len` is 0 if the peer has closed the connection.
///
/// # Errors
/// `WouldBlock` if no message is there.
pub(super) fn receive(socket: BorrowedFd<'_>) -> io::Result<Piece> {
    let mut bytes = [0u8; message::LEN];
    let piece = passing::receive(socket, &mut bytes, false)?;
    let len = if piece.cut { message::LEN + 1 } else { piece.len };
    let files = piece.files.into_iter().map(ManuallyDrop::new).collect();
    Ok(Piece { len, bytes, files, files_lost: piece.files_lost })
}

/// Waits for any of these events, at most for `time` if it is given.
pub(super) fn wait(files: &[(BorrowedFd<'_>, i16)], time: Option<Duration>) {
    let one =
        |&(file, events): &(BorrowedFd<'_>, i16)| libc::pollfd { fd: file.as_raw_fd(), events, revents: 0 };
    let mut files: Vec<libc::pollfd> = files.iter().map(one).collect();
    let time = time.map_or(-1, |t| t.as_millis().min(1_000_000) as c_int + 1);
    // SAFETY: the kernel writes to the entries only. If it fails, the caller checks and waits again.
    unsafe { libc::poll(files.as_mut_ptr(), files.len() as libc::nfds_t, time) };
}

/// Shuts the connection down. The peer can still read earlier messages.
pub(super) fn hang_up(socket: BorrowedFd<'_>) {
    // SAFETY: no memory is involved.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
}
