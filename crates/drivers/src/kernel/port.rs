//! Taking an interface of the kernel for a port of the router.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::netdev::{self, Netdev};
use super::sys;

/// Why an interface cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// There is none of this name; these there are.
    NotFound(String, Vec<String>),
    /// It is not an Ethernet interface.
    NotEthernet(String),
    /// The default route leaves by it.
    DefaultRoute(String),
    /// Another process uses it so that the kernel hears nothing.
    InUse(String),
    /// The configuration asks for something impossible.
    Impossible(String),
    /// The kernel refused something.
    Refused(&'static str, io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NotFound(name, there) => {
                write!(f, "there is no interface {name} here; there are: {}", there.join(", "))
            }
            OpenError::NotEthernet(name) => write!(f, "{name} is not an Ethernet interface"),
            OpenError::DefaultRoute(name) => {
                write!(
                    f,
                    "{name} carries this machine's default route: taking it would cut the machine off. "
                )?;
                write!(f, "If that is meant, force it")
            }
            OpenError::InUse(name) => {
                write!(
                    f,
                    "{name} is in use by another router: `nft list table netdev volley-{name}` shows its claim"
                )
            }
            OpenError::Impossible(what) => f.write_str(what),
            OpenError::Refused(what, e) if e.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "{what}: {e}. It needs CAP_NET_RAW and CAP_NET_ADMIN, and for AF_XDP CAP_BPF")
            }
            OpenError::Refused(what, e) => write!(f, "{what}: {e}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Refused(_, e) => Some(e),
            _ => None,
        }
    }
}

/// The interface of this name in the calling thread's namespace, and its Ethernet address.
///
/// # Errors
/// When there is none, it is no Ethernet interface, or the machine's default route leaves by it and `force` is not given.
pub(crate) fn find(name: &str, force: bool) -> Result<(Netdev, [u8; 6]), OpenError> {
    let dev = Netdev::find(name).map_err(|e| match e.raw_os_error() {
        Some(libc::ENODEV) => OpenError::NotFound(name.to_owned(), netdev::names()),
        _ => OpenError::Refused("looking for the interface", e),
    })?;
    let mac = dev.mac().map_err(|e| OpenError::Refused("asking for the interface's properties", e))?;
    let Some(mac) = mac else { return Err(OpenError::NotEthernet(name.to_owned())) };
    if !force && netdev::carries_default_route(name) {
        return Err(OpenError::DefaultRoute(name.to_owned()));
    }
    Ok((dev, mac))
}

/// Has the interface let in packets to all addresses, for as long as the packet socket lives.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn promiscuous(socket: BorrowedFd<'_>, dev: &Netdev) -> io::Result<()> {
    let all = libc::packet_mreq {
        mr_ifindex: dev.index(),
        mr_type: libc::PACKET_MR_PROMISC as _,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, all)
}

/// As [`promiscuous`], with a socket that does nothing else.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn listen_to_all(dev: &Netdev) -> io::Result<OwnedFd> {
    let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    promiscuous(socket.as_fd(), dev)?;
    Ok(socket)
}
