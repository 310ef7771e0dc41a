//! IPv4 (RFC 791; router requirements RFC 1812).

use std::net::Ipv4Addr;

use crate::checksum::{PseudoHeader, Sum};
use crate::field::{get, get16, get32, get64, put};

/// Protocols after an IP header. Both families use the same numbers.
pub mod protocol {
    /// Hop-by-hop options (RFC 8200 section 4.3), of IPv6.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP (RFC 792).
    pub const ICMP: u8 = 1;
    /// IGMP (RFC 2236).
    pub const IGMP: u8 = 2;
    /// IPv4 in IPv4 (RFC 2003).
    pub const IPIP: u8 = 4;
    /// TCP (RFC 9293).
    pub const TCP: u8 = 6;
    /// UDP (RFC 768).
    pub const UDP: u8 = 17;
    /// DCCP (RFC 4340).
    pub const DCCP: u8 = 33;
    /// IPv6 in IPv4 (RFC 4213).
    pub const IPV6: u8 = 41;
    /// A routing header (RFC 8200 section 4.4), of IPv6.
    pub const ROUTING: u8 = 43;
    /// A fragment header (RFC 8200 section 4.5), of IPv6.
    pub const FRAGMENT: u8 = 44;
    /// GRE (RFC 2784).
    pub const GRE: u8 = 47;
    /// ESP (RFC 4303).
    pub const ESP: u8 = 50;
    /// AH (RFC 4302).
    pub const AH: u8 = 51;
    /// ICMPv6 (RFC 4443).
    pub const ICMPV6: u8 = 58;
    /// No next header (RFC 8200 section 4.7).
    pub const NONE: u8 = 59;
    /// Destination options (RFC 8200 section 4.6), of IPv6.
    pub const DESTINATION_OPTIONS: u8 = 60;
    /// OSPF (RFC 2328).
    pub const OSPF: u8 = 89;
    /// VRRP (RFC 9568).
    pub const VRRP: u8 = 112;
    /// SCTP (RFC 9260).
    pub const SCTP: u8 = 132;
    /// A mobility header (RFC 6275), of IPv6.
    pub const MOBILITY: u8 = 135;
    /// UDP-Lite (RFC 3828).
    pub const UDP_LITE: u8 = 136;
    /// HIP (RFC 7401), of IPv6.
    pub const HIP: u8 = 139;
    /// Shim6 (RFC 5533), of IPv6.
    pub const SHIM6: u8 = 140;
    /// For experiments (RFC 3692).
    pub const EXPERIMENT: u8 = 253;

    /// True if the transport header begins with a source and a destination port of 16 bits each.
    #[inline(always)]
    pub const fn has_ports(protocol: u8) -> bool {
        matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
    }
}

/// Minimum MTU of a link: every router can forward packets of this length without fragmentation. Hosts must
/// accept packets of 576 bytes, whole or in fragments (RFC 791 section 3.2).
pub const MIN_MTU: u16 = 68;

/// True if no packet may have this source: loopback (127/8), multicast (224/4) and limited broadcast (RFC
/// 1812 sections 4.2.2.11 and 5.3.7). No other sources are martians, in particular not benchmark networks
/// (198.18/15).
#[inline(always)]
pub const fn is_martian_source(addr: u32) -> bool {
    // Nearly all sources are below 224/8, so a single comparison excludes the last two.
    addr >> 24 == 127 || (addr >> 28 >= 0xe && (addr >> 28 == 0xe || addr == u32::MAX))
}

/// True for a link-local address, 169.254/16, which is valid on one link only (RFC 3927).
#[inline(always)]
pub const fn is_link_local(addr: u32) -> bool {
    addr >> 16 == 0xa9fe
}

/// True for 0.0.0.0, the source of a host without an address (RFC 2131); it is never forwarded.
#[inline(always)]
pub const fn is_unspecified(addr: u32) -> bool {
    addr == 0
}

/// True for a multicast address, 224/4.
#[inline(always)]
pub const fn is_multicast(addr: u32) -> bool {
    addr >> 28 == 0xe
}

/// True for the limited broadcast address, 255.255.255.255.
#[inline(always)]
pub const fn is_broadcast(addr: u32) -> bool {
    addr == u32::MAX
}

