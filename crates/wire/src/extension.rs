//! Extension headers of IPv6 (RFC 8200 section 4), passed over in bounded work.
//!
//! [`Extensions`] goes through the headers between the IPv6 header and the upper layer, [`Chain`] says where they lead and
//! what a router has to know of them, and [`check_options`] is for the options of those headers that have any.
//!
//! ```
//! use wire::{Ipv6Header, extension::Chain, protocol};
//! // Hop-by-hop options: nothing but padding.
//! let mut packet = Ipv6Header::new([0xfd; 16].into(), [0xfd; 16].into(), protocol::HOP_BY_HOP, 16).0.to_vec();
//! packet.extend([protocol::UDP, 0, 1, 4, 0, 0, 0, 0]);
//! packet.extend([0; 8]);
//! let chain = Chain::of(&packet).unwrap();
//! assert_eq!((chain.protocol, chain.offset, chain.whole), (protocol::UDP, 48, true));
//! ```

use std::fmt;

use crate::ipv4::protocol;
use crate::ipv6::{self, Ipv6Header};

/// Headers that are passed over, at most: any that RFC 8200 section 4.1 recommends, in any order.
pub const MAX_HEADERS: usize = 8;
/// Bytes of them, at most: what a packet has room for that every link carries in one piece.
pub const MAX_LEN: usize = ipv6::MIN_MTU as usize - Ipv6Header::LEN;
/// Options of one header that are looked at, padding included (RFC 8504 section 5.3 lets a node set a limit).
pub const MAX_OPTIONS: usize = 16;

/// Options of hop-by-hop and destination options headers.
pub mod option {
    /// One byte of padding.
    pub const PAD1: u8 = 0;
    /// Two bytes of padding and more.
    pub const PADN: u8 = 1;
    /// Router alert (RFC 2711): every router looks at the packet.
    pub const ROUTER_ALERT: u8 = 5;
    /// A payload of more than 65,535 bytes (RFC 2675).
    pub const JUMBO: u8 = 0xc2;
}

/// What a router alert is about (RFC 2711 section 2.1).
pub mod alert {
    /// MLD.
    pub const MLD: u16 = 0;
}

/// Whether this is an extension header that can be passed over (RFC 7045 section 4). ESP is none here, since what is
/// behind it is encrypted; nor are the numbers for experiments, of which nobody knows the form.
#[inline(always)]
pub const fn is_extension(protocol: u8) -> bool {
    matches!(
        protocol,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AH
            | protocol::DESTINATION_OPTIONS
            | protocol::MOBILITY
            | protocol::HIP
            | protocol::SHIM6
    )
}

/// Why the upper layer of a packet was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtensionError {
    /// The packet ends within a header.
    Truncated,
    /// The packet is the first fragment of a datagram, and ends within a header: RFC 7112 section 5 forbids it.
    FirstFragment,
    /// Hop-by-hop options that do not follow the IPv6 header, named by the byte at this place (RFC 8200 section 4).
    HopByHop(usize),
    /// More than [`MAX_HEADERS`].
    Headers,
    /// More than [`MAX_LEN`] bytes.
    Length,
}

impl fmt::Display for ExtensionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExtensionError::Truncated => "extension header is cut off",
            ExtensionError::FirstFragment => "first fragment ends within the extension headers",
            ExtensionError::HopByHop(_) => "hop-by-hop options are not the first extension header",
            ExtensionError::Headers => "too many extension headers",
            ExtensionError::Length => "extension headers are too long",
        })
    }
}

impl std::error::Error for ExtensionError {}

/// An extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// What it is, see [`protocol`].
    pub kind: u8,
    /// Where it begins, in bytes from the start of the IPv6 header.
    pub at: usize,
    /// All of it.
    pub bytes: &'a [u8],
}

/// Goes through the extension headers of a packet, to the upper layer or to an error, which is the last that it gives.
/// A fragment that is not the first has nothing behind its fragment header that could be looked at.
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    packet: &'a [u8],
    at: usize,
    protocol: u8,
    named_at: usize,
    left: usize,
    /// Whether a fragment header said that this is the first of several pieces.
    first_fragment: bool,
    done: bool,
}

