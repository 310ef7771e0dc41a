//! The frames whose packets `ethernet-input` itself takes to the output, on the [straight way](crate::nodes::ip::straight).

use std::net::{Ipv4Addr, Ipv6Addr};

use buf::{Flags, Frame};
use graph::{Cx, Out, Verdict};
use wire::ethernet::{EthernetHeader, ethertype};

use super::input::{Checks, NO_STATION, Next, Reason, Usual, accept};
use crate::ethernet::HEADER;
use crate::nodes::ip::straight::{Plain, Refused, Straight};

/// The nodes of the straight way, by family.
pub(super) const THROUGH: &[&str] =
    &["ip4-input", "ip4-lookup", "ip4-rewrite", "ip6-input", "ip6-lookup", "ip6-rewrite"];
/// Number of nodes of the straight way in one family.
const NODES: usize = THROUGH.len() / 2;

/// Flags of packets that do not go the straight way: every node must record traced ones, and the loop does not know several buffers.
const NEVER: Flags = Flags::TRACED.or(Flags::CHAINED).or(Flags::GSO).or(Flags::CSUM_PARTIAL);

/// A family, with the edges at which its packets leave the straight way.
pub(super) trait Family: Plain {
    const ETHERTYPE: u16;
    /// To the arc before the lookup. If it has features for the packets, these do not go the straight way.
    const LOOKUP: Next;
    const REWRITE: Next;
    const OUTPUT: Next;
    /// The place of the family's first node in [`THROUGH`].
    const FIRST: usize;
}

impl Family for Ipv4Addr {
    const ETHERTYPE: u16 = ethertype::IPV4;
    const LOOKUP: Next = Next::Lookup4;
    const REWRITE: Next = Next::Rewrite4;
    const OUTPUT: Next = Next::Output4;
    const FIRST: usize = 0;
}

impl Family for Ipv6Addr {
    const ETHERTYPE: u16 = ethertype::IPV6;
    const LOOKUP: Next = Next::Lookup6;
    const REWRITE: Next = Next::Rewrite6;
    const OUTPUT: Next = Next::Output6;
    const FIRST: usize = NODES;
}

/// Takes the packets of a frame the straight way, if they can go it. Returns `None` if not: the frame is then unchanged. Otherwise returns
/// true if packets may belong to sub-interfaces. `port` is the receive port of the first packet, and `(kind, to_input)` the EtherType of most
/// packets and the verdict for it.
#[inline(always)]
pub(super) fn straight<A: Family>(
    checks: &mut Checks,
    tables: &mut Straight<A>,
    mut port: Usual,
    (kind, to_input): (u32, Verdict<Next, Reason>),
    cx: &Cx<'_>,
    frame: &mut Frame,
    out: &mut Out<'_, Next, Reason>,
) -> Option<bool> {
    let cannot = !out.is_alone()
        || port.station == NO_STATION
        || kind != u32::from(A::ETHERTYPE)
        || frame.any().any(NEVER)
        || out.meets_feature(A::LOOKUP, frame.uniform_rx());
    let fib = port.fib;
    let packets = frame.len();
    let mut way = if cannot { None } else { tables.way(cx.guard, fib, packets) }?;
    // Packets that left before the input node, and those that a later node gets.
    let (mut before, mut at_lookup, mut at_rewrite) = (0, 0, 0);
    let mut subs = false;
    out.mostly_ahead(Verdict::Next(A::OUTPUT), frame, |p| {
        if p.rx_if() != port.interface {
            port = checks.next_usual(cx.guard, p.rx_if());
            // The way is for one VRF: packets of others are checked one by one.
            port.station = if port.fib == fib { port.station } else { NO_STATION };
        }
        // In a frame that is too short, the header is old data, and `accept` returns false.
        let header = p.peek::<EthernetHeader>();
        let (ethertype, dst) = (header.ethertype(), header.dst_word());
        if dst == port.station {
            if ethertype == A::ETHERTYPE && accept(p, fib, HEADER) {
                let at = match way.go(p) {
                    Ok(()) => return None,
                    Err(at) => at,
                };
                return Some(match at {
                    Refused::Input => {
                        before += 1;
                        to_input
                    }
                    Refused::Lookup => {
                        at_lookup += 1;
                        Verdict::Next(A::LOOKUP)
                    }
                    Refused::Rewrite => {
                        at_rewrite += 1;
                        Verdict::Next(A::REWRITE)
                    }
                });
            }
            if let Some(verdict) = checks.other_type(p, &port, ethertype) {
                before += 1;
                return Some(verdict);
            }
        }
        before += 1;
        let verdict = checks.checked(cx.guard, &mut p.again(), &mut subs);
        if verdict == to_input {
            // For example, a frame with a priority tag: it may be of the same flow as later frames.
            way.close();
        }
        Some(verdict)
    });
    let packets = packets as u64;
    let through = [packets - before, packets - before - at_lookup, packets - before - at_lookup - at_rewrite];
    for (node, packets) in through.into_iter().enumerate().filter(|(_, packets)| *packets > 0) {
        out.went_through(A::FIRST + node, packets);
    }
    Some(subs)
}
