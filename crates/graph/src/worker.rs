//! Runs frames of packets through the nodes: one worker's turn.

use std::io;
use std::sync::{Arc, OnceLock};

use buf::{Cache, Flags, Frame, Tally};
use infra::class_a::Reader;
use infra::clock::{Clock, tsc};
use infra::counters::Lane;
use infra::quiesce::{Domain, Guard};
use kernels::{Codes, Kernels};

use crate::arc::Rows;
use crate::books::Books;
use crate::build::Blueprint;
use crate::builtin;
use crate::edge::{CONSUMED, FIRST_REASON, HELD, NodeId, Outcome, ReasonInfo};
use crate::entry::Fate;
use crate::erased::Erased;
use crate::info::Target;
use crate::node::{Cx, More, Setup, WaitSet};
use crate::pending::Pending;
use crate::rest::Eager;
use crate::rings::Rings;
use crate::stats::{self, At, Slowest, Stats};
use crate::trace::{self, Log, Tracer};
use crate::ways::{Sink, Ways, enter_arcs};

/// Frames of at least this many packets are always timed.
const TIMED_LEN: usize = 32;
/// Shorter frames are timed only in every `SAMPLE`th turn, because reading the clock takes about 13 TSC ticks.
const SAMPLE: u64 = 16;

/// Returns the clock of all workers. It is calibrated only once, so that the times of all workers are
/// comparable.
fn clock() -> Clock {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    *CLOCK.get_or_init(Clock::new)
}

/// One worker, with its nodes, pending frames and counters.
pub struct Worker {
    number: usize,
    domain: Domain,
    nodes: Vec<Slot>,
    inputs: Vec<u32>,
    drop_node: u32,
    pending: Pending,
    rows: Reader<Rows>,
    bufs: Cache,
    kernels: &'static Kernels,
    clock: Clock,
    codes: Box<Codes>,
    runtime: Lane<4>,
    slowest: Slowest,
    reasons: Lane<1>,
    /// Numbers of packets made, freed and kept by nodes.
    books: Lane<3>,
    /// The node in whose name the present call frees packets.
    freed_by: u32,
    /// True if the present call is timed.
    is_timed: bool,
    /// The state of the buffer cache's counters when `books` was last updated.
    counted: Tally,
    tracer: Tracer,
    log: Arc<Log>,
    noted: Vec<trace::Before>,
    turns: u64,
    times: Lane<5>,
    sizes: Lane<2>,
    /// The node that is running. It shows where a worker hangs.
    at: Arc<At>,
    /// Start of the last turn or rest in nanoseconds, and true if it was a turn that brought in packets.
    last: (u64, bool),
}

/// A node, and the targets of its edges.
struct Slot {
    node: Box<dyn Erased>,
    targets: Vec<Target>,
    arc_edges: Vec<u8>,
    through: Vec<u32>,
    first_reason: u32,
    reasons: Arc<[&'static ReasonInfo]>,
}

/// A node, and the arguments for one call of the node.
struct Call<'a> {
    node: &'a mut dyn Erased,
    cx: Cx<'a>,
    codes: &'a mut Codes,
    sink: Sink<'a>,
}

