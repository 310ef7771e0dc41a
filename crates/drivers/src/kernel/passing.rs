//! Passing files over UNIX sockets.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::c_int;

use super::sys;

/// Maximum number of files in one message (the kernel's `SCM_MAX_FD`). The buffer for received files, [`Control`], has room for all
/// of them: if it were smaller, the kernel would close the remaining files inside the system call.
const MOST: usize = 253;

/// Buffer for the control message with the files.
#[repr(C)]
struct Control {
    head: libc::cmsghdr,
    files: [c_int; MOST + 1],
}

/// A received message.
pub(crate) struct Piece {
    /// Number of bytes received.
    pub(crate) len: usize,
    /// True if the message was longer than the buffer.
    pub(crate) cut: bool,
    pub(crate) files: Vec<OwnedFd>,
    /// True if the process had no free descriptor for some of the files.
    pub(crate) files_lost: bool,
}

/// Returns two connected sockets.
pub(crate) fn pair() -> io::Result<[OwnedFd; 2]> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes two descriptors.
    sys::check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } as isize)?;
    // SAFETY: they are new and have no other owner.
    Ok(ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) }))
}

/// Sends bytes and copies of at most 253 files without blocking. Returns the number of bytes sent.
///
/// # Errors
/// `WouldBlock` if the socket buffer is full.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut part = sys::iovec(bytes);
    let mut message = sys::message();
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    // SAFETY: zeros are a valid record.
    let mut control: Control = unsafe { std::mem::zeroed() };
    if !files.is_empty() {
        let len = size_of::<libc::cmsghdr>() + size_of_val(files);
        (control.head.cmsg_level, control.head.cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        control.head.cmsg_len = len as _;
        let places = control.files.get_mut(..files.len()).ok_or(io::ErrorKind::InvalidInput)?;
        places.iter_mut().zip(files).for_each(|(place, file)| *place = file.as_raw_fd());
        message.msg_control = (&raw mut control).cast();
        // Including the padding to a multiple of 8.
        message.msg_controllen = len.next_multiple_of(8) as _;
        const { assert!(size_of::<BorrowedFd<'_>>() == size_of::<c_int>()) };
        const { assert!(size_of::<Control>() == size_of::<libc::cmsghdr>() + (MOST + 1) * size_of::<c_int>()) };
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the bytes, the part and the control message live through the call, which reads them only.
    sys::check(unsafe { libc::sendmsg(socket.as_raw_fd(), &message, flags) })
}

/// Receives the next message; `len` is 0 at the end of the stream. If `wait`, blocks until a message arrives.
///
/// # Errors
/// `WouldBlock` if no message is there and `wait` is false.
pub(crate) fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8], wait: bool) -> io::Result<Piece> {
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: zeros are a valid record.
    let mut control: Control = unsafe { std::mem::zeroed() };
    let mut message = sys::message();
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>() as _;
    let flags = libc::MSG_CMSG_CLOEXEC | if wait { 0 } else { libc::MSG_DONTWAIT };
    // SAFETY: the bytes and the control message live through the call, which writes within their lengths.
    let len = sys::check(unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, flags) })?;
    let mut files = Vec::new();
    let head = size_of::<libc::cmsghdr>();
    if message.msg_controllen >= head
        && (control.head.cmsg_level, control.head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS)
    {
        let count = control.head.cmsg_len.saturating_sub(head) / size_of::<c_int>();
        // SAFETY: the kernel put these descriptors into this thread's table just now.
        files.extend(control.files.into_iter().take(count).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
    }
    let [cut, files_lost] = [libc::MSG_TRUNC, libc::MSG_CTRUNC].map(|flag| message.msg_flags & flag != 0);
    Ok(Piece { len, cut, files, files_lost })
}
