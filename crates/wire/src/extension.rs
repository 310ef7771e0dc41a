//! Extension headers of IPv6 (RFC 8200 section 4), skipped up to a maximum number and length.
//!
//! [`Extensions`] iterates over the headers between the IPv6 header and the upper layer. [`Chain`] returns the upper layer and the facts
//! that a router needs. [`check_options`] checks the options of a hop-by-hop or destination options header.
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

/// Maximum number of headers to skip, enough for all headers of RFC 8200 section 4.1.
pub const MAX_HEADERS: usize = 8;
/// Maximum length of all extension headers of a packet in bytes: as many bytes as fit into a packet of the minimum MTU.
pub const MAX_LEN: usize = ipv6::MIN_MTU as usize - Ipv6Header::LEN;
/// Maximum number of options of one header, padding included (RFC 8504 section 5.3 allows a limit).
pub const MAX_OPTIONS: usize = 16;

/// Options of hop-by-hop and destination options headers.
pub mod option {
    /// One byte of padding.
    pub const PAD1: u8 = 0;
    /// Two or more bytes of padding.
    pub const PADN: u8 = 1;
    /// Router alert (RFC 2711): every router examines the packet.
    pub const ROUTER_ALERT: u8 = 5;
    /// A payload of more than 65,535 bytes (RFC 2675).
    pub const JUMBO: u8 = 0xc2;
}

/// Values of the router alert option (RFC 2711 section 2.1).
pub mod alert {
    /// MLD.
    pub const MLD: u16 = 0;
}

/// True if this is an extension header that can be skipped (RFC 7045 section 4). ESP is not included, since
/// its contents are encrypted; nor are the numbers for experiments, which have an unknown format.
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

/// The reason why the upper layer of a packet was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtensionError {
    /// The packet ends within the IPv6 header or an extension header, and [`FirstFragment`](Self::FirstFragment) does not apply.
    Truncated,
    /// The packet is the first fragment of a datagram and ends within an extension header after the fragment header. RFC 7112 section 5
    /// forbids this.
    FirstFragment,
    /// A hop-by-hop options header does not directly follow the IPv6 header, as it must (RFC 8200 section 4). The value is the offset of
    /// the next-header field that announces the options header, from the start of the IPv6 header in bytes.
    HopByHop(usize),
    /// There are more than [`MAX_HEADERS`] headers.
    Headers,
    /// The headers are longer than [`MAX_LEN`] bytes in total.
    Length,
}

impl fmt::Display for ExtensionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExtensionError::Truncated => "extension header is truncated",
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
    /// Kind of the header, see [`protocol`].
    pub kind: u8,
    /// Offset of the header from the start of the IPv6 header in bytes.
    pub at: usize,
    /// The whole header.
    pub bytes: &'a [u8],
}

/// Iterates over the extension headers of a packet, up to the upper layer or to an error. An error is the last item. In a later fragment,
/// nothing after the fragment header can be examined.
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    packet: &'a [u8],
    at: usize,
    protocol: u8,
    named_at: usize,
    left: usize,
    /// True if a fragment header marked this as the first of several fragments.
    first_fragment: bool,
    done: bool,
}

impl<'a> Extensions<'a> {
    /// Returns the extension headers of `packet`, which begins with its IPv6 header. If the IPv6 header is incomplete, there are no
    /// extension headers. Bytes after the packet's length are ignored. An extension header that is not completely in `packet` is an error.
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
            // Offset of the next header field in an IPv6 header.
            named_at: 6,
            left: MAX_HEADERS,
            first_fragment: false,
            done: false,
        }
    }

    /// The protocol after the headers visited so far, see [`protocol`].
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Offset of the first byte after the headers visited so far, from the start of the IPv6 header in bytes.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Offset of the next-header field that contains [`protocol`](Self::protocol), from the start of the IPv6 header in bytes.
    pub fn named_at(&self) -> usize {
        self.named_at
    }

    /// Returns the extension header at the current position, and moves to the next header.
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

/// The contents of a fragment header (RFC 8200 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Offset of the header from the start of the IPv6 header in bytes.
    pub at: usize,
    /// The next protocol in the header. Only the value in the first fragment is significant.
    pub protocol: u8,
    /// Offset of this fragment in the fragmentable part of the datagram, in bytes.
    pub offset: u16,
    /// True if more fragments follow.
    pub more: bool,
    /// Identification, the same for all fragments of a datagram.
    pub id: u32,
}

impl Fragment {
    /// Length of a fragment header in bytes.
    pub const LEN: usize = 8;

    /// Parses the header, if it is a fragment header.
    #[inline]
    pub fn of(header: &Extension<'_>) -> Option<Fragment> {
        let &[protocol, _, a, b, id @ ..] = header.bytes.first_chunk::<{ Self::LEN }>()?;
        let word = u16::from_be_bytes([a, b]);
        let (offset, more) = (word & !7, word & 1 != 0);
        let fragment = Fragment { at: header.at, protocol, offset, more, id: u32::from_be_bytes(id) };
        (header.kind == protocol::FRAGMENT).then_some(fragment)
    }