impl Worker {
    /// Makes the worker with this number, with its own nodes, counters and buffers.
    ///
    /// # Errors
    /// Fails if a node cannot be made, or if memory for counters cannot be allocated.
    pub(crate) fn new(blueprint: &Blueprint, number: usize, bufs: Cache, rings: Rings) -> io::Result<Worker> {
        let Rings { punt, punted, wake_main, inject, wake, reasons } = rings;
        let mut setup = Setup {
            worker: number,
            pool: bufs.pool().clone(),
            stats: blueprint.stats.clone(),
            punt: Some((punt, punted, wake_main)),
            inject: Some((inject, wake)),
            punt_reasons: reasons,
            exchange: blueprint.exchange.clone(),
        };
        let mut nodes = Vec::new();
        for (make, info) in blueprint.makes.iter().zip(blueprint.nodes.iter()) {
            let failed = |e: io::Error| io::Error::new(e.kind(), format!("node \"{}\": {e}", info.name));
            nodes.push(Slot {
                node: make(&mut setup).map_err(failed)?,
                targets: info.targets.clone(),
                arc_edges: info.arc_edges.clone(),
                through: info.through.clone(),
                first_reason: info.first_reason,
                reasons: info.reasons.clone(),
            });
        }
        let Stats { runtime, reasons, books, turns, sizes, .. } = blueprint.stats();
        let clock = clock();
        let named = |name| {
            blueprint.node(name).ok_or_else(|| io::Error::other(format!("there is no node \"{name}\"")))
        };
        let inputs = blueprint.nodes.iter().enumerate().filter(|(_, n)| n.input).map(|(i, _)| i as u32);
        Ok(Worker {
            number,
            domain: blueprint.domain.clone(),
            pending: Pending::new(nodes.len()),
            nodes,
            inputs: inputs.collect(),
            drop_node: named(builtin::DROP)?.0,
            rows: blueprint.rows.clone(),
            bufs,
            kernels: kernels::best(),
            codes: Box::default(),
            runtime: runtime.lane(number)?,
            slowest: blueprint.stats().slowest(number),
            reasons: reasons.lane(number)?,
            books: books.lane(number)?,
            freed_by: 0,
            is_timed: false,
            counted: Tally::default(),
            tracer: blueprint.tracer.clone(),
            log: blueprint.tracer.log(),
            noted: Vec::with_capacity(buf::FRAME_SIZE),
            turns: 0,
            times: turns.lane(number)?,
            sizes: sizes.lane(number)?,
            at: blueprint.stats().at(number),
            last: (clock.now_ns(), false),
            clock,
        })
    }

    /// Returns the worker's number, counted from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the quiescence domain of this worker.
    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Returns the present time in nanoseconds of the monotonic clock.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Sets the vector routines to `kernels` instead of those that are fastest on this CPU: for tests, and to compare CPU levels.
    pub fn set_kernels(&mut self, kernels: &'static Kernels) {
        self.kernels = kernels;
    }

    /// Runs one turn: polls one input node after the other. After each poll, runs the new packets through the
    /// whole graph. Returns the number of packets brought in.
    pub fn turn(&mut self, guard: &Guard) -> usize {
        let now = self.clock.now_ns();
        self.spent(now, [1, 0, 0]);
        let came = self.turn_at(guard, now);
        self.last = (now, came > 0);
        came
    }

    /// Records that the worker rests from `now` (nanoseconds of the monotonic clock) until the next turn: a
    /// nap, or otherwise a sleep.
    pub(crate) fn rests(&mut self, now: u64, nap: bool) {
        self.spent(now, [0, u64::from(nap), u64::from(!nap)]);
        self.last = (now, false);
    }

    /// Adds the given numbers of turns, naps and sleeps to the counters, and the time since the last turn or rest started. This
    /// time counts as busy if that turn had packets, otherwise as idle.
    fn spent(&mut self, now: u64, [turns, naps, sleeps]: [u64; 3]) {
        let (began, busy) = self.last;
        let took = now.saturating_sub(began);
        let [busy, idle] = if busy { [took, 0] } else { [0, took] };
        self.times.add(0, [turns, busy, idle, naps, sleeps]);
    }

    /// Returns the start of the last turn or rest in nanoseconds of the monotonic clock.
    pub(crate) fn turned(&self) -> u64 {
        self.last.0
    }

    /// Returns how promptly the worker must serve its queues.
    pub(crate) fn eager(&self) -> Eager {
        self.inputs.iter().fold(Eager::NONE, |all, i| all.and(self.nodes[*i as usize].node.eager()))
    }

