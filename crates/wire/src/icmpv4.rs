//! ICMP (RFC 792; requirements for routers: RFC 1812 section 4.3; next-hop MTU: RFC 1191).

use crate::checksum::Sum;
use crate::field::get16;
use crate::ipv4::{self, Ipv4Header, protocol};

/// Message types.
pub mod kind {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable, an error.
    pub const UNREACHABLE: u8 = 3;
    /// Source quench, an error (deprecated, RFC 6633).
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect, an error.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded, an error.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem, an error.
    pub const PARAMETER_PROBLEM: u8 = 12;
    /// Timestamp request.
    pub const TIMESTAMP_REQUEST: u8 = 13;
    /// Timestamp reply.
    pub const TIMESTAMP_REPLY: u8 = 14;
}

/// Codes of [`kind::UNREACHABLE`].
pub mod unreachable {
    /// No route to the network.
    pub const NET: u8 = 0;
    /// The host does not answer.
    pub const HOST: u8 = 1;
    /// The host does not support the protocol.
    pub const PROTOCOL: u8 = 2;
    /// No service listens on the port.
    pub const PORT: u8 = 3;
    /// Too long for the next hop, and DF is set.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// The next hop of a source route cannot be reached, or source routes are not followed.
    pub const SOURCE_ROUTE_FAILED: u8 = 5;
    /// Forbidden by an operator (RFC 1812 section 5.2.7.1).
    pub const ADMIN_PROHIBITED: u8 = 13;
}

/// Codes of [`kind::TIME_EXCEEDED`].
pub mod exceeded {
    /// The TTL expired.
    pub const TTL: u8 = 0;
    /// Fragments did not arrive in time.
    pub const REASSEMBLY: u8 = 1;
}

/// Codes of [`kind::REDIRECT`].
pub mod redirect {
    /// Redirect for this host.
    pub const HOST: u8 = 1;
}

/// Maximum length of an error message, including its IP header (RFC 1812 section 4.3.2.3).
pub const MAX_ERROR_LEN: usize = 576;

/// Returns the number of bytes of a packet to quote in an error message. The whole message, including its IP header, has at most 576 bytes.
#[inline(always)]
pub const fn quote_len(original_len: usize) -> usize {
    const ROOM: usize = MAX_ERROR_LEN - Ipv4Header::LEN - IcmpHeader::LEN;
    if original_len < ROOM { original_len } else { ROOM }
}

/// True if messages of this type report errors; no error may be sent about them (RFC 1812 section 4.3.2.7).
#[inline(always)]
pub const fn is_error(kind: u8) -> bool {
    matches!(
        kind,
        kind::UNREACHABLE
            | kind::SOURCE_QUENCH
            | kind::REDIRECT
            | kind::TIME_EXCEEDED
            | kind::PARAMETER_PROBLEM
    )
}

/// True if an error may be sent about a packet, judging by its bytes (RFC 1812 section 4.3.2.7). False for an ICMP error, a multicast or
/// limited broadcast, a later fragment, a packet whose source is not a single host, and a packet too short to decide.
///
/// `l3` begins with the IPv4 header. The caller must check for link-layer and directed broadcasts.
pub fn may_report(l3: &[u8]) -> bool {
    let Some((ip, _)) = Ipv4Header::split(l3) else { return false };
    let (src, dst) = (ip.src_u32(), ip.dst_u32());
    // Sources in 0/8 or 240/4 do not identify a single host.
    let no_host = ipv4::is_martian_source(src) || src >> 24 == 0 || src >> 28 == 0xf;
    if no_host || ip.fragment_offset() != 0 {
        return false;
    }
    if ipv4::is_multicast(dst) || ipv4::is_broadcast(dst) {
        return false;
    }
    // An ICMP packet that ends before its type might be an error.
    ip.protocol() != protocol::ICMP || l3.get(ip.header_len()).is_some_and(|&kind| !is_error(kind))
}

icmp_header! {
    /// Type, code, checksum, and four bytes that depend on the type.
    IcmpHeader
}

impl IcmpHeader {
    /// Returns the header of a message whose data is `body`, with a correct checksum.
    pub fn new(kind: u8, code: u8, rest: u32, body: &[u8]) -> Self {
        let mut h = Self::zeroed();
        h.0[0] = kind;
        h.0[1] = code;
        h.set_rest(rest);
        h.set_checksum(Sum::of(&h.0).plus(Sum::of(body)).checksum());
        h
    }

    /// Returns the header of an echo request whose data is `body`.
    pub fn echo_request(id: u16, seq: u16, body: &[u8]) -> Self {
        Self::new(kind::ECHO_REQUEST, 0, (id as u32) << 16 | seq as u32, body)
    }

    /// Returns the header of a "fragmentation needed" error that quotes the packet `quote`. `mtu` is the MTU
    /// that the packet exceeds (RFC 1191 section 4).
    pub fn fragmentation_needed(mtu: u16, quote: &[u8]) -> Self {
        Self::new(kind::UNREACHABLE, unreachable::FRAGMENTATION_NEEDED, mtu as u32, quote)
    }

    /// Next-hop MTU of "fragmentation needed"; 0 from routers older than RFC 1191.
    #[inline(always)]
    pub const fn next_hop_mtu(&self) -> u16 {
        get16::<6, _>(&self.0)
    }

    /// True if the checksum over this header and `body` is right.
    #[inline]
    pub fn checksum_ok(&self, body: &[u8]) -> bool {
        Sum::of(&self.0).plus(Sum::of(body)).is_valid()
    }
}
