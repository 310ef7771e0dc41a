//! `af_packet`: a network interface of the kernel, by packet sockets (`packet(7)`).
//!
//! Packets come through a ring that is shared with the kernel (`ring.rs`) and go by `sendmmsg` (`tx.rs`). Both ways each
//! carries a virtio header, so that segments that are to be cut and checksums that are to be completed can be passed
//! on as they are: a host at the other end of a veth pair hands over up to 64 KiB at once.
//!
//! While it is open, the kernel's own stack hears nothing of the interface, unless it is [`shared`](Config::shared).
//! All that is set up goes with the sockets, so that a killed process leaves nothing behind, with two exceptions, which
//! are the [guardian](crate::guardian)'s matter: an interface that was down, and an MTU that was raised. The interface's
//! Ethernet address is never changed: it listens to all addresses meanwhile.

mod open;
mod ring;
mod rx;
mod tx;

use std::io;

pub(crate) use open::INPUT_NODE;
pub use open::open;

pub use crate::kernel::port::OpenError;

use crate::device::{DeviceControl, Link};
use crate::guardian::Guardian;
use crate::kernel::claim::Claim;
use crate::kernel::netdev::numa_node;
use crate::kernel::port::Port;

/// How packets are received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// One by one (TPACKET_V2): a lone packet is there at once.
    #[default]
    V2,
    /// In blocks (TPACKET_V3), for throughput: a lone packet waits for a millisecond.
    V3,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Name of the interface, in the calling thread's network namespace.
    pub name: String,
    /// Queues each way, at least 1; flows are spread over the receive queues.
    pub queues: usize,
    /// Packets that a receive ring holds.
    pub rx_ring: usize,
    /// How packets are received.
    pub mode: Mode,
    /// Whether the kernel's own stack goes on using the interface as well.
    pub shared: bool,
    /// Whether to take the interface even if the machine's default route leaves by it.
    pub force: bool,
    /// The Ethernet address to use in place of the interface's own.
    pub mac: Option<[u8; 6]>,
}

impl Config {
    /// The interface of this name, with one queue each way and a ring of 2,048 packets.
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

/// Whether the kernel's own stack hears the interface too.
enum Stack {
    KeptOut {
        _claim: Claim,
    },
    Shared,
    /// It should not, but this error kept us from it.
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
            Mode::V2 => "one by one (TPACKET_V2)",
            Mode::V3 => "in blocks (TPACKET_V3)",
        };
        let stack = match &self.stack {
            Stack::KeptOut { .. } => "kept out".to_owned(),
            Stack::Shared => "shares the interface".to_owned(),
            Stack::Hears(e) => format!("hears the interface too, because nftables could not be used: {e}"),
        };
        vec![
            self.port.describe(name),
            ("queues", queues.to_string()),
            ("receives", format!("{receive}, ring of {rx_ring} packets")),
            ("kernel's own stack", stack),
        ]
    }
}
