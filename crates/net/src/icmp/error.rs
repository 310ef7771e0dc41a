//! `ip4-icmp-error`: drops packets that cannot be delivered, and reports them to their sources (RFC 1812 section 4.3.2).
//!
//! The packet is dropped for a reason of its own, whether it is reported or not. Why no report went out is counted as
//! further reasons, whose names begin with `unreported`.

use std::net::Ipv4Addr;

use buf::{FRAME_SIZE, Frame, Held, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::{Reader, SlotReader};
use infra::quiesce::Guard;
use wire::Ipv4Header;
use wire::icmpv4::{exceeded, kind, unreachable};

use super::Cause;
use super::report::{Message, Reporter, Unreported};
use crate::Tables;
use crate::interface::Interface;
use crate::ip::OwnAddresses;

edges! { pub enum Next { Lookup = "ip4-lookup" } }
reasons! {
    pub enum Reason {
        TtlExpired = "ttl-expired", Info, "the packet's time to live was used up";
        NoRoute = "no-route", Warn, "no route covers the destination";
        Unreachable = "host-unreachable", Warn, "the next hop does not answer, or the route says unreachable";
        Prohibited = "prohibited", Info, "the route says that packets to this destination are prohibited";
        Protocol = "protocol-unreachable", Info, "the packet is for this router, which does not speak its protocol";
        Port = "port-unreachable", Info, "the packet is for this router, where nobody listens at its port";
        TooBig = "fragmentation-needed", Info, "the packet is larger than the MTU and must not be fragmented";
        Reassembly = "reassembly-timeout", Warn, "the first fragment of a datagram of which others did not come in time";
        SourceRoute = "source-route", Warn, "the packet has a source route, which this router does not follow";
        Parameter = "bad-options", Warn, "the packet's IPv4 options are malformed";
        Forbidden = "unreported-forbidden", Info, counted,
            "not reported: an ICMP error, a later fragment, to or from a group, or a packet of the router's own";
        Source = "unreported-source-limit", Info, counted, "not reported: too many reports to the packet's source";
        Limit = "unreported-limit", Warn, counted, "not reported: too many reports to all sources";
        NoAddress = "unreported-no-address", Warn, counted,
            "not reported: the router has no address in the packet's VRF that the report could come from";
        NoBuffer = "unreported-no-buffer", Warn, counted, "not reported: no buffer was free for the report";
    }
}

pub struct Ip4IcmpError {
    interfaces: SlotReader<Interface>,
    own: Reader<OwnAddresses<Ipv4Addr>>,
    reporter: Reporter,
    /// What became of the reports about the packets of a frame.
    reports: Vec<Result<Held, Reason>>,
}

/// What a cause means: why the packet is dropped, and the message.
fn message(cause: Cause) -> (Reason, Message) {
    let (reason, kind, code, rest) = match cause {
        Cause::TtlExpired => (Reason::TtlExpired, kind::TIME_EXCEEDED, exceeded::TTL, 0),
        Cause::NoRoute => (Reason::NoRoute, kind::UNREACHABLE, unreachable::NET, 0),
        // IPv4 has no such scopes.
        Cause::HostUnreachable | Cause::BeyondScope => {
            (Reason::Unreachable, kind::UNREACHABLE, unreachable::HOST, 0)
        }
        Cause::Prohibited => (Reason::Prohibited, kind::UNREACHABLE, unreachable::ADMIN_PROHIBITED, 0),
        Cause::ProtocolUnreachable => (Reason::Protocol, kind::UNREACHABLE, unreachable::PROTOCOL, 0),
        Cause::PortUnreachable => (Reason::Port, kind::UNREACHABLE, unreachable::PORT, 0),
        Cause::FragmentationNeeded(mtu) => {
            (Reason::TooBig, kind::UNREACHABLE, unreachable::FRAGMENTATION_NEEDED, u32::from(mtu))
        }
        Cause::ReassemblyTimeout => (Reason::Reassembly, kind::TIME_EXCEEDED, exceeded::REASSEMBLY, 0),
        Cause::SourceRouteFailed => {
            (Reason::SourceRoute, kind::UNREACHABLE, unreachable::SOURCE_ROUTE_FAILED, 0)
        }
        Cause::ParameterProblem(at) => (Reason::Parameter, kind::PARAMETER_PROBLEM, 0, u32::from(at) << 24),
    };
    (reason, Message { kind, code, rest })
}

impl Ip4IcmpError {
    pub fn new(t: &Tables) -> Ip4IcmpError {
        Ip4IcmpError {
            interfaces: t.interfaces.clone(),
            own: t.ip4.own.clone(),
            reporter: Reporter::new(),
            reports: Vec::with_capacity(FRAME_SIZE),
        }
    }
}

/// The address that a report about `p` comes from: the one the packet was sent to if that is the router's own, else one of
/// the interface that it came in by, else any of the router's in the VRF.
fn source(
    own: &OwnAddresses<Ipv4Addr>,
    interfaces: &SlotReader<Interface>,
    guard: &Guard,
    p: &mut Packet<'_>,
) -> Option<Ipv4Addr> {
    let (fib, rx_if) = (p.fib(), p.rx_if());
    let dst = p.peek::<Ipv4Header>().dst();
    if own.contains(fib, dst.to_bits()) {
        return Some(dst);
    }
    let of_interface = interfaces.get(guard, rx_if).filter(|i| i.fib == fib).and_then(Interface::primary);
    of_interface.or_else(|| own.first(fib))
}

/// Why a report was not sent, as a reason.
fn unreported(why: Unreported) -> Reason {
    match why {
        Unreported::Forbidden => Reason::Forbidden,
        Unreported::Source => Reason::Source,
        Unreported::Limit => Reason::Limit,
        Unreported::NoAddress => Reason::NoAddress,
        Unreported::NoBuffer => Reason::NoBuffer,
    }
}

impl FrameNode for Ip4IcmpError {
    const NAME: &'static str = "ip4-icmp-error";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip4;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let Ip4IcmpError { interfaces, own, reporter, reports } = self;
        let own = own.get(cx.guard);
        out.each(frame, |_, p| {
            let (reason, message) = message(Cause::from_raw(p.fwd()));
            let source = |cx: &Cx<'_>, p: &mut Packet<'_>| source(own, interfaces, cx.guard, p);
            reports.push(reporter.report(cx, p, message, source).map_err(unreported));
            Verdict::Drop(reason)
        });
        for report in reports.drain(..) {
            match report {
                Ok(report) => out.emit(Next::Lookup, report),
                Err(reason) => out.count(reason, 1),
            }
        }
    }
}
