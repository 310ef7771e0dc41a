//! `ip4-rewrite`: counts down the TTL, checks the MTU, writes the link header, counts the adjacency.
//!
//! A packet that is larger than the MTU goes to `ip4-fragment`, and its fragments come back here; one that must not be
//! fragmented is reported to its source (RFC 1812 section 4.2.2.7, RFC 1191).

use std::io;

use buf::{Flags, Frame, Gso, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::counters::Lane;
use wire::ipv4::Ipv4Header;

use crate::Tables;
use crate::adjacency::Adjacency;
use crate::icmp::Cause;
use crate::interface::Runs;

edges! {
    pub enum Next {
        Output = "ip4-output",
        Arp = "ip4-arp",
        Fragment = "ip4-fragment",
        Report = "ip4-icmp-error",
    }
}
reasons! {
    pub enum Reason {
        LinkBroadcast = "link-broadcast", Warn, "the packet came in a broadcast or multicast frame: not to be forwarded";
        Stale = "stale-adjacency", Info, "the neighbour went away while the packet was on its way";
        NoHeadroom = "no-headroom", Error, "there is no room for the link header in front of the packet";
    }
}

pub struct Ip4Rewrite {
    adjacencies: SlotReader<Adjacency>,
    counters: Lane<2>,
}

impl Ip4Rewrite {
    pub fn new(t: &Tables, worker: usize) -> io::Result<Ip4Rewrite> {
        let counters = t.adjacency_counters.lane(worker)?;
        Ok(Ip4Rewrite { adjacencies: t.adjacencies.clone(), counters })
    }
}

impl FrameNode for Ip4Rewrite {
    const NAME: &'static str = "ip4-rewrite";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::rewrite;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let Ip4Rewrite { adjacencies, counters } = self;
        let mut counted = Runs::new(counters);
        out.each(frame, |_, p| {
            let index = p.fwd();
            let Some(adjacency) = adjacencies.get(cx.guard, index) else {
                return Verdict::Drop(Reason::Stale);
            };
            p.set_tx_if(adjacency.interface);
            let Some(rewrite) = &adjacency.rewrite else {
                p.set_fwd(adjacency.next_hop.to_bits());
                return Verdict::Next(Next::Arp);
            };
            let len = p.total_len();
            if !p.flags().any(Flags::LOCAL_ORIGIN) {
                if p.flags().any(Flags::L2_BROADCAST | Flags::L2_MULTICAST) {
                    return Verdict::Drop(Reason::LinkBroadcast);
                }
                let h = p.peek::<Ipv4Header>();
                if h.ttl() <= 1 {
                    p.set_fwd(Cause::TtlExpired.to_raw());
                    return Verdict::Next(Next::Report);
                }
                h.decrement_ttl();
            }
            if len > usize::from(adjacency.mtu)
                && let Some(verdict) = too_big(p, adjacency.mtu)
            {
                return verdict;
            }
            if p.flags().any(Flags::CSUM_PARTIAL | Flags::GSO) {
                move_offload(p, rewrite.len);
            }
            if !p.prepend(&rewrite.bytes, usize::from(rewrite.len)) {
                return Verdict::Drop(Reason::NoHeadroom);
            }
            counted.packet(index, len + usize::from(rewrite.len));
            Verdict::Next(Next::Output)
        });
    }
}

/// What is still to be done to a packet counts from its Ethernet header, and the new one may be longer or shorter.
#[cold]
fn move_offload(p: &mut Packet<'_>, link_len: u8) {
    let old = u16::from(p.l2_len());
    let moved = |place: u16| place.wrapping_sub(old).wrapping_add(u16::from(link_len));
    let cold = p.cold_mut();
    cold.csum_start = moved(cold.csum_start);
    if let Some(gso) = cold.gso() {
        cold.set_gso(Gso { header_len: moved(gso.header_len), ..gso });
    }
}

/// What becomes of a packet that is larger than the MTU; `None` when it will be cut to segments that fit.
#[cold]
fn too_big(p: &mut Packet<'_>, mtu: u16) -> Option<Verdict<Next, Reason>> {
    if p.flags().any(Flags::GSO)
        && let Some(gso) = p.cold().gso()
    {
        // Header length counts from the Ethernet header, which came with the packet.
        let headers = usize::from(gso.header_len).saturating_sub(usize::from(p.l2_len()));
        if headers + usize::from(gso.size) <= usize::from(mtu) {
            return None;
        }
    }
    if !p.peek::<Ipv4Header>().dont_fragment() {
        return Some(Verdict::Next(Next::Fragment));
    }
    p.set_fwd(Cause::FragmentationNeeded(mtu).to_raw());
    Some(Verdict::Next(Next::Report))
}
