//! `af_xdp`: a network interface of the kernel, by AF_XDP sockets (the kernel's `Documentation/networking/af_xdp.rst`).
//!
//! A program at the interface hands each packet to the socket of its receive queue, and the kernel puts it into a buffer of the
//! router's pool; what is sent it reads from there. The kernel's own stack hears nothing of the interface. All that is set up goes
//! with the sockets, as for [`af_packet`](crate::af_packet).
//!
//! There is no virtio header: a packet whose sender left the checksum to the interface (a Linux host at the other end of a veth
//! pair, unless `ethtool -K IF tx off` was said there) arrives with a checksum that is wrong. Who takes such an interface is told.
//!
//! Where the driver can, packets are not copied (`XDP_ZEROCOPY`). No driver on the machines that this was written on can: that part
//! has never been seen at work.

mod open;
mod program;
mod ring;
mod rx;
mod tx;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use buf::Lent;

pub(crate) use open::INPUT_NODE;
pub use open::open;
pub use program::Attach;

use crate::device::{DeviceControl, Link};
use crate::guardian::Guardian;
use crate::kernel::netdev::numa_node;
use crate::kernel::port::Port;
use crate::kernel::sys;
use program::Program;

/// The largest network packet, in bytes: with its Ethernet header and two VLAN tags it lies in one buffer.
pub const MAX_MTU: u16 = (buf::layout::DATA_ROOM - 22) as u16;

/// The part of a descriptor's address that names the buffer; above it is where in the buffer the packet begins.
const PLACE: u64 = (1 << 48) - 1;

/// Whether the kernel copies packets between its own memory and the router's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copying {
    /// Only if the driver cannot do without.
    #[default]
    IfNeeded,
    /// Always.
    Always,
    /// Never: it is an error if the driver cannot do without.
    Never,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Name of the interface, in the calling thread's network namespace.
    pub name: String,
    /// Queues each way; `None` for as many as the interface has. There must be as many as it has, or packets would be lost.
    pub queues: Option<u32>,
    /// Packets that a receive ring and a transmit ring hold, powers of two.
    pub rx_ring: u32,
    /// As that.
    pub tx_ring: u32,
    /// Where the program runs; `None` for the best that the driver can do.
    pub attach: Option<Attach>,
    /// Whether packets are copied.
    pub copying: Copying,
    /// Whether to take the interface even if the machine's default route leaves by it.
    pub force: bool,
    /// The Ethernet address to use in place of the interface's own.
    pub mac: Option<[u8; 6]>,
}

impl Config {
    /// The interface of this name, with all its queues and rings of 1,024 packets.
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

/// An AF_XDP socket. The buffers that the kernel still has when both queues are given up are given back behind it.
struct Socket {
    // In this order: when the socket is closed the kernel has let go of them.
    fd: OwnedFd,
    left: Mutex<Vec<Lent>>,
}

impl Socket {
    /// Keeps buffers that the kernel may still write to until the socket is closed.
    fn outlive(&self, lent: Option<Lent>) {
        self.left.lock().unwrap_or_else(|e| e.into_inner()).extend(lent);
    }

    /// Has the kernel look at the fill ring.
    fn wake_receiver(&self) -> io::Result<()> {
        sys::nudge(self.fd.as_fd(), sys::Nudge::Receive)
    }

    /// Has the kernel send some of what is in the transmit ring.
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
    /// Detached before the interface is as it was found.
    program: Program,
    /// Packets to all addresses are let in while it lives.
    _promiscuous: OwnedFd,
    port: Port,
    copies: bool,
    config: Config,
    queues: usize,
}

impl DeviceControl for Control {
    fn set_admin(&mut self, up: bool) -> io::Result<()> {
        self.port.set_admin(up)
    }

    fn set_mtu(&mut self, mtu: u16) -> io::Result<()> {
        if mtu > MAX_MTU {
            return Err(io::Error::other(format!(
                "an interface of AF_XDP takes packets of up to {MAX_MTU} bytes"
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
        // It hands packets over as the host at the other end left them.
        let veth = self.port.dev().driver().is_some_and(|driver| driver == "veth");
        veth.then(|| {
            format!(
                "{} is an end of a veth pair, and AF_XDP does not tell which checksums are still to be computed: for TCP and \
                 UDP, say \"ethtool -K IF tx off\" of the other end",
                self.config.name
            )
        })
    }

    fn numa_node(&self) -> Option<u32> {
        numa_node(&self.config.name)
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let Config { name, rx_ring, tx_ring, .. } = &self.config;
        let attach = match self.program.attach {
            Attach::Native => "in the driver (native)",
            Attach::Generic => "behind the driver (generic)",
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
