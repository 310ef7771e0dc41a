//! IPv6 (RFC 8200), its addresses (RFC 4291, scopes RFC 4007) and their mapping to Ethernet (RFC 2464).
//!
//! Addresses are numbers in host order, as in the tables, unless the type is [`Ipv6Addr`].

use std::net::Ipv6Addr;

use crate::checksum::{PseudoHeader, Sum};
use crate::field::{get16, get32, get128, put};
use crate::mac::Mac;

/// Minimum MTU of a link: every link can carry packets of this length without fragmentation (RFC 8200 section 5).
pub const MIN_MTU: u16 = 1280;
/// The network of valid link-local addresses, fe80::/64. The rest of fe80::/10 is not used (RFC 4291 section 2.5.6).
pub const LINK_LOCAL_NETWORK: u128 = 0xfe80 << 112;
/// All nodes on the link, ff02::1 (RFC 4291 section 2.7.1).
pub const ALL_NODES: u128 = 0xff02 << 112 | 1;
/// All routers on the link, ff02::2.
pub const ALL_ROUTERS: u128 = 0xff02 << 112 | 2;
/// All MLDv2 routers on the link, ff02::16 (RFC 3810 section 11).
pub const ALL_MLDV2_ROUTERS: u128 = 0xff02 << 112 | 0x16;
/// The first of the solicited-node groups, ff02::1:ff00:0/104.
const SOLICITED_NODE: u128 = 0xff02 << 112 | 0x1_ff00_0000;

/// Scopes of multicast addresses (RFC 4291 section 2.7, RFC 7346). A larger number is a wider scope.
pub mod scope {
    /// Within the node: never on a link.
    pub const INTERFACE: u8 = 1;
    /// Within the link: no router forwards it.
    pub const LINK: u8 = 2;
    /// The smallest scope that must be configured by an operator.
    pub const ADMIN: u8 = 4;
    /// Within a site.
    pub const SITE: u8 = 5;
    /// Within an organization.
    pub const ORGANIZATION: u8 = 8;
    /// Global.
    pub const GLOBAL: u8 = 14;
}

/// True for `::`, the source of a host without an address. It is never a destination and never forwarded (RFC
/// 4291 section 2.5.2).
#[inline(always)]
pub const fn is_unspecified(addr: u128) -> bool {
    addr == 0
}

/// True for `::1`, which is never on a link (RFC 4291 section 2.5.3).
#[inline(always)]
pub const fn is_loopback(addr: u128) -> bool {
    addr == 1
}

/// True for an IPv4-mapped address, ::ffff:0:0/96, which is used within a host and never on a link (RFC 4291
/// section 2.5.5.2, RFC 6890 section 2.2.3).
#[inline(always)]
pub const fn is_v4_mapped(addr: u128) -> bool {
    addr >> 32 == 0xffff
}

/// True for a multicast address, ff00::/8.
#[inline(always)]
pub const fn is_multicast(addr: u128) -> bool {
    addr >> 120 == 0xff
}

/// True for a link-local address, fe80::/10 (RFC 4291 section 2.5.6).
#[inline(always)]
pub const fn is_link_local(addr: u128) -> bool {
    addr >> 118 == 0xfe80 >> 6
}

/// True for a link-local address in which the 54 bits after the first ten are not all 0. Such an address is
/// invalid (RFC 4291 section 2.5.6).
#[inline(always)]
pub const fn is_bad_link_local(addr: u128) -> bool {
    is_link_local(addr) && ((addr >> 64) as u64) << 10 != 0
}

/// Returns the scope of a multicast address, see [`scope`]; undefined for other addresses.
#[inline(always)]
pub const fn multicast_scope(addr: u128) -> u8 {
    (addr >> 112) as u8 & 0xf
}

/// True for a multicast address of scope 0 (reserved) or 1 (interface-local): it must not occur on a link (RFC 4291 section 2.7).
#[inline(always)]
pub const fn is_node_group(addr: u128) -> bool {
    is_multicast(addr) && multicast_scope(addr) <= scope::INTERFACE
}

/// True if no router may forward a packet from or to this address: its scope is the link or less (RFC 4007
/// section 9, RFC 4291 sections 2.5.2 to 2.5.6 and 2.7).
#[inline(always)]
pub const fn stays_on_link(addr: u128) -> bool {
    is_link_local(addr) || addr <= 1 || (is_multicast(addr) && multicast_scope(addr) <= scope::LINK)
}