impl<'a> Extensions<'a> {
    /// The extension headers of `packet`, which begins with its IPv6 header. What lies behind its length is not looked
    /// at; what the caller has cut off counts as missing.
    #[inline]
    pub fn of(packet: &'a [u8]) -> Extensions<'a> {
        let (protocol, len) = match Ipv6Header::split(packet) {
            Some((ip, _)) => (ip.next_header(), ip.total_len()),
            None => (protocol::NONE, 0),
        };
        Extensions {
            packet: packet.get(..len).unwrap_or(packet),
            at: Ipv6Header::LEN,
            protocol,
            // The place of the next header in an IPv6 header.
            named_at: 6,
            left: MAX_HEADERS,
            first_fragment: false,
            done: false,
        }
    }

    /// What follows the headers that were gone through so far, see [`protocol`].
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Where that begins, in bytes from the start of the IPv6 header.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Where the byte is that says so.
    pub fn named_at(&self) -> usize {
        self.named_at
    }

    /// The header at the present place, which is an extension header.
    fn header(&mut self) -> Result<Extension<'a>, ExtensionError> {
        let (kind, at) = (self.protocol, self.at);
        if kind == protocol::HOP_BY_HOP && at != Ipv6Header::LEN {
            return Err(ExtensionError::HopByHop(self.named_at));
        }
        self.left = self.left.checked_sub(1).ok_or(ExtensionError::Headers)?;
        let cut = if self.first_fragment { ExtensionError::FirstFragment } else { ExtensionError::Truncated };
        let rest = self.packet.get(at..).unwrap_or(&[]);
        let &[next, units, ..] = rest else { return Err(cut) };
        let len = match kind {
            protocol::FRAGMENT => Fragment::LEN,
            protocol::AH => (usize::from(units) + 2) * 4,
            _ => (usize::from(units) + 1) * 8,
        };
        if at + len > Ipv6Header::LEN + MAX_LEN {
            return Err(ExtensionError::Length);
        }
        let bytes = rest.get(..len).ok_or(cut)?;
        (self.named_at, self.at, self.protocol) = (at, at + len, next);
        Ok(Extension { kind, at, bytes })
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<'a>, ExtensionError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done || !is_extension(self.protocol) {
            return None;
        }
        let header = self.header();
        match header.map(|h| Fragment::of(&h)) {
            Ok(Some(fragment)) => {
                self.done = fragment.offset != 0;
                self.first_fragment |= fragment.more;
            }
            Ok(None) => {}
            Err(_) => self.done = true,
        }
        Some(header)
    }
}

/// What a fragment header says (RFC 8200 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where the header begins, in bytes from the start of the IPv6 header.
    pub at: usize,
    /// What the header says to follow; only that of the first fragment counts.
    pub protocol: u8,
    /// Where in the fragmentable part of the datagram this piece belongs, in bytes.
    pub offset: u16,
    /// Whether fragments follow this one.
    pub more: bool,
    /// Identification, which the fragments of a datagram share.
    pub id: u32,
}

impl Fragment {
    /// Length of a fragment header in bytes.
    pub const LEN: usize = 8;

    /// What the header says, if it is a fragment header.
    #[inline]
    pub fn of(header: &Extension<'_>) -> Option<Fragment> {
        let &[protocol, _, a, b, id @ ..] = header.bytes.first_chunk::<{ Self::LEN }>()?;
        let word = u16::from_be_bytes([a, b]);
        let (offset, more) = (word & !7, word & 1 != 0);
        let fragment = Fragment { at: header.at, protocol, offset, more, id: u32::from_be_bytes(id) };
        (header.kind == protocol::FRAGMENT).then_some(fragment)
    }

    /// The header in bytes.
    #[inline]
    pub const fn to_bytes(&self) -> [u8; Self::LEN] {
        let [a, b] = (self.offset & !7 | self.more as u16).to_be_bytes();
        let [c, d, e, f] = self.id.to_be_bytes();
        [self.protocol, 0, a, b, c, d, e, f]
    }