/// True for a loopback address, 127/8.
#[inline(always)]
pub const fn is_loopback(addr: u32) -> bool {
    addr >> 24 == 127
}

/// The fixed part of an IPv4 header in three registers. Loading the words takes three instructions; loading each field separately takes
/// ten. The words are little-endian: a right shift by the bit offset of a one-byte field extracts that field.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4Words {
    first: u64,
    second: u64,
    dst: u32,
}

impl Ipv4Words {
    /// See [`Ipv4Header::version_ihl`].
    #[inline(always)]
    pub const fn version_ihl(self) -> u8 {
        self.first as u8
    }

    /// See [`Ipv4Header::total_len`].
    #[inline(always)]
    pub const fn total_len(self) -> u16 {
        ((self.first >> 16) as u16).swap_bytes()
    }

    /// Returns the first byte of the source address.
    #[inline(always)]
    pub const fn src_first(self) -> u8 {
        (self.second >> 32) as u8
    }

    /// See [`Ipv4Header::src_u32`].
    #[inline(always)]
    pub const fn src_u32(self) -> u32 {
        ((self.second >> 32) as u32).swap_bytes()
    }

    /// See [`Ipv4Header::dst_u32`].
    #[inline(always)]
    pub const fn dst_u32(self) -> u32 {
        self.dst.swap_bytes()
    }

    /// See [`Ipv4Header::checksum_ok`], for a header that is not all zeros.
    #[inline(always)]
    pub const fn checksum_ok(self) -> bool {
        // The words may be added in any width and byte order (RFC 1071, section 2), and must sum up to a
        // multiple of 0xffff. The product with the inverse of 0xffff modulo 2^64 is the quotient then, and
        // quotients are small.
        const INVERSE: u64 = 0xfffe_fffe_fffe_ffff;
        const _: () = assert!(INVERSE.wrapping_mul(0xffff) == 1);
        let low = u32::MAX as u64;
        let (a, b) = (self.first, self.second);
        let sum = (a >> 32) + (a & low) + (b >> 32) + (b & low) + self.dst as u64;
        sum.wrapping_mul(INVERSE) <= u64::MAX / 0xffff
    }
}

header! {
    /// The fixed part of an IPv4 header; options follow if [`header_len`](Ipv4Header::header_len) is more
    /// than 20.
    Ipv4Header, 20
}

