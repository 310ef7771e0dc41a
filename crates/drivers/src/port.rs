//! Kernel interfaces used as ports of the router.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::device::Link;
use crate::guardian::{Guardian, Loan};
use crate::kernel::netdev::{self, DefaultRoute, Netdev};
use crate::kernel::sys;

/// The reason why an interface cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// No interface has the name in the first field. The second field lists the existing interfaces.
    NotFound(String, Vec<String>),
    /// The interface with this name is not an Ethernet interface.
    NotEthernet(String),
    /// The machine's default route uses the interface with this name.
    DefaultRoute(String),
    /// Another router has claimed the interface with this name.
    InUse(String),
    /// The configuration cannot be used. The text says why.
    Impossible(String),
    /// The kernel has refused a step of opening: a text names the step, and the kernel's error follows.
    Refused(&'static str, io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NotFound(name, there) => {
                write!(f, "no interface is named {name}; existing interfaces: {}", there.join(", "))
            }
            OpenError::NotEthernet(name) => write!(f, "{name} is not an Ethernet interface"),
            OpenError::DefaultRoute(name) => {
                write!(
                    f,
                    "{name} carries this machine's default route: taking it may cut off remote access. "
                )?;
                write!(f, "To take it anyway, use the force option")
            }
            OpenError::InUse(name) => {
                write!(
                    f,
                    "{name} is in use by another router: `nft list table netdev volley-{name}` shows its claim"
                )
            }
            OpenError::Impossible(what) => f.write_str(what),
            OpenError::Refused(what, e) if e.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "{what}: {e}. Grant CAP_NET_RAW and CAP_NET_ADMIN, and for AF_XDP CAP_BPF, ")?;
                write!(f, "or use a host-interface instead of AF_XDP")
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

/// Returns the interface of this name in the calling thread's namespace, and its Ethernet address.
///
/// # Errors
/// If the interface does not exist or is not an Ethernet interface, or if the machine's default route uses it and `force` is not set.
pub(crate) fn find(name: &str, force: bool) -> Result<(Netdev, [u8; 6]), OpenError> {
    let dev = Netdev::find(name).map_err(|e| match e.raw_os_error() {
        Some(libc::ENODEV) => OpenError::NotFound(name.to_owned(), netdev::names()),
        _ => OpenError::Refused("cannot look up the interface", e),
    })?;
    let mac = dev.mac().map_err(|e| OpenError::Refused("cannot read the interface's properties", e))?;
    let Some(mac) = mac else { return Err(OpenError::NotEthernet(name.to_owned())) };
    if !force && netdev::default_route(name).is_some() {
        return Err(OpenError::DefaultRoute(name.to_owned()));
    }
    Ok((dev, mac))
}

/// True if the only default routes of the machine through the interface `name` come from router advertisements, which any host on the link
/// can send.
pub fn has_only_learned_default_route(name: &str) -> bool {
    netdev::default_route(name) == Some(DefaultRoute::Learned)
}

/// A kernel interface taken by the router. Dropping it restores the interface.
pub(crate) struct Port {
    dev: Arc<Netdev>,
    /// The last known name.
    name: String,
    loan: Loan,
}

impl Port {
    /// Takes an interface and records its current state.
    ///
    /// # Errors
    /// If the kernel does not report the state.
    pub(crate) fn new(dev: Netdev) -> Result<Port, OpenError> {
        let refused = |e| OpenError::Refused("cannot read the interface's properties", e);
        let dev = Arc::new(dev);
        let loan = Loan::new(dev.clone()).map_err(refused)?;
        let name = dev.name().map_err(refused)?;
        Ok(Port { dev, name, loan })
    }

    /// Returns the interface.
    pub(crate) fn dev(&self) -> &Arc<Netdev> {
        &self.dev
    }

    /// Returns the MTU in bytes that the interface had when it was taken.
    pub(crate) fn mtu(&self) -> i32 {
        self.loan.mtu()
    }

    /// Sets the interface up or down.
    pub(crate) fn set_admin(&mut self, up: bool) -> io::Result<()> {
        self.dev.set_up(up)
    }

    /// Raises the kernel's MTU to at least `mtu` bytes, because the kernel's MTU limits sent packets. Never lowers the kernel's MTU,
    /// because larger received packets do no harm.
    pub(crate) fn set_mtu(&mut self, mtu: u16) -> io::Result<()> {
        match self.dev.mtu()? < i32::from(mtu) {
            true => self.dev.set_mtu(mtu.into()),
            false => Ok(()),
        }
    }

    /// Accepts any address: the interface is in promiscuous mode, and the router writes the source address itself.
    pub(crate) fn set_mac(&mut self) -> io::Result<()> {
        if self.dev.exists() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENODEV)) }
    }

    /// Logs a warning if the interface was renamed since the last call: the next start looks for the configured name.
    fn note_name(&mut self) {
        if let Some(name) = self.dev.name().ok().filter(|name| *name != self.name) {
            let old = std::mem::replace(&mut self.name, name);
            tracing::warn!(
                event = "link",
                "the kernel's interface {old} is now named {}. The router keeps using it, but after a restart it uses the interface that has \
                 the configured name then: rename it back, or change the configuration",
                self.name
            );
        }
    }

    /// Returns the current link state. Logs a warning if the interface was renamed since the last call.
    pub(crate) fn link(&mut self) -> Link {
        self.note_name();
        match self.dev.running() {
            Ok(carrier) => Link { present: true, carrier, speed_mbps: self.dev.speed_mbps() },
            Err(_) => Link { present: false, carrier: false, speed_mbps: None },
        }
    }

    /// Registers the interface with `guardian`. If this process ends without restoring the interface, the guardian restores it.
    pub(crate) fn guard(&mut self, guardian: &Guardian) {
        self.loan.guard(guardian);
    }

    /// Returns a property for display: the interface's current name, or the configured `name` with a note if the interface is gone.
    pub(crate) fn describe(&self, name: &str) -> (&'static str, String) {
        ("host interface", self.dev.name().unwrap_or_else(|_| format!("{name} (gone)")))
    }
}

/// Keeps the interface in promiscuous mode while the packet socket lives.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn promiscuous(socket: BorrowedFd<'_>, dev: &Netdev) -> io::Result<()> {
    let all = libc::packet_mreq {
        mr_ifindex: dev.index(),
        mr_type: libc::PACKET_MR_PROMISC as _,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, all)
}

/// Returns a socket that keeps the interface in promiscuous mode while it lives.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn listen_to_all(dev: &Netdev) -> io::Result<OwnedFd> {
    let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    promiscuous(socket.as_fd(), dev)?;
    Ok(socket)
}
