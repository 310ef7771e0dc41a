//! IPv6 (RFC 8200), its addresses (RFC 4291, scopes RFC 4007) and what Ethernet makes of them (RFC 2464).
//!
//! Addresses are numbers in host order, as the tables have them, where nothing is said of [`Ipv6Addr`].

use std::net::Ipv6Addr;

use crate::checksum::{PseudoHeader, Sum};
use crate::field::{get16, get32, get128, put};
use crate::mac::Mac;

/// The smallest MTU of a link: what every link carries in one piece (RFC 8200 section 5).
pub const MIN_MTU: u16 = 1280;
/// The network of all link-local addresses, fe80::/64 of fe80::/10 (RFC 4291 section 2.5.6).
pub const LINK_LOCAL_NETWORK: u128 = 0xfe80 << 112;
/// All nodes on the link, ff02::1 (RFC 4291 section 2.7.1).
pub const ALL_NODES: u128 = 0xff02 << 112 | 1;
/// All routers on the link, ff02::2.
pub const ALL_ROUTERS: u128 = 0xff02 << 112 | 2;
/// All routers on the link that speak MLDv2, ff02::16 (RFC 3810 section 11).
pub const ALL_MLDV2_ROUTERS: u128 = 0xff02 << 112 | 0x16;
/// The first of the solicited-node groups, ff02::1:ff00:0/104.
const SOLICITED_NODE: u128 = 0xff02 << 112 | 0x1_ff00_0000;

/// How far a group reaches (RFC 4291 section 2.7, RFC 7346); the numbers grow with the distance.
pub mod scope {
    /// Within the node: never on a link.
    pub const INTERFACE: u8 = 1;
    /// Within the link: no router forwards it.
    pub const LINK: u8 = 2;
    /// The smallest that an operator has to set up.
    pub const ADMIN: u8 = 4;
    /// Within a site.
    pub const SITE: u8 = 5;
    /// Within an organisation.
    pub const ORGANISATION: u8 = 8;
    /// Everywhere.
    pub const GLOBAL: u8 = 14;
}

/// Whether this is `::`, the source of a host that has no address yet; never a destination, and never to be forwarded
/// (RFC 4291 section 2.5.2).
#[inline(always)]
pub const fn is_unspecified(addr: u128) -> bool {
    addr == 0
}

/// Whether this is `::1`, which is never on a link (RFC 4291 section 2.5.3).
#[inline(always)]
pub const fn is_loopback(addr: u128) -> bool {
    addr == 1
}

/// Whether this stands for an IPv4 address within a host, ::ffff:0:0/96: never on a link (RFC 4291 section 2.5.5.2, RFC
/// 6890 section 2.2.3).
#[inline(always)]
pub const fn is_v4_mapped(addr: u128) -> bool {
    addr >> 32 == 0xffff
}

/// Whether this is a group address, ff00::/8.
#[inline(always)]
pub const fn is_multicast(addr: u128) -> bool {
    addr >> 120 == 0xff
}

/// Whether this means one host of its link only, fe80::/10 (RFC 4291 section 2.5.6).
#[inline(always)]
pub const fn is_link_local(addr: u128) -> bool {
    addr >> 118 == 0xfe80 >> 6
}

/// Whether this is link-local but no host's: the 54 bits behind the first ten must be 0 (RFC 4291 section 2.5.6).
#[inline(always)]
pub const fn is_bad_link_local(addr: u128) -> bool {
    is_link_local(addr) && ((addr >> 64) as u64) << 10 != 0
}

/// How far a group reaches, see [`scope`]; of an address that is no group nothing that makes sense.
#[inline(always)]
pub const fn multicast_scope(addr: u128) -> u8 {
    (addr >> 112) as u8 & 0xf
}

/// Whether this group is within a node, or reserved: no packet to it may be on a link (RFC 4291 section 2.7).
#[inline(always)]
pub const fn is_node_group(addr: u128) -> bool {
    is_multicast(addr) && multicast_scope(addr) <= scope::INTERFACE
}

