//! Messages about next hops between workers and the main thread. Each message is a small packet.
//!
//! The packet's transmit interface is the interface of the next hop.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use buf::Packet;

use crate::ip::Ip;

/// Writes a next hop's address to `room`, and returns the 4 or 16 bytes written.
fn to_bytes(next_hop: IpAddr, room: &mut [u8; 16]) -> &[u8] {
    match next_hop {
        IpAddr::V4(a) => {
            let [front @ .., _, _, _, _, _, _, _, _, _, _, _, _] = room;
            *front = a.octets();
            front
        }
        IpAddr::V6(a) => {
            *room = a.octets();
            room
        }
    }
}

fn from_bytes(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(octets).into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|octets| Ipv6Addr::from(octets).into())
}

/// Writes a worker's request to resolve a next hop on an interface.
pub fn write_ask(p: &mut Packet<'_>, interface: u32, next_hop: impl Into<IpAddr>) {
    p.set_tx_if(interface);
    p.fill(to_bytes(next_hop.into(), &mut [0; 16]));
}

/// Reads the interface and the next hop of a worker's request; `None` if the next hop is of another family
/// than `A`.
pub fn read_ask<A: Ip>(p: &Packet<'_>) -> Option<(u32, A)> {
    Some((p.tx_if(), A::of(from_bytes(p.bytes())?)?))
}

/// Result of resolving a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The next hop is resolved: the packets that wait for it are sent.
    Resolved,
    /// The next hop does not answer: the packets that wait for it are dropped, and their sources get ICMP
    /// errors.
    Failed,
}

/// Message from the main thread to the nodes that release waiting packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Release the packets that wait for this next hop.
    Hop(IpAddr, Outcome),
    /// Drop the packets that have waited too long.
    Sweep,
}

impl Release {
    /// Returns the message as bytes: its kind, then the next hop.
    pub fn to_bytes(self) -> Vec<u8> {
        let (what, next_hop) = match self {
            Release::Hop(next_hop, Outcome::Resolved) => (1, Some(next_hop)),
            Release::Hop(next_hop, Outcome::Failed) => (2, Some(next_hop)),
            Release::Sweep => (3, None),
        };
        let mut bytes = vec![what];
        bytes.extend(next_hop.iter().flat_map(|a| to_bytes(*a, &mut [0; 16]).to_vec()));
        bytes
    }

    /// The inverse of [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(bytes: &[u8]) -> Option<Release> {
        let (what, next_hop) = bytes.split_first()?;
        match what {
            1 => Some(Release::Hop(from_bytes(next_hop)?, Outcome::Resolved)),
            2 => Some(Release::Hop(from_bytes(next_hop)?, Outcome::Failed)),
            3 => Some(Release::Sweep),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parsed_as_they_were_built() {
        let hops: [IpAddr; 2] = ["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        for hop in hops {
            for message in
                [Release::Hop(hop, Outcome::Resolved), Release::Hop(hop, Outcome::Failed), Release::Sweep]
            {
                assert_eq!(Release::from_bytes(&message.to_bytes()), Some(message));
            }
        }
        assert_eq!((Release::from_bytes(&[]), Release::from_bytes(&[1, 2, 3])), (None, None));
    }
}
