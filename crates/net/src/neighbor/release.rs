//! `arp-release`: told by the main thread what became of a next hop, sends the packets on that waited for it.

use buf::{Flags, Frame};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};

use super::message::{Outcome, Release};
use super::queue::Shared;
use crate::icmp::Cause;

edges! { pub enum Next { Lookup = "ip4-lookup", Report = "ip4-icmp-error" } }
reasons! {
    pub enum Reason {
        Expired = "hold-expired", Warn, "the packet waited too long for its next hop to be resolved";
    }
}

pub struct ArpRelease {
    queue: Shared,
}

impl ArpRelease {
    pub fn new(queue: Shared) -> ArpRelease {
        ArpRelease { queue }
    }
}

impl FrameNode for ArpRelease {
    const NAME: &'static str = "arp-release";
    type Next = Next;
    type Drop = Reason;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let mut queue = self.queue.lock();
        let before = queue.len();
        for p in frame.packets() {
            let key = |next_hop| (p.tx_if(), next_hop);
            match Release::from_bytes(p.bytes()) {
                Some(Release::Hop(next_hop, Outcome::Resolved)) => {
                    queue.release(key(next_hop), |mut packet| {
                        let mut p = packet.packet();
                        p.set_flags(p.flags() | Flags::RECIRCULATED);
                        out.emit(Next::Lookup, packet);
                    });
                }
                Some(Release::Hop(next_hop, Outcome::Failed)) => {
                    queue.fail(cx.now, key(next_hop), |mut packet| {
                        packet.packet().set_fwd(Cause::HostUnreachable.to_raw());
                        out.emit(Next::Report, packet);
                    });
                }
                Some(Release::Sweep) | None => {}
            }
        }
        queue.sweep(cx.now, |packet| out.drop(Reason::Expired, packet));
        cx.bufs.note_kept(queue.len() as isize - before as isize);
        out.all(Verdict::Consume);
    }
}
