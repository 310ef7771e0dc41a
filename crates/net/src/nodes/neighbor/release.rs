//! `arp-release` and `nd-release`: receive the main thread's result for a next hop, and release the packets
//! that wait for it.

use buf::{Flags, Frame};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};

use crate::ip::Cause;
use crate::ip::Packets;
use crate::neighbor::{Outcome, Release};
use crate::waiting::Shared;

edges! {
    /// The edges, named after the IPv4 nodes. The IPv6 nodes are in [`FrameNode::EDGES`].
    pub enum Next { Lookup = "ip4-lookup", Report = "ip4-icmp-error" }
}
reasons! {
    pub enum Reason {
        Expired = "hold-expired", Warn, "the packet waited too long for its next hop to be resolved";
    }
}

pub struct Releasing<A: Packets> {
    queue: Shared<A>,
}

impl<A: Packets> Releasing<A> {
    pub fn new(queue: Shared<A>) -> Releasing<A> {
        Releasing { queue }
    }
}

impl<A: Packets> FrameNode for Releasing<A> {
    const NAME: &'static str = A::NODES.release;
    type Next = Next;
    type Drop = Reason;
    const EDGES: &'static [&'static str] = &[A::NODES.lookup, A::NODES.report];

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let mut queue = self.queue.lock();
        let before = queue.len();
        for p in frame.packets() {
            let Some(Release::Hop(next_hop, outcome)) = Release::from_bytes(p.bytes()) else { continue };
            let Some(next_hop) = A::of(next_hop) else { continue };
            let key = (p.tx_if(), next_hop);
            match outcome {
                Outcome::Resolved => {
                    queue.release(key, |mut packet| {
                        let mut p = packet.packet();
                        p.set_flags(p.flags() | Flags::RECIRCULATED);
                        out.emit(Next::Lookup, packet);
                    });
                }
                Outcome::Failed => {
                    queue.fail(cx.now, key, |mut packet| {
                        packet.packet().set_fwd(Cause::HostUnreachable.to_raw());
                        out.emit(Next::Report, packet);
                    });
                }
            }
        }
        queue.sweep(cx.now, |packet| out.drop(Reason::Expired, packet));
        cx.bufs.note_kept(queue.len() as isize - before as isize);
        out.all(Verdict::Consume);
    }
}
