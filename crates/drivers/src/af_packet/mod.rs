//! `af_packet`: a kernel network interface over packet sockets (`packet(7)`).
//!
//! Packets are received through a ring shared with the kernel (`ring.rs`) and sent by `sendmmsg` (`tx.rs`). In both directions each packet
//! has a virtio header, so GSO packets stay unsegmented and partial checksums stay partial. The host at the other end of a veth pair can
//! therefore send packets of up to 64 KiB.
//!
//! While the device is open, the kernel's stack receives nothing from the interface, unless [`shared`](Config::shared) is set or nftables
//! cannot be used. The kernel undoes most settings when the sockets are closed, even if the process is killed. The
//! [guardian](crate::guardian) restores the two other settings: the up state of an interface that was down, and a raised MTU. The
//! interface's Ethernet address never changes; the interface is in promiscuous mode instead.

mod open;
mod ring;
mod rx;
mod tx;

use std::io;

pub use open::INPUT_NODE;
pub use open::open;

pub use crate::port::OpenError;

use crate::device::{DeviceControl, Link};
use crate::guardian::Guardian;
use crate::kernel::claim::Claim;
use crate::kernel::netdev::numa_node;
use crate::port::Port;

/// Receive mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The kernel passes packets one by one (TPACKET_V2). A single packet is visible at once.
    #[default]
    V2,
    /// The kernel passes packets in blocks (TPACKET_V3), for throughput. A single packet waits up to a millisecond.
    V3,
}

/// Configuration of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Name of the interface, in the calling thread's network namespace.
    pub name: String,
    /// Number of queues in each direction, 1 to 64. Flows are spread over the receive queues.
    pub queues: usize,
    /// Capacity of a receive ring in packets, 1 to 1,048,576. In [`Mode::V3`], it only determines the memory of the ring.
    pub rx_ring: usize,
    /// Receive mode.
    pub mode: Mode,
    /// True if the kernel's stack keeps receiving from the interface too.
    pub shared: bool,
    /// True to take the interface even if the machine's default route uses it.
    pub force: bool,
    /// The device's Ethernet address; `None` uses that of the interface.
    pub mac: Option<[u8; 6]>,
}

impl Config {
    /// Returns the defaults for an interface: one queue in each direction and a ring of 2,048 packets.
    pub fn new(name: impl Into<String>) -> Config {
        Config {
            name: name.into(),
            queues: 1,
            rx_ring: 2048,
            mode: Mode::V2,
            shared: false,
            force: false,
            mac: None,
        }
    }
}

/// Whether the kernel's own stack also receives the packets of the interface.
enum Stack {
    KeptOut {
        _claim: Claim,
    },
    Shared,
    /// The kernel's stack receives packets too: the router tried to claim the interface, and the claim failed with this error.
    Hears(io::Error),
}

struct Control {
    port: Port,
    stack: Stack,
    config: Config,
}

impl DeviceControl for Control {
    fn set_admin(&mut self, up: bool) -> io::Result<()> {
        self.port.set_admin(up)
    }

    fn set_mtu(&mut self, mtu: u16) -> io::Result<()> {
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

    fn numa_node(&self) -> Option<u32> {
        numa_node(&self.config.name)
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let Config { name, queues, rx_ring, mode, .. } = &self.config;
        let receive = match mode {
            Mode::V2 => "one packet at a time (TPACKET_V2)",
            Mode::V3 => "in blocks (TPACKET_V3)",
        };
        let stack = match &self.stack {
            Stack::KeptOut { .. } => "kept out".to_owned(),
            Stack::Shared => "shares the interface".to_owned(),
            Stack::Hears(e) => format!("receives too, because nftables could not be used: {e}"),
        };
        vec![
            self.port.describe(name),
            ("queues", queues.to_string()),
            ("receives", format!("{receive}, ring of {rx_ring} packets")),
            ("kernel's own stack", stack),
        ]
    }
}
