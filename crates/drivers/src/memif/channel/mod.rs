//! Sockets of the control channel: messages, and the files that go with them. Nothing here waits.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libc::c_int;

use super::message::{self, Message};
use crate::kernel::sys;

/// Files that are taken from one message. One is what the protocol has; the kernel closes those for which there is no room.
const FILES: usize = 2;
/// Messages that wait for a peer to read them.
const MOST_WAITING: usize = 1024;
/// Clients that may wait to be accepted.
const BACKLOG: c_int = 16;

/// A connection.
pub(super) struct Channel {
    socket: OwnedFd,
    waiting: VecDeque<([u8; message::LEN], Option<Arc<OwnedFd>>)>,
}

/// What came.
pub(super) enum Received {
    /// A message, or the number of a type that is none, with a file.
    Message(Result<Message, u16>, Option<OwnedFd>),
    /// Something that is no message.
    Garbage(String),
    /// The peer closed the connection.
    Closed,
    /// Nothing more now.
    Nothing,
}

impl Channel {
    /// Connects to a listener.
    pub(super) fn connect(path: &Path) -> io::Result<Channel> {
        let socket = socket()?;
        let (address, len) = address(path)?;
        // SAFETY: the address lives through the call, and `len` is at most its size.
        sys::check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), len) } as isize)?;
        Ok(Channel { socket, waiting: VecDeque::new() })
    }

    /// Sends a message, now or as soon as the peer has read those before. A file goes along.
    ///
    /// # Errors
    /// When the connection is broken, or the peer reads nothing.
    pub(super) fn send(&mut self, message: &Message, file: Option<Arc<OwnedFd>>) -> io::Result<()> {
        if self.waiting.len() == MOST_WAITING {
            return Err(io::Error::other("the peer reads no messages"));
        }
        self.waiting.push_back((message.bytes(), file));
        self.flush()
    }

    /// Sends what waits. If the peer has closed the connection, that is told by [`receive`](Channel::receive), after what
    /// the peer said before: why, most likely.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while let Some((bytes, file)) = self.waiting.front() {
            match send(self.socket.as_fd(), bytes, file.as_ref().map(|f| f.as_fd())) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                    self.waiting.clear();
                }
                done => {
                    done?;
                    self.waiting.pop_front();
                }
            }
        }
        Ok(())
    }

    /// Whether messages wait.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes the next message.
    pub(super) fn receive(&self) -> Received {
        loop {
            match receive(self.socket.as_fd()) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Said once, when the peer closed without having read everything; its last words come after that.
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Received::Nothing,
                Err(_) | Ok((0, ..)) => return Received::Closed,
                Ok((message::LEN, bytes, file)) => return Received::Message(Message::parse(&bytes), file),
                Ok((n, ..)) => {
                    return Received::Garbage(format!("a message of {n} bytes, and not of {}", message::LEN));
                }
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A socket that clients connect to. Its file is gone when it is dropped.
pub(super) struct Listener {
    socket: OwnedFd,
    path: PathBuf,
}

impl Listener {
    /// Listens. A socket's file that a process left behind is replaced.
    pub(super) fn new(path: &Path) -> io::Result<Listener> {
        let socket = socket()?;
        // Whoever may write to it may connect: the owner and the group.
        // SAFETY: no memory is involved.
        sys::check(unsafe { libc::fchmod(socket.as_raw_fd(), 0o660) } as isize)?;
        let bind = || {
            let (address, len) = address(path)?;
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
        let listener = Listener { socket, path: path.to_owned() };
        // SAFETY: no memory is involved.
        sys::check(unsafe { libc::listen(listener.socket.as_raw_fd(), BACKLOG) } as isize)?;
        Ok(listener)
    }

    /// Takes a client that waits.
    ///
    /// # Errors
    /// `WouldBlock` when none does.
    pub(super) fn accept(&self) -> io::Result<Channel> {
        let (fd, none) = (self.socket.as_raw_fd(), std::ptr::null_mut());
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no address is asked for.
        let fd = sys::check(unsafe { libc::accept4(fd, none, std::ptr::null_mut(), flags) } as isize)?;
        // SAFETY: the descriptor is new, and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(fd as c_int) };
        Ok(Channel { socket, waiting: VecDeque::new() })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !is_abstract(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether a socket has a name of its own in place of a file: `@NAME`.
fn is_abstract(path: &Path) -> bool {
    path.as_os_str().as_bytes().first() == Some(&b'@')
}

/// Whether the file at `path` is a socket that nobody listens on.
fn left_behind(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    let refused = |e: io::Error| e.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && !is_abstract(path) && Channel::connect(path).err().is_some_and(refused)
}

fn socket() -> io::Result<OwnedFd> {
    sys::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK, 0)
}

/// Whether a path, or `@NAME`, can be a socket's.
pub(super) fn check_path(path: &Path) -> io::Result<()> {
    address(path).map(|_| ())
}

fn address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
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

/// Room for the control message with the files.
#[repr(C)]
struct Control {
    head: libc::cmsghdr,
    files: [c_int; FILES],
}

/// The name of a region's file.
pub(super) const MEMORY_NAME: &CStr = c"volley-memif";

fn send(socket: BorrowedFd<'_>, bytes: &[u8; message::LEN], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
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
        message.msg_controllen = size_of::<Control>() as _;
        const { assert!(size_of::<Control>() == size_of::<libc::cmsghdr>() + 2 * size_of::<c_int>()) };
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the bytes, the part and the control message live through the call, which reads them only.
    match sys::check(unsafe { libc::sendmsg(socket.as_raw_fd(), &message, flags) })? {
        message::LEN => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

type Piece = (usize, [u8; message::LEN], Option<OwnedFd>);

fn receive(socket: BorrowedFd<'_>) -> io::Result<Piece> {
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
    let mut file = None;
    let head = size_of::<libc::cmsghdr>();
    if message.msg_controllen >= head
        && (control.head.cmsg_level, control.head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS)
    {
        let count = control.head.cmsg_len.saturating_sub(head) / size_of::<c_int>();
        for fd in control.files.into_iter().take(count) {
            // SAFETY: the kernel gave this descriptor to this process just now. Those behind the first are closed.
            let owned = unsafe { OwnedFd::from_raw_fd(fd) };
            file.get_or_insert(owned);
        }
    }
    let n = if message.msg_flags & libc::MSG_TRUNC != 0 { message::LEN + 1 } else { n };
    Ok((n, bytes, file))
}