impl Ipv4Header {
    /// Returns a header for a payload of `payload_len` bytes: without options, with TTL 64 and a correct
    /// checksum.
    ///
    /// The caller must check beforehand that the payload fits into a packet. Otherwise the header gets the
    /// maximum length.
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, payload_len: usize) -> Self {
        let mut h = Self::zeroed();
        h.0[0] = 0x45;
        h.set_total_len(u16::try_from(payload_len.saturating_add(Self::LEN)).unwrap_or(u16::MAX));
        h.set_ttl(64);
        h.set_protocol(protocol);
        h.set_src(src);
        h.set_dst(dst);
        h.set_checksum(h.compute_checksum());
        h
    }

    /// IP version; 4 in a valid header.
    #[inline(always)]
    pub const fn version(&self) -> u8 {
        self.0[0] >> 4
    }

    /// Internet header length in 32-bit words; at least 5 in a valid header.
    #[inline(always)]
    pub const fn ihl(&self) -> u8 {
        self.0[0] & 0x0f
    }

    /// Version and header length in one byte: 0x45 is IPv4 without options.
    #[inline(always)]
    pub const fn version_ihl(&self) -> u8 {
        self.0[0]
    }

    /// Length of the header with its options in bytes; less than 20 in an invalid header.
    #[inline(always)]
    pub const fn header_len(&self) -> usize {
        self.ihl() as usize * 4
    }

    /// Length of the options in bytes; 0 in an invalid header.
    #[inline(always)]
    pub const fn options_len(&self) -> usize {
        self.header_len().saturating_sub(Self::LEN)
    }

    /// Type of service: DSCP and ECN.
    #[inline(always)]
    pub const fn tos(&self) -> u8 {
        self.0[1]
    }

    /// Differentiated services code point (RFC 2474).
    #[inline(always)]
    pub const fn dscp(&self) -> u8 {
        self.0[1] >> 2
    }

    /// Explicit congestion notification: 0 not capable, 1 and 2 capable, 3 congestion experienced (RFC 3168).
    #[inline(always)]
    pub const fn ecn(&self) -> u8 {
        self.0[1] & 3
    }

    /// Length of header and payload in bytes.
    #[inline(always)]
    pub const fn total_len(&self) -> u16 {
        get16::<2, _>(&self.0)
    }

    /// Identification, the same for all fragments of a packet.
    #[inline(always)]
    pub const fn id(&self) -> u16 {
        get16::<4, _>(&self.0)
    }

    /// Flags (3 bits) and fragment offset in units of 8 bytes (13 bits).
    #[inline(always)]
    pub const fn flags_fragment(&self) -> u16 {
        get16::<6, _>(&self.0)
    }

    /// True if the packet must not be fragmented (DF).
    #[inline(always)]
    pub const fn dont_fragment(&self) -> bool {
        self.flags_fragment() & 0x4000 != 0
    }

    /// True if more fragments follow (MF).
    #[inline(always)]
    pub const fn more_fragments(&self) -> bool {
        self.flags_fragment() & 0x2000 != 0
    }

    /// Offset of this fragment in the original payload, in bytes.
    #[inline(always)]
    pub const fn fragment_offset(&self) -> u16 {
        (self.flags_fragment() & 0x1fff) * 8
    }

    /// True if this is a fragment of a packet, the first one included.
    #[inline(always)]
    pub const fn is_fragment(&self) -> bool {
        self.flags_fragment() & 0x3fff != 0
    }

    /// TTL in hops.
    #[inline(always)]
    pub const fn ttl(&self) -> u8 {
        self.0[8]
    }

    /// The next protocol, see [`protocol`].
    #[inline(always)]
    pub const fn protocol(&self) -> u8 {
        self.0[9]
    }

    /// Header checksum.
    #[inline(always)]
    pub const fn checksum(&self) -> u16 {
        get16::<10, _>(&self.0)
    }

    /// Source address.
    #[inline(always)]
    pub const fn src(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.src_u32())
    }

    /// Source address in host order.
    #[inline(always)]
    pub const fn src_u32(&self) -> u32 {
        get32::<12, _>(&self.0)
    }

    /// Destination address.
    #[inline(always)]
    pub const fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.dst_u32())
    }

    /// Destination address in host order.
    #[inline(always)]
    pub const fn dst_u32(&self) -> u32 {
        get32::<16, _>(&self.0)
    }

    /// Returns the sum of these 20 bytes. Add the sum of the options if there are any.
    #[inline(always)]
    pub const fn sum(&self) -> Sum {
        let first = Sum::of_u64(get64::<0, _>(&self.0)).plus(Sum::of_u64(get64::<8, _>(&self.0)));
        first.plus(Sum::of_u32(get32::<16, _>(&self.0)))
    }

    /// True if the checksum of a header without options is right.
    #[inline(always)]
    pub const fn checksum_ok(&self) -> bool {
        self.sum().is_valid()
    }

    /// Returns the header in three words, for checks of several fields at once.
    #[inline(always)]
    pub const fn words(&self) -> Ipv4Words {
        Ipv4Words {
            first: u64::from_le_bytes(get::<0, 8, _>(&self.0)),
            second: u64::from_le_bytes(get::<8, 8, _>(&self.0)),
            dst: u32::from_le_bytes(get::<16, 4, _>(&self.0)),
        }
    }

    /// Returns the checksum for a header without options. The field's present value is ignored.
    #[inline(always)]
    pub const fn compute_checksum(&self) -> u16 {
        // This removes the field: a word and its complement add up to 0xffff, the other zero of ones'
        // complement.
        self.sum().plus(Sum::of_u16(!self.checksum())).checksum()
    }

    /// Decrements the TTL and updates the checksum (RFC 1624, equation 3). The TTL must be at least 1.
    #[inline(always)]
    pub fn decrement_ttl(&mut self) {
        // The TTL is the upper byte of its 16-bit word, so the sum of the words decreases by 0x0100, and the checksum, its complement,
        // increases by the same; a carry is added to the lowest bit. In little-endian byte order (RFC 1071, section 2), 0x0100 is 1. TTL,
        // protocol and checksum are one load and one store.
        let word = u32::from_le_bytes(get::<8, 4, _>(&self.0));
        let checksum = (word >> 16) + 1;
        let checksum = checksum + (checksum >= 0xffff) as u32;
        let ttl = (word as u8).wrapping_sub(1);
        let word = (checksum << 16) | (word & 0xff00) | u32::from(ttl);
        self.0[8..12].copy_from_slice(&word.to_le_bytes());
    }

    /// Returns the sum of the pseudo header of UDP and TCP, for `length` bytes of transport header and
    /// payload.
    #[inline(always)]
    pub const fn pseudo_sum(&self, length: u16) -> Sum {
        Sum::of_ipv4_pseudo(self.src_u32(), self.dst_u32(), self.protocol(), length)
    }

    /// Sets version 4 and the header length in 32-bit words (lower 4 bits). None of the setters updates the checksum.
    #[inline(always)]
    pub fn set_ihl(&mut self, words: u8) {
        self.0[0] = 0x40 | words & 0x0f;
    }

    /// Sets the type of service.
    #[inline(always)]
    pub fn set_tos(&mut self, tos: u8) {
        self.0[1] = tos;
    }

    /// Sets the length of header and payload.
    #[inline(always)]
    pub fn set_total_len(&mut self, len: u16) {
        put::<2, 2, _>(&mut self.0, len.to_be_bytes());
    }

    /// Sets the identification.
    #[inline(always)]
    pub fn set_id(&mut self, id: u16) {
        put::<4, 2, _>(&mut self.0, id.to_be_bytes());
    }

    /// Sets flags (3 bits) and fragment offset in units of 8 bytes (13 bits).
    #[inline(always)]
    pub fn set_flags_fragment(&mut self, value: u16) {
        put::<6, 2, _>(&mut self.0, value.to_be_bytes());
    }

    /// Sets or clears DF.
    #[inline(always)]
    pub fn set_dont_fragment(&mut self, on: bool) {
        self.set_flags_fragment(self.flags_fragment() & !0x4000 | (on as u16) << 14);
    }

    /// Sets the TTL.
    #[inline(always)]
    pub fn set_ttl(&mut self, ttl: u8) {
        self.0[8] = ttl;
    }

    /// Sets the next protocol.
    #[inline(always)]
    pub fn set_protocol(&mut self, protocol: u8) {
        self.0[9] = protocol;
    }

    /// Sets the header checksum.
    #[inline(always)]
    pub fn set_checksum(&mut self, checksum: u16) {
        put::<10, 2, _>(&mut self.0, checksum.to_be_bytes());
    }

    /// Sets the source address.
    #[inline(always)]
    pub fn set_src(&mut self, addr: Ipv4Addr) {
        put::<12, 4, _>(&mut self.0, addr.octets());
    }

    /// Sets the destination address.
    #[inline(always)]
    pub fn set_dst(&mut self, addr: Ipv4Addr) {
        put::<16, 4, _>(&mut self.0, addr.octets());
    }
}

impl PseudoHeader for Ipv4Header {
    const UDP_CHECKSUM_OPTIONAL: bool = true;

    #[inline(always)]
    fn pseudo_header(&self, protocol: u8, length: u32) -> Sum {
        // The length of a packet fits into 16 bits.
        Sum::of_ipv4_pseudo(self.src_u32(), self.dst_u32(), protocol, length as u16)
    }
}

/// Writes the correct checksum of the header at the front of `bytes`, options included. Returns false if the header or its options are
/// truncated. If only the options are truncated, the checksum field is set to 0.
pub fn write_checksum(bytes: &mut [u8]) -> bool {
    let Some((header, _)) = Ipv4Header::split_mut(bytes) else { return false };
    header.set_checksum(0);
    let len = header.header_len().max(Ipv4Header::LEN);
    let Some(sum) = bytes.get(..len).map(Sum::of) else { return false };
    if let Some((header, _)) = Ipv4Header::split_mut(bytes) {
        header.set_checksum(sum.checksum());
    }
    true
}
