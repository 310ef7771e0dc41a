//! State of sockets and interfaces, for display.

use std::path::PathBuf;

use super::{Entry, Socket, Sockets};
use crate::memif::Config;
use crate::memif::ring::{self, RingState};

/// State of a socket, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketState {
    /// The ID of the socket.
    pub id: u32,
    /// The path of the socket.
    pub path: PathBuf,
    /// True if this router listens on the socket.
    pub listens: bool,
    /// Number of interfaces on the socket.
    pub interfaces: usize,
    /// Number of this router's threads that hang while the kernel closes files of disconnected peers.
    pub lingering: usize,
}

/// State of an interface, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceState {
    /// The configuration of the interface.
    pub config: Config,
    /// True if the interface is set up.
    pub up: bool,
    /// True if packets can pass.
    pub connected: bool,
    /// Name of the peer's program, as the peer has sent it; empty without a peer.
    pub peer: String,
    /// Name of the peer's interface, as the peer has sent it.
    pub peer_interface: String,
    /// Size in bytes of each memory region.
    pub regions: Vec<u64>,
    /// The reason why the interface is not connected, why the last connection ended, or why the last client was refused; `None` while
    /// connected, and before there is a reason.
    pub reason: Option<String>,
    /// The rings of the interface.
    pub rings: Vec<RingShown>,
}

/// State of a ring, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingShown {
    /// True if the router receives packets from the ring.
    pub receives: bool,
    /// The ring's number among the rings of this direction.
    pub number: usize,
    /// The indices of the ring.
    pub state: RingState,
    /// Flags, region, length and offset of each descriptor, if requested.
    pub descriptors: Vec<(u16, u16, u32, u32)>,
}

impl Sockets {
    /// Returns the state of all sockets.
    pub fn sockets(&self) -> Vec<SocketState> {
        let state = |(id, s): (&u32, &Socket)| SocketState {
            id: *id,
            path: s.path.clone(),
            listens: s.listener.is_some(),
            interfaces: self.interfaces.keys().filter(|(socket, _)| socket == id).count(),
            lingering: self.lingering(*id),
        };
        self.sockets.iter().map(state).collect()
    }

    /// Returns the state of all interfaces, or of the one with this name; with descriptors if requested.
    pub fn interfaces(&self, name: Option<&str>, descriptors: bool) -> Vec<InterfaceState> {
        let wanted = |e: &&Entry| name.is_none_or(|n| n == e.shared.config.name());
        let state = |e: &Entry| {
            let shown = |(receives, number, ring): (bool, usize, ring::Memory)| {
                let list = if descriptors { ring.descriptors() } else { Vec::new() };
                RingShown { receives, number, state: ring.state(), descriptors: list }
            };
            let mut rings: Vec<RingShown> = e.shared.rings().into_iter().map(shown).collect();
            rings.sort_by_key(|r| (!r.receives, r.number));
            InterfaceState {
                config: e.shared.config.clone(),
                up: e.shared.is_up(),
                connected: e.shared.is_connected(),
                peer: e.peer.clone(),
                peer_interface: e.peer_interface.clone(),
                regions: e.regions.clone(),
                reason: e.reason.clone().filter(|_| !e.shared.is_connected()),
                rings,
            }
        };
        self.interfaces.values().filter(wanted).map(state).collect()
    }
}
