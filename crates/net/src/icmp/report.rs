//! ICMP errors about packets (RFC 1812 section 4.3.2, RFC 4443 section 2.4), for the nodes that send them. Features use this for other
//! messages, too, such as redirects.

use std::marker::PhantomData;

use buf::{Flags, Held, Packet};
use graph::Cx;
use wire::icmpv6;

use super::family::Icmp;
use super::limit::{Limiter, Limits, Rate, Refused};
use crate::ip::Limit;

/// Rate limit for reports to one source. Traceroute and path MTU discovery need a few reports at once, and then only a few each second.
const PER_SOURCE: Rate = Rate::new(100, 10);
/// The limits of one [`Reporter`] for reports that are not [vital](Limit::Vital).
pub(super) const COMMON: Limits =
    Limits { per_source: PER_SOURCE, in_total: Rate::new(1000, 100), buckets: 1024 };
/// The limits of one [`Reporter`] for [vital](Limit::Vital) reports. The limit for all sources together is high: it only bounds the time
/// that a worker spends on reports. Otherwise a host could stop path MTU discovery for all others, by sending many packets that are too
/// big, from all addresses of its network. Linux does not count these reports in its limit for all sources, for the same reason.
pub(super) const VITAL: Limits =
    Limits { per_source: PER_SOURCE, in_total: Rate::new(100_000, 10_000), buckets: 8192 };
/// Maximum length of a report of either family in bytes.
const LONGEST: usize = icmpv6::MAX_ERROR_LEN;

/// Type, code and second 32-bit word of an ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The type.
    pub kind: u8,
    /// The code.
    pub code: u8,
    /// The second 32-bit word, in host byte order.
    pub rest: u32,
}

/// The reason why no report is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreported {
    /// The RFCs forbid a report about this packet.
    Forbidden,
    /// The limit for reports to the packet's source is exceeded.
    Source,
    /// The limit for reports to all sources is exceeded.
    Limit,
    /// The router has no source address for the report.
    NoAddress,
    /// No buffer is free.
    NoBuffer,
}

/// Makes reports of one address family within the limits. Each worker has a `Reporter` for each node that sends reports.
pub struct Reporter<A> {
    limiter: Limiter,
    /// Separate limits for [vital](Limit::Vital) reports, so that a flood of other reports does not block them.
    vital: Limiter,
    /// Identification number of the next report.
    id: u16,
    family: PhantomData<A>,
}

impl<A: Icmp> Default for Reporter<A> {
    fn default() -> Reporter<A> {
        let (limiter, vital) = (Limiter::new(COMMON), Limiter::new(VITAL));
        Reporter { limiter, vital, id: 0, family: PhantomData }
    }
}

impl<A: Icmp> Reporter<A> {
    /// Makes a report about `p`, which begins with its IP header. `from` returns the report's source address. The report begins with its
    /// own IP header; the caller passes it to the lookup node.
    ///
    /// # Errors
    /// Returns the reason why no report is made.
    pub fn report(
        &mut self,
        cx: &mut Cx<'_>,
        p: &mut Packet<'_>,
        message: Message,
        limit: Limit,
        from: impl FnOnce(&Cx<'_>, &mut Packet<'_>) -> Option<A>,
    ) -> Result<Held, Unreported> {
        if !A::may_report(p, message) {
            return Err(Unreported::Forbidden);
        }
        let (to, said) = (A::src(p.peek()), A::said(p.peek()));
        let limiter = match limit {
            Limit::Common => &mut self.limiter,
            Limit::Vital => &mut self.vital,
        };
        limiter.pass(p.fib(), to, cx.now).map_err(|refused| match refused {
            Refused::Source => Unreported::Source,
            Refused::Total => Unreported::Limit,
        })?;
        let from = from(cx, p).ok_or(Unreported::NoAddress)?;
        let mut bytes = [0; LONGEST];
        let quoted = copy_front(p, &mut bytes[A::QUOTE_AT..][..A::quote_len(said.min(p.total_len()))]);
        let bytes = &mut bytes[..A::QUOTE_AT + quoted];
        A::write_headers(bytes, from, A::from_bits(to), self.id, message);
        self.id = self.id.wrapping_add(1);

        let mut held = Held::alloc(cx.bufs).ok_or(Unreported::NoBuffer)?;
        let mut report = held.packet();
        // Every buffer has room for a report.
        report.fill(bytes);
        report.set_fib(p.fib());
        // A link-local source is on the receive link.
        report.set_tx_if(p.rx_if());
        report.set_flags(Flags::LOCAL_ORIGIN | p.flags() & Flags::TRACED);
        if p.flags().any(Flags::TRACED) {
            report.cold_mut().trace = p.cold().trace;
        }
        Ok(held)
    }
}

/// Copies the start of a packet into `to`, as much as there is room for. Returns the number of bytes copied.
fn copy_front(p: &Packet<'_>, to: &mut [u8]) -> usize {
    let mut at = 0;
    for segment in p.segments() {
        let n = segment.len().min(to.len() - at);
        to[at..at + n].copy_from_slice(&segment[..n]);
        at += n;
    }
    at
}