    /// Returns the header in bytes.
    #[inline]
    pub const fn to_bytes(&self) -> [u8; Self::LEN] {
        let [a, b] = (self.offset & !7 | self.more as u16).to_be_bytes();
        let [c, d, e, f] = self.id.to_be_bytes();
        [self.protocol, 0, a, b, c, d, e, f]
    }

    /// True if the whole datagram is in this packet, in spite of the fragment header (RFC 6946).
    #[inline(always)]
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

/// The contents of a routing header (RFC 8200 section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Offset of the header from the start of the IPv6 header in bytes.
    pub at: usize,
    /// Routing type.
    pub kind: u8,
    /// Number of addresses in the routing header still to visit.
    pub segments_left: u8,
}

impl Routing {
    /// The source route type, which must not be processed, because it could make packets loop between two routers (RFC 5095).
    pub const SOURCE_ROUTE: u8 = 0;

    /// Parses the header, if it is a routing header.
    #[inline]
    pub fn of(header: &Extension<'_>) -> Option<Routing> {
        let &[_, _, kind, segments_left, ..] = header.bytes else { return None };
        (header.kind == protocol::ROUTING).then_some(Routing { at: header.at, kind, segments_left })
    }

    /// Returns the offset of the routing type in bytes from the start of the IPv6 header. The destination reports this offset to the source
    /// if it does not support the routing type. Type 0 is never supported (RFC 5095 section 3).
    ///
    /// Returns `None` if no segments are left: the destination then skips the header (RFC 8200 section 4.4).
    #[inline(always)]
    pub const fn refused_at(&self) -> Option<usize> {
        if self.segments_left == 0 { None } else { Some(self.at + 2) }
    }
}

/// The result of walking through the extension headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The protocol after the last header, see [`protocol`]. In a fragment other than the first, this is only the next protocol in the
    /// fragment header.
    pub protocol: u8,
    /// Offset of the bytes after the last header, from the start of the IPv6 header in bytes; not beyond the packet's end.
    pub offset: usize,
    /// Offset of the next-header field that contains [`protocol`](Self::protocol), from the start of the IPv6 header in bytes. An error
    /// message reports this offset if the protocol is not supported.
    pub named_at: usize,
    /// True if this packet contains the upper-layer header, at least up to the minimum length for its protocol. A first fragment without
    /// this minimum is malformed (RFC 7112 section 5).
    pub whole: bool,
    /// The fragment header. If there are several, the first one that is not [atomic](Fragment::is_atomic); if all are atomic, the last one.
    pub fragment: Option<Fragment>,
    /// The routing header. If there are several, the first one with segments left; if none has segments left, the last one.
    pub routing: Option<Routing>,
}

impl Chain {
    /// Examines `packet`, which begins with its IPv6 header. Bytes after the packet's length are ignored. An extension header that is not
    /// completely in `packet` counts as truncated.
    ///
    /// # Errors
    /// The reason why the upper layer was not found, see [`ExtensionError`].
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

    /// True if the packet is a fragment of a datagram, the first one included.
    #[inline(always)]
    pub const fn is_fragment(&self) -> bool {
        matches!(&self.fragment, Some(f) if !f.is_atomic())
    }
}

/// Walks through the headers to their end, and collects the fragment and routing headers.
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

/// Returns the minimum length of an upper-layer header in bytes; 0 for protocols not listed here.
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
    /// Offset of the option in the header in bytes.
    pub at: usize,
    /// Type of the option, see [`option`].
    pub kind: u8,
    /// The bytes after type and length.
    pub data: &'a [u8],
}

/// A malformed or unknown option of a header. Offsets count from the header's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionFault {
    /// The option at this offset does not end within the header, or is a router alert whose data is not 2 bytes long.
    Malformed(usize),
    /// There are more than [`MAX_OPTIONS`] options.
    TooMany,
    /// The option at this offset is unknown, and its type requires dropping the packet.
    Discard(usize),
    /// The option at this offset is unknown. Its type requires that the packet is dropped and reported (parameter problem, code 2),
    /// even if the destination is multicast.
    Report(usize),
    /// The option at this offset is unknown. Its type requires that the packet is dropped, and reported unless the destination is
    /// multicast.
    ReportUnlessGroup(usize),
}

impl fmt::Display for OptionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OptionFault::Malformed(_) => "option does not end within its header",
            OptionFault::TooMany => "too many options",
            OptionFault::Discard(_) | OptionFault::Report(_) | OptionFault::ReportUnlessGroup(_) => {
                "unknown option that must not be skipped"
            }
        })
    }
}

impl std::error::Error for OptionFault {}

/// Iterates over the options of a header, without padding, up to its end or to an error. An error is the last item.
#[derive(Clone, Debug)]
pub struct HeaderOptions<'a> {
    header: &'a [u8],
    at: usize,
    left: usize,
}

impl<'a> HeaderOptions<'a> {
    /// Returns the options of a complete hop-by-hop or destination options header.
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

/// Checks all options of a hop-by-hop or destination options header. Returns the value of the last router alert option, or `None` without
/// one (RFC 2711; see [`alert`]). For options that are not `known`, the upper two bits of the type determine whether the option is skipped
/// or the packet is dropped (RFC 8200 section 4.2). Router alerts are always known.
///
/// # Errors
/// The first option that is malformed, or unknown and must not be skipped.
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