    /// Like [`turn`](Self::turn), but at the given time in nanoseconds: for tests with virtual time. The turn does not count in the
    /// worker's statistics of turns and times.
    pub fn turn_at(&mut self, guard: &Guard, now: u64) -> usize {
        self.turns += 1;
        let mut came = 0;
        for i in 0..self.inputs.len() {
            let input = self.inputs[i];
            loop {
                let (packets, more) = self.poll(guard, now, input);
                came += packets;
                self.run_pending(guard, now);
                if more == More::No {
                    break;
                }
            }
        }
        self.at.nowhere();
        self.bufs.share(0);
        self.bufs.publish();
        came
    }

    /// Runs the packets of `frame` through the graph from `node` on, as if another node had sent them: for
    /// tests and measurements of a part of the graph. Afterwards the frame is empty. Does nothing if the node
    /// does not exist or is an input node.
    pub fn feed(&mut self, guard: &Guard, now: u64, node: NodeId, frame: &mut Frame) {
        if node.0 as usize >= self.nodes.len() || self.inputs.contains(&node.0) {
            return;
        }
        self.turns += 1;
        let mut own = self.pending.spare();
        own.append(frame);
        self.pending.push(node.0, own);
        self.run_pending(guard, now);
        self.bufs.publish();
    }

    /// Polls an input node once, and sends its packets on. Returns the number of packets, and whether the node has more. If the
    /// node only sent packets that are not in its frame, the number is 1.
    fn poll(&mut self, guard: &Guard, now: u64, input: u32) -> (usize, More) {
        let mut frame = self.pending.spare();
        self.at.node(input);
        let start = tsc();
        let books = self.open_books(0);
        let Call { node, mut cx, codes, sink } = self.call(guard, now, input);
        let (outcome, more) = node.poll(&mut cx, &mut frame, codes, sink);
        let n = frame.len();
        if n == 0 {
            self.runtime.add(input, [1, 0, 0, 0]);
            self.pending.recycle(frame);
            self.close_books(books, input, 0);
            self.counted = self.bufs.tally();
            return (if self.pending.is_empty() { 0 } else { 1 }, more);
        }
        self.sizes.add(stats::size_class(n), [1, n as u64]);
        if self.timed(n) {
            self.count_timed(input, n, tsc() - start);
        } else {
            self.runtime.add(input, [1, n as u64, 0, 0]);
        }
        if self.tracer.mark(guard, input, &mut frame) {
            trace::before(&mut frame, true, &mut self.noted);
            self.record(guard, now, input, &mut frame, outcome);
        }
        let whole = self.leave(guard, now, input, frame, outcome);
        self.close_books(books, input, whole.as_ref().map_or(0, |(_, frame)| frame.len()));
        self.counted = self.bufs.tally();
        if let Some((next, frame)) = whole {
            self.run(guard, now, next, frame);
        }
        (n, more)
    }

    /// Returns `node`, with the arguments for one call of the node.
    #[inline(always)]
    fn call<'a>(&'a mut self, guard: &'a Guard, now: u64, node: u32) -> Call<'a> {
        let slot = &mut self.nodes[node as usize];
        self.freed_by = node;
        Call {
            node: &mut *slot.node,
            cx: Cx { guard, bufs: &mut self.bufs, now, kernels: self.kernels, worker: self.number },
            codes: &mut self.codes,
            sink: Sink {
                pending: &mut self.pending,
                targets: &slot.targets,
                rows: self.rows.get(guard),
                reasons: &mut self.reasons,
                runtime: &mut self.runtime,
                through: &slot.through,
                timed: self.is_timed,
                freed_by: &mut self.freed_by,
                first_reason: slot.first_reason,
                drop_node: self.drop_node,
            },
        }
    }

    /// In debug builds, opens the packet accounting before a node runs; see [`Books`].
    #[inline(always)]
    fn open_books(&self, came: usize) -> Option<Books> {
        cfg!(debug_assertions).then(|| Books::open(came, &self.pending, self.drop_node, &self.bufs))
    }

