//! ICMPv6 (RFC 4443; codes also RFC 7112). Its checksum covers a pseudo header, so an IPv6 header is needed
//! to compute or check it.

use crate::checksum::Sum;
use crate::extension::{Chain, ExtensionError};
use crate::ipv4::protocol;
use crate::ipv6::{self, Ipv6Header};

/// Message types.
pub mod kind {
    /// Destination unreachable, an error.
    pub const UNREACHABLE: u8 = 1;
    /// Packet too big, an error.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded, an error.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem, an error.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 129;
    /// Multicast listener query (RFC 2710, RFC 3810).
    pub const MLD_QUERY: u8 = 130;
    /// Multicast listener report, version 1 (RFC 2710).
    pub const MLD_REPORT: u8 = 131;
    /// Multicast listener done (RFC 2710).
    pub const MLD_DONE: u8 = 132;
    /// Router solicitation (RFC 4861).
    pub const ROUTER_SOLICITATION: u8 = 133;
    /// Router advertisement (RFC 4861).
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    /// Neighbor solicitation (RFC 4861).
    pub const NEIGHBOR_SOLICITATION: u8 = 135;
    /// Neighbor advertisement (RFC 4861).
    pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;
    /// Redirect (RFC 4861). It is not an error by [`is_error`](super::is_error).
    pub const REDIRECT: u8 = 137;
    /// Multicast listener report, version 2 (RFC 3810).
    pub const MLDV2_REPORT: u8 = 143;
}

/// Codes of [`kind::UNREACHABLE`].
pub mod unreachable {
    /// No route to the destination.
    pub const NO_ROUTE: u8 = 0;
    /// Forbidden by an operator.
    pub const ADMIN_PROHIBITED: u8 = 1;
    /// The source address is not valid in the scope of the destination.
    pub const BEYOND_SCOPE: u8 = 2;
    /// The host does not answer.
    pub const ADDRESS: u8 = 3;
    /// No service listens on the port.
    pub const PORT: u8 = 4;
    /// A filter rejects the source address.
    pub const SOURCE_POLICY: u8 = 5;
    /// The route rejects the packet.
    pub const REJECT_ROUTE: u8 = 6;
}

/// Codes of [`kind::TIME_EXCEEDED`].
pub mod exceeded {
    /// The hop limit expired.
    pub const HOP_LIMIT: u8 = 0;
    /// Fragments did not arrive in time.
    pub const REASSEMBLY: u8 = 1;
}

/// Codes of [`kind::PARAMETER_PROBLEM`], whose second word is the offset of the faulty byte.
pub mod parameter {
    /// A field of a header is wrong.
    pub const HEADER: u8 = 0;
    /// This next header is not supported.
    pub const NEXT_HEADER: u8 = 1;
    /// This option is not supported.
    pub const OPTION: u8 = 2;
    /// The first fragment does not contain all headers (RFC 7112 section 5).
    pub const FIRST_FRAGMENT: u8 = 3;
}

/// Maximum length of an error message, including its IPv6 header (RFC 4443 section 2.4 (c)).
pub const MAX_ERROR_LEN: usize = ipv6::MIN_MTU as usize;

/// Returns the number of bytes of a packet to quote in an error message. The whole message, including its IPv6 header, has at most 1,280
/// bytes.
#[inline(always)]
pub const fn quote_len(original_len: usize) -> usize {
    const ROOM: usize = MAX_ERROR_LEN - Ipv6Header::LEN - Icmpv6Header::LEN;
    if original_len < ROOM { original_len } else { ROOM }
}

/// True if messages of this type report errors (RFC 4443 section 2.1).
#[inline(always)]
pub const fn is_error(kind: u8) -> bool {
    kind < 128
}

/// True if an error of this type and code may be sent about a packet, judging by its bytes (RFC 4443 section 2.4 (e)). False if the packet
/// is an ICMPv6 error or a redirect, or if its source is not a single host. Also false if the packet might belong to an ICMPv6 error or
/// redirect, but is a later fragment or truncated. Only two errors may be sent about a multicast packet: "packet too big", and a parameter
/// problem for an unknown option whose type requires a report.
///
/// `l3` begins with the IPv6 header. `to_group`: the packet arrived in a link-layer broadcast or multicast, which the caller must check.
/// Such a packet counts as multicast.
pub fn may_report(l3: &[u8], to_group: bool, kind: u8, code: u8) -> bool {
    let Some((ip, _)) = Ipv6Header::split(l3) else { return false };
    let (src, dst) = (ip.src_u128(), ip.dst_u128());
    let asked =
        kind == kind::PACKET_TOO_BIG || (kind == kind::PARAMETER_PROBLEM && code == parameter::OPTION);
    if ipv6::is_unspecified(src) || ipv6::is_martian_source(src) {
        return false;
    }
    if (to_group || ipv6::is_multicast(dst)) && !asked {
        return false;
    }
    match Chain::of(l3) {
        // A later fragment does not show its message type, nor does a packet truncated before the type.
        Ok(c) if c.protocol == protocol::ICMPV6 => {
            let first = c.fragment.is_none_or(|f| f.offset == 0);
            first && l3.get(c.offset).is_some_and(|&k| !is_error(k) && k != kind::REDIRECT)
        }
        // In these cases, the packet is never processed as an ICMPv6 message.
        Ok(_) | Err(ExtensionError::HopByHop(_) | ExtensionError::FirstFragment) => true,
        Err(_) => false,
    }
}

icmp_header! {
    /// Type, code, checksum, and four bytes that depend on the type.
    Icmpv6Header
}

impl Icmpv6Header {
    /// Returns the header of a message whose data is `body`, with a correct checksum for a packet with the
    /// addresses of `ip`.
    pub fn new(ip: &Ipv6Header, kind: u8, code: u8, rest: u32, body: &[u8]) -> Self {
        let mut h = Self::zeroed();
        h.0[0] = kind;
        h.0[1] = code;
        h.set_rest(rest);
        h.set_checksum(h.sum(ip, body).checksum());
        h
    }

    /// Returns the header of an echo request whose data is `body`, for a packet with the addresses of `ip`.
    pub fn echo_request(ip: &Ipv6Header, id: u16, seq: u16, body: &[u8]) -> Self {
        Self::new(ip, kind::ECHO_REQUEST, 0, (id as u32) << 16 | seq as u32, body)
    }

    /// True if the checksum over this header and `body` is right in a packet with the addresses of `ip`.
    #[inline]
    pub fn checksum_ok(&self, ip: &Ipv6Header, body: &[u8]) -> bool {
        self.sum(ip, body).is_valid()
    }

    fn sum(&self, ip: &Ipv6Header, body: &[u8]) -> Sum {
        // A packet's length fits into 16 bits, and so do its parts.
        let length = (Self::LEN + body.len()) as u32;
        ip.pseudo_sum(protocol::ICMPV6, length).plus(Sum::of(&self.0)).plus(Sum::of(body))
    }
}
