//! What the workers and the main thread tell each other about next hops, each in a small packet of its own.
//!
//! The interface is the packet's transmit interface.

use std::net::Ipv4Addr;

use buf::Packet;

/// A worker asks for the Ethernet address of a next hop.
pub fn write_ask(p: &mut Packet<'_>, interface: u32, next_hop: u32) {
    p.set_tx_if(interface);
    p.fill(&next_hop.to_be_bytes());
}

/// The interface and next hop that a worker asks for.
pub fn read_ask(p: &Packet<'_>) -> Option<(u32, Ipv4Addr)> {
    let bytes: [u8; 4] = p.bytes().try_into().ok()?;
    Some((p.tx_if(), Ipv4Addr::from(bytes)))
}

/// What became of a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is known how to reach it: packets that wait for it go on.
    Resolved,
    /// It does not answer: they are reported to their sources.
    Failed,
}

/// What the main thread tells `arp-release`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Packets for this next hop (host order) do not have to wait any more.
    Hop(u32, Outcome),
    /// Drop what has waited too long.
    Sweep,
}

impl Release {
    /// The packet's bytes: what, then the next hop.
    pub fn to_bytes(self) -> [u8; 5] {
        let (what, next_hop) = match self {
            Release::Hop(next_hop, Outcome::Resolved) => (1, next_hop),
            Release::Hop(next_hop, Outcome::Failed) => (2, next_hop),
            Release::Sweep => (3, 0),
        };
        let [a, b, c, d] = u32::to_be_bytes(next_hop);
        [what, a, b, c, d]
    }

    /// The inverse of [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(bytes: &[u8]) -> Option<Release> {
        let &[what, a, b, c, d] = bytes else { return None };
        let next_hop = u32::from_be_bytes([a, b, c, d]);
        match what {
            1 => Some(Release::Hop(next_hop, Outcome::Resolved)),
            2 => Some(Release::Hop(next_hop, Outcome::Failed)),
            3 => Some(Release::Sweep),
            _ => None,
        }
    }
}