    /// Checks the packet accounting after `node` has run. If the whole frame moves on to one node, `whole` is the number of its
    /// packets, otherwise 0.
    #[inline(always)]
    fn close_books(&self, books: Option<Books>, node: u32, whole: usize) {
        let Some(books) = books else { return };
        if let Err(sum) = books.close(whole, &self.pending, self.drop_node, &self.bufs) {
            panic!("node \"{}\" loses or duplicates packets: {sum}", self.tracer.node_name(NodeId(node)));
        }
    }

    /// Counts the packets that a node made, freed and kept. Not called for input nodes: [`poll`](Self::poll) counts their packets, and the
    /// number of buffers that a driver takes or frees is not a number of packets.
    #[inline(always)]
    fn enter_books(&mut self) {
        let now = self.bufs.tally();
        if now != self.counted {
            self.books.add(self.freed_by, now.since(self.counted));
            self.counted = now;
        }
    }

    /// Runs nodes until no frame is pending.
    fn run_pending(&mut self, guard: &Guard, now: u64) {
        while let Some((node, frame)) = self.pending.pop() {
            self.run(guard, now, node, frame);
        }
    }

    fn timed(&self, n: usize) -> bool {
        n >= TIMED_LEN || self.turns.is_multiple_of(SAMPLE)
    }

    #[inline(always)]
    fn count_timed(&mut self, node: u32, n: usize, clocks: u64) {
        self.runtime.add(node, [1, n as u64, n as u64, clocks]);
        self.slowest.note(node, n, clocks);
    }

    /// Runs `node` on `frame`, and then the next nodes, as long as all packets of the frame leave by the same
    /// edge and no other frame is pending.
    fn run(&mut self, guard: &Guard, now: u64, mut node: u32, mut frame: Box<Frame>) {
        let timed = self.timed(frame.len());
        self.is_timed = timed;
        let mut start = if timed { tsc() } else { 0 };
        loop {
            let n = frame.len();
            self.at.node(node);
            let books = self.open_books(n);
            let traced = frame.any().any(Flags::TRACED);
            if traced {
                trace::before(&mut frame, false, &mut self.noted);
            }
            let Call { node: body, mut cx, codes, sink } = self.call(guard, now, node);
            let outcome = body.run(&mut cx, &mut frame, codes, sink);
            if timed {
                let end = tsc();
                self.count_timed(node, n, end - start);
                start = end;
            } else {
                self.runtime.add(node, [1, n as u64, 0, 0]);
            }
            debug_assert!(
                frame.is_empty() || frame.len() == n,
                "a node must take all packets of a frame or none"
            );
            if traced {
                self.record(guard, now, node, &mut frame, outcome);
            }
            let whole = self.leave(guard, now, node, frame, outcome);
            self.close_books(books, node, whole.as_ref().map_or(0, |(_, frame)| frame.len()));
            self.enter_books();
            match whole {
                Some(next) => (node, frame) = next,
                None => return,
            }
        }
    }

    /// Sends the packets of a frame on from `node`. If all leave by the same edge and no other frame is
    /// pending, returns the frame and its next node instead.
    #[inline(always)]
    fn leave(
        &mut self,
        guard: &Guard,
        now: u64,
        node: u32,
        mut frame: Box<Frame>,
        outcome: Outcome,
    ) -> Option<(u32, Box<Frame>)> {
        let n = frame.len();
        if n == 0 {
            self.pending.recycle(frame);
            return None;
        }
        let slot = &self.nodes[node as usize];
        let mut outcome = outcome;
        if !slot.arc_edges.is_empty() {
            outcome = enter_arcs(
                &slot.targets,
                &slot.arc_edges,
                self.rows.get(guard),
                &mut frame,
                &mut self.codes,
                outcome,
            );
        }
        if let Outcome::All(code) = outcome
            && let Some(target) = slot.targets.get(usize::from(code))
        {
            if self.pending.is_empty() {
                return Some((target.node, frame));
            }
            self.pending.push(target.node, frame);
            return None;
        }
        self.split(guard, now, node, frame, outcome);
        None
    }

