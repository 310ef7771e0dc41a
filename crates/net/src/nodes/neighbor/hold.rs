//! `ip4-arp` and `ip6-discover-neighbor`: hold packets while the Ethernet address of their next hop is
//! unknown, and ask the main thread to resolve the next hop.
//!
//! A packet must arrive with its transmit interface set. Its forwarding index must be [`GLEAN`], or an adjacency that has no link header
//! yet. It must start at its network header, with the TTL not decremented yet. If the next hop has recently failed to answer, the node
//! passes the packet on for an ICMP error at once, instead of holding it.
//!
//! A packet is held only once, since it could loop otherwise. If a packet returns to this node although its
//! next hop was resolved, it is dropped, and the node does not ask for this next hop again for a while.

use buf::{Flags, Frame, Held, Packet};
use graph::{Cx, FrameNode, Out, PuntReason, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::quiesce::Guard;

use crate::Tables;
use crate::adjacency::{Adjacency, GLEAN};
use crate::ip::Cause;
use crate::ip::Packets;
use crate::neighbor;
use crate::waiting::{NextHop, Refused, Shared};

edges! {
    /// The edges, named after the IPv4 nodes. The IPv6 nodes are in [`FrameNode::EDGES`].
    pub enum Next { Punt = "error-punt", Report = "ip4-icmp-error" }
}
reasons! {
    pub enum Reason {
        Displaced = "hold-next-hop-full", Warn, "too many packets wait for one unresolved next hop: the oldest packet is dropped";
        Recycled = "hold-too-many-next-hops", Warn, "too many next hops are unresolved: this packet's next hop was among the oldest, and its packets are dropped";
        Full = "hold-full", Warn, "too many packets wait for unresolved next hops";
        Buffers = "hold-buffers-full", Warn, "packets that wait for unresolved next hops use a quarter of all buffers, which is the maximum";
        Expired = "hold-expired", Warn, "the packet waited too long for its next hop to be resolved";
        Again = "hold-again", Warn, "the packet's next hop was resolved, but its adjacency is still incomplete";
        Stale = "stale-adjacency", Info, "the adjacency was removed while the packet was on its way";
        NoBuffer = "no-buffer", Error, "no free buffer for the ARP request or neighbor solicitation";
    }
}

impl From<Refused> for Reason {
    fn from(why: Refused) -> Reason {
        match why {
            Refused::Displaced => Reason::Displaced,
            Refused::Recycled => Reason::Recycled,
            Refused::Full => Reason::Full,
            Refused::Buffers => Reason::Buffers,
        }
    }
}

pub struct Hold<A: Packets> {
    queue: Shared<A>,
    adjacencies: SlotReader<Adjacency>,
    resolve: PuntReason,
}

impl<A: Packets> Hold<A> {
    pub fn new(queue: Shared<A>, t: &Tables, resolve: PuntReason) -> Hold<A> {
        Hold { queue, adjacencies: t.adjacencies.clone(), resolve }
    }

    /// Returns a packet's next hop; `None` if its adjacency was removed.
    fn next_hop(
        adjacencies: &SlotReader<Adjacency>,
        guard: &Guard,
        p: &mut Packet<'_>,
    ) -> Option<NextHop<A>> {
        let next_hop = match p.fwd() {
            GLEAN => A::from_bits(A::dst(p.peek())),
            adjacency => A::of(adjacencies.get(guard, adjacency)?.next_hop)?,
        };
        Some((p.tx_if(), next_hop))
    }

    /// Returns a message that asks the main thread to resolve a next hop; `None` if no buffer is free.
    fn ask(&self, cx: &mut Cx<'_>, (interface, next_hop): NextHop<A>) -> Option<Held> {
        let mut ask = Held::alloc(cx.bufs)?;
        let mut p = ask.packet();
        neighbor::write_ask(&mut p, interface, next_hop);
        p.set_fwd(self.resolve.0);
        Some(ask)
    }
}

impl<A: Packets> FrameNode for Hold<A> {
    const NAME: &'static str = A::NODES.resolve;
    type Next = Next;
    type Drop = Reason;
    const EDGES: &'static [&'static str] = &["error-punt", A::NODES.report];
    const TRACE: graph::trace::TraceFn = A::TRACE;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let mut queue = self.queue.lock();
        let before = queue.len();
        queue.sweep(cx.now, |packet| out.drop(Reason::Expired, packet));
        cx.bufs.note_kept(queue.len() as isize - before as isize);
        out.each(frame, |_, p| {
            let Some(key) = Self::next_hop(&self.adjacencies, cx.guard, p) else {
                return Verdict::Drop(Reason::Stale);
            };
            if queue.failed(cx.now, key) {
                p.set_fwd(Cause::HostUnreachable.to_raw());
                return Verdict::Next(Next::Report);
            }
            if p.flags().any(Flags::RECIRCULATED) {
                queue.asked(cx.now, key);
                return Verdict::Drop(Reason::Again);
            }
            Verdict::Hold
        });
    }

    fn held(&mut self, cx: &mut Cx<'_>, mut packet: Held, out: &mut Out<'_, Next, Reason>) {
        let mut p = packet.packet();
        let Some(key) = Self::next_hop(&self.adjacencies, cx.guard, &mut p) else {
            return out.drop(Reason::Stale, packet);
        };
        // The packet is looked up again after its release: adjacency indices are valid for this turn only.
        p.set_fwd(0);
        let mut queue = self.queue.lock();
        let before = queue.len();
        if queue.hold(cx.now, key, packet, |why, packet| out.drop(why.into(), packet)) {
            match self.ask(cx, key) {
                Some(ask) => {
                    queue.asked(cx.now, key);
                    out.emit(Next::Punt, ask);
                }
                // Without a request there is no answer, so the packets would never be released.
                None => queue.release(key, |packet| out.drop(Reason::NoBuffer, packet)),
            }
        }
        cx.bufs.note_kept(queue.len() as isize - before as isize);
    }
}
