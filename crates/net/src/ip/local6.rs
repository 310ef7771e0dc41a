//! `ip6-local`: packets for this router, to whoever takes their protocol (RFC 8200 section 4).
//!
//! The nodes behind find the packet at its IPv6 header, exactly as long as the header says, with a whole IPv6 header in the
//! first segment and the upper layer `l4_offset` bytes on. Extension headers lie between, and have been checked.
//!
//! Hop-by-hop options were looked at on the way in (`ip6-hop-by-hop`).

use std::net::Ipv6Addr;

use buf::{Cache, Flags, Frame, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use wire::extension::{
    Chain, Extension, ExtensionError, Extensions, Fragment, Routing, check_options, is_extension,
};
use wire::icmpv6::kind;
use wire::{Ipv6Header, ipv6, protocol};

use super::options6;
use super::packet::is_to_many;
use crate::Tables;
use crate::icmp::Cause;
use crate::registry::Registry;

edges! { pub enum Next { Report = "ip6-icmp-error" } }
reasons! {
    pub enum Reason {
        Length = "bad-length", Error, "the IPv6 header and the packet do not agree about lengths";
        Truncated = "truncated-header", Error, "an extension header does not end within the packet, or within its first buffer";
        Long = "long-headers", Warn, "there are more than 8 extension headers, or more than 215 bytes of them";
        Options = "bad-options", Info, "a header has too many options, or an unknown one that says that the packet is not to be reported";
        Neighbor = "fragmented-neighbor-discovery", Warn, "a message of Neighbor Discovery with a fragment header (RFC 6980)";
        Fragment = "fragment", Warn, "a fragment, and no feature makes datagrams whole (plugins of startup.conf)";
        Group = "group-protocol", Info, counted, "a packet to a group, of a protocol that this router does not speak";
        Nothing = "no-next-header", Info, "the packet says that nothing follows its headers";
    }
}

pub struct Ip6Local {
    protocols: Registry,
    fragments: Registry,
}

/// What becomes of a packet that nobody is given.
enum Fault {
    Drop(Reason),
    Report(Cause),
    /// It is a piece of a datagram.
    Piece,
}

impl From<ExtensionError> for Fault {
    fn from(error: ExtensionError) -> Fault {
        match error {
            // To be treated as an unknown protocol (RFC 8200 section 4).
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

/// Whether this router goes through such headers of a packet that is for itself. Others are to it what an unknown upper layer
/// is: it cannot do what they ask for.
const fn is_understood(protocol: u8) -> bool {
    use protocol::{DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};
    matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS)
}

/// The protocol behind the extension headers of a packet, and where it begins.
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

/// Does what a header asks for.
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
    // One that is the whole datagram is as good as a packet without the header (RFC 6946).
    if fragment.is_atomic() { Ok(()) } else { Err(Fault::Piece) }
}

/// Whether a first fragment has all headers in it (RFC 7112 section 5), and what may be fragmented behind them.
fn check_first(p: &Packet<'_>, fragment: &Fragment) -> Result<(), Fault> {
    let chain = match Chain::of(p.bytes()) {
        Ok(chain) if chain.whole || !fragment.more => chain,
        // What is missing may be in another buffer.
        Ok(_) | Err(ExtensionError::FirstFragment) if p.flags().any(Flags::CHAINED) => {
            return Err(Fault::Drop(Reason::Truncated));
        }
        Ok(_) | Err(ExtensionError::FirstFragment) => return Err(Fault::Report(Cause::IncompleteHeaders)),
        Err(error) if fragment.more => return Err(error.into()),
        // Who goes on through the headers finds out.
        Err(_) => return Ok(()),
    };
    let neighbor_discovery = kind::ROUTER_SOLICITATION..=kind::REDIRECT;
    let kind = p.bytes().get(chain.offset).filter(|_| chain.protocol == protocol::ICMPV6);
    let forbidden = kind.is_some_and(|kind| neighbor_discovery.contains(kind));
    if forbidden { Err(Fault::Drop(Reason::Neighbor)) } else { Ok(()) }
}

/// Where the byte is that names what this router does not speak, in a packet for itself.
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