    /// Whether the datagram is in this packet all by itself, in spite of the header (RFC 6946).
    #[inline(always)]
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

/// What a routing header says (RFC 8200 section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Where the header begins, in bytes from the start of the IPv6 header.
    pub at: usize,
    /// Routing type.
    pub kind: u8,
    /// How many of its addresses have still to be visited.
    pub segments_left: u8,
}

impl Routing {
    /// The type that lets packets go to and fro between two routers, and that nobody may follow (RFC 5095).
    pub const SOURCE_ROUTE: u8 = 0;

    /// What the header says, if it is a routing header.
    #[inline]
    pub fn of(header: &Extension<'_>) -> Option<Routing> {
        let &[_, _, kind, segments_left, ..] = header.bytes else { return None };
        (header.kind == protocol::ROUTING).then_some(Routing { at: header.at, kind, segments_left })
    }

    /// The place of the byte that is reported to the source by whoever the packet is for and does not follow the header:
    /// that of the type, as long as there is somewhere left to go. Else the header is passed over (RFC 8200 section 4.4).
    /// Type 0 is followed by nobody (RFC 5095 section 3).
    #[inline(always)]
    pub const fn refused_at(&self) -> Option<usize> {
        if self.segments_left == 0 { None } else { Some(self.at + 2) }
    }
}

/// Where the extension headers of a packet lead, and what they say on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// What follows the last of them, see [`protocol`]. Of a later fragment only what its header claims.
    pub protocol: u8,
    /// Where that begins, in bytes from the start of the IPv6 header; not beyond the packet's end.
    pub offset: usize,
    /// Where the byte is that says the protocol: what is reported when nobody here speaks it.
    pub named_at: usize,
    /// Whether the header of the upper layer is in this packet, from the first byte to the last that every such header
    /// has. A first fragment without it is malformed (RFC 7112 section 5).
    pub whole: bool,
    /// The fragment header; of several the one that makes the packet a piece of a datagram.
    pub fragment: Option<Fragment>,
    /// The routing header; of several the first that is not done with.
    pub routing: Option<Routing>,
}

impl Chain {
    /// Looks at `packet`, which begins with its IPv6 header. What lies behind its length is not looked at; what the
    /// caller has cut off counts as missing.
    ///
    /// # Errors
    /// Why the upper layer was not found, see [`ExtensionError`].
    #[inline]
    pub fn of(packet: &[u8]) -> Result<Chain, ExtensionError> {
        let (ip, _) = Ipv6Header::split(packet).ok_or(ExtensionError::Truncated)?;
        let mut headers = Extensions::of(packet);
        let (mut fragment, mut routing) = (None, None);
        if is_extension(ip.next_header()) {
            (fragment, routing) = facts(&mut headers)?;
        }
        let Extensions { at: offset, protocol, named_at, packet, .. } = headers;
        let whole = fragment.is_none_or(|f| f.offset == 0) && packet.len() >= offset + shortest(protocol);
        Ok(Chain { protocol, offset, named_at, whole, fragment, routing })
    }

    /// Whether the packet is a piece of a datagram, the first piece included.
    #[inline(always)]
    pub const fn is_fragment(&self) -> bool {
        matches!(&self.fragment, Some(f) if !f.is_atomic())
    }
}

/// What the headers say, gone through to their end.
fn facts(headers: &mut Extensions<'_>) -> Result<(Option<Fragment>, Option<Routing>), ExtensionError> {
    let (mut fragment, mut routing) = (None::<Fragment>, None::<Routing>);
    for header in headers {
        let header = header?;
        if fragment.is_none_or(|f| f.is_atomic()) {
            fragment = Fragment::of(&header).or(fragment);
        }
        if routing.is_none_or(|r| r.segments_left == 0) {
            routing = Routing::of(&header).or(routing);
        }
    }
    Ok((fragment, routing))
}

/// Bytes of the shortest header of an upper layer, as far as they are known.
const fn shortest(protocol: u8) -> usize {
    match protocol {
        protocol::TCP | protocol::IPIP => 20,
        protocol::UDP | protocol::UDP_LITE | protocol::ICMPV6 | protocol::ESP => 8,
        protocol::SCTP | protocol::DCCP => 12,
        protocol::GRE => 4,
        protocol::IPV6 => Ipv6Header::LEN,
        _ => 0,
    }
}