/// Whether no router may forward a packet from or to this address: its scope ends at the link, or before it (RFC 4007
/// section 9, RFC 4291 sections 2.5.2 to 2.5.6 and 2.7).
#[inline(always)]
pub const fn stays_on_link(addr: u128) -> bool {
    is_link_local(addr) || addr <= 1 || (is_multicast(addr) && multicast_scope(addr) <= scope::LINK)
}

/// Whether no packet may come from this source: a group, `::1`, or an IPv4 address in disguise. `::` may be one, of a
/// packet that goes no further than the link.
#[inline(always)]
pub const fn is_martian_source(addr: u128) -> bool {
    // Nearly all sources have something in their upper half, so that one comparison settles the last two.
    is_multicast(addr) || (addr >> 64 == 0 && (is_loopback(addr) || is_v4_mapped(addr)))
}

/// Whether no packet on a link may be for this destination: `::`, `::1`, an IPv4 address in disguise, or a group
/// within a node.
#[inline(always)]
pub const fn is_martian_destination(addr: u128) -> bool {
    is_node_group(addr) || (addr >> 64 == 0 && (addr <= 1 || is_v4_mapped(addr)))
}

/// The group that whoever has `addr` has joined, to be asked for its Ethernet address (RFC 4291 section 2.7.1).
#[inline(always)]
pub const fn solicited_node(addr: u128) -> u128 {
    SOLICITED_NODE | addr & 0xff_ffff
}

/// Whether this is the solicited-node group of some address.
#[inline(always)]
pub const fn is_solicited_node(addr: u128) -> bool {
    addr >> 24 == SOLICITED_NODE >> 24
}

/// The Ethernet address that packets to a group are sent to (RFC 2464 section 7).
#[inline(always)]
pub const fn multicast_mac(group: u128) -> Mac {
    let [a, b, c, d] = (group as u32).to_be_bytes();
    Mac([0x33, 0x33, a, b, c, d])
}

/// The interface identifier made of an Ethernet address, for the lower half of an address (RFC 4291 appendix A).
#[inline(always)]
pub const fn interface_id(mac: Mac) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// The link-local address of an interface with this Ethernet address (RFC 4862 section 5.3).
#[inline(always)]
pub const fn link_local(mac: Mac) -> u128 {
    LINK_LOCAL_NETWORK | interface_id(mac) as u128
}

header! {
    /// The fixed part of an IPv6 header; what follows it [`next_header`](Ipv6Header::next_header) says, which may be
    /// an [extension header](crate::extension).
    Ipv6Header, 40
}

impl Ipv6Header {
    /// A header with hop limit 64 in front of `payload_len` bytes.
    ///
    /// A payload longer than a packet can carry gives the largest length there is: check before.
    pub fn new(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, payload_len: usize) -> Self {
        let mut h = Self::zeroed();
        h.0[0] = 0x60;
        h.set_payload_len(u16::try_from(payload_len).unwrap_or(u16::MAX));
        h.set_next_header(next_header);
        h.set_hop_limit(64);
        h.set_src(src);
        h.set_dst(dst);
        h
    }

    /// IP version; 6 in a valid header.
    #[inline(always)]
    pub const fn version(&self) -> u8 {
        self.0[0] >> 4
    }

    /// Traffic class: DSCP and ECN, as the type of service of IPv4.
    #[inline(always)]
    pub const fn traffic_class(&self) -> u8 {
        (get16::<0, _>(&self.0) >> 4) as u8
    }

    /// Differentiated services code point (RFC 2474).
    #[inline(always)]
    pub const fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Explicit congestion notification: 0 not capable, 1 and 2 capable, 3 congestion experienced (RFC 3168).
    #[inline(always)]
    pub const fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Flow label, 20 bits (RFC 6437).
    #[inline(always)]
    pub const fn flow_label(&self) -> u32 {
        get32::<0, _>(&self.0) & 0xf_ffff
    }

