//! Differences between IPv4 neighbors (ARP) and IPv6 neighbors (Neighbor Discovery).

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::Mac;
use wire::ipv6;

use super::config::Config;
use crate::ip::Packets;

const SECOND: u64 = 1_000_000_000;

/// An address family, with the constants of its neighbor protocol.
pub trait Family: Packets {
    /// The lowest address.
    const FIRST: Self;
    /// The highest address.
    const LAST: Self;
    /// The default limits.
    const CONFIG: Config;
    /// True if the table follows neighbor unreachability detection (RFC 4861 section 7.3): an old entry is
    /// probed only when it is used. If false, an old entry is probed immediately.
    const NUD: bool;
    /// Time between two announcements of an address in nanoseconds.
    const ANNOUNCE_INTERVAL: u64;

    /// Returns the destination of an answer to `sender`. With IPv6, this is the all-nodes group if the sender
    /// has no IP address yet.
    fn answered(sender: (Mac, Self)) -> (Mac, Self);
}

impl Family for Ipv4Addr {
    const FIRST: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
    const LAST: Ipv4Addr = Ipv4Addr::BROADCAST;
    const CONFIG: Config = Config::ARP;
    const NUD: bool = false;
    // RFC 5227 section 1.1.
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
    // RETRANS_TIMER of RFC 4861 section 10.
    const ANNOUNCE_INTERVAL: u64 = SECOND;

    fn answered(sender: (Mac, Ipv6Addr)) -> (Mac, Ipv6Addr) {
        // RFC 4861 section 7.2.4.
        let all = || (ipv6::multicast_mac(ipv6::ALL_NODES), Ipv6Addr::from_bits(ipv6::ALL_NODES));
        if sender.1.is_unspecified() { all() } else { sender }
    }
}
