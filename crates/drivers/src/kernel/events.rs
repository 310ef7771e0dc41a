//! Notifications from the kernel about changed interfaces.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::kernel::sys;

/// Returns a file that becomes readable when an interface of the calling thread's network namespace changes: added,
/// removed, set up or down, carrier lost or found. Reads do not block. Ignore their contents, and query the
/// [link](crate::DeviceControl::link) of each device instead.
///
/// # Errors
/// If the kernel refuses.
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
