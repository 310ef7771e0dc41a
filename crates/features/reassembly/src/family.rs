//! The differences between fragments of IPv4 (RFC 791 section 3.2) and of IPv6 (RFC 8200 section 4.5).

use std::net::{Ipv4Addr, Ipv6Addr};

use buf::Packet;
use wire::extension::{self, Extensions};
use wire::ipv4::{self, Ipv4Header};
use wire::ipv6::Ipv6Header;
use wire::{icmpv4, icmpv6};

use net::ip::Cause;
use net::ip::{Packets, extensions};

use crate::fragment::{Fragment, Key, Reason};
use crate::kind::{KindInfo, SECOND};
use crate::waiting::{Limits, Span};

/// Offset of the payload length in an IPv6 header.
const PAYLOAD_LEN_AT: u16 = 4;
/// Offset of the fragment offset in a fragment header.
const OFFSET_AT: usize = 2;

/// The label of the number of complete datagrams.
const WHOLE: &str = "became whole";
/// The default limits for IPv4. The timeout is between the 15 s of RFC 791 and the 60 s of RFC 1122 section 3.3.2. The largest datagram has
/// 119 fragments over links with an MTU of 576 bytes.
const USUAL4: Limits = Limits { datagrams: 1024, fragments: 128, buffers: 2048, timeout: 30 * SECOND };
/// The default limits for IPv6. The timeout is that of RFC 8200 section 4.5.
const USUAL6: Limits = Limits { timeout: 60 * SECOND, ..USUAL4 };

/// An address family whose datagrams can be reassembled.
pub trait Fragmented: Packets {
    /// Properties of the table for fragments of datagrams to this router.
    const FULL: &'static KindInfo;
    /// Type and code of the ICMP error about a datagram whose fragments did not all arrive in time.
    const TIMEOUT: (u8, u8);

    /// Returns the key of a fragment's datagram, and the fragment's header fields; `None` if the packet is not a fragment. The packet must
    /// begin with its IP header, and be as long as the header states.
    fn fragment(p: &mut Packet<'_>) -> Option<(Key<Self>, Fragment)>;
    /// Turns the headers of a first fragment into those of the whole datagram, with `len` bytes of payload. `congested` is true if a
    /// fragment had the ECN code point "congestion experienced".
    ///
    /// # Errors
    /// Returns the drop reason if the datagram would be too long or a header is malformed.
    fn make_whole(p: &mut Packet<'_>, len: u32, congested: bool) -> Result<(), Reason>;
    /// Returns the ICMP error for the source of an invalid fragment; `None` if the source gets no error.
    fn fault(fragment: &Fragment, reason: Reason) -> Option<Cause>;
}

impl Fragmented for Ipv4Addr {
    const TIMEOUT: (u8, u8) = (icmpv4::kind::TIME_EXCEEDED, icmpv4::exceeded::REASSEMBLY);
    const FULL: &'static KindInfo = &KindInfo {
        name: "ip4-full-reassembly",
        about: "the reassembly of IPv4 datagrams for this router",
        completed: WHOLE,
        usual: USUAL4,
        expire: "ip4-reassembly-expire",
    };

    fn fragment(p: &mut Packet<'_>) -> Option<(Key<Ipv4Addr>, Fragment)> {
        let (fib, buffers) = (p.fib(), p.segments().count() as u32);
        let h = p.head::<Ipv4Header>()?;
        let (start, header) = (u32::from(h.fragment_offset()), h.header_len() as u32);
        let end = start + u32::from(h.total_len()).saturating_sub(header);
        let key = Key::new(fib, h.src_u32(), h.dst_u32(), h.protocol(), h.id().into());
        let span = Span { start, end, buffers };
        let fragment = Fragment { span, more: h.more_fragments(), header, counted: header, ecn: h.ecn() };
        h.is_fragment().then_some((key, fragment))
    }

    fn make_whole(p: &mut Packet<'_>, len: u32, congested: bool) -> Result<(), Reason> {
        let h = p.peek::<Ipv4Header>();
        let total = u16::try_from(h.header_len() + len as usize).map_err(|_| Reason::TooLong)?;
        if congested {
            h.set_tos(h.tos() | 3);
        }
        h.set_total_len(total);
        // Clear "don't fragment", too: the answer made of the datagram, an echo reply, may be fragmented as
        // the datagram was.
        h.set_flags_fragment(0);
        if ipv4::write_checksum(p.bytes_mut()) { Ok(()) } else { Err(Reason::Malformed) }
    }

    fn fault(_: &Fragment, _: Reason) -> Option<Cause> {
        None
    }
}

impl Fragmented for Ipv6Addr {
    const TIMEOUT: (u8, u8) = (icmpv6::kind::TIME_EXCEEDED, icmpv6::exceeded::REASSEMBLY);
    const FULL: &'static KindInfo = &KindInfo {
        name: "ip6-full-reassembly",
        about: "the reassembly of IPv6 datagrams for this router",
        completed: WHOLE,
        usual: USUAL6,
        expire: "ip6-reassembly-expire",
    };

