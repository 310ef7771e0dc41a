//! Taking an interface of the kernel for a port of the router.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::netdev::{self, Netdev};
use super::sys;
use crate::device::Link;
use crate::guardian::{Guardian, Loan};

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
                write!(f, "{what}: {e}. It needs CAP_NET_RAW and CAP_NET_ADMIN, and for AF_XDP CAP_BPF: ")?;
                write!(f, "where that is not to be had, take it as a host-interface")
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

/// An interface of the kernel that was taken. It is given back as it was found when this is dropped.
pub(crate) struct Port {
    dev: Arc<Netdev>,
    loan: Loan,
}

impl Port {
    /// Remembers how the interface is now.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub(crate) fn new(dev: Netdev) -> Result<Port, OpenError> {
        let dev = Arc::new(dev);
        let loan = Loan::new(dev.clone());
        let loan = loan.map_err(|e| OpenError::Refused("asking for the interface's properties", e))?;
        Ok(Port { dev, loan })
    }

    /// The interface.
    pub(crate) fn dev(&self) -> &Arc<Netdev> {
        &self.dev
    }

    /// The MTU that it had, in bytes.
    pub(crate) fn mtu(&self) -> i32 {
        self.loan.mtu()
    }

    /// Sets it up or down.
    pub(crate) fn set_admin(&mut self, up: bool) -> io::Result<()> {
        self.dev.set_up(up)
    }

    /// Lets the kernel send packets of up to `mtu` bytes. The kernel's MTU is a limit to ours: it is raised where it has to
    /// be. It is never lowered, because larger packets that come do no harm.
    pub(crate) fn set_mtu(&mut self, mtu: u16) -> io::Result<()> {
        match self.dev.mtu()? < i32::from(mtu) {
            true => self.dev.set_mtu(mtu.into()),
            false => Ok(()),
        }
    }

    /// Takes any address: the interface listens to all, and whoever sends says from which.
    pub(crate) fn set_mac(&mut self) -> io::Result<()> {
        if self.dev.exists() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENODEV)) }
    }

    /// The link now.
    pub(crate) fn link(&mut self) -> Link {
        match self.dev.running() {
            Ok(carrier) => Link { present: true, carrier, speed_mbps: self.dev.speed_mbps() },
            Err(_) => Link { present: false, carrier: false, speed_mbps: None },
        }
    }

    /// Has `guardian` give it back, should this process end without doing so.
    pub(crate) fn guard(&mut self, guardian: &Guardian) {
        self.loan.guard(guardian);
    }

    /// Which interface it is, for those who knew it by `name`.
    pub(crate) fn describe(&self, name: &str) -> (&'static str, String) {
        ("host interface", self.dev.name().unwrap_or_else(|_| format!("{name} (gone)")))
    }
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
