//! `memif`: packets by shared memory, to another program on this machine.
//!
//! Two programs connect by a UNIX socket, the *server* ("master") listens, the *client* ("slave") brings memory, rings in
//! it, and event descriptors by which each wakes the other. After that packets pass without system calls. The protocol is
//! version 2.0, which VPP, DPDK (`net_memif`) and libmemif speak.
//!
//! * The control channel: `message.rs` has the messages, `server.rs` and `client.rs` what each side does, without I/O;
//!   `channel.rs` the sockets; `sockets/` ([`Sockets`]) drives it all on the main thread.
//! * The data plane: `region.rs` the shared memory, `ring.rs` the rings in it, `rx.rs` and `tx.rs` the queues of workers,
//!   `lending.rs` what packets without copies need,
//!   `shared.rs` what both threads know, `signal.rs` how peers are woken; `tester.rs` ([`Tester`]) is a load generator.
//!
//! The peer may be anybody. Whatever it writes is copied out once, checked, and used from the copy; what it gets wrong costs it
//! the connection, or the packet. One whose interface is [`trusted`](Config::trusted) may besides bring memory that it could
//! take away again, which would kill this process; or it shares the router's own, and nothing is copied.

mod bell;
mod channel;
mod client;
mod lending;
mod message;
mod patience;
mod preparing;
mod region;
mod ring;
mod rx;
mod server;
mod shared;
mod signal;
mod sockets;
mod tester;
mod tx;

#[cfg(test)]
mod lending_tests;
#[cfg(test)]
mod protocol_tests;
#[cfg(all(test, not(miri)))]
mod region_tests;
#[cfg(test)]
mod ring_tests;

use std::fmt;

use message::Direction;
pub use message::SECRET_LEN;
pub use ring::RingState;
pub use sockets::{InterfaceState, OpenError, RingShown, SocketState, Sockets};
pub use tester::Tester;

/// Name of the node that polls these devices.
pub(crate) const INPUT_NODE: &str = "memif-input";
/// What this program calls itself.
const NAME: &str = concat!("Volley ", env!("CARGO_PKG_VERSION"));
const SECOND: u64 = 1_000_000_000;
/// Binary logarithm of the most descriptors of a ring.
const MAX_LOG2_RING: u8 = 14;
/// The largest network packet at first, in bytes; what VPP has.
const MEMIF_MTU: u16 = 9000;
/// Queues that an interface may have each way.
const MAX_QUEUES: usize = 64;
/// Bytes that a client's buffers may have.
const BUFFER_SIZES: std::ops::RangeInclusive<u32> = 64..=65_536;

/// Which side of a connection an interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The one that listens ("master").
    Server,
    /// The one that connects, and brings the memory ("slave").
    Client,
}

/// What a client has to know so that the server accepts it, 1 to 24 bytes. It is not shown where it might end in a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret.
    ///
    /// # Errors
    /// When it is empty, too long, or has a zero byte.
    pub fn new(text: impl Into<String>) -> Result<Secret, String> {
        let text = text.into();
        match text.len() {
            0 => Err("a secret has one character at least".into()),
            n if n > SECRET_LEN => Err(format!("a secret has {SECRET_LEN} bytes at most, and this has {n}")),
            _ if text.contains('\0') => Err("a secret has no zero bytes".into()),
            _ => Ok(Secret(text)),
        }
    }

    /// The secret itself, for the operator's configuration.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn bytes(&self) -> [u8; SECRET_LEN] {
        let mut all = [0; SECRET_LEN];
        all[..self.0.len()].copy_from_slice(self.0.as_bytes());
        all
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of the socket.
    pub socket: u32,
    /// Number of the interface on its socket, the same on both sides.
    pub id: u32,
    /// Which side it is.
    pub role: Role,
    /// Queues that packets come in by. A server's client may have another number of rings: they are spread over the queues.
    pub rx_queues: usize,
    /// Queues that packets go out by.
    pub tx_queues: usize,
    /// Packets that a ring holds, a power of two. A server takes what its client has.
    pub ring_size: u16,
    /// Bytes of a buffer; larger packets take several. A server takes what its client has.
    pub buffer_size: u32,
    /// What a client has to know.
    pub secret: Option<Secret>,
    /// Whether the peer is believed to do no harm. A server's may bring memory that it can take away again, which would kill
    /// this process. A client's shares all buffers of the router, where packets are not copied then.
    pub trusted: bool,
}

