//! `ip6-local`: delivers packets for this router to the node of their protocol (RFC 8200 section 4).
//!
//! The next node gets the packet from its IPv6 header on, with exactly the length that the header says. The packet's first buffer holds the
//! whole IPv6 header. The upper-layer header begins at offset `l4_offset`; the extension headers before it have been checked.
//!
//! Hop-by-hop options are processed before, by `ip6-hop-by-hop`.

use std::net::Ipv6Addr;

use buf::{Cache, Flags, Frame, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use wire::extension::{
    Chain, Extension, ExtensionError, Extensions, Fragment, Routing, check_options, is_extension,
};
use wire::icmpv6::kind;
use wire::{Ipv6Header, ipv6, protocol};

use super::options6;
use crate::Tables;
use crate::ip::Cause;
use crate::ip::packet::is_to_many;
use crate::registry::Registry;

edges! { pub enum Next { Report = "ip6-icmp-error" } }
reasons! {
    pub enum Reason {
        Length = "bad-length", Error, "the lengths in the IPv6 header do not match the packet";
        Truncated = "truncated-header", Error, "an extension header does not end within the packet, or within its first buffer";
        Long = "long-headers", Warn, "there are more than 8 extension headers, or more than 215 bytes of them";
        Options = "bad-options", Info, "a header has too many options, or an unknown option that asks for a silent drop";
        Neighbor = "fragmented-neighbor-discovery", Warn, "the Neighbor Discovery message has a fragment header, which RFC 6980 forbids";
        Fragment = "fragment", Warn, "the packet is a fragment, and no enabled feature reassembles it (see plugins in startup.conf)";
        Group = "group-protocol", Info, counted, "a multicast packet of a protocol that this router does not support";
        Nothing = "no-next-header", Info, "the next header is 59: nothing follows the headers";
    }
}

pub struct Ip6Local {
    protocols: Registry,
    fragments: Registry,
}

/// The reason why a packet is not delivered to its protocol's node.
enum Fault {
    Drop(Reason),
    Report(Cause),
    /// The packet is a fragment and must be reassembled.
    Piece,
}

impl From<ExtensionError> for Fault {
    fn from(error: ExtensionError) -> Fault {
        match error {
            // Treated like an unknown protocol (RFC 8200 section 4).
            ExtensionError::HopByHop(_) => Fault::Report(Cause::ProtocolUnreachable),
            ExtensionError::Headers | ExtensionError::Length => Fault::Drop(Reason::Long),
            ExtensionError::Truncated | ExtensionError::FirstFragment => Fault::Drop(Reason::Truncated),
        }
    }
}

impl Ip6Local {
    pub fn new(t: &Tables) -> Ip6Local {
        Ip6Local { protocols: t.ip6.protocols.clone(), fragments: t.ip6.fragments.clone() }
    }

    #[inline(always)]
    fn one(&self, bufs: &mut Cache, p: &mut Packet<'_>) -> Verdict<Next, Reason> {
        let total = p.total_len();
        let Some(h) = p.head::<Ipv6Header>() else { return Verdict::Drop(Reason::Length) };
        let (said, mut protocol) = (h.total_len(), h.next_header());
        if said > total {
            return Verdict::Drop(Reason::Length);
        }
        if said < total {
            p.truncate(said, bufs);
        }
        let mut l4 = Ipv6Header::LEN as u8;
        if is_extension(protocol) {
            match upper_layer(p) {
                Ok(found) => (protocol, l4) = found,
                Err(Fault::Drop(reason)) => return Verdict::Drop(reason),
                Err(Fault::Report(cause)) => return report(p, cause),
                Err(Fault::Piece) => {
                    return self.fragments.get(0).map_or(Verdict::Drop(Reason::Fragment), Verdict::Edge);
                }
            }
        }
        p.set_l4_offset(l4);
        match self.protocols.get(u16::from(protocol)) {
            Some(edge) => Verdict::Edge(edge),
            None if protocol == protocol::NONE => Verdict::Drop(Reason::Nothing),
            None if is_to_many::<Ipv6Addr>(p) => Verdict::Ignore(Reason::Group),
            None => report(p, Cause::ProtocolUnreachable),
        }
    }
}

fn report(p: &mut Packet<'_>, cause: Cause) -> Verdict<Next, Reason> {
    p.set_fwd(cause.to_raw());
    Verdict::Next(Next::Report)
}

/// True if this router can process this extension header in packets for itself. A packet with any other extension header is handled like a
/// packet of an unknown protocol.
const fn is_understood(protocol: u8) -> bool {
    use protocol::{DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};
    matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS)
}

