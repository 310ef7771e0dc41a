//! The three kinds of nodes, and the context in which a node runs. The first kind in the table is the easiest to write.
//!
//! | kind | for | the author writes |
//! |---|---|---|
//! | [`PacketNode`] | a decision for each packet | `one(packet) → verdict` |
//! | [`FrameNode`] | staged lookups, counting by runs of packets, nodes that make, join or keep packets | `run(frame, out)` |
//! | [`InputNode`] | sources of packets | `poll(frame, out)` |

use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use buf::{Cache, Frame, Held, Packet, Pool};
use infra::counters::Lane;
use infra::doorbell::Doorbell;
use infra::quiesce::Guard;
use infra::ring::{Consumer, Producer};
use kernels::{CodeBytes, Codes, Kernels};

use crate::edge::{EdgeId, Edges, Outcome, Reasons, Verdict, drop_code, drops};
use crate::entry::{TraceFn, plain};
use crate::handoff::{Exchange, Inbox, Outbox};
use crate::rest::Eager;
use crate::rings::{Inject, PuntInfo, Punted};
use crate::stats::Stats;
use crate::ways::Sink;

/// The context of a node's run. The worker passes it to the node together with the packets.
pub struct Cx<'w> {
    /// Permits reads of shared tables ([`infra::class_a`]) until the end of the worker's turn.
    pub guard: &'w Guard,
    /// This worker's free buffers.
    pub bufs: &'w mut Cache,
    /// Time of this turn in nanoseconds of the monotonic clock. Nodes never read a clock.
    pub now: u64,
    /// The vector routines that are fastest on this CPU.
    pub kernels: &'static Kernels,
    /// Number of this worker, from 0.
    pub worker: usize,
}

/// A node that decides on each packet. The graph itself loops over the packets, distributes them to the
/// edges, and counts.
pub trait PacketNode: Send + 'static {
    /// The node's name in the graph.
    const NAME: &'static str;
    /// The edges.
    type Next: Edges;
    /// The reasons for which the node drops or counts packets.
    type Drop: Reasons;
    /// Describes in a trace what the node did with a packet.
    const TRACE: TraceFn = plain;

    /// Processes one packet. Implementations should be `#[inline(always)]`.
    fn one(&mut self, cx: &Cx<'_>, packet: &mut Packet<'_>) -> Verdict<Self::Next, Self::Drop>;
}

/// A node that processes whole frames.
pub trait FrameNode: Send + 'static {
    /// The node's name in the graph.
    const NAME: &'static str;
    /// The edges.
    type Next: Edges;
    /// The reasons for which the node drops or counts packets.
    type Drop: Reasons;
    /// The names of the edges if they differ from [`Edges::NAMES`], as in nodes that exist once for each
    /// address family.
    const EDGES: &'static [&'static str] = <Self::Next as Edges>::NAMES;
    /// The names of other nodes through which this node can take packets itself, because their work for most packets is simple. These
    /// packets count as theirs, too ([`Out::went_through`]). The node must not do this while frames wait ([`Out::is_alone`]).
    const THROUGH: &'static [&'static str] = &[];
    /// Describes in a trace what the node did with a packet.
    const TRACE: TraceFn = plain;

    /// Processes the frame, and sets the verdict on each packet that stays in the frame: by [`Out::each`],
    /// [`Out::mostly`] or [`Out::all`]. A node may also empty the frame, for example a node that passes the
    /// packets to a driver.
    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Self::Next, Self::Drop>);

    /// Receives all packets that `run` left with [`Verdict::Hold`], in order, and takes every packet out of the frame. A node implements
    /// `hold` if it can process the held packets together. Otherwise it implements [`held`](Self::held), which `hold` calls for each
    /// packet.
    fn hold(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Self::Next, Self::Drop>) {
        frame.drain(|packet| self.held(cx, packet, out));
    }

    /// Receives each packet that `run` left with [`Verdict::Hold`], in order. A node that keeps the packet
    /// after this call reports that with [`Cache::note_kept`].
    fn held(&mut self, _cx: &mut Cx<'_>, packet: Held, _out: &mut Out<'_, Self::Next, Self::Drop>) {
        drop(packet);
    }
}

/// The result of polling an input node: whether the node has more packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// More packets are waiting: the worker polls the node again before it polls other nodes.
    Yes,
    /// The node has no more packets in this turn.
    No,
}

