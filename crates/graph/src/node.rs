//! The three shapes of a node, cheapest to write first, and what they are given.
//!
//! | shape | for | the author writes |
//! |---|---|---|
//! | [`PacketNode`] | what is decided packet by packet | `one(packet) → verdict` |
//! | [`FrameNode`] | staged lookups, counting by runs, whatever is not one-to-one | `run(frame, out)` |
//! | [`InputNode`] | what brings packets in | `poll(frame, out)` |

use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use buf::{Cache, Frame, Held, Packet, Pool};
use infra::counters::Lane;
use infra::doorbell::Doorbell;
use infra::quiesce::Guard;
use infra::ring::{Consumer, Producer};
use kernels::{CodeBytes, Codes, Kernels};

use crate::edge::{EdgeId, Edges, Outcome, Reasons, Verdict, drop_code};
use crate::entry::{TraceFn, plain};
use crate::handoff::{Exchange, Inbox, Outbox};
use crate::rest::Eager;
use crate::rings::{Inject, PuntInfo, Punted};
use crate::stats::Stats;
use crate::ways::Sink;

/// What every node is given beside its packets.
pub struct Cx<'w> {
    /// The right to read tables of class A until the end of this turn.
    pub guard: &'w Guard,
    /// This worker's free buffers.
    pub bufs: &'w mut Cache,
    /// Time of this turn, nanoseconds of the monotonic clock. Nodes never read a clock.
    pub now: u64,
    /// The routines for this CPU.
    pub kernels: &'static Kernels,
    /// Number of this worker, from 0.
    pub worker: usize,
}

/// A node that decides packet by packet. The runtime supplies loop, split and counters.
pub trait PacketNode: Send + 'static {
    /// The node's name in the graph.
    const NAME: &'static str;
    /// Where packets go.
    type Next: Edges;
    /// Why packets are dropped.
    type Drop: Reasons;
    /// How the node describes its work on a packet in a trace.
    const TRACE: TraceFn = plain;

    /// Works on one packet. Marked `#[inline(always)]` by whoever implements it.
    fn one(&mut self, cx: &Cx<'_>, packet: &mut Packet<'_>) -> Verdict<Self::Next, Self::Drop>;
}

/// A node that is given the frame as a whole.
pub trait FrameNode: Send + 'static {
    /// The node's name in the graph.
    const NAME: &'static str;
    /// Where packets go.
    type Next: Edges;
    /// Why packets are dropped.
    type Drop: Reasons;
    /// The names of the edges, where they are not those of [`Edges::NAMES`]: of a node that is there once for each family of
    /// addresses.
    const EDGES: &'static [&'static str] = <Self::Next as Edges>::NAMES;
    /// How the node describes its work on a packet in a trace.
    const TRACE: TraceFn = plain;

    /// Works on the frame, and says through `out` what becomes of each packet: by [`Out::each`], [`Out::mostly`] or [`Out::all`] for
    /// those that stay in the frame. A node may also empty the frame (a driver that took the packets).
    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Self::Next, Self::Drop>);

    /// Is given all packets that `run` left with [`Verdict::Hold`], in order: for nodes that have more to do for all of
    /// them than for each. Takes every packet out of the frame.
    fn hold(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Self::Next, Self::Drop>) {
        frame.drain(|packet| self.held(cx, packet, out));
    }

    /// Is given each packet that `run` left with [`Verdict::Hold`], in order. A node that keeps it beyond this call says
    /// so by [`Cache::note_kept`].
    fn held(&mut self, _cx: &mut Cx<'_>, packet: Held, _out: &mut Out<'_, Self::Next, Self::Drop>) {
        drop(packet);
    }
}

/// Whether an input node has more to do in this turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// Call again before other nodes have their turn.
    Yes,
    /// Not in this turn.
    No,
}

/// A node that brings packets in. It is called in every turn.
pub trait InputNode: Send + 'static {
    /// Where packets go.
    type Next: Edges;
    /// Why packets are dropped.
    type Drop: Reasons;
    /// How the node describes its work on a packet in a trace.
    const TRACE: TraceFn = plain;

    /// Puts packets into the frame, which is empty, and says by `out` where they go. What was put in runs through the
    /// graph before the next call.
    fn poll(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Self::Next, Self::Drop>)
    -> More;

    /// Says what the worker may sleep on. The worker has said that it is about to sleep: what others put into a ring
    /// from now on wakes it.
    fn wait<'a>(&'a self, wait: &mut WaitSet<'a>);

    /// What its queues ask of the worker.
    fn eager(&self) -> Eager {
        Eager::NONE
    }
}

/// What a worker without work may sleep on.
#[derive(Default)]
pub struct WaitSet<'a> {
    pub(crate) fds: Vec<BorrowedFd<'a>>,
    pub(crate) busy: bool,
    pub(crate) until: Option<u64>,
}

impl<'a> WaitSet<'a> {
    /// Wake when this can be read.
    pub fn fd(&mut self, fd: BorrowedFd<'a>) {
        self.fds.push(fd);
    }

    /// Do not sleep: there is a queue that has to be polled.
    pub fn poll(&mut self) {
        self.busy = true;
    }

    /// Wake at this time at the latest (nanoseconds of the monotonic clock).
    pub fn until(&mut self, time: u64) {
        self.until = Some(self.until.map_or(time, |u| u.min(time)));
    }
}

/// What a node is made with.
pub struct Setup {
    /// Number of the worker, from 0.
    pub worker: usize,
    /// The pool that this worker's buffers come from.
    pub pool: Pool,
    pub(crate) stats: Stats,
    pub(crate) punt: Option<(Producer<Punted>, Lane<2>, Arc<Doorbell>)>,
    pub(crate) inject: Option<(Consumer<Inject>, Arc<Doorbell>)>,
    pub(crate) punt_reasons: Arc<[PuntInfo]>,
    pub(crate) exchange: Exchange,
}

