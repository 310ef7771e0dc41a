//! Sockets and interfaces as they are shown.

use std::path::PathBuf;

use super::{Entry, Socket, Sockets};
use crate::memif::Config;
use crate::memif::ring::{self, RingState};

/// A socket as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketState {
    /// Its number.
    pub id: u32,
    /// Its file.
    pub path: PathBuf,
    /// Whether this router listens on it.
    pub listens: bool,
    /// Interfaces on it.
    pub interfaces: usize,
    /// Threads of former peers that wait for a file to be closed.
    pub lingering: usize,
}

/// An interface as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceState {
    /// What was asked for.
    pub config: Config,
    /// Whether it is set up.
    pub up: bool,
    /// Whether packets pass.
    pub connected: bool,
    /// The peer's program, in its own words; empty while there is none.
    pub peer: String,
    /// The peer's interface, in its own words.
    pub peer_interface: String,
    /// Bytes of each region of memory.
    pub regions: Vec<u64>,
    /// Why it is not connected, or was not the last time.
    pub reason: Option<String>,
    /// Its rings.
    pub rings: Vec<RingShown>,
}

/// A ring as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingShown {
    /// Whether packets come in by it.
    pub receives: bool,
    /// Its number among those.
    pub number: usize,
    /// Its indices.
    pub state: RingState,
    /// Flags, region, length and offset of each descriptor, where they were asked for.
    pub descriptors: Vec<(u16, u16, u32, u32)>,
}

impl Sockets {
    /// All sockets.
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

    /// All interfaces, or the one of this name; with their descriptors if these are asked for.
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