/// An input node. A worker calls it in every turn.
pub trait InputNode: Send + 'static {
    /// The edges.
    type Next: Edges;
    /// The reasons for which the node drops or counts packets.
    type Drop: Reasons;
    /// Describes in a trace what the node did with a packet.
    const TRACE: TraceFn = plain;

    /// Puts packets into the frame, which is empty, and sets their verdicts in `out`. The worker runs these
    /// packets through the graph before the next call.
    fn poll(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Self::Next, Self::Drop>)
    -> More;

    /// Adds to `wait` the events that end the worker's sleep. The worker has already announced its sleep, so a packet put into one of the
    /// worker's rings also wakes the worker.
    fn wait<'a>(&'a self, wait: &mut WaitSet<'a>);

    /// Returns how promptly the worker must serve the node's queues.
    fn eager(&self) -> Eager {
        Eager::NONE
    }
}

/// The events that end a worker's sleep.
#[derive(Default)]
pub struct WaitSet<'a> {
    pub(crate) fds: Vec<BorrowedFd<'a>>,
    pub(crate) busy: bool,
    pub(crate) until: Option<u64>,
}

impl<'a> WaitSet<'a> {
    /// Wakes the worker when the descriptor `fd` is readable.
    pub fn fd(&mut self, fd: BorrowedFd<'a>) {
        self.fds.push(fd);
    }

    /// Keeps the worker from sleeping, because there is a queue that must be polled.
    pub fn poll(&mut self) {
        self.busy = true;
    }

    /// Wakes the worker at `time` at the latest (nanoseconds of the monotonic clock).
    pub fn until(&mut self, time: u64) {
        self.until = Some(self.until.map_or(time, |u| u.min(time)));
    }
}

/// Input of the function that makes a node for a worker.
pub struct Setup {
    /// Number of the worker, from 0.
    pub worker: usize,
    /// The pool from which this worker takes its buffers.
    pub pool: Pool,
    pub(crate) stats: Stats,
    pub(crate) punt: Option<(Producer<Punted>, Lane<2>, Arc<Doorbell>)>,
    pub(crate) inject: Option<(Consumer<Inject>, Arc<Doorbell>)>,
    pub(crate) punt_reasons: Arc<[PuntInfo]>,
    pub(crate) exchange: Exchange,
}

impl Setup {
    /// Returns this worker's outbox to other workers.
    pub fn outbox(&self) -> Outbox {
        self.exchange.outbox(self.worker)
    }

    /// Returns this worker's inbox from other workers. Only one node of a worker may use an inbox.
    pub fn inbox(&self) -> Inbox {
        self.exchange.inbox(self.worker)
    }
}

/// Records the verdict codes of a frame's packets. Most of these packets get the code `usual`.
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

    /// Returns the outcome of a frame in which some packets did not get the usual code. The outcome is still `All` if all packets
    /// got the same other code.
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

/// The output of a frame or input node: the verdicts on the frame's packets, and further packets.
pub struct Out<'o, N, D> {
    pub(crate) codes: &'o mut Codes,
    pub(crate) outcome: Outcome,
    pub(crate) sink: Sink<'o>,
    pub(crate) types: PhantomData<(N, D)>,
}

