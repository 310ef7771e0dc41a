//! `ip4-rewrite` and `ip6-rewrite`: decrement the TTL, check the MTU, write the link header, and count the packet for its adjacency.
//!
//! A packet larger than the MTU is fragmented here; its fragments leave before the packets received after it. If fragmentation is not
//! allowed, the packet is reported to its source (RFC 1812 section 4.2.2.7, RFC 1191). For IPv6, only the router's own packets are
//! fragmented; all others are reported (RFC 8200 section 5). A TCP packet with pending segmentation gets smaller segments instead, if it
//! may be fragmented. A UDP packet with pending segmentation is cut into its datagrams, and the datagrams into fragments.

use std::io;
use std::marker::PhantomData;

use super::fragment::{Cut, Ids, cut};
use crate::Tables;
use crate::adjacency::Adjacency;
use crate::gso::{self, Fault};
use crate::interface::Runs;
use crate::ip::{Cause, Packets};
use buf::{Cache, Flags, Frame, Gso, Held, LinkHeader, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::counters::Lane;

edges! {
    /// The edges, named after the IPv4 nodes. The IPv6 nodes are in [`FrameNode::EDGES`].
    pub enum Next {
        Output = "ip4-output",
        Resolve = "ip4-arp",
        Report = "ip4-icmp-error",
    }
}
reasons! {
    pub enum Reason {
        LinkBroadcast = "link-broadcast", Warn, "the packet arrived in a broadcast or multicast frame, which must not be forwarded";
        Stale = "stale-adjacency", Info, "the adjacency was removed while the packet was on its way";
        NoHeadroom = "no-headroom", Error, "there is no room for the link header in front of the packet";
        Gso = "bad-segmentation", Error, "the packet must be segmented first, which is not possible: its headers are invalid, or a segment does not fit into a buffer";
        Header = "bad-header", Error, "the header is truncated, or its total length is larger than the packet";
        Offset = "bad-offset", Error, "the packet is itself a fragment, and ends beyond 65,535 bytes";
        Checksum = "bad-checksum-place", Error, "the field of the partial checksum is not in the first buffer of the packet's chain";
        Mtu = "mtu-too-small", Error, "the MTU is too small for the header and 8 bytes of data; IPv4 needs an MTU of at least 68 bytes";
        TooMany = "too-many-fragments", Warn, "the packet would be cut into more fragments or segments than fit in one vector (256 packets)";
        NoBuffer = "no-buffer", Warn, "not enough free buffers for the fragments";
    }
}

impl From<Fault> for Reason {
    fn from(fault: Fault) -> Reason {
        match fault {
            Fault::TooMany => Reason::TooMany,
            Fault::NoBuffer => Reason::NoBuffer,
            _ => Reason::Gso,
        }
    }
}

pub struct Rewrite<A: Packets> {
    adjacencies: SlotReader<Adjacency>,
    counters: Lane<2>,
    /// The segments of the current packet; empty between packets.
    segments: Box<Frame>,
    /// The fragments of the current packet or segment; empty between packets.
    fragments: Box<Frame>,
    ids: Ids,
    family: PhantomData<A>,
}

impl<A: Packets> Rewrite<A> {
    pub fn new(t: &Tables, worker: usize) -> io::Result<Rewrite<A>> {
        let counters = t.adjacency_counters.lane(worker)?;
        let adjacencies = t.adjacencies.clone();
        let (segments, fragments, ids) = Default::default();
        Ok(Rewrite { adjacencies, counters, segments, fragments, ids, family: PhantomData })
    }
}

impl<A: Cut> FrameNode for Rewrite<A> {
    const NAME: &'static str = A::NODES.rewrite;
    type Next = Next;
    type Drop = Reason;
    const EDGES: &'static [&'static str] = &[A::NODES.output, A::NODES.resolve, A::NODES.report];
    const TRACE: graph::trace::TraceFn = super::trace::rewrite::<A>;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let Rewrite { adjacencies, counters, .. } = self;
        let adjacencies = adjacencies.view(cx.guard);
        let mut counted = Runs::new(counters);
        let (mut adjacency, mut cuts) = (None, false);
        out.mostly(Verdict::Next(Next::Output), frame, |_, p| {
            let index = p.fwd();
            // Consecutive packets often have the same adjacency, which is then read once.
            if counted.begin(index) {
                adjacency = adjacencies.get(index);
            }
            let Some(adjacency) = adjacency else { return Some(Verdict::Drop(Reason::Stale)) };
            if let Some(len) = plain::<A>(p, adjacency) {
                counted.add(len);
                return None;
            }
            match unusual::<A>(&mut p.again(), adjacency) {
                Ok(len) => {
                    counted.add(len);
                    None
                }
                Err(verdict) => {
                    cuts |= verdict == Verdict::Hold;
                    Some(verdict)
                }
            }
        });
        if cuts {
            out.in_order();
        }
    }

    /// Segments a packet with pending segmentation, and cuts the packet or its segments into fragments.
    fn held(&mut self, cx: &mut Cx<'_>, mut held: Held, out: &mut Out<'_, Next, Reason>) {
        let Rewrite { adjacencies, counters, segments, fragments, ids, .. } = self;
        let p = held.packet();
        let Some(adjacency) = adjacencies.get(cx.guard, p.fwd()) else {
            return out.drop(Reason::Stale, held);
        };
        let Some(rewrite) = &adjacency.rewrite else { return out.drop(Reason::Stale, held) };
        let mut way = Way { mtu: adjacency.mtu, rewrite, counted: Runs::new(counters), fragments, ids };
        if !p.flags().any(Flags::GSO) {
            return way.send::<A>(held, cx.bufs, out);
        }
        if let Err(fault) = gso::cut(&p, 0, segments, cx.bufs) {
            segments.free(cx.bufs);
            return out.drop(fault.into(), held);
        }
        held.free(cx.bufs);
        segments.drain(|segment| way.send::<A>(segment, cx.bufs, out));
    }
}

