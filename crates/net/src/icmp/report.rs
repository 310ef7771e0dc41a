//! Makes ICMP errors about packets (RFC 1812 section 4.3.2), for the nodes that send them.

use std::net::Ipv4Addr;

use buf::{Flags, Held, Packet};
use graph::Cx;
use wire::icmpv4::{self, kind, unreachable};
use wire::{IcmpHeader, Ipv4Header, protocol};

use super::limit::{Limiter, Rate, Refused};

/// Reports to one source: a traceroute or path MTU discovery needs a few at once, then no more than a few a second.
const PER_SOURCE: Rate = Rate::new(100, 10);
/// Reports to all sources of one worker.
const IN_TOTAL: Rate = Rate::new(1000, 100);
/// Precedence "internetwork control" (RFC 1812 section 4.3.2.5), and no other type of service (RFC 1349 section 5.1).
const TOS: u8 = 0xc0;

/// Type, code and second word of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: u8,
    pub code: u8,
    pub rest: u32,
}

/// Why there is no report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreported {
    /// There may be none about such a packet.
    Forbidden,
    /// Too many to its source.
    Source,
    /// Too many to all sources.
    Limit,
    /// There is no address to send it from.
    NoAddress,
    /// No buffer is free.
    NoBuffer,
}

/// Makes reports, as many as the limits allow.
pub struct Reporter {
    limiter: Limiter,
    /// For "fragmentation needed" alone: without these reports a connection hangs, so no flood of others uses them up.
    mtu_limiter: Limiter,
    /// Identification of the next report.
    id: u16,
}

impl Reporter {
    pub fn new() -> Reporter {
        let limiter = || Limiter::new(PER_SOURCE, IN_TOTAL);
        Reporter { limiter: limiter(), mtu_limiter: limiter(), id: 0 }
    }

    /// Makes a report about `p`, which begins with its IPv4 header, from the address that `from` gives.
    pub fn report(
        &mut self,
        cx: &mut Cx<'_>,
        p: &mut Packet<'_>,
        message: Message,
        from: impl FnOnce(&Cx<'_>, &mut Packet<'_>) -> Option<Ipv4Addr>,
    ) -> Result<Held, Unreported> {
        let never = Flags::L2_BROADCAST | Flags::L2_MULTICAST | Flags::LOCAL_ORIGIN;
        let to = p.peek::<Ipv4Header>().src();
        // Network 0 means "this network" (RFC 1812 section 4.3.2.7 forbids it as a source here).
        if p.flags().any(never) || to.octets()[0] == 0 || !icmpv4::may_report(p.bytes()) {
            return Err(Unreported::Forbidden);
        }
        let limiter = match (message.kind, message.code) {
            (kind::UNREACHABLE, unreachable::FRAGMENTATION_NEEDED) => &mut self.mtu_limiter,
            _ => &mut self.limiter,
        };
        limiter.pass(p.fib(), to.to_bits(), cx.now).map_err(|refused| match refused {
            Refused::Source => Unreported::Source,
            Refused::Total => Unreported::Limit,
        })?;
        let from = from(cx, p).ok_or(Unreported::NoAddress)?;
        let said = usize::from(p.peek::<Ipv4Header>().total_len());
        let mut bytes = [0; icmpv4::MAX_ERROR_LEN];
        let (ip_to, rest_to) = bytes.split_at_mut(Ipv4Header::LEN);
        let (icmp_to, quote) = rest_to.split_at_mut(IcmpHeader::LEN);
        let quoted = copy_front(p, &mut quote[..icmpv4::quote_len(said.min(p.total_len()))]);
        let icmp = IcmpHeader::new(message.kind, message.code, message.rest, &quote[..quoted]);
        icmp_to.copy_from_slice(&icmp.0);
        let len = Ipv4Header::LEN + IcmpHeader::LEN + quoted;
        let mut ip = Ipv4Header::new(from, to, protocol::ICMP, IcmpHeader::LEN + quoted);
        ip.set_tos(TOS);
        ip.set_id(self.id);
        ip.set_checksum(ip.compute_checksum());
        ip_to.copy_from_slice(&ip.0);
        self.id = self.id.wrapping_add(1);

        let mut held = Held::alloc(cx.bufs).ok_or(Unreported::NoBuffer)?;
        let mut report = held.packet();
        // At most 576 bytes, which every buffer has room for.
        report.fill(&bytes[..len]);
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