impl<N: Edges, D: Reasons> Out<'_, N, D> {
    /// Sets `verdict` on every packet of the frame.
    #[inline(always)]
    pub fn all(&mut self, verdict: Verdict<N, D>) {
        self.outcome = Outcome::All(verdict.code());
    }

    /// Calls `f` for each packet of the frame in order, and sets the verdict that `f` returns.
    #[inline(always)]
    pub fn each(&mut self, frame: &mut Frame, mut f: impl FnMut(usize, &mut Packet<'_>) -> Verdict<N, D>) {
        // Whether all verdicts agree is tracked in registers: reading the bytes back immediately would stall
        // on the stores.
        let (mut any, mut all) = (0u8, u8::MAX);
        for ((i, mut packet), code) in frame.packets().enumerate().zip(&mut self.codes.0) {
            let c = f(i, &mut packet).code();
            *code = c;
            any |= c;
            all &= c;
        }
        self.outcome = if any == all { Outcome::All(any) } else { Outcome::Mixed };
    }

    /// Sets the verdict `usual` on every packet for which `f` returns no other verdict. `f` is called for
    /// each packet in order.
    ///
    /// This is for nodes in which most packets leave by the same edge: a packet with the usual verdict needs
    /// no store, and no comparison with other packets.
    #[inline(always)]
    pub fn mostly(
        &mut self,
        usual: Verdict<N, D>,
        frame: &mut Frame,
        mut f: impl FnMut(usize, &mut Packet<'_>) -> Option<Verdict<N, D>>,
    ) {
        let mut exceptions = self.exceptions(usual, frame.len());
        for (i, mut packet) in frame.packets().enumerate() {
            if let Some(verdict) = f(i, &mut packet) {
                exceptions.note(i, verdict.code());
            }
        }
        self.outcome = exceptions.outcome();
    }

    /// Like [`mostly`](Self::mostly), for the first node that reads the headers: they are prefetched.
    #[inline(always)]
    pub fn mostly_ahead(
        &mut self,
        usual: Verdict<N, D>,
        frame: &mut Frame,
        mut f: impl FnMut(&mut Packet<'_>) -> Option<Verdict<N, D>>,
    ) {
        let mut exceptions = self.exceptions(usual, frame.len());
        for (i, mut packet) in frame.packets_ahead().enumerate() {
            if let Some(verdict) = f(&mut packet) {
                exceptions.note(i, verdict.code());
            }
        }
        self.outcome = exceptions.outcome();
    }

    #[inline(always)]
    fn exceptions(&mut self, usual: Verdict<N, D>, packets: usize) -> Exceptions<'_> {
        Exceptions { codes: &mut self.codes.0, usual: usual.code(), packets, any: false }
    }

    /// True if packets that leave by `edge` may meet a feature: the edge enters an arc on which a feature is enabled, on `interface` or, if
    /// that is `None`, on any interface. It is the receive or the transmit interface, as the arc requires.
    #[inline(always)]
    pub fn meets_feature(&self, edge: N, interface: Option<u32>) -> bool {
        self.sink.meets_feature(edge.code(), interface)
    }

    /// True if no frame waits anywhere in the graph. Otherwise packets that a node takes through other nodes itself could overtake packets
    /// of their flow that wait at those nodes.
    #[inline(always)]
    pub fn is_alone(&self) -> bool {
        self.sink.is_alone()
    }

    /// Like [`went_through`](Self::went_through), for packets that end in the other node. All packets that this call frees count as freed by
    /// that node.
    #[inline(always)]
    pub fn ended_in(&mut self, through: usize, packets: u64) {
        self.sink.ended_in(through, packets);
    }

    /// Counts packets that this node has also taken through another node of the frame's path: `through` is the node's place in
    /// [`FrameNode::THROUGH`].
    #[inline(always)]
    pub fn went_through(&mut self, through: usize, packets: u64) {
        self.sink.went_through(through, packets);
    }

    /// Keeps the packets strictly in the order of the frame. Packets that [`FrameNode::held`] emits for a held packet then leave
    /// before the packets that follow the held packet in the frame. Without this call, the emitted packets leave after all
    /// other packets of the frame.
    ///
    /// A node calls this after it has set the verdicts. It needs this if a flow can have both held packets and packets that are not
    /// held. The packets then leave one by one.
    #[cold]
    pub fn in_order(&mut self) {
        if self.outcome == Outcome::Mixed {
            self.outcome = Outcome::InOrder;
        }
    }

    /// Sends another packet, which is not in the frame, by an edge.
    pub fn emit(&mut self, edge: N, packet: Held) {
        self.sink.emit(edge.code(), packet);
    }

    /// Sends another packet, which is not in the frame, by an edge that was added while the graph was being
    /// built.
    pub fn emit_edge(&mut self, edge: EdgeId, packet: Held) {
        self.sink.emit(edge.0, packet);
    }

    /// Drops a packet that is not in the frame (a held packet).
    pub fn drop(&mut self, reason: D, packet: Held) {
        self.sink.emit(drop_code(reason), packet);
    }

    /// Counts `n` events that are not packet drops (for example, device descriptors without a packet). The
    /// reason must be declared `counted`.
    pub fn count(&mut self, reason: D, n: u64) {
        debug_assert!(drops(reason) != Some(true), "a drop reason is used for a count");
        self.sink.count(reason.code(), n);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Recording exceptions gives the same codes as a verdict on each packet.
        #[test]
        fn exceptions_and_the_usual_code_equal_all_verdicts(
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