/// The data needed to send the fragments of one packet.
struct Way<'a> {
    mtu: u16,
    rewrite: &'a LinkHeader,
    counted: Runs<'a>,
    fragments: &'a mut Frame,
    ids: &'a mut Ids,
}

impl Way<'_> {
    /// Sends a packet as fragments.
    fn send<A: Cut>(&mut self, mut held: Held, bufs: &mut Cache, out: &mut Out<'_, Next, Reason>) {
        let Way { mtu, rewrite, counted, fragments, ids } = self;
        if let Err(reason) = cut::<A>(&mut held.packet(), usize::from(*mtu), ids, fragments, bufs) {
            fragments.free(bufs);
            return out.drop(reason, held);
        }
        held.free(bufs);
        fragments.drain(|mut fragment| {
            let mut p = fragment.packet();
            if !p.prepend(rewrite) {
                return out.drop(Reason::NoHeadroom, fragment);
            }
            counted.packet(p.fwd(), p.len());
            out.emit(Next::Output, fragment);
        });
    }
}

/// Packets with any of these flags need more than a TTL decrement and a new link header.
const UNUSUAL: Flags = Flags::CHAINED
    .or(Flags::LOCAL_ORIGIN)
    .or(Flags::L2_BROADCAST)
    .or(Flags::L2_MULTICAST)
    .or(Flags::CSUM_PARTIAL)
    .or(Flags::GSO);

/// Rewrites a plain packet: decrements the TTL and writes the link header. Returns the packet's new length in bytes. Returns `None` for all
/// other packets, which it leaves unchanged.
#[inline(always)]
pub(super) fn plain<A: Packets>(p: &mut Packet<'_>, adjacency: &Adjacency) -> Option<usize> {
    let Adjacency { rewrite: Some(rewrite), interface, mtu, .. } = adjacency else { return None };
    let len = p.len();
    if p.flags().any(UNUSUAL)
        || len > usize::from(*mtu)
        || !p.has_headroom(rewrite.len())
        || A::count_down(p).is_err()
    {
        return None;
    }
    p.set_tx_if(*interface);
    // There is room for the header.
    let _ = p.prepend(rewrite);
    Some(len + rewrite.len())
}

/// Rewrites a packet that is not [plain]: a large one, a link broadcast, the router's own, one with pending offloads, or one whose TTL
/// expires. Returns the packet's new length in bytes.
///
/// # Errors
/// The verdict for a packet that cannot be sent unchanged.
#[inline(never)]
fn unusual<A: Packets>(p: &mut Packet<'_>, adjacency: &Adjacency) -> Result<usize, Verdict<Next, Reason>> {
    p.set_tx_if(adjacency.interface);
    let Some(rewrite) = &adjacency.rewrite else { return Err(Verdict::Next(Next::Resolve)) };
    if !p.flags().any(Flags::LOCAL_ORIGIN) {
        if p.flags().any(Flags::L2_BROADCAST | Flags::L2_MULTICAST) {
            return Err(Verdict::Drop(Reason::LinkBroadcast));
        }
        if let Err(cause) = A::count_down(p) {
            p.set_fwd(cause.to_raw());
            return Err(Verdict::Next(Next::Report));
        }
    }
    if p.total_len() > usize::from(adjacency.mtu)
        && let Some(verdict) = too_big::<A>(p, adjacency.mtu)
    {
        return Err(verdict);
    }
    if p.flags().any(Flags::CSUM_PARTIAL | Flags::GSO) {
        move_offload(p, rewrite.len());
    }
    let len = p.total_len();
    match p.prepend(rewrite) {
        true => Ok(len + rewrite.len()),
        false => Err(Verdict::Drop(Reason::NoHeadroom)),
    }
}

/// Corrects a packet's offload offsets for a new link header of `link_len` bytes. The offsets count from the Ethernet header.
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

/// Returns the verdict for a packet larger than the MTU. Returns `None` if the packet will be segmented, and its segments will fit. For
/// this, reduces the segment size of a TCP packet if necessary.
#[cold]
fn too_big<A: Packets>(p: &mut Packet<'_>, mtu: u16) -> Option<Verdict<Next, Reason>> {
    let may_fragment = A::may_fragment(p);
    if p.flags().any(Flags::GSO)
        && let Some(gso) = p.cold().gso()
    {
        // The header length counts from the received Ethernet header.
        let headers = gso.header_len.saturating_sub(u16::from(p.l2_len()));
        let room = mtu.saturating_sub(headers);
        if gso.size <= room {
            return None;
        }
        // Smaller segments instead of fragments of larger ones: TCP is a byte stream, so its receiver sees no
        // difference. A UDP datagram must keep its length.
        if may_fragment && gso.kind == A::TCP && room > 0 {
            p.cold_mut().set_gso(Gso { size: room, ..gso });
            return None;
        }
    }
    if may_fragment {
        return Some(Verdict::Hold);
    }
    p.set_fwd(Cause::FragmentationNeeded(mtu).to_raw());
    Some(Verdict::Next(Next::Report))
}
