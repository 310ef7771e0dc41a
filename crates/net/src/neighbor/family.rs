//! What differs between the neighbours of IPv4, found by ARP, and those of IPv6, found by Neighbor Discovery.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::Mac;
use wire::ipv6;

use super::config::Config;
use crate::ip::Packets;

const SECOND: u64 = 1_000_000_000;

/// A family, and the constants of the protocol that finds out who has its addresses.
pub trait Family: Packets {
    /// The least address.
    const FIRST: Self;
    /// The greatest address.
    const LAST: Self;
    /// Bounds unless the operator says others.
    const CONFIG: Config;
    /// Whether a neighbour that was not heard of for a while is asked when it is used (neighbor unreachability detection,
    /// RFC 4861 section 7.3), or at once.
    const NUD: bool;
    /// How often an address is announced.
    const ANNOUNCEMENTS: u8;
    /// Time between two announcements of an address, nanoseconds.
    const ANNOUNCE_INTERVAL: u64;

    /// Whom an answer to `sender` goes to: everybody, when the sender has no address yet.
    fn answered(sender: (Mac, Self)) -> (Mac, Self);
}

impl Family for Ipv4Addr {
    const FIRST: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
    const LAST: Ipv4Addr = Ipv4Addr::BROADCAST;
    const CONFIG: Config = Config::ARP;
    const NUD: bool = false;
    // ANNOUNCE_NUM and ANNOUNCE_INTERVAL of RFC 5227 section 1.1.
    const ANNOUNCEMENTS: u8 = 2;
    const ANNOUNCE_INTERVAL: u64 = 2 * SECOND;

    fn answered(sender: (Mac, Ipv4Addr)) -> (Mac, Ipv4Addr) {
        sender
    }
}

impl Family for Ipv6Addr {
    const FIRST: Ipv6Addr = Ipv6Addr::UNSPECIFIED;
    const LAST: Ipv6Addr = Ipv6Addr::from_bits(u128::MAX);
    const CONFIG: Config = Config::ND;
    const NUD: bool = true;
    // MAX_NEIGHBOR_ADVERTISEMENT and RETRANS_TIMER of RFC 4861 section 10.
    const ANNOUNCEMENTS: u8 = 3;
    const ANNOUNCE_INTERVAL: u64 = SECOND;

    fn answered(sender: (Mac, Ipv6Addr)) -> (Mac, Ipv6Addr) {
        // RFC 4861 section 7.2.4.
        let all = || (ipv6::multicast_mac(ipv6::ALL_NODES), Ipv6Addr::from_bits(ipv6::ALL_NODES));
        if sender.1.is_unspecified() { all() } else { sender }
    }
}
