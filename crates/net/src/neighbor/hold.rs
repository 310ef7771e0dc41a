//! `ip4-arp`: keeps packets whose next hop's Ethernet address is not known, and asks the main thread for it.
//!
//! In comes: the transmit interface, the next hop (IPv4, host order) in the forwarding index, the start at the IPv4
//! header, TTL not yet counted down. Packets to a next hop that did not answer a moment ago go to `ip4-icmp-error` at
//! once.
//!
//! A packet waits once. One that comes back although its next hop was resolved is dropped, and nobody is asked for the
//! next hop for a while: else it might go round and round.

use buf::{Flags, Frame, Held};
use graph::{Cx, FrameNode, Out, PuntReason, Verdict, edges, reasons};

use super::message;
use super::queue::{NextHop, Shared};
use crate::icmp::Cause;

edges! { pub enum Next { Punt = "error-punt", Report = "ip4-icmp-error" } }
reasons! {
    pub enum Reason {
        Displaced = "hold-next-hop-full", Warn, "the oldest of too many packets that wait for one unresolved next hop";
        Recycled = "hold-too-many-next-hops", Warn, "the packet's next hop was the oldest of too many unresolved ones";
        Full = "hold-full", Warn, "too many packets wait for unresolved next hops";
        Buffers = "hold-buffers-full", Warn, "packets that wait for unresolved next hops fill their share of the buffers";
        Expired = "hold-expired", Warn, "the packet waited too long for its next hop to be resolved";
        Again = "hold-again", Warn, "the packet has waited, its next hop was resolved, and yet is not known";
        NoBuffer = "no-buffer", Error, "no buffer was free to ask for the packet's next hop";
    }
}

pub struct Ip4Arp {
    queue: Shared,
    resolve: PuntReason,
}

impl Ip4Arp {
    pub fn new(queue: Shared, resolve: PuntReason) -> Ip4Arp {
        Ip4Arp { queue, resolve }
    }

    /// A packet that asks the main thread.
    fn ask(&self, cx: &mut Cx<'_>, (interface, next_hop): NextHop) -> Option<Held> {
        let mut ask = Held::alloc(cx.bufs)?;
        let mut p = ask.packet();
        message::write_ask(&mut p, interface, next_hop);
        p.set_fwd(self.resolve.0);
        Some(ask)
    }
}

impl FrameNode for Ip4Arp {
    const NAME: &'static str = "ip4-arp";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip4;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let mut queue = self.queue.lock();
        let before = queue.len();
        queue.sweep(cx.now, |packet| out.drop(Reason::Expired, packet));
        cx.bufs.note_kept(queue.len() as isize - before as isize);
        out.each(frame, |_, p| {
            let key = (p.tx_if(), p.fwd());
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
        let key = (p.tx_if(), p.fwd());
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
