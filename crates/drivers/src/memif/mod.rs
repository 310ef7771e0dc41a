//! `memif`: packets over shared memory, to another program on this machine.
//!
//! Two programs connect over a UNIX socket. The *server* ("master") listens. The *client* ("slave") provides the memory, the rings in it,
//! and event descriptors by which each side wakes the other. Then packets pass without system calls. The protocol is version 2.0, as in
//! VPP, DPDK (`net_memif`) and libmemif.
//!
//! * The control channel: `message.rs` has the messages; `server.rs` and `client.rs` the state machines, without I/O;
//!   `channel/` the sockets. `sockets/` ([`Sockets`]) drives them on the main thread.
//! * The data plane: `region.rs` has the shared memory, `ring.rs` the rings in it, `rx.rs` and `tx.rs` the workers'
//!   queues, `lending.rs` packets without copies, `shared.rs` the state shared by the main thread and workers, and
//!   `signal.rs` wakes peers.
//! * `tester.rs` ([`Tester`]) is a load generator.
//!
//! The peer is untrusted. The router copies everything that the peer writes once, checks the copy, and uses only the copy. After an error
//! of the peer, the router ends the connection or drops the packet. A [`trusted`](Config::trusted) client may provide memory that it can
//! remove again, which would kill this process. With a trusted server, the router shares its own buffers, and packets are not copied.

mod bell;
mod channel;
mod client;
mod former;
mod lending;
mod message;
mod patience;
mod preparing;
mod region;
mod release;
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

/// Name of the input node that polls these devices.
pub const INPUT_NODE: &str = "memif-input";
/// This program's name in the protocol.
const NAME: &str = concat!("Volley ", env!("CARGO_PKG_VERSION"));
const SECOND: u64 = 1_000_000_000;
/// Binary logarithm of the largest ring size in descriptors.
const MAX_LOG2_RING: u8 = 14;
/// Default MTU in bytes, as in VPP.
const MEMIF_MTU: u16 = 9000;
/// Maximum number of queues of an interface in each direction.
const MAX_QUEUES: usize = 64;
/// Allowed buffer sizes of a client in bytes.
const BUFFER_SIZES: std::ops::RangeInclusive<u32> = 64..=65_536;

/// Role of one side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The server ("master"), which listens.
    Server,
    /// The client ("slave"), which connects and provides the memory.
    Client,
}

/// The secret that a client must know, 1 to 24 bytes. The `Debug` output hides the text, because the output may be logged.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Checks and wraps a secret.
    ///
    /// # Errors
    /// If it is empty, longer than 24 bytes, or contains a zero byte.
    pub fn new(text: impl Into<String>) -> Result<Secret, String> {
        let text = text.into();
        match text.len() {
            0 => Err("the secret is empty: use 1 to 24 bytes".into()),
            n if n > SECRET_LEN => Err(format!("the secret has {n} bytes, more than {SECRET_LEN}")),
            _ if text.contains('\0') => Err("the secret must not contain zero bytes".into()),
            _ => Ok(Secret(text)),
        }
    }

    /// Returns the secret, for the operator's configuration.
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

/// Configuration of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// ID of the socket.
    pub socket: u32,
    /// ID of the interface on its socket, the same on both sides.
    pub id: u32,
    /// Role of this side.
    pub role: Role,
    /// Number of receive queues. A client may have a different number of rings: the server spreads them over its queues.
    pub rx_queues: usize,
    /// Number of transmit queues.
    pub tx_queues: usize,
    /// Ring size in packets, a power of two. A server uses its client's size.
    pub ring_size: u16,
    /// Buffer size in bytes; larger packets take several buffers. A server uses its client's size.
    pub buffer_size: u32,
    /// The secret that the client sends and the server compares; `None` if none is needed.
    pub secret: Option<Secret>,
    /// True if the peer is trusted. A trusted client may provide memory that it can remove again, which would kill this process. A trusted
    /// server can write to all buffers of the router, and packets are not copied.
    pub trusted: bool,
}

