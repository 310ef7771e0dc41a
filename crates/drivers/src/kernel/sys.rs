//! Safe wrappers of system calls.

use std::ffi::CStr;
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libc::{c_int, c_uint, c_ulong, c_void};

use super::apart;

/// Converts the result of a call that returns -1 on failure.
pub(crate) fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Lowers the priority of this thread, because its kernel work for untrusted peers may take long. On a busy core the thread gets a tenth of
/// a worker's time: enough to release kernel locks soon.
pub(crate) fn give_way_to_workers() {
    const NICE: c_int = 10;
    // SAFETY: no memory is involved. 0 is the calling thread, and every process may lower its priority.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

/// Opens a socket that other programs do not inherit. For packet sockets, `protocol` is in network byte order.
pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    socket_of_strangers(domain, kind, protocol).map(apart::above)
}

/// Opens a socket for untrusted peers, which may send files. Other programs do not inherit the socket. Unlike [`socket`], does not move its
/// descriptor [above](apart::above) those of untrusted files.
pub(crate) fn socket_of_strangers(domain: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    new_fd(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) })
}

/// Creates an empty file in memory that other programs do not inherit.
pub(crate) fn memory_file(name: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: the name is a string that ends with a zero.
    let fd = check(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) } as isize)?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

/// Plain data exchanged with the kernel: integers without padding, for which every bit pattern is valid.
///
/// # Safety
/// The implementer of this trait guarantees that the type has these properties.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: integers.
unsafe impl Plain for c_int {}
// SAFETY: seven integers of 32 bits.
unsafe impl Plain for libc::tpacket_req3 {}
// SAFETY: four integers of 32 bits.
unsafe impl Plain for libc::tpacket_req {}
// SAFETY: two integers of 32 bits.
unsafe impl Plain for libc::tpacket_stats {}
// SAFETY: an integer.
unsafe impl Plain for u64 {}
// SAFETY: integers, without padding between them.
unsafe impl Plain for libc::xdp_desc {}
// SAFETY: integers of 64 bits.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: integers of 64 bits.
unsafe impl Plain for libc::xdp_statistics {}
// SAFETY: integers, without padding between or after them.
unsafe impl Plain for libc::xdp_umem_reg {}
// SAFETY: integers, without padding between them.
unsafe impl Plain for libc::packet_mreq {}
// SAFETY: as above.
unsafe impl Plain for libc::tpacket2_hdr {}
// SAFETY: as above.
unsafe impl Plain for libc::tpacket3_hdr {}
// SAFETY: as above.
unsafe impl Plain for libc::tpacket_hdr_v1 {}
// SAFETY: as above.
unsafe impl Plain for wire::VirtioNetHeader {}
// SAFETY: two integers of 64 bits.
unsafe impl Plain for libc::timeval {}

/// Sets an option of a socket.
pub(crate) fn set_option<T: Plain>(
    fd: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    value: T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is initialized and lives through the call, and `len` is its size.
    let r = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), len) };
    check(r as isize).map(|_| ())
}

/// Reads an option of a socket.
pub(crate) fn option<T: Plain>(fd: BorrowedFd<'_>, level: c_int, option: c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `value`.
    let r = unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, value.as_mut_ptr().cast(), &mut len) };
    check(r as isize)?;
    // SAFETY: it was zeroed, and any bits are a valid T.
    Ok(unsafe { value.assume_init() })
}

/// Makes the kernel refuse files passed over a socket, or over sockets accepted from it. The sender gets `EPERM`.
///
/// # Errors
/// If the kernel does not support this (before Linux 6.16).
pub fn refuse_files(socket: BorrowedFd<'_>) -> io::Result<()> {
    /// Option of sockets that allows peers to pass files (`include/uapi/asm-generic/socket.h`).
    const SO_PASSRIGHTS: c_int = 83;
    set_option::<c_int>(socket, libc::SOL_SOCKET, SO_PASSRIGHTS, 0)
}

/// True if the peer of a UNIX socket has not received all that was sent over the socket, and is still there.
pub fn is_unread(socket: BorrowedFd<'_>) -> bool {
    let mut bytes: c_int = 0;
    // SAFETY: the request writes an int, and `bytes` is one.
    unsafe { ioctl(socket, libc::TIOCOUTQ, &mut bytes) }.is_ok() && bytes > 0
}

/// Takes the pending error of a socket; `None` if there is none.
pub(crate) fn take_error(fd: BorrowedFd<'_>) -> Option<io::Error> {
    match option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
        Ok(0) => None,
        Ok(code) => Some(io::Error::from_raw_os_error(code)),
        Err(e) => Some(e),
    }
}

/// Sets a socket buffer to `bytes`, above the system's limit if permitted.
pub(crate) fn buffer(fd: BorrowedFd<'_>, force: c_int, ask: c_int, bytes: c_int) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, force, bytes).or_else(|_| set_option(fd, libc::SOL_SOCKET, ask, bytes))
}

/// Sets the time limit for reads from a socket.
pub(crate) fn timeout(fd: BorrowedFd<'_>, time: Duration) -> io::Result<()> {
    let time = libc::timeval { tv_sec: time.as_secs() as _, tv_usec: time.subsec_micros().into() };
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, time)
}