/// Returns the protocol after a packet's extension headers, and the offset of its header.
#[cold]
fn upper_layer(p: &mut Packet<'_>) -> Result<(u8, u8), Fault> {
    let to_group = ipv6::is_multicast(p.peek::<Ipv6Header>().dst_u128());
    let mut headers = Extensions::of(p.bytes());
    while is_understood(headers.protocol())
        && let Some(header) = headers.next()
    {
        check(p, &header?, to_group)?;
    }
    let l4 = u8::try_from(headers.at()).map_err(|_| Fault::Drop(Reason::Long))?;
    Ok((headers.protocol(), l4))
}

/// Checks one extension header of a packet for this router. `to_group` is true if the packet's destination is multicast.
fn check(p: &Packet<'_>, header: &Extension<'_>, to_group: bool) -> Result<(), Fault> {
    if header.kind == protocol::DESTINATION_OPTIONS
        && let Err(fault) = check_options(header.bytes, |_| false)
    {
        let cause = options6::cause(fault, header.at, to_group);
        return Err(cause.map_or(Fault::Drop(Reason::Options), Fault::Report));
    }
    if let Some(at) = Routing::of(header).and_then(|routing| routing.refused_at()) {
        return Err(Fault::Report(Cause::ParameterProblem(at as u16)));
    }
    let Some(fragment) = Fragment::of(header) else { return Ok(()) };
    if fragment.offset == 0 {
        check_first(p, &fragment)?;
    }
    // An atomic fragment is treated like a packet without the header (RFC 6946).
    if fragment.is_atomic() { Ok(()) } else { Err(Fault::Piece) }
}

/// Checks that a first fragment contains all headers (RFC 7112 section 5), and that its payload may be
/// fragmented. Neighbor Discovery messages must not be fragmented (RFC 6980).
fn check_first(p: &Packet<'_>, fragment: &Fragment) -> Result<(), Fault> {
    let chain = match Chain::of(p.bytes()) {
        Ok(chain) if chain.whole || !fragment.more => chain,
        // The missing part may be in another buffer.
        Ok(_) | Err(ExtensionError::FirstFragment) if p.flags().any(Flags::CHAINED) => {
            return Err(Fault::Drop(Reason::Truncated));
        }
        Ok(_) | Err(ExtensionError::FirstFragment) => return Err(Fault::Report(Cause::IncompleteHeaders)),
        Err(error) if fragment.more => return Err(error.into()),
        // The walk through the headers reports this error.
        Err(_) => return Ok(()),
    };
    let neighbor_discovery = kind::ROUTER_SOLICITATION..=kind::REDIRECT;
    let kind = p.bytes().get(chain.offset).filter(|_| chain.protocol == protocol::ICMPV6);
    let forbidden = kind.is_some_and(|kind| neighbor_discovery.contains(kind));
    if forbidden { Err(Fault::Drop(Reason::Neighbor)) } else { Ok(()) }
}

/// Returns the offset of the byte with the number of the unsupported protocol, in a packet for this router.
pub(crate) fn unknown_at(l3: &[u8]) -> usize {
    let mut headers = Extensions::of(l3);
    while is_understood(headers.protocol()) {
        match headers.next() {
            Some(Ok(_)) => {}
            Some(Err(ExtensionError::HopByHop(at))) => return at,
            Some(Err(_)) | None => break,
        }
    }
    headers.named_at()
}

impl FrameNode for Ip6Local {
    const NAME: &'static str = "ip6-local";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip6;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        out.each(frame, |_, p| self.one(cx.bufs, p));
    }
}
