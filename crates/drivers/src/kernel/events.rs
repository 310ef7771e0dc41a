//! Word from the kernel that some interface has changed.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::kernel::sys;

/// A file that can be read when an interface of the calling thread's network namespace was added, removed, set up or down,
/// or lost or found its carrier. What is read from it does not matter: whoever has devices asks each for its
/// [link](crate::DeviceControl::link). A read never waits.
///
/// # Errors
/// When the kernel refuses.
pub fn link_events() -> io::Result<OwnedFd> {
    let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_NONBLOCK, libc::NETLINK_ROUTE)?;
    // SAFETY: zeros are a valid address.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address.nl_groups = libc::RTMGRP_LINK as u32;
    // SAFETY: this is the address of a netlink socket.
    unsafe { sys::bind(socket.as_fd(), &address) }?;
    Ok(socket)
}
