//! `ip4-icmp-error`: drops packets that cannot be delivered, and reports them to their sources (RFC 1812 section 4.3.2).
//!
//! The packet is dropped for a reason of its own, whether it is reported or not. Why no report went out is counted as
//! further reasons, whose names begin with `unreported`.

use std::net::Ipv4Addr;

use buf::{FRAME_SIZE, Flags, Frame, Held, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::{Reader, SlotReader};
use infra::quiesce::Guard;
use wire::icmpv4::{self, exceeded, kind, unreachable};
use wire::{IcmpHeader, Ipv4Header, protocol};

use super::Cause;
use super::limit::{Limiter, Rate, Refused};
use crate::Tables;
use crate::interface::Interface;
use crate::ip::OwnAddresses;

/// Reports to one source: a traceroute or path MTU discovery needs a few at once, then no more than a few a second.
const PER_SOURCE: Rate = Rate::new(100, 10);
/// Reports to all sources of one worker.
const IN_TOTAL: Rate = Rate::new(1000, 100);
/// Precedence "internetwork control" (RFC 1812 section 4.3.2.5), and no other type of service (RFC 1349 section 5.1).
const TOS: u8 = 0xc0;

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
        Forbidden = "unreported-forbidden", Info,
            "not reported: an ICMP error, a later fragment, to or from a group, or a packet of the router's own";
        Source = "unreported-source-limit", Info, "not reported: too many reports to the packet's source";
        Limit = "unreported-limit", Warn, "not reported: too many reports to all sources";
        NoAddress = "unreported-no-address", Warn,
            "not reported: the router has no address in the packet's VRF that the report could come from";
        NoBuffer = "unreported-no-buffer", Warn, "not reported: no buffer was free for the report";
    }
}

pub struct Ip4IcmpError {
    interfaces: SlotReader<Interface>,
    own: Reader<OwnAddresses>,
    limiter: Limiter,
    /// What became of the reports about the packets of a frame.
    reports: Vec<Result<Held, Reason>>,
    /// Identification of the next report.
    id: u16,
}

/// What a cause means: why the packet is dropped, and type, code and second word of the message.
fn message(cause: Cause) -> (Reason, u8, u8, u32) {
    match cause {
        Cause::TtlExpired => (Reason::TtlExpired, kind::TIME_EXCEEDED, exceeded::TTL, 0),
        Cause::NoRoute => (Reason::NoRoute, kind::UNREACHABLE, unreachable::NET, 0),
        Cause::HostUnreachable => (Reason::Unreachable, kind::UNREACHABLE, unreachable::HOST, 0),
        Cause::Prohibited => (Reason::Prohibited, kind::UNREACHABLE, unreachable::ADMIN_PROHIBITED, 0),
        Cause::ProtocolUnreachable => (Reason::Protocol, kind::UNREACHABLE, unreachable::PROTOCOL, 0),
        Cause::PortUnreachable => (Reason::Port, kind::UNREACHABLE, unreachable::PORT, 0),
        Cause::FragmentationNeeded(mtu) => {
            (Reason::TooBig, kind::UNREACHABLE, unreachable::FRAGMENTATION_NEEDED, u32::from(mtu))
        }
    }
}

impl Ip4IcmpError {
    pub fn new(t: &Tables) -> Ip4IcmpError {
        Ip4IcmpError {
            interfaces: t.interfaces.clone(),
            own: t.own.clone(),
            limiter: Limiter::new(PER_SOURCE, IN_TOTAL),
            reports: Vec::with_capacity(FRAME_SIZE),
            id: 0,
        }
    }

    /// The address that a report about `p` comes from: the one the packet was sent to if that is the router's own, else
    /// one of the interface that it came in by, else any of the router's in the VRF.
    fn source(&self, guard: &Guard, p: &mut Packet<'_>) -> Option<Ipv4Addr> {
        let (fib, rx_if) = (p.fib(), p.rx_if());
        let own = self.own.get(guard);
        let dst = p.peek::<Ipv4Header>().dst();
        if own.contains(fib, dst.to_bits()) {
            return Some(dst);
        }
        let of_interface = self.interfaces.get(guard, rx_if).filter(|i| i.fib == fib).and_then(|i| i.ip4);
        of_interface.or_else(|| own.first(fib))
    }

    /// Makes the report about `p`.
    fn report(
        &mut self,
        cx: &mut Cx<'_>,
        p: &mut Packet<'_>,
        (kind, code, rest): (u8, u8, u32),
    ) -> Result<Held, Reason> {
        let never = Flags::L2_BROADCAST | Flags::L2_MULTICAST | Flags::LOCAL_ORIGIN;
        let to = p.peek::<Ipv4Header>().src();
        // Network 0 means "this network" (RFC 1812 section 4.3.2.7 forbids it as a source here).
        if p.flags().any(never) || to.octets()[0] == 0 || !icmpv4::may_report(p.bytes()) {
            return Err(Reason::Forbidden);
        }
        self.limiter.pass(p.fib(), to.to_bits(), cx.now).map_err(|refused| match refused {
            Refused::Source => Reason::Source,
            Refused::Total => Reason::Limit,
        })?;
        let from = self.source(cx.guard, p).ok_or(Reason::NoAddress)?;
        let said = usize::from(p.peek::<Ipv4Header>().total_len());
        let mut message = [0; icmpv4::MAX_ERROR_LEN];
        let (ip_to, rest_to) = message.split_at_mut(Ipv4Header::LEN);
        let (icmp_to, quote) = rest_to.split_at_mut(IcmpHeader::LEN);
        let quoted = copy_front(p, &mut quote[..icmpv4::quote_len(said.min(p.total_len()))]);
        let icmp = IcmpHeader::new(kind, code, rest, &quote[..quoted]);
        icmp_to.copy_from_slice(&icmp.0);
        let len = Ipv4Header::LEN + IcmpHeader::LEN + quoted;
        let mut ip = Ipv4Header::new(from, to, protocol::ICMP, IcmpHeader::LEN + quoted);
        ip.set_tos(TOS);
        ip.set_id(self.id);
        ip.set_checksum(ip.compute_checksum());
        ip_to.copy_from_slice(&ip.0);
        self.id = self.id.wrapping_add(1);

        let mut held = Held::alloc(cx.bufs).ok_or(Reason::NoBuffer)?;
        let mut report = held.packet();
        // At most 576 bytes, which every buffer has room for.
        report.fill(&message[..len]);
        report.set_fib(p.fib());
        report.set_flags(Flags::LOCAL_ORIGIN | p.flags() & Flags::TRACED);
        if p.flags().any(Flags::TRACED) {
            report.cold_mut().trace = p.cold().trace;
        }
        Ok(held)
    }
}

/// Copies the front of a packet into `to`; gives how many bytes there were.
fn copy_front(p: &Packet<'_>, to: &mut [u8]) -> usize {
    let mut at = 0;
    for segment in p.segments() {
        let n = segment.len().min(to.len() - at);
        to[at..at + n].copy_from_slice(&segment[..n]);
        at += n;
    }
    at
}

impl FrameNode for Ip4IcmpError {
    const NAME: &'static str = "ip4-icmp-error";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip4;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        out.each(frame, |_, p| {
            let (reason, kind, code, rest) = message(Cause::from_raw(p.fwd()));
            let report = self.report(cx, p, (kind, code, rest));
            self.reports.push(report);
            Verdict::Drop(reason)
        });
        for report in self.reports.drain(..) {
            match report {
                Ok(report) => out.emit(Next::Lookup, report),
                Err(reason) => out.count(reason, 1),
            }
        }
    }
}
