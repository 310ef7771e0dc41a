//! `ip6-hop-by-hop`: handles packets with options for every router on the path (RFC 8200 section 4.3).
//!
//! Router alerts go to the node that registered for the packet's protocol. No other option is supported; an option's type says whether the
//! packet is still forwarded. A packet with too many options is dropped (RFC 8504 section 5.3).

use buf::Packet;
use graph::{Cx, PacketNode, Verdict, edges, reasons};
use wire::extension::{Chain, ExtensionError, Extensions, OptionFault, check_options};
use wire::{Ipv6Header, ipv6};

use crate::Tables;
use crate::ip::Cause;
use crate::registry::Registry;

edges! { pub enum Next { Lookup = "ip6-unicast", Multicast = "ip6-multicast", Report = "ip6-icmp-error" } }
reasons! {
    pub enum Reason {
        Truncated = "truncated-header", Error, "the hop-by-hop options do not end within the packet, or within its first buffer";
        Long = "long-header", Warn, "the hop-by-hop options are longer than this router processes (1,240 bytes)";
        Options = "bad-options", Info, "there are too many options, or an unknown one that asks for a silent drop";
    }
}

pub struct Ip6HopByHop {
    router_alerts: Registry,
}

impl Ip6HopByHop {
    pub fn new(t: &Tables) -> Ip6HopByHop {
        Ip6HopByHop { router_alerts: t.ip6.router_alerts.clone() }
    }
}

impl PacketNode for Ip6HopByHop {
    const NAME: &'static str = "ip6-hop-by-hop";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip6;

    #[inline(always)]
    fn one(&mut self, _: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<Next, Reason> {
        let to_group = ipv6::is_multicast(p.peek::<Ipv6Header>().dst_u128());
        let header = match Extensions::of(p.bytes()).next() {
            Some(Ok(header)) => header,
            Some(Err(ExtensionError::Length)) => return Verdict::Drop(Reason::Long),
            _ => return Verdict::Drop(Reason::Truncated),
        };
        match check_options(header.bytes, |_| false) {
            Ok(None) => {}
            Ok(Some(_)) => {
                let protocol = Chain::of(p.bytes()).map(|c| u16::from(c.protocol));
                if let Some(edge) = protocol.ok().and_then(|p| self.router_alerts.get(p)) {
                    return Verdict::Edge(edge);
                }
            }
            Err(fault) => {
                let Some(cause) = cause(fault, header.at, to_group) else {
                    return Verdict::Drop(Reason::Options);
                };
                p.set_fwd(cause.to_raw());
                return Verdict::Next(Next::Report);
            }
        }
        Verdict::Next(if to_group { Next::Multicast } else { Next::Lookup })
    }
}

/// Returns the cause to report for a fault in the options of the header at offset `at`; `None` to drop the
/// packet without a report (RFC 8200 section 4.2). `to_group`: the packet's destination is multicast.
pub(super) fn cause(fault: OptionFault, at: usize, to_group: bool) -> Option<Cause> {
    // The bounds in `wire::extension` keep this within 16 bits.
    let place = |in_header: usize| (at + in_header) as u16;
    match fault {
        OptionFault::Malformed(option) => Some(Cause::ParameterProblem(place(option))),
        OptionFault::Report(option) => Some(Cause::UnknownOption(place(option))),
        OptionFault::ReportUnlessGroup(option) => (!to_group).then_some(Cause::UnknownOption(place(option))),
        OptionFault::Discard(_) | OptionFault::TooMany => None,
    }
}