impl Config {
    /// Returns the defaults: one queue in each direction, rings of 1,024 packets, and buffers of 2,048 bytes.
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

    /// Returns the interface's name: `memifSOCKET/ID`.
    pub fn name(&self) -> String {
        format!("memif{}/{}", self.socket, self.id)
    }

    /// Checks the configuration.
    ///
    /// # Errors
    /// Returns an error text that names the invalid setting.
    pub fn check(&self) -> Result<(), String> {
        let queues = 1..=MAX_QUEUES;
        if !queues.contains(&self.rx_queues) || !queues.contains(&self.tx_queues) {
            return Err(format!(
                "use 1 to {MAX_QUEUES} receive and transmit queues, not {} and {}",
                self.rx_queues, self.tx_queues
            ));
        }
        let most = 1u16 << MAX_LOG2_RING;
        if !self.ring_size.is_power_of_two() || !(2..=most).contains(&self.ring_size) {
            return Err(format!(
                "the ring size must be a power of two from 2 to {most}, not {}",
                self.ring_size
            ));
        }
        if !BUFFER_SIZES.contains(&self.buffer_size) || !self.buffer_size.is_multiple_of(64) {
            return Err(format!(
                "the buffer size must be a multiple of 64 from {} to {} bytes, not {}",
                BUFFER_SIZES.start(),
                BUFFER_SIZES.end(),
                self.buffer_size
            ));
        }
        let (len, most) = (self.layout().len() as u64, region::MOST);
        if self.role == Role::Client && !self.trusted && len > most {
            return Err(format!(
                "rings and buffers need {} MiB, more than {} MiB: use fewer or smaller rings",
                len >> 20,
                most >> 20
            ));
        }
        Ok(())
    }

    /// True if packets stay in the router's own buffers, without copies.
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

/// Layout of a client's memory: all rings, those to the server first, and then the buffers of the rings in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    to_server: u16,
    to_client: u16,
    log2_ring: u8,
    buffer_size: u32,
}

impl Layout {
    /// Returns all rings: direction, number and offset.
    fn rings(self) -> impl Iterator<Item = (Direction, u16, u32)> {
        let of = |direction, n| (0..n).map(move |i| (direction, i));
        of(Direction::ToServer, self.to_server)
            .chain(of(Direction::ToClient, self.to_client))
            .map(move |(direction, i)| (direction, i, self.ring_offset(direction, i) as u32))
    }

    /// Returns the index of a ring among all rings.
    fn place(&self, direction: Direction, number: u16) -> usize {
        usize::from(number) + if direction == Direction::ToServer { 0 } else { self.to_server.into() }
    }

    fn ring_offset(&self, direction: Direction, number: u16) -> usize {
        // Each ring starts on its own cache line.
        self.place(direction, number) * ring::ring_len(self.log2_ring).next_multiple_of(64)
    }

    /// Returns the offset of a ring's buffers from the start of the memory, in bytes.
    fn buffer_offset(&self, direction: Direction, number: u16) -> usize {
        self.rings_len() + (self.place(direction, number) << self.log2_ring) * self.stride()
    }

    /// Returns the size of all rings in bytes, rounded up to 4,096.
    fn rings_len(&self) -> usize {
        let rings = usize::from(self.to_server) + usize::from(self.to_client);
        (rings * ring::ring_len(self.log2_ring).next_multiple_of(64)).next_multiple_of(4096)
    }

    /// Returns the distance between buffers in bytes: an odd number of cache lines, so that the buffers' first lines
    /// spread over all cache sets.
    fn stride(&self) -> usize {
        ((self.buffer_size as usize / 64) | 1) * 64
    }

    /// Returns the size of the memory in bytes.
    fn len(&self) -> usize {
        self.buffer_offset(Direction::ToClient, self.to_client)
    }
}
