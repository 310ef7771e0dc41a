//! `af_xdp`: a kernel network interface over AF_XDP sockets (the kernel's `Documentation/networking/af_xdp.rst`).
//!
//! An XDP program at the interface redirects each packet to the socket of its receive queue. The kernel writes received packets into
//! buffers of the router's pool and reads packets to send from them. The kernel's stack receives nothing from the interface. After the
//! sockets are closed, the kernel and the guardian undo all settings, as for [`af_packet`](crate::af_packet).
//!
//! There is no virtio header. If the sender leaves the checksum to its network interface, the packet arrives with a wrong checksum. A Linux
//! host at the other end of a veth pair does so, unless `ethtool -K IF tx off` is set there. The driver warns about such interfaces.
//!
//! Zero copy (`XDP_ZEROCOPY`) is implemented but untested: no driver on the development machines supports it.

mod open;
mod program;
mod ring;
mod rx;
mod tx;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use buf::Lent;

pub use open::INPUT_NODE;
pub use open::open;
pub use program::Attach;

use crate::device::{DeviceControl, Link};
use crate::guardian::Guardian;
use crate::kernel::netdev::{Netdev, numa_node};
use crate::kernel::sys;
use crate::port::Port;
use program::Program;

/// Largest MTU in bytes. A packet of this size fits in one buffer together with its Ethernet header and two VLAN tags.
pub const MAX_MTU: u16 = (buf::layout::DATA_ROOM - 22) as u16;

/// Bits of a descriptor's address that hold the buffer's offset. The bits above hold the packet's offset in the
/// buffer.
const PLACE: u64 = (1 << 48) - 1;

/// Policy for copies between kernel memory and the router's buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copying {
    /// Copy only if the driver does not support zero copy.
    #[default]
    IfNeeded,
    /// Always copy.
    Always,
    /// Never copy; fail if the driver does not support zero copy.
    Never,
}

/// Configuration of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Name of the interface, in the calling thread's network namespace.
    pub name: String,
    /// Number of queues to use; `None` uses all queues of the interface. A number other than that of the interface's queues is an
    /// error, because packets to the remaining queues would be lost.
    pub queues: Option<u32>,
    /// Capacity of a receive ring in packets, a power of two from 64 to 32,768.
    pub rx_ring: u32,
    /// Capacity of a transmit ring in packets, a power of two from 64 to 32,768.
    pub tx_ring: u32,
    /// Attachment point of the program; `None` selects the best that the driver supports.
    pub attach: Option<Attach>,
    /// Copy policy.
    pub copying: Copying,
    /// True to take the interface even if the machine's default route uses it.
    pub force: bool,
    /// The device's Ethernet address; `None` uses that of the interface.
    pub mac: Option<[u8; 6]>,
}

impl Config {
    /// Returns the defaults for an interface: all its queues, and rings of 1,024 packets.
    pub fn new(name: impl Into<String>) -> Config {
        Config {
            name: name.into(),
            queues: None,
            rx_ring: 1024,
            tx_ring: 1024,
            attach: None,
            copying: Copying::IfNeeded,
            force: false,
            mac: None,
        }
    }
}

/// An AF_XDP socket. It also holds buffers that the kernel may still use after both queues are dropped.
struct Socket {
    // Drop order: closing the socket makes the kernel release the buffers, which are freed next.
    fd: OwnedFd,
    left: Mutex<Vec<Lent>>,
}

impl Socket {
    /// Keeps buffers alive until the socket is closed, because the kernel may still write to them.
    fn outlive(&self, lent: Option<Lent>) {
        self.left.lock().unwrap_or_else(|e| e.into_inner()).extend(lent);
    }

    /// Makes the kernel read the fill ring.
    fn wake_receiver(&self) -> io::Result<()> {
        sys::nudge(self.fd.as_fd(), sys::Nudge::Receive)
    }

    /// Makes the kernel send some of the packets in the transmit ring.
    fn wake_sender(&self) -> io::Result<()> {
        sys::nudge(self.fd.as_fd(), sys::Nudge::Send)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

struct Control {
    /// The attached XDP program. This field is dropped first, so that the program is detached before the interface is restored.
    program: Program,
    /// Keeps the interface in promiscuous mode.
    _promiscuous: OwnedFd,
    port: Port,
    copies: bool,
    config: Config,
    queues: usize,
}

/// Returns the [warning](DeviceControl::warning) that a device on this interface of the calling thread's network namespace would have.
pub fn warning(name: &str) -> Option<String> {
    warning_about(&Netdev::find(name).ok()?, name)
}

fn warning_about(dev: &Netdev, name: &str) -> Option<String> {
    // A veth passes packets as the other host left them, with partial checksums.
    let veth = dev.driver().is_some_and(|driver| driver == "veth");
    veth.then(|| {
        format!(
            "{name} is an end of a veth pair: TCP and UDP packets may arrive without checksums, which AF_XDP cannot detect. \
             Run \"ethtool -K IF tx off\" at the other end"
        )
    })
}

impl DeviceControl for Control {
    fn set_admin(&mut self, up: bool) -> io::Result<()> {
        self.port.set_admin(up)
    }

    fn set_mtu(&mut self, mtu: u16) -> io::Result<()> {
        if mtu > MAX_MTU {
            return Err(io::Error::other(format!(
                "the MTU of an AF_XDP interface must be at most {MAX_MTU} bytes"
            )));
        }
        self.port.set_mtu(mtu)
    }

    fn set_mac(&mut self, _: [u8; 6]) -> io::Result<()> {
        self.port.set_mac()
    }

    fn link(&mut self) -> Link {
        self.port.link()
    }

    fn guard(&mut self, guardian: &Guardian) {
        self.port.guard(guardian);
    }

    fn warning(&self) -> Option<String> {
        warning_about(self.port.dev(), &self.config.name)
    }

    fn numa_node(&self) -> Option<u32> {
        numa_node(&self.config.name)
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let Config { name, rx_ring, tx_ring, .. } = &self.config;
        let attach = match self.program.attach {
            Attach::Native => "in the driver (native)",
            Attach::Generic => "after the driver (generic)",
        };
        vec![
            self.port.describe(name),
            ("queues", self.queues.to_string()),
            ("rings", format!("{rx_ring} packets to receive, {tx_ring} to send")),
            ("program", attach.to_owned()),
            ("packets", if self.copies { "copied by the kernel" } else { "not copied" }.to_owned()),
        ]
    }
}
