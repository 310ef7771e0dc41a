//! `ip4-rewrite`: counts down the TTL, checks the MTU, writes the link header, counts the adjacency.
//!
//! A packet that is larger than the MTU goes to `ip4-fragment`, and its fragments come back here; one that must not be
//! fragmented is reported to its source (RFC 1812 section 4.2.2.7, RFC 1191). A TCP packet that is still to be cut into
//! segments, and may be fragmented, gets smaller segments instead.

use std::io;

use buf::{Flags, Frame, Gso, GsoKind, Packet};
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
        let adjacencies = self.adjacencies.view(cx.guard);
        let mut counted = Runs::new(&mut self.counters);
        out.mostly(Verdict::Next(Next::Output), frame, |_, p| {
            let index = p.fwd();
            let Some(adjacency) = adjacencies.get(index) else { return Some(Verdict::Drop(Reason::Stale)) };
            p.set_tx_if(adjacency.interface);
            let Some(rewrite) = &adjacency.rewrite else {
                p.set_fwd(adjacency.next_hop.to_bits());
                return Some(Verdict::Next(Next::Arp));
            };
            let mut len = p.len();
            if p.flags().any(UNUSUAL) || len > usize::from(adjacency.mtu) {
                if let Err(verdict) = unusual(p, adjacency.mtu, rewrite.len()) {
                    return Some(verdict);
                }
                len = p.total_len();
            } else if !count_down(p) {
                return Some(Verdict::Next(Next::Report));
            }
            if !p.prepend(rewrite) {
                return Some(Verdict::Drop(Reason::NoHeadroom));
            }
            counted.packet(index, len + rewrite.len());
            None
        });
    }
}

/// Flags of packets that need more than a new header.
const UNUSUAL: Flags = Flags::CHAINED
    .or(Flags::LOCAL_ORIGIN)
    .or(Flags::L2_BROADCAST)
    .or(Flags::L2_MULTICAST)
    .or(Flags::CSUM_PARTIAL)
    .or(Flags::GSO);

/// Takes one from the TTL; `false`, and the cause noted, when nothing would be left of it.
#[inline(always)]
fn count_down(p: &mut Packet<'_>) -> bool {
    let h = p.peek::<Ipv4Header>();
    if h.ttl() <= 1 {
        p.set_fwd(Cause::TtlExpired.to_raw());
        return false;
    }
    h.decrement_ttl();
    true
}

/// Makes a packet ready for its link header that is large, the router's own, or has work left for the device.
///
/// # Errors
/// What becomes of a packet that cannot go out like this.
#[inline(never)]
fn unusual(p: &mut Packet<'_>, mtu: u16, link_len: usize) -> Result<(), Verdict<Next, Reason>> {
    if !p.flags().any(Flags::LOCAL_ORIGIN) {
        if p.flags().any(Flags::L2_BROADCAST | Flags::L2_MULTICAST) {
            return Err(Verdict::Drop(Reason::LinkBroadcast));
        }
        if !count_down(p) {
            return Err(Verdict::Next(Next::Report));
        }
    }
    if p.total_len() > usize::from(mtu)
        && let Some(verdict) = too_big(p, mtu)
    {
        return Err(verdict);
    }
    if p.flags().any(Flags::CSUM_PARTIAL | Flags::GSO) {
        move_offload(p, link_len);
    }
    Ok(())
}

/// What is still to be done to a packet counts from its Ethernet header, and the new one may be longer or shorter.
#[cold]
fn move_offload(p: &mut Packet<'_>, link_len: usize) {
    let old = u16::from(p.l2_len());
    let moved = |place: u16| place.wrapping_sub(old).wrapping_add(link_len as u16);
    let cold = p.cold_mut();
    cold.csum_start = moved(cold.csum_start);
    if let Some(gso) = cold.gso() {
        cold.set_gso(Gso { header_len: moved(gso.header_len), ..gso });
    }
}

/// What becomes of a packet that is larger than the MTU; `None` when it will be cut to segments that fit.
#[cold]
fn too_big(p: &mut Packet<'_>, mtu: u16) -> Option<Verdict<Next, Reason>> {
    let may_fragment = !p.peek::<Ipv4Header>().dont_fragment();
    if p.flags().any(Flags::GSO)
        && let Some(gso) = p.cold().gso()
    {
        // Header length counts from the Ethernet header, which came with the packet.
        let headers = gso.header_len.saturating_sub(u16::from(p.l2_len()));
        let room = mtu.saturating_sub(headers);
        if gso.size <= room {
            return None;
        }
        // Smaller segments instead of fragments of larger ones: TCP is a stream of bytes, and its receiver cannot tell
        // the difference. A datagram has the length that its sender gave it.
        if may_fragment && gso.kind == GsoKind::Tcp4 && room > 0 {
            p.cold_mut().set_gso(Gso { size: room, ..gso });
            return None;
        }
    }
    if may_fragment {
        return Some(Verdict::Next(Next::Fragment));
    }
    p.set_fwd(Cause::FragmentationNeeded(mtu).to_raw());
    Some(Verdict::Next(Next::Report))
}