    fn fragment(p: &mut Packet<'_>) -> Option<(Key<Ipv6Addr>, Fragment)> {
        let (fib, rx_if, buffers) = (p.fib(), p.rx_if(), p.segments().count() as u32);
        let (h, _) = Ipv6Header::split(p.bytes())?;
        let (piece, _) = piece(p.bytes())?;
        let header = piece.at + extension::Fragment::LEN;
        let start = u32::from(piece.offset);
        let end = start + h.total_len().saturating_sub(header) as u32;
        // Different hosts on different links may have the same link-local source, so the key includes the
        // interface. It does not include the protocol, which only the first fragment states.
        let scoped = |address| Ipv6Addr::scoped(address, rx_if);
        let key = Key::new(fib, scoped(h.src_u128()), scoped(h.dst_u128()), 0, piece.id);
        let span = Span { start, end, buffers };
        let counted = (piece.at - Ipv6Header::LEN) as u32;
        let (more, header, ecn) = (piece.more, header as u32, h.ecn());
        Some((key, Fragment { span, more, header, counted, ecn }))
    }

    /// Turns the headers of a first fragment into those of the whole datagram, without the fragment header. The header before the fragment
    /// header gets the "next header" value of the fragment header.
    fn make_whole(p: &mut Packet<'_>, len: u32, congested: bool) -> Result<(), Reason> {
        let (piece, named_at) = piece(p.bytes()).ok_or(Reason::Malformed)?;
        let payload = piece.at.saturating_sub(Ipv6Header::LEN) + len as usize;
        let payload = u16::try_from(payload).map_err(|_| Reason::TooLong)?;
        *p.bytes_mut().get_mut(named_at).ok_or(Reason::Malformed)? = piece.protocol;
        if !extensions::take_out(p, piece.at, extension::Fragment::LEN) {
            return Err(Reason::Malformed);
        }
        let h = p.peek::<Ipv6Header>();
        if congested {
            h.set_traffic_class(h.traffic_class() | 3);
        }
        h.set_payload_len(payload);
        Ok(())
    }

    /// Returns an ICMP error about the field that RFC 8200 section 4.5 names; `None` for a fragment without data, for which the RFC names
    /// no field.
    fn fault(fragment: &Fragment, reason: Reason) -> Option<Cause> {
        let at = (fragment.header as usize).saturating_sub(extension::Fragment::LEN) + OFFSET_AT;
        match reason {
            Reason::Malformed if fragment.is_uneven() => Some(Cause::ParameterProblem(PAYLOAD_LEN_AT)),
            Reason::TooLong => Some(Cause::ParameterProblem(at as u16)),
            _ => None,
        }
    }
}

/// Returns a packet's fragment header and the offset of the "next header" byte that announces it. `None` if the
/// packet is not a fragment.
fn piece(packet: &[u8]) -> Option<(extension::Fragment, usize)> {
    let mut headers = Extensions::of(packet);
    loop {
        let named_at = headers.named_at();
        let header = headers.next()?.ok()?;
        match extension::Fragment::of(&header) {
            Some(fragment) if !fragment.is_atomic() => return Some((fragment, named_at)),
            _ => {}
        }
    }
}
