//! What differs between the fragments of IPv4 (RFC 791 section 3.2) and those of IPv6 (RFC 8200 section 4.5).

use std::net::{Ipv4Addr, Ipv6Addr};

use buf::Packet;
use wire::extension::{self, Extensions};
use wire::ipv4::{self, Ipv4Header};
use wire::ipv6::Ipv6Header;

use net::icmp::Cause;
use net::ip::{Packets, extensions};

use crate::fragment::{Fragment, Key, Reason};
use crate::kind::{KindInfo, SECOND};
use crate::waiting::{Limits, Span};

/// Where the payload length is in an IPv6 header.
const PAYLOAD_LEN_AT: u16 = 4;
/// Where the fragment offset is in a fragment header.
const OFFSET_AT: usize = 2;

/// What has become of a datagram when it is complete.
const WHOLE: &str = "became whole";
/// The times of RFC 791 and RFC 1122 section 3.3.2 are 15 s and 60 s; this is between the two. The largest datagram comes in 119
/// fragments over links of 576 bytes.
const USUAL4: Limits = Limits { datagrams: 1024, fragments: 128, buffers: 2048, timeout: 30 * SECOND };
/// The time of RFC 8200 section 4.5.
const USUAL6: Limits = Limits { timeout: 60 * SECOND, ..USUAL4 };

/// A family whose fragments are put together.
pub trait Fragmented: Packets {
    /// The table of fragments for this router.
    const FULL: &'static KindInfo;

    /// What a packet is a fragment of, and which; `None` when it is none. It begins with its IP header, and is as long as that says.
    fn fragment(p: &mut Packet<'_>) -> Option<(Key<Self>, Fragment)>;
    /// Makes the headers of a first fragment those of the whole datagram, which has `len` bytes of payload; `congested` if one of its
    /// fragments was told of congestion.
    ///
    /// # Errors
    /// Why that is not to be done.
    fn make_whole(p: &mut Packet<'_>, len: u32, congested: bool) -> Result<(), Reason>;
    /// What its source is told of a fragment that there cannot be.
    fn fault(fragment: &Fragment, reason: Reason) -> Option<Cause>;
}

impl Fragmented for Ipv4Addr {
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
        // No "don't fragment" either: what is made of the datagram, an echo reply, may be cut as the datagram was.
        h.set_flags_fragment(0);
        if ipv4::write_checksum(p.bytes_mut()) { Ok(()) } else { Err(Reason::Malformed) }
    }

    fn fault(_: &Fragment, _: Reason) -> Option<Cause> {
        None
    }
}

impl Fragmented for Ipv6Addr {
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
        // Of a link-local source there may be one behind each interface. The protocol is that of the first fragment alone.
        let scoped = |address| Ipv6Addr::scoped(address, rx_if);
        let key = Key::new(fib, scoped(h.src_u128()), scoped(h.dst_u128()), 0, piece.id);
        let span = Span { start, end, buffers };
        let counted = (piece.at - Ipv6Header::LEN) as u32;
        let (more, header, ecn) = (piece.more, header as u32, h.ecn());
        Some((key, Fragment { span, more, header, counted, ecn }))
    }

    /// The fragment header is taken out, and what named it names what is behind it now.
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

    /// RFC 8200 section 4.5 names the fields. One without data is not among them.
    fn fault(fragment: &Fragment, reason: Reason) -> Option<Cause> {
        let at = (fragment.header as usize).saturating_sub(extension::Fragment::LEN) + OFFSET_AT;
        match reason {
            Reason::Malformed if fragment.is_uneven() => Some(Cause::ParameterProblem(PAYLOAD_LEN_AT)),
            Reason::TooLong => Some(Cause::ParameterProblem(at as u16)),
            _ => None,
        }
    }
}

/// The fragment header that makes `packet` a piece of a datagram, and where the byte is that names it.
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