    /// Bytes behind this header, those of extension headers included. 0 in a jumbogram (RFC 2675), which this router
    /// does not take.
    #[inline(always)]
    pub const fn payload_len(&self) -> u16 {
        get16::<4, _>(&self.0)
    }

    /// Length of this header and what it says to be behind it, in bytes.
    #[inline(always)]
    pub const fn total_len(&self) -> usize {
        Self::LEN + self.payload_len() as usize
    }

    /// What follows, see [`protocol`](crate::protocol).
    #[inline(always)]
    pub const fn next_header(&self) -> u8 {
        self.0[6]
    }

    /// Hop limit, in hops.
    #[inline(always)]
    pub const fn hop_limit(&self) -> u8 {
        self.0[7]
    }

    /// Source address.
    #[inline(always)]
    pub const fn src(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.src_u128())
    }

    /// Source address in host order.
    #[inline(always)]
    pub const fn src_u128(&self) -> u128 {
        get128::<8, _>(&self.0)
    }

    /// Destination address.
    #[inline(always)]
    pub const fn dst(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.dst_u128())
    }

    /// Destination address in host order.
    #[inline(always)]
    pub const fn dst_u128(&self) -> u128 {
        get128::<24, _>(&self.0)
    }

    /// The sum of the pseudo header for `length` bytes of an upper layer, whose protocol is not what this header says
    /// when there are extension headers between.
    #[inline(always)]
    pub const fn pseudo_sum(&self, protocol: u8, length: u32) -> Sum {
        Sum::of_ipv6_pseudo(self.src_u128(), self.dst_u128(), protocol, length)
    }

    /// Counts the hop limit down, which must be at least 1. There is no checksum to follow.
    #[inline(always)]
    pub fn decrement_hop_limit(&mut self) {
        self.set_hop_limit(self.hop_limit().wrapping_sub(1));
    }

    /// Sets the traffic class.
    #[inline(always)]
    pub fn set_traffic_class(&mut self, class: u8) {
        let word = get16::<0, _>(&self.0) & 0xf00f | (class as u16) << 4;
        put::<0, 2, _>(&mut self.0, word.to_be_bytes());
    }

    /// Sets the flow label, of which the lower 20 bits count.
    #[inline(always)]
    pub fn set_flow_label(&mut self, label: u32) {
        let word = get32::<0, _>(&self.0) & 0xfff0_0000 | label & 0xf_ffff;
        put::<0, 4, _>(&mut self.0, word.to_be_bytes());
    }

    /// Sets the bytes behind this header.
    #[inline(always)]
    pub fn set_payload_len(&mut self, len: u16) {
        put::<4, 2, _>(&mut self.0, len.to_be_bytes());
    }

    /// Sets what follows.
    #[inline(always)]
    pub fn set_next_header(&mut self, protocol: u8) {
        self.0[6] = protocol;
    }

    /// Sets the hop limit.
    #[inline(always)]
    pub fn set_hop_limit(&mut self, hops: u8) {
        self.0[7] = hops;
    }

    /// Sets the source address.
    #[inline(always)]
    pub fn set_src(&mut self, addr: Ipv6Addr) {
        put::<8, 16, _>(&mut self.0, addr.octets());
    }

    /// Sets the destination address.
    #[inline(always)]
    pub fn set_dst(&mut self, addr: Ipv6Addr) {
        put::<24, 16, _>(&mut self.0, addr.octets());
    }
}

impl PseudoHeader for Ipv6Header {
    const UDP_CHECKSUM_OPTIONAL: bool = false;

    #[inline(always)]
    fn pseudo_header(&self, protocol: u8, length: u32) -> Sum {
        self.pseudo_sum(protocol, length)
    }
}
