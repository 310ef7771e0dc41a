//! The sockets of the control channel: addresses, messages of 128 bytes, and the files that are passed with them.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use libc::c_int;

use crate::kernel::sys;
use crate::memif::message;

/// The most files of one message (the kernel's `SCM_MAX_FD`). There is room for all: the kernel itself would close those
/// without room, in the middle of the system call.
const FILES: usize = 253;

/// The name of a region's file.
pub(in crate::memif) const MEMORY_NAME: &CStr = c"volley-memif";

/// Room for the control message with the files.
#[repr(C)]
struct Control {
    head: libc::cmsghdr,
    files: [c_int; FILES + 1],
}

/// What was received in one piece.
pub(super) struct Piece {
    /// Its bytes; [`message::LEN`] + 1 if there were more than a message has.
    pub(super) len: usize,
    pub(super) bytes: [u8; message::LEN],
    pub(super) files: Vec<OwnedFd>,
    /// True if the process had no descriptor for some of its files.
    pub(super) files_lost: bool,
}

/// A socket of the kind that memif uses; its calls do not wait.
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

/// True if a socket has a name of its own in place of a file: `@NAME`.
pub(super) fn is_abstract(path: &Path) -> bool {
    path.as_os_str().as_bytes().first() == Some(&b'@')
}

/// The address of a path, or of `@NAME`, and its length.
///
/// # Errors
/// When it cannot be a socket's.
pub(super) fn address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    // SAFETY: zeros are a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || bytes == b"@" || bytes.contains(&0) {
        return Err(invalid("the name is empty, or has a zero byte"));
    }
    // With the zero at its end.
    if bytes.len() >= address.sun_path.len() {
        return Err(invalid("the name is longer than 107 bytes, the most of a socket's"));
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

/// Sends a message, with a file or without.
///
/// # Errors
/// `WouldBlock` when the peer has not read those before.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8; message::LEN],
    file: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut part = sys::iovec(bytes);
    let mut message = sys::message();
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    // SAFETY: zeros are a valid record.
    let mut control: Control = unsafe { std::mem::zeroed() };
    if let Some(file) = file {
        let len = size_of::<libc::cmsghdr>() + size_of::<c_int>();
        (control.head.cmsg_level, control.head.cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        control.head.cmsg_len = len as _;
        control.files[0] = file.as_raw_fd();
        message.msg_control = (&raw mut control).cast();
        // With the padding up to a multiple of 8.
        message.msg_controllen = len.next_multiple_of(8) as _;
        const { assert!(size_of::<Control>() == size_of::<libc::cmsghdr>() + (FILES + 1) * size_of::<c_int>()) };
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the bytes, the part and the control message live through the call, which reads them only.
    match sys::check(unsafe { libc::sendmsg(socket.as_raw_fd(), &message, flags) })? {
        message::LEN => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Receives what comes next; no bytes at the end.
///
/// # Errors
/// `WouldBlock` when nothing is there.
pub(super) fn receive(socket: BorrowedFd<'_>) -> io::Result<Piece> {
    let mut bytes = [0u8; message::LEN];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: zeros are a valid record.
    let mut control: Control = unsafe { std::mem::zeroed() };
    let mut message = sys::message();
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>() as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the bytes and the control message live through the call, which writes within their lengths.
    let n = sys::check(unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, flags) })?;
    let mut files = Vec::new();
    let head = size_of::<libc::cmsghdr>();
    if message.msg_controllen >= head
        && (control.head.cmsg_level, control.head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS)
    {
        let count = control.head.cmsg_len.saturating_sub(head) / size_of::<c_int>();
        // SAFETY: the kernel gave these descriptors to this process just now.
        files.extend(control.files.into_iter().take(count).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
    }
    let len = if message.msg_flags & libc::MSG_TRUNC != 0 { message::LEN + 1 } else { n };
    Ok(Piece { len, bytes, files, files_lost: message.msg_flags & libc::MSG_CTRUNC != 0 })
}

/// Waits until one of `events` has happened to the socket, or `bell` has been rung; at most for `time`, if it is given.
pub(super) fn wait(socket: BorrowedFd<'_>, events: i16, bell: BorrowedFd<'_>, time: Option<Duration>) {
    let mut files = [
        libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 },
        libc::pollfd { fd: bell.as_raw_fd(), events: libc::POLLIN, revents: 0 },
    ];
    let time = time.map_or(-1, |t| t.as_millis().min(1_000_000) as c_int + 1);
    // SAFETY: the kernel writes to the two entries only. Should it fail, the caller looks and waits again.
    unsafe { libc::poll(files.as_mut_ptr(), files.len() as libc::nfds_t, time) };
}