impl Config {
    /// An interface with one queue each way of 1,024 packets, and buffers of 2,048 bytes.
    pub fn new(socket: u32, id: u32, role: Role) -> Config {
        Config {
            socket,
            id,
            role,
            rx_queues: 1,
            tx_queues: 1,
            ring_size: 1024,
            buffer_size: 2048,
            secret: None,
            trusted: false,
        }
    }

    /// Name of the interface: `memifSOCKET/ID`.
    pub fn name(&self) -> String {
        format!("memif{}/{}", self.socket, self.id)
    }

    /// Whether there can be such an interface.
    ///
    /// # Errors
    /// What there cannot be.
    pub fn check(&self) -> Result<(), String> {
        let queues = 1..=MAX_QUEUES;
        if !queues.contains(&self.rx_queues) || !queues.contains(&self.tx_queues) {
            return Err(format!(
                "there can be 1 to {MAX_QUEUES} queues each way, not {} to receive and {} to transmit",
                self.rx_queues, self.tx_queues
            ));
        }
        let most = 1u16 << MAX_LOG2_RING;
        if !self.ring_size.is_power_of_two() || !(2..=most).contains(&self.ring_size) {
            return Err(format!("a ring has a power of two of packets, 2 to {most}, not {}", self.ring_size));
        }
        if !BUFFER_SIZES.contains(&self.buffer_size) || !self.buffer_size.is_multiple_of(64) {
            return Err(format!(
                "a buffer has a multiple of 64 bytes, {} to {}, not {}",
                BUFFER_SIZES.start(),
                BUFFER_SIZES.end(),
                self.buffer_size
            ));
        }
        let (len, most) = (self.layout().len() as u64, region::MOST);
        if self.role == Role::Client && !self.trusted && len > most {
            return Err(format!(
                "rings and buffers would take {} MiB, and can take {} MiB",
                len >> 20,
                most >> 20
            ));
        }
        Ok(())
    }

    /// Whether packets lie in the router's own buffers, and are not copied.
    pub fn lends(&self) -> bool {
        self.trusted && self.role == Role::Client
    }

    fn layout(&self) -> Layout {
        let (rx, tx) = (self.rx_queues as u16, self.tx_queues as u16);
        let (to_server, to_client) = if self.role == Role::Client { (tx, rx) } else { (rx, tx) };
        let log2_ring = self.ring_size.trailing_zeros() as u8;
        Layout { to_server, to_client, log2_ring, buffer_size: self.buffer_size }
    }
}

/// How a client's memory is laid out: all rings, those to the server first, then the buffers of each in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    to_server: u16,
    to_client: u16,
    log2_ring: u8,
    buffer_size: u32,
}

impl Layout {
    /// All rings: direction, number and place.
    fn rings(self) -> impl Iterator<Item = (Direction, u16, u32)> {
        let of = |direction, n| (0..n).map(move |i| (direction, i));
        of(Direction::ToServer, self.to_server)
            .chain(of(Direction::ToClient, self.to_client))
            .map(move |(direction, i)| (direction, i, self.ring_offset(direction, i) as u32))
    }

    /// Place of a ring among all rings.
    fn place(&self, direction: Direction, number: u16) -> usize {
        usize::from(number) + if direction == Direction::ToServer { 0 } else { self.to_server.into() }
    }

    fn ring_offset(&self, direction: Direction, number: u16) -> usize {
        // Each ring begins with a cache line of its own.
        self.place(direction, number) * ring::ring_len(self.log2_ring).next_multiple_of(64)
    }

    /// Where the buffers of a ring begin.
    fn buffer_offset(&self, direction: Direction, number: u16) -> usize {
        self.rings_len() + (self.place(direction, number) << self.log2_ring) * self.stride()
    }

    /// Bytes of all rings.
    fn rings_len(&self) -> usize {
        let rings = usize::from(self.to_server) + usize::from(self.to_client);
        (rings * ring::ring_len(self.log2_ring).next_multiple_of(64)).next_multiple_of(4096)
    }

    /// Bytes from one buffer to the next: an odd number of cache lines, so that the first lines of all do not share a few
    /// sets of the caches.
    fn stride(&self) -> usize {
        ((self.buffer_size as usize / 64) | 1) * 64
    }

    /// Bytes of it all.
    fn len(&self) -> usize {
        self.buffer_offset(Direction::ToClient, self.to_client)
    }
}