/// An option of a hop-by-hop or destination options header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderOption<'a> {
    /// Where it begins in the header, in bytes.
    pub at: usize,
    /// Its type, see [`option`].
    pub kind: u8,
    /// What is behind type and length.
    pub data: &'a [u8],
}

/// What is wrong with the options of a header, or unknown. Places count from the header's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionFault {
    /// The option at this place does not end within the header.
    Malformed(usize),
    /// There are more than [`MAX_OPTIONS`].
    TooMany,
    /// The option at this place is unknown, and says: drop the packet then.
    Discard(usize),
    /// … drop the packet, and report it (parameter problem, code 2), even if it is for a group.
    Report(usize),
    /// … drop the packet, and report it unless it is for a group.
    ReportUnlessGroup(usize),
}

impl fmt::Display for OptionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OptionFault::Malformed(_) => "option does not end within its header",
            OptionFault::TooMany => "too many options",
            OptionFault::Discard(_) | OptionFault::Report(_) | OptionFault::ReportUnlessGroup(_) => {
                "unknown option that must not be passed over"
            }
        })
    }
}

impl std::error::Error for OptionFault {}

/// Goes through the options of a header, padding left out, to its end or to a fault, which is the last that it gives.
#[derive(Clone, Debug)]
pub struct HeaderOptions<'a> {
    header: &'a [u8],
    at: usize,
    left: usize,
}

impl<'a> HeaderOptions<'a> {
    /// The options of a hop-by-hop or destination options header, which is given from its first byte to its last.
    pub fn of(header: &'a [u8]) -> HeaderOptions<'a> {
        HeaderOptions { header, at: 2, left: MAX_OPTIONS }
    }

    fn option(&mut self) -> Result<HeaderOption<'a>, OptionFault> {
        let at = self.at;
        self.left = self.left.checked_sub(1).ok_or(OptionFault::TooMany)?;
        let (kind, data, len) = match self.header.get(at..).unwrap_or(&[]) {
            [option::PAD1, ..] => (option::PAD1, &[][..], 1),
            [kind, len, rest @ ..] => {
                let len = usize::from(*len);
                (*kind, rest.get(..len).ok_or(OptionFault::Malformed(at))?, 2 + len)
            }
            _ => return Err(OptionFault::Malformed(at)),
        };
        self.at = at + len;
        Ok(HeaderOption { at, kind, data })
    }
}

impl<'a> Iterator for HeaderOptions<'a> {
    type Item = Result<HeaderOption<'a>, OptionFault>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.header.len() {
            match self.option() {
                Ok(HeaderOption { kind: option::PAD1 | option::PADN, .. }) => {}
                Ok(option) => return Some(Ok(option)),
                Err(fault) => {
                    self.at = self.header.len();
                    return Some(Err(fault));
                }
            }
        }
        None
    }
}

/// Looks at all options of a hop-by-hop or destination options header, and gives what a router alert is about, if there is
/// one (RFC 2711; see [`alert`]). Of options that are not `known` the upper two bits of the type say what becomes of the
/// packet (RFC 8200 section 4.2). Router alerts need not be known.
///
/// # Errors
/// The first option that is malformed, or unknown and not to be passed over.
pub fn check_options(header: &[u8], known: impl Fn(u8) -> bool) -> Result<Option<u16>, OptionFault> {
    let mut router_alert = None;
    for option in HeaderOptions::of(header) {
        let HeaderOption { at, kind, data } = option?;
        match (kind, data) {
            (option::ROUTER_ALERT, &[a, b]) => router_alert = Some(u16::from_be_bytes([a, b])),
            (option::ROUTER_ALERT, _) => return Err(OptionFault::Malformed(at)),
            _ if known(kind) => {}
            _ => match kind >> 6 {
                0 => {}
                1 => return Err(OptionFault::Discard(at)),
                2 => return Err(OptionFault::Report(at)),
                _ => return Err(OptionFault::ReportUnlessGroup(at)),
            },
        }
    }
    Ok(router_alert)
}