    /// Distributes the packets of a frame that do not all leave by the same edge.
    fn split(&mut self, guard: &Guard, now: u64, node: u32, mut frame: Box<Frame>, outcome: Outcome) {
        match outcome {
            Outcome::All(code) => self.codes.0[..frame.len()].fill(code),
            Outcome::Mixed => {}
            Outcome::InOrder => return self.one_by_one(guard, now, node, frame),
        }
        let slot = &self.nodes[node as usize];
        let mut held = None;
        let mut ways = Ways {
            targets: &slot.targets,
            first_reason: slot.first_reason,
            reason_info: &slot.reasons,
            drop_node: self.drop_node,
            pending: &mut self.pending,
            reasons: &mut self.reasons,
            bufs: &mut self.bufs,
            held: &mut held,
        };
        self.codes.split(self.kernels, &mut frame, &mut ways);
        self.pending.recycle(frame);
        let Some(mut held) = held else { return };
        let Call { node, mut cx, codes, sink } = self.call(guard, now, node);
        node.hold(&mut cx, &mut held, codes, sink);
        self.pending.recycle(held);
    }

    /// Sends the packets of a frame on one by one, in order. If `held` emits packets for a held packet, these leave in place of the held
    /// packet.
    #[cold]
    fn one_by_one(&mut self, guard: &Guard, now: u64, node: u32, mut frame: Box<Frame>) {
        // `held` may set its own verdicts.
        let codes = self.codes.0;
        let reasons = self.nodes[node as usize].reasons.clone();
        let mut at = 0;
        frame.drain(|packet| {
            let Call { node, mut cx, codes: own, mut sink } = self.call(guard, now, node);
            match codes[at] {
                HELD => node.held(&mut cx, packet, own, sink),
                CONSUMED => packet.free(cx.bufs),
                code if reasons
                    .get(usize::from(code.wrapping_sub(FIRST_REASON)))
                    .is_some_and(|r| !r.drops) =>
                {
                    sink.count(code - FIRST_REASON, 1);
                    packet.free(cx.bufs);
                }
                code => sink.emit(code, packet),
            }
            at += 1;
        });
        self.pending.recycle(frame);
    }

    #[cold]
    fn record(&mut self, guard: &Guard, now: u64, node: u32, frame: &mut Frame, outcome: Outcome) {
        let slot = &self.nodes[node as usize];
        let rows = self.rows.get(guard);
        let mut codes = Codes(self.codes.0);
        if let Outcome::All(code) = outcome {
            codes.0.fill(code);
        }
        enter_arcs(&slot.targets, &slot.arc_edges, rows, frame, &mut codes, Outcome::Mixed);
        let fate = |at: usize| match codes.0[at] {
            HELD => Fate::Held,
            CONSUMED => Fate::Taken,
            code if code >= FIRST_REASON => match slot.reasons.get(usize::from(code - FIRST_REASON)) {
                Some(reason) if reason.drops => Fate::Dropped(reason),
                Some(reason) => Fate::Ignored(reason),
                None => Fate::Taken,
            },
            code => slot.targets.get(usize::from(code)).map_or(Fate::Taken, |t| Fate::Next(NodeId(t.node))),
        };
        trace::record(&self.log, NodeId(node), now, frame, &self.noted, fate);
    }

    /// Adds to `wait` the events that end this worker's sleep.
    pub fn wait<'a>(&'a self, wait: &mut WaitSet<'a>) {
        for &i in &self.inputs {
            self.nodes[i as usize].node.wait(wait);
        }
    }
}
