//! `ip4-icmp-error` and `ip6-icmp-error`: drop undeliverable packets and report them to their sources (RFC
//! 1812 section 4.3.2, RFC 4443 section 2.4).
//!
//! The packet is always dropped with its own reason, whether a report is sent or not. If no report is sent, a
//! second reason is counted, whose name begins with `unreported`.

use std::net::{Ipv4Addr, Ipv6Addr};

use buf::{FRAME_SIZE, Frame, Held, Packet};
use graph::{Cx, Extended, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::{Reader, SlotReader};
use infra::quiesce::Guard;

use super::family::Icmp;
use super::report::{Message, Reporter, Unreported};
use crate::Tables;
use crate::interface::Interface;
use crate::ip::{Cause, CauseInfo, Limit, OwnAddresses, Unreachables};

edges! {
    /// The edges, with the names of the IPv4 nodes; for IPv6 see [`FrameNode::EDGES`].
    pub enum Next { Lookup = "ip4-lookup" }
}
reasons! {
    pub enum Reason {
        TtlExpired = "ttl-expired", Info, "the packet's TTL or hop limit has expired";
        NoRoute = "no-route", Warn, "no route covers the destination";
        Unreachable = "host-unreachable", Warn, "the next hop does not answer, or the route is unreachable";
        Prohibited = "prohibited", Info, "the route prohibits packets to this destination";
        Protocol = "protocol-unreachable", Info, "the packet is for this router, which does not support its protocol";
        Port = "port-unreachable", Info, "the packet is for this router, but no service listens on its port";
        TooBig = "fragmentation-needed", Info, "the packet is larger than the MTU and must not be fragmented";
        SourceRoute = "source-route", Warn, "the packet has a source route, which this router does not follow";
        Parameter = "bad-options", Warn, "the packet's options, or its extension headers, are malformed";
        Option = "unknown-option", Info, "the packet has an unknown option that must not be ignored";
        Incomplete = "incomplete-headers", Warn, "the packet is a first fragment without all headers";
        Scope = "beyond-scope", Info, "the packet's source is link-local, and its destination is on another link";
        Forbidden = "unreported-forbidden", Info, counted,
            "no ICMP error sent: none may answer an ICMP error, a fragment after the first, a packet to or from a multicast or broadcast address, or the router's own packet";
        Source = "unreported-source-limit", Info, counted, "no ICMP error sent: the rate limit for the packet's source is exceeded";
        Limit = "unreported-limit", Warn, counted, "no ICMP error sent: the rate limit for all sources is exceeded";
        NoAddress = "unreported-no-address", Warn, counted,
            "no ICMP error sent: the router has no source address for it in the packet's VRF";
        Off = "unreported-off", Info, counted, "no ICMP error sent: messages \"destination unreachable\" are switched off";
        NoBuffer = "unreported-no-buffer", Warn, counted, "no ICMP error sent: no buffer was free";
    }
}

pub struct IcmpError<A: Icmp> {
    interfaces: SlotReader<Interface>,
    own: Reader<OwnAddresses<A>>,
    reporter: Reporter<A>,
    /// Causes of features.
    causes: Vec<CauseInfo>,
    unreachables: Unreachables,
    /// The result for each packet of a frame: a report, or the reason why none is sent.
    reports: Vec<Result<Held, Reason>>,
}

/// The IPv4 node.
pub type Ip4IcmpError = IcmpError<Ipv4Addr>;
/// The IPv6 node.
pub type Ip6IcmpError = IcmpError<Ipv6Addr>;

impl<A: Icmp> IcmpError<A> {
    pub fn new(t: &Tables) -> IcmpError<A> {
        IcmpError {
            interfaces: t.interfaces.clone(),
            own: t.of::<A>().own.clone(),
            reporter: Reporter::default(),
            causes: t.of::<A>().causes.all(),
            unreachables: t.of::<A>().unreachables.clone(),
            reports: Vec::with_capacity(FRAME_SIZE),
        }
    }
}

/// Returns the source address for a report about `p`, or for a reply to `p`. This is the first of the following that exists: the packet's
/// destination, if it is the router's own address; an address of the receive interface, if the interface is in the packet's VRF; the
/// router's lowest address in this VRF that is neither link-local nor tentative. `None` if there is none of them.
pub(super) fn source<A: Icmp>(
    own: &OwnAddresses<A>,
    interfaces: &SlotReader<Interface>,
    guard: &Guard,
    p: &mut Packet<'_>,
) -> Option<A> {
    let (fib, rx_if) = (p.fib(), p.rx_if());
    let (src, dst) = (A::src(p.peek()), A::dst(p.peek()));
    if own.contains(fib, A::scoped(dst, rx_if)) {
        return Some(A::from_bits(dst));
    }
    let of_interface = interfaces.get(guard, rx_if).filter(|i| i.fib == fib).and_then(|i| A::sender(i, src));
    of_interface.or_else(|| own.first(fib))
}

/// Returns the drop reason of a packet to which `cause` applies, the ICMP message to report, and the limit for this message. `l3`
/// is the packet from its IP header on.
fn described<A: Icmp>(causes: &[CauseInfo], cause: Cause, l3: &[u8]) -> (Extended<Reason>, Message, Limit) {
    if let Cause::Feature(at) = cause
        && let Some(&CauseInfo { kind, code, limit, .. }) = causes.get(usize::from(at))
    {
        return (Extended::More(at), Message { kind, code, rest: 0 }, limit);
    }
    let limit = if let Cause::FragmentationNeeded(_) = cause { Limit::Vital } else { Limit::Common };
    let (reason, message) = A::message(cause, l3);
    (Extended::Own(reason), message, limit)
}

/// Returns the reason under which a report that was not sent is counted.
fn unreported(why: Unreported) -> Reason {
    match why {
        Unreported::Forbidden => Reason::Forbidden,
        Unreported::Source => Reason::Source,
        Unreported::Limit => Reason::Limit,
        Unreported::NoAddress => Reason::NoAddress,
        Unreported::NoBuffer => Reason::NoBuffer,
    }
}

impl<A: Icmp> FrameNode for IcmpError<A> {
    const NAME: &'static str = A::NODES.report;
    type Next = Next;
    type Drop = Extended<Reason>;
    const EDGES: &'static [&'static str] = &[A::NODES.lookup];
    const TRACE: graph::trace::TraceFn = A::TRACE;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Self::Drop>) {
        let IcmpError { interfaces, own, reporter, causes, unreachables, reports } = self;
        let own = own.get(cx.guard);
        let are_sent = unreachables.are_sent();
        out.each(frame, |_, p| {
            let (reason, message, limit) = described::<A>(causes, Cause::from_raw(p.fwd()), p.bytes());
            let source = |cx: &Cx<'_>, p: &mut Packet<'_>| source(own, interfaces, cx.guard, p);
            reports.push(match are_sent || !A::is_unreachable(message) {
                true => reporter.report(cx, p, message, limit, source).map_err(unreported),
                false => Err(Reason::Off),
            });
            Verdict::Drop(reason)
        });
        for report in reports.drain(..) {
            match report {
                Ok(report) => out.emit(Next::Lookup, report),
                Err(reason) => out.count(Extended::Own(reason), 1),
            }
        }
    }
}