/// True if no packet may have this source: a multicast address, `::1`, or an IPv4-mapped address. `::` is
/// allowed, in packets that stay on the link.
#[inline(always)]
pub const fn is_martian_source(addr: u128) -> bool {
    // Nearly all sources have a nonzero upper half, so a single comparison excludes the last two.
    is_multicast(addr) || (addr >> 64 == 0 && (is_loopback(addr) || is_v4_mapped(addr)))
}

/// True if no packet on a link may have this destination: `::`, `::1`, an IPv4-mapped address, or a multicast address of scope 0 or 1.
#[inline(always)]
pub const fn is_martian_destination(addr: u128) -> bool {
    is_node_group(addr) || (addr >> 64 == 0 && (addr <= 1 || is_v4_mapped(addr)))
}

/// Returns the solicited-node group of `addr`, to which solicitations for its Ethernet address are sent (RFC
/// 4291 section 2.7.1).
#[inline(always)]
pub const fn solicited_node(addr: u128) -> u128 {
    SOLICITED_NODE | addr & 0xff_ffff
}

/// True if `addr` is a solicited-node group, ff02::1:ff00:0/104.
#[inline(always)]
pub const fn is_solicited_node(addr: u128) -> bool {
    addr >> 24 == SOLICITED_NODE >> 24
}

/// Returns the Ethernet address for packets to a multicast group (RFC 2464 section 7).
#[inline(always)]
pub const fn multicast_mac(group: u128) -> Mac {
    let [a, b, c, d] = (group as u32).to_be_bytes();
    Mac([0x33, 0x33, a, b, c, d])
}

/// Returns the interface identifier for an Ethernet address: the lower half of an IPv6 address (RFC 4291
/// appendix A).
#[inline(always)]
pub const fn interface_id(mac: Mac) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// Returns the link-local address of an interface with this Ethernet address (RFC 4862 section 5.3).
#[inline(always)]
pub const fn link_local(mac: Mac) -> u128 {
    LINK_LOCAL_NETWORK | interface_id(mac) as u128
}

header! {
    /// The fixed part of an IPv6 header. [`next_header`](Ipv6Header::next_header) names the next protocol,
    /// which may be an [extension header](crate::extension).
    Ipv6Header, 40
}

impl Ipv6Header {
    /// Returns a header with hop limit 64, for a payload of `payload_len` bytes.
    ///
    /// The caller must check beforehand that the payload fits into a packet. Otherwise the header gets the
    /// maximum length.
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

    /// Traffic class: DSCP and ECN, like the type of service of IPv4.
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

    /// Number of bytes after this header, extension headers included. 0 in a jumbogram (RFC 2675), which this
    /// router does not accept.
    #[inline(always)]
    pub const fn payload_len(&self) -> u16 {
        get16::<4, _>(&self.0)
    }

    /// Length of this header and its payload, in bytes.
    #[inline(always)]
    pub const fn total_len(&self) -> usize {
        Self::LEN + self.payload_len() as usize
    }

    /// The next protocol, see [`protocol`](crate::protocol).
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

    /// Returns the sum of the pseudo header for `length` bytes of the upper layer with the number `protocol`.
    /// This number differs from the header's next header if there are extension headers.
    #[inline(always)]
    pub const fn pseudo_sum(&self, protocol: u8, length: u32) -> Sum {
        Sum::of_ipv6_pseudo(self.src_u128(), self.dst_u128(), protocol, length)
    }

    /// Decrements the hop limit, which must be at least 1. There is no checksum to update.
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

    /// Sets the flow label; only the lower 20 bits are used.
    #[inline(always)]
    pub fn set_flow_label(&mut self, label: u32) {
        let word = get32::<0, _>(&self.0) & 0xfff0_0000 | label & 0xf_ffff;
        put::<0, 4, _>(&mut self.0, word.to_be_bytes());
    }

    /// Sets the number of bytes after this header.
    #[inline(always)]
    pub fn set_payload_len(&mut self, len: u16) {
        put::<4, 2, _>(&mut self.0, len.to_be_bytes());
    }

    /// Sets the next protocol.
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