impl Setup {
    /// Where this worker gives packets to others.
    pub fn outbox(&self) -> Outbox {
        self.exchange.outbox(self.worker)
    }

    /// Where this worker takes packets from others. One node of a worker may have it.
    pub fn inbox(&self) -> Inbox {
        self.exchange.inbox(self.worker)
    }
}

/// The codes of a frame of which most packets have the usual one.
struct Exceptions<'c> {
    codes: &'c mut CodeBytes,
    usual: u8,
    packets: usize,
    any: bool,
}

impl Exceptions<'_> {
    #[cold]
    #[inline(never)]
    fn note(&mut self, i: usize, code: u8) {
        if !self.any {
            self.codes[..self.packets].fill(self.usual);
            self.any = true;
        }
        self.codes[i] = code;
    }

    fn outcome(&self) -> Outcome {
        if self.any { self.mixed() } else { Outcome::All(self.usual) }
    }

    /// The exception may have been the rule in this frame.
    #[cold]
    fn mixed(&self) -> Outcome {
        let first = self.codes[0];
        if self.codes[..self.packets].iter().all(|&c| c == first) {
            Outcome::All(first)
        } else {
            Outcome::Mixed
        }
    }
}

/// How a frame node says what becomes of its packets.
pub struct Out<'o, N, D> {
    pub(crate) codes: &'o mut Codes,
    pub(crate) outcome: Outcome,
    pub(crate) sink: Sink<'o>,
    pub(crate) types: PhantomData<(N, D)>,
}

impl<N: Edges, D: Reasons> Out<'_, N, D> {
    /// Every packet of the frame has this verdict.
    #[inline(always)]
    pub fn all(&mut self, verdict: Verdict<N, D>) {
        self.outcome = Outcome::All(verdict.code());
    }

    /// Asks for the verdict on each packet of the frame, in order.
    #[inline(always)]
    pub fn each(&mut self, frame: &mut Frame, mut f: impl FnMut(usize, &mut Packet<'_>) -> Verdict<N, D>) {
        // Whether all agree is gathered in registers: reading the bytes back at once would stall on the stores.
        let (mut any, mut all) = (0u8, u8::MAX);
        for ((i, mut packet), code) in frame.packets().enumerate().zip(&mut self.codes.0) {
            let c = f(i, &mut packet).code();
            *code = c;
            any |= c;
            all &= c;
        }
        self.outcome = if any == all { Outcome::All(any) } else { Outcome::Mixed };
    }

    /// Every packet has the verdict `usual`, but for those for which `f` says another. Asked for each packet, in order.
    ///
    /// For nodes that nearly all packets leave by one edge: a packet that does costs no store, and no look at what the
    /// others do.
    #[inline(always)]
    pub fn mostly(
        &mut self,
        usual: Verdict<N, D>,
        frame: &mut Frame,
        mut f: impl FnMut(usize, &mut Packet<'_>) -> Option<Verdict<N, D>>,
    ) {
        let mut exceptions =
            Exceptions { codes: &mut self.codes.0, usual: usual.code(), packets: frame.len(), any: false };
        for (i, mut packet) in frame.packets().enumerate() {
            if let Some(verdict) = f(i, &mut packet) {
                exceptions.note(i, verdict.code());
            }
        }
        self.outcome = exceptions.outcome();
    }

    /// Lets the packets leave strictly in the order of the frame: what [`FrameNode::held`] sends in place of one that it is
    /// given leaves before the packets behind that one. Else it leaves after all others of the frame.
    ///
    /// Called after the verdicts, for a frame with held packets of flows that go on. It moves packets one by one.
    #[cold]
    pub fn in_order(&mut self) {
        if self.outcome == Outcome::Mixed {
            self.outcome = Outcome::InOrder;
        }
    }

    /// Sends a further packet by an edge.
    pub fn emit(&mut self, edge: N, packet: Held) {
        self.sink.emit(edge.code(), packet);
    }

    /// Sends a further packet by an edge that was added when the graph was built.
    pub fn emit_edge(&mut self, edge: EdgeId, packet: Held) {
        self.sink.emit(edge.0, packet);
    }

    /// Drops a packet that is not in the frame (one that was held).
    pub fn drop(&mut self, reason: D, packet: Held) {
        self.sink.emit(drop_code(reason), packet);
    }

    /// Counts `n` times what is no drop of a packet (what a device gave and was none, say). The reason is declared so.
    pub fn count(&mut self, reason: D, n: u64) {
        debug_assert!(!D::INFO[usize::from(reason.code())].drops, "a drop is counted that is none");
        self.sink.count(reason.code(), n);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Noting the exceptions says the same of every packet as asking for each.
        #[test]
        fn exceptions_and_the_usual_make_all_codes(
            codes in prop::collection::vec(0u8..3, 1..=buf::FRAME_SIZE),
            usual in 0u8..3,
        ) {
            let mut bytes = Codes::default();
            let mut e = Exceptions { codes: &mut bytes.0, usual, packets: codes.len(), any: false };
            for (i, &code) in codes.iter().enumerate().filter(|(_, c)| **c != usual) {
                e.note(i, code);
            }
            let outcome = e.outcome();
            let same = codes.iter().all(|c| *c == codes[0]);
            prop_assert_eq!(outcome, if same { Outcome::All(codes[0]) } else { Outcome::Mixed });
            prop_assert!(same || bytes.0[..codes.len()] == codes[..]);
        }
    }
}