/// Binds a socket to an address.
///
/// # Safety
/// `T` is the address type of the socket's family.
pub(crate) unsafe fn bind<T>(fd: BorrowedFd<'_>, address: &T) -> io::Result<()> {
    // SAFETY: the address lives through the call, and the length is its own.
    let r = unsafe {
        libc::bind(fd.as_raw_fd(), (&raw const *address).cast(), size_of::<T>() as libc::socklen_t)
    };
    check(r as isize).map(|_| ())
}

/// Calls `ioctl` with a pointer argument.
///
/// # Safety
/// `argument` is a valid argument of `request`, and the memory that it points to lives through the call.
pub(crate) unsafe fn ioctl<T>(fd: BorrowedFd<'_>, request: c_ulong, argument: *mut T) -> io::Result<()> {
    // SAFETY: guaranteed by the caller.
    let r = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, argument) };
    check(r as isize).map(|_| ())
}

/// Calls `ioctl` with a numeric argument.
///
/// # Safety
/// `request` takes a number, not an address.
pub(crate) unsafe fn ioctl_number(fd: BorrowedFd<'_>, request: c_ulong, argument: c_ulong) -> io::Result<()> {
    // SAFETY: guaranteed by the caller.
    let r = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, argument) };
    check(r as isize).map(|_| ())
}

/// Moves only the calling thread into a network namespace.
pub(crate) fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } as isize).map(|_| ())
}

/// Detaches a child process between `fork` and `exec`. The child gets its own session and ignores termination signals. SIGABRT is among
/// them, because a service manager's watchdog sends it to all processes of a service. Only standard input, output and error stay open. This
/// function makes only system calls, as required between `fork` and `exec`.
pub(crate) fn apart() -> io::Result<()> {
    // SAFETY: no memory is involved except the signal dispositions. Only `exec` closes files, and none of their owners
    // is left then.
    unsafe {
        check(libc::setsid() as isize)?;
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGABRT] {
            libc::signal(signal, libc::SIG_IGN);
        }
        // This program's own files are close-on-exec anyway. This call also covers inherited files, from Linux 5.11 on.
        let (first, last) = (libc::STDERR_FILENO as c_uint + 1, c_uint::MAX);
        libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC);
    }
    Ok(())
}

/// Writes bytes to a socket. Returns the number written.
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the bytes live through the call.
    check(unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) })
}

/// Reads from a socket, within the socket's time limit. Returns the number of bytes read.
pub(crate) fn recv(fd: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most as many bytes as there are.
    check(unsafe { libc::recv(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) })
}

/// The direction, receive or send, in which [`nudge`] makes the kernel continue.
#[derive(Clone, Copy)]
pub(crate) enum Nudge {
    Receive,
    Send,
}

/// Makes the kernel process a socket's shared rings, by a system call that passes no data and does not block.
pub(crate) fn nudge(fd: BorrowedFd<'_>, which: Nudge) -> io::Result<()> {
    // SAFETY: no bytes are read or written, and no address is given.
    let r = unsafe {
        match which {
            Nudge::Receive => libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), 0, libc::MSG_DONTWAIT),
            Nudge::Send => libc::send(fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT),
        }
    };
    check(r).map(|_| ())
}

/// Returns the address and length of `bytes`, as an entry of the list that `readv`, `sendmsg` and similar calls take.
pub(crate) fn iovec(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast::<c_void>(), iov_len: bytes.len() }
}

/// Returns an empty message header. All its pointers are null.
pub(crate) fn message() -> libc::msghdr {
    // SAFETY: null pointers and zeros are a valid message.
    unsafe { mem::zeroed() }
}

fn new_fd(result: c_int) -> io::Result<OwnedFd> {
    let fd = check(result as isize)?;
    // SAFETY: the callers' system calls have just created the descriptor; it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

/// Creates an event descriptor with non-blocking reads and writes.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    new_fd(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

/// Creates an epoll set.
pub(crate) fn epoll() -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    new_fd(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
}

/// Adds `fd` to the epoll set. Events of `fd` carry `number`.
pub(crate) fn epoll_add(
    epoll: BorrowedFd<'_>,
    fd: BorrowedFd<'_>,
    number: u64,
    events: c_int,
) -> io::Result<()> {
    let mut event = libc::epoll_event { events: events as u32, u64: number };
    // SAFETY: the kernel reads the event.
    let r = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &mut event) };
    check(r as isize).map(|_| ())
}

/// Removes `fd` from the epoll set.
pub(crate) fn epoll_remove(epoll: BorrowedFd<'_>, fd: BorrowedFd<'_>) {
    let none = std::ptr::null_mut();
    // This fails only if `fd` is not in the set.
    // SAFETY: this operation takes no event.
    unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd.as_raw_fd(), none) };
}

/// Takes pending events, as many as fit, without blocking. Returns their number.
pub(crate) fn epoll_take(epoll: BorrowedFd<'_>, events: &mut [libc::epoll_event]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most as many events as there is room for.
    let r = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), events.len() as c_int, 0) };
    check(r as isize)
}
