//! `ip4-arp` and `ip6-discover-neighbor`: keep packets whose next hop's Ethernet address is not known, and ask the main thread for it.
//!
//! In comes: the transmit interface, an adjacency without a link header or [`GLEAN`] in the forwarding index, the start at the
//! network header, hops not yet counted down. Packets to a next hop that did not answer a moment ago are reported at once.
//!
//! A packet waits once. One that comes back although its next hop was resolved is dropped, and nobody is asked for the
//! next hop for a while: else it might go round and round.

use buf::{Flags, Frame, Held, Packet};
use graph::{Cx, FrameNode, Out, PuntReason, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::quiesce::Guard;

use super::message;
use super::queue::{NextHop, Shared};
use crate::Tables;
use crate::adjacency::{Adjacency, GLEAN};
use crate::icmp::Cause;
use crate::ip::Packets;

edges! {
    /// In the names of IPv4's nodes; see [`FrameNode::EDGES`].
    pub enum Next { Punt = "error-punt", Report = "ip4-icmp-error" }
}
reasons! {
    pub enum Reason {
        Displaced = "hold-next-hop-full", Warn, "the oldest of too many packets that wait for one unresolved next hop";
        Recycled = "hold-too-many-next-hops", Warn, "the packet's next hop was the oldest of too many unresolved ones";
        Full = "hold-full", Warn, "too many packets wait for unresolved next hops";
        Buffers = "hold-buffers-full", Warn, "packets that wait for unresolved next hops fill their share of the buffers";
        Expired = "hold-expired", Warn, "the packet waited too long for its next hop to be resolved";
        Again = "hold-again", Warn, "the packet has waited, its next hop was resolved, and yet is not known";
        Stale = "stale-adjacency", Info, "the neighbour went away while the packet was on its way";
        NoBuffer = "no-buffer", Error, "no buffer was free to ask for the packet's next hop";
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

    /// Where a packet is to go next.
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

    /// A packet that asks the main thread.
    fn ask(&self, cx: &mut Cx<'_>, (interface, next_hop): NextHop<A>) -> Option<Held> {
        let mut ask = Held::alloc(cx.bufs)?;
        let mut p = ask.packet();
        message::write_ask(&mut p, interface, next_hop);
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
        // It looks up again when it goes on: what was found is not valid beyond this turn.
        p.set_fwd(0);
        let mut queue = self.queue.lock();
        let before = queue.len();
        if queue.hold(cx.now, key, packet, |reason, packet| out.drop(reason, packet)) {
            match self.ask(cx, key) {
                Some(ask) => {
                    queue.asked(cx.now, key);
                    out.emit(Next::Punt, ask);
                }
                // Nobody would ever release what waits for an answer that was not asked for.
                None => queue.release(key, |packet| out.drop(Reason::NoBuffer, packet)),
            }
        }
        cx.bufs.note_kept(queue.len() as isize - before as isize);
    }
}
