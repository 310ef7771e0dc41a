//! The nodes that every graph has: `error-drop` and `drop`, `error-punt` and `punt`, and `inject`.
//!
//! Dropped packets pass through the arc `drop`, and punted packets through the arc `punt`. Features on these
//! arcs can process them (captures, mirrors). The forwarding index of a dropped or punted packet is its
//! reason: the number of a drop reason, or a [`PuntReason`].

use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use buf::{Frame, Held, Packet};
use infra::counters::Lane;
use infra::doorbell::Doorbell;
use infra::ring::{Consumer, Producer};

use crate::arc::ArcKey;
use crate::build::{Builder, GraphError};
use crate::edge::{EdgeId, NoNext, NoReason, Verdict};
use crate::node::{Cx, FrameNode, InputNode, More, Out, PacketNode, WaitSet};
use crate::police::Police;
use crate::rings::{Inject, PuntInfo, PuntReason, Punted};

/// Name of the first node for packets to the main thread.
pub const PUNT: &str = "error-punt";
/// Name of the first node for dropped packets.
pub(crate) const DROP: &str = "error-drop";
/// Name of the last node for dropped packets, which frees them.
pub const DROPPED: &str = "drop";
/// Name of the input node for packets from the main thread.
pub const INJECT: &str = "inject";

pub(crate) fn install(b: &mut Builder) {
    b.packet(|_| Ok(DropStart));
    b.frame(|s| Ok(Drop { by_interface: s.stats.drops.lane(s.worker)? }));
    b.arc(Drop::NAME, Drop::NAME, ArcKey::Rx);
    b.packet(|_| Ok(PuntStart));
    b.frame(|s| {
        let second = || io::Error::other("a worker can have only one punt node");
        let (punt, punted, wake_main) = s.punt.take().ok_or_else(second)?;
        let police = vec![Police::default(); s.punt_reasons.len()];
        Ok(Punt { punt, punted, wake_main, reasons: s.punt_reasons.clone(), police })
    });
    b.arc(Punt::NAME, Punt::NAME, ArcKey::Rx);
    b.input(INJECT, |s| {
        let second = || io::Error::other("a worker can have only one inject node");
        let (inject, wake) = s.inject.take().ok_or_else(second)?;
        Ok(InjectNode { inject, wake, edges: Vec::with_capacity(buf::FRAME_SIZE) })
    });
}

impl Builder {
    /// Returns a builder that already has the nodes of every graph: `error-drop`, `drop`, `error-punt`, `punt` and `inject`.
    pub fn new() -> Builder {
        let mut b = Builder::default();
        install(&mut b);
        b
    }

    /// Allows the main thread to send packets to `node`.
    ///
    /// # Errors
    /// Fails if the node `inject` has no room for another edge.
    pub fn inject_to(&mut self, node: &str) -> Result<EdgeId, GraphError> {
        self.edge(INJECT, node)
    }
}

/// `error-drop`: the first node for every dropped packet.
struct DropStart;
crate::edges! { enum DropNext { Drop = "drop" } }
impl PacketNode for DropStart {
    const NAME: &'static str = DROP;
    type Next = DropNext;
    type Drop = NoReason;
    #[inline(always)]
    fn one(&mut self, _: &Cx<'_>, _: &mut Packet<'_>) -> Verdict<DropNext, NoReason> {
        Verdict::Next(DropNext::Drop)
    }
}

/// `drop`: frees the buffers of dropped packets. A packet's drop reason was counted when the packet left the node that dropped it.
struct Drop {
    by_interface: Lane<1>,
}
impl FrameNode for Drop {
    const NAME: &'static str = DROPPED;
    type Next = NoNext;
    type Drop = NoReason;
    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, _: &mut Out<'_, NoNext, NoReason>) {
        for p in frame.packets() {
            self.by_interface.add(p.rx_if(), [1]);
        }
        frame.free(cx.bufs);
    }
}

/// `error-punt`: the first node for packets to the main thread.
struct PuntStart;
crate::edges! { enum PuntNext { Punt = "punt" } }
impl PacketNode for PuntStart {
    const NAME: &'static str = PUNT;
    type Next = PuntNext;
    type Drop = NoReason;
    #[inline(always)]
    fn one(&mut self, _: &Cx<'_>, _: &mut Packet<'_>) -> Verdict<PuntNext, NoReason> {
        Verdict::Next(PuntNext::Punt)
    }
}

/// `punt`: passes packets to the main thread, within the rate of their punt reason.
struct Punt {
    punt: Producer<Punted>,
    /// Numbers of packets within and beyond the rate limit, by punt reason.
    punted: Lane<2>,
    wake_main: Arc<Doorbell>,
    reasons: Arc<[PuntInfo]>,
    police: Vec<Police>,
}

crate::reasons! {
    enum PuntDrop {
        Policed = "punt-policed", Warn, "too many packets for the main thread: the rate limit of their punt reason is exceeded";
        RingFull = "punt-ring-full", Warn, "the ring to the main thread is full: the main thread is overloaded";
    }
}

impl FrameNode for Punt {
    const NAME: &'static str = "punt";
    type Next = NoNext;
    type Drop = PuntDrop;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, NoNext, PuntDrop>) {
        let now = cx.now;
        out.each(frame, |_, p| {
            let reason = p.fwd();
            let of = self.police.get_mut(reason as usize).zip(self.reasons.get(reason as usize));
            let pass = of.is_some_and(|(police, reason)| police.pass(now, reason.rate(), p.rx_if()));
            self.punted.add(reason, [pass as u64, !pass as u64]);
            if pass { Verdict::Hold } else { Verdict::Drop(PuntDrop::Policed) }
        });
    }

    fn held(&mut self, cx: &mut Cx<'_>, mut packet: Held, out: &mut Out<'_, NoNext, PuntDrop>) {
        let reason = PuntReason(packet.packet().fwd());
        if let Err(back) = self.punt.push(Punted { reason, packet }) {
            return out.drop(PuntDrop::RingFull, back.packet);
        }
        cx.bufs.note_kept(1);
        // The main thread may sleep after it saw an empty ring; the next packet then wakes it. With the fence
        // in `WorkerPort::punted`, either this thread sees that all earlier packets were taken, or the main
        // thread sees this packet.
        fence(Ordering::SeqCst);
        if self.punt.len() <= 1 {
            self.wake_main.ring();
        }
    }
}

/// `inject`: the input node for packets from the main thread.
struct InjectNode {
    inject: Consumer<Inject>,
    wake: Arc<Doorbell>,
    /// The edge of each packet in the frame.
    edges: Vec<EdgeId>,
}

impl InputNode for InjectNode {
    type Next = NoNext;
    type Drop = NoReason;

    fn poll(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, NoNext, NoReason>) -> More {
        self.edges.clear();
        while frame.room() > 0
            && let Some(Inject { edge, packet }) = self.inject.pop()
            && frame.push(packet).is_ok()
        {
            self.edges.push(edge);
        }
        cx.bufs.note_kept(-(frame.len() as isize));
        out.each(frame, |i, _| Verdict::Edge(self.edges[i]));
        More::No
    }

    fn wait<'a>(&'a self, wait: &mut WaitSet<'a>) {
        use std::os::fd::AsFd;
        wait.fd(self.wake.as_fd());
        if !self.inject.is_empty() {
            wait.poll();
        }
    }
}
