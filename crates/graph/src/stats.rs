//! Run-time statistics: what `show runtime` and `show errors` read.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use infra::counters::{CounterSet, Lane};

use crate::edge::{ReasonInfo, Reasons};
use crate::info::NodeInfo;
use crate::rings::PuntReason;

/// Calls, packets, packets of timed calls, clocks of timed calls.
pub(crate) const CALLS: usize = 0;
pub(crate) const PACKETS: usize = 1;
pub(crate) const TIMED: usize = 2;
pub(crate) const CLOCKS: usize = 3;

/// Interfaces whose drops are counted each for itself.
const INTERFACES: u32 = 1 << 16;

/// What the main thread is called among nodes.
pub const MAIN_THREAD: &str = "main-thread";
/// The lane that it counts on: no worker has this number.
const MAIN_LANE: usize = usize::MAX;

/// Counts what the main thread does with punted packets. There is one.
pub struct MainThread {
    reasons: Lane<1>,
    first: u32,
    drops: Lane<1>,
    handled: Lane<1>,
}

impl MainThread {
    /// The main thread is done with a packet that was punted for `reason` and came in by `interface`; `unused` says why it had no
    /// use for it, as one of the reasons that the [`Builder`](crate::Builder::main_thread) was given.
    pub fn done<D: Reasons>(&mut self, reason: PuntReason, interface: u32, unused: Option<D>) {
        self.handled.add(reason.0, [1]);
        if let Some(why) = unused {
            self.ended(interface, why);
        }
    }

    /// A packet that came in by `interface` ended on the main thread, which was given it otherwise than by a punt.
    pub fn ended<D: Reasons>(&mut self, interface: u32, why: D) {
        self.reasons.add(self.first + u32::from(why.code()), [1]);
        if D::INFO[usize::from(why.code())].drops {
            self.drops.add(interface, [1]);
        }
    }
}

/// Counters of a graph, all workers together or one by one.
#[derive(Clone)]
pub struct Stats {
    nodes: Arc<[NodeInfo]>,
    pub(crate) runtime: CounterSet<4>,
    pub(crate) reasons: CounterSet<1>,
    /// Why the main thread has no use for packets that it was given; their numbers follow those of the nodes.
    main: &'static [ReasonInfo],
    first_of_main: u32,
    /// Packets that nodes made, freed and kept.
    pub(crate) books: CounterSet<3>,
    /// Punted packets that the main thread is done with, by punt reason.
    pub(crate) handled: CounterSet<1>,
    /// Passed to the main thread, policed; by punt reason.
    pub(crate) punted: CounterSet<2>,
    /// Dropped, by the interface that the packets came in by.
    pub(crate) drops: CounterSet<1>,
    /// Turns, nanoseconds with and without packets, naps and sleeps; a single entry.
    pub(crate) turns: CounterSet<5>,
    /// Frames that input nodes brought, by [`size_class`]: how many, and their packets.
    pub(crate) sizes: CounterSet<2>,
    /// The slowest calls of each worker, and the node that it runs.
    workers: Arc<Mutex<BTreeMap<usize, Seen>>>,
}

/// What is seen of a worker from outside: its slowest calls, and the node that it runs.
type Seen = (Slowest, Arc<At>);

/// The node that a worker runs.
#[derive(Default)]
pub(crate) struct At(AtomicU32);

impl At {
    /// It runs this node.
    #[inline(always)]
    pub(crate) fn node(&self, node: u32) {
        self.0.store(node + 1, Ordering::Relaxed);
    }

    /// It is between two turns.
    pub(crate) fn nowhere(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The slowest timed call of each node on one worker. Its clocks and its packets share a word, so that no reader sees
/// the halves of two calls.
#[derive(Clone)]
pub(crate) struct Slowest(Arc<[AtomicU64]>);

/// Bits of a word of [`Slowest`] that are packets.
const PACKET_BITS: u32 = 16;

impl Slowest {
    /// Remembers a call if it is the slowest so far. A clearing at the same time may get lost.
    #[inline(always)]
    pub(crate) fn note(&self, node: u32, packets: usize, clocks: u64) {
        let cell = &self.0[node as usize];
        let call = clocks << PACKET_BITS | packets as u64;
        if call > cell.load(Ordering::Relaxed) {
            cell.store(call, Ordering::Relaxed);
        }
    }
}

/// Classes of vectors by size: of one packet, of up to two, of up to four, and so on up to a full frame.
pub const SIZE_CLASSES: usize = buf::FRAME_SIZE.ilog2() as usize + 1;

/// The class of a vector of `n` packets, at least one: the least `class` for that `n` is at most `1 << class`.
#[inline(always)]
pub(crate) fn size_class(n: usize) -> u32 {
    n.next_power_of_two().trailing_zeros()
}

/// What a node did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeRuntime {
    /// Its name.
    pub name: &'static str,
    /// How often it ran.
    pub calls: u64,
    /// Packets that it was given, or that it brought in.
    pub packets: u64,
    /// TSC clocks a packet, over the calls that were timed.
    pub clocks_per_packet: f64,
    /// TSC clocks of the slowest call that was timed.
    pub slowest_clocks: u64,
    /// Packets of that call.
    pub slowest_packets: u64,
}

impl NodeRuntime {
    /// Packets a call.
    pub fn packets_per_call(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.packets as f64 / self.calls as f64 }
    }
}

/// What a node did since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeTotals {
    /// Its name.
    pub name: &'static str,
    /// How often it ran.
    pub calls: u64,
    /// Packets that it was given, or that it brought in.
    pub packets: u64,
    /// Packets of the calls that were timed.
    pub timed_packets: u64,
    /// TSC clocks of the calls that were timed.
    pub clocks: u64,
}

/// What a node did with packets since the start. What came and what it made is what went on, was dropped, was freed, or is
/// kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeBooks {
    /// Its name.
    pub name: &'static str,
    /// Whether it brings packets in. Of such a node only `packets` and `dropped` are counted.
    pub input: bool,
    /// Packets that it was given, or that it brought in.
    pub packets: u64,
    /// Packets that it made.
    pub made: u64,
    /// Packets that it had done with.
    pub freed: u64,
    /// Packets that it keeps, or gave to another thread or a device, less those that it took from there.
    pub kept: i64,
    /// Packets that it dropped.
    pub dropped: u64,
}

/// How a worker spent its time since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerTotals {
    /// Turns.
    pub turns: u64,
    /// Nanoseconds of turns in which packets came.
    pub busy_ns: u64,
    /// Nanoseconds of other turns, and asleep.
    pub idle_ns: u64,
    /// How often it slept for a few microseconds, because few packets came.
    pub naps: u64,
    /// How often it slept until something woke it.
    pub sleeps: u64,
}

/// How many packets a node dropped for a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The node.
    pub node: &'static str,
    /// The reason.
    pub reason: &'static ReasonInfo,
    /// Packets.
    pub packets: u64,
}

impl Stats {
    /// Counters of these nodes, which have `reasons` reasons, and of a main thread that has these.
    pub(crate) fn new(nodes: &Arc<[NodeInfo]>, reasons: u32, main: &'static [ReasonInfo]) -> Stats {
        Stats {
            nodes: nodes.clone(),
            runtime: CounterSet::new("/node/runtime", nodes.len() as u32),
            reasons: CounterSet::new("/err", reasons + main.len() as u32),
            main,
            first_of_main: reasons,
            books: CounterSet::new("/node/books", nodes.len() as u32),
            handled: CounterSet::new("/punt/handled", 256),
            punted: CounterSet::new("/punt", 256),
            drops: CounterSet::new("/if/drops", INTERFACES),
            turns: CounterSet::new("/worker/turns", 1),
            sizes: CounterSet::new("/worker/vector-sizes", SIZE_CLASSES as u32),
            workers: Arc::default(),
        }
    }

    fn workers(&self) -> MutexGuard<'_, BTreeMap<usize, Seen>> {
        // A panic while the lock is held leaves the map as it was.
        self.workers.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn of_worker(&self, worker: usize) -> Seen {
        let new = || (Slowest(self.nodes.iter().map(|_| AtomicU64::new(0)).collect()), Arc::default());
        self.workers().entry(worker).or_insert_with(new).clone()
    }

    /// Where `worker` remembers its slowest calls.
    pub(crate) fn slowest(&self, worker: usize) -> Slowest {
        self.of_worker(worker).0
    }

    /// Where `worker` says which node it runs.
    pub(crate) fn at(&self, worker: usize) -> Arc<At> {
        self.of_worker(worker).1
    }

    /// The node that a worker runs at this moment; `None`: it is between two turns, or asleep.
    pub fn running(&self, worker: usize) -> Option<&'static str> {
        let at = self.of_worker(worker).1.0.load(Ordering::Relaxed);
        Some(self.nodes.get(at.checked_sub(1)? as usize)?.name)
    }

    /// What each node did; `worker` for one worker alone.
    pub fn runtime(&self, worker: Option<usize>) -> Vec<NodeRuntime> {
        let slowest = |node: usize| {
            let workers = self.workers();
            let asked = workers.iter().filter(|(w, _)| worker.is_none_or(|wanted| wanted == **w));
            asked.map(|(_, (calls, _))| calls.0[node].load(Ordering::Relaxed)).max().unwrap_or(0)
        };
        let nodes = self.nodes.iter().enumerate();
        nodes
            .map(|(i, n)| {
                let c = match worker {
                    Some(w) => self.runtime.read_worker(w, i as u32),
                    None => self.runtime.read(i as u32),
                };
                let clocks = if c[TIMED] == 0 { 0.0 } else { c[CLOCKS] as f64 / c[TIMED] as f64 };
                let slowest = slowest(i);
                NodeRuntime {
                    name: n.name,
                    calls: c[CALLS],
                    packets: c[PACKETS],
                    clocks_per_packet: clocks,
                    slowest_clocks: slowest >> PACKET_BITS,
                    slowest_packets: slowest & ((1 << PACKET_BITS) - 1),
                }
            })
            .collect()
    }

    /// What each node did on a worker since the start, whatever was cleared.
    pub fn node_totals(&self, worker: usize) -> impl Iterator<Item = NodeTotals> {
        self.nodes.iter().enumerate().map(move |(i, n)| {
            let c = self.runtime.total_worker(worker, i as u32);
            NodeTotals {
                name: n.name,
                calls: c[CALLS],
                packets: c[PACKETS],
                timed_packets: c[TIMED],
                clocks: c[CLOCKS],
            }
        })
    }

    /// How a worker spent its time since the start, up to its last turn.
    pub fn worker_totals(&self, worker: usize) -> WorkerTotals {
        let [turns, busy_ns, idle_ns, naps, sleeps] = self.turns.total_worker(worker, 0);
        WorkerTotals { turns, busy_ns, idle_ns, naps, sleeps }
    }

    /// Every reason of every node with its count, zeros included.
    pub fn dropped(&self) -> Vec<Dropped> {
        self.by_reason(|number| self.reasons.read(number)[0]).collect()
    }

    /// The same since the start, whatever was cleared.
    pub fn dropped_totals(&self) -> impl Iterator<Item = Dropped> {
        self.by_reason(|number| self.reasons.total(number)[0])
    }

    fn by_reason(&self, count: impl Fn(u32) -> u64 + Copy) -> impl Iterator<Item = Dropped> {
        let nodes = self.nodes.iter().map(|n| (n.name, n.reasons, n.first_reason));
        nodes.chain([(MAIN_THREAD, self.main, self.first_of_main)]).flat_map(move |(node, reasons, first)| {
            let numbers = (first..).zip(reasons);
            numbers.map(move |(number, reason)| Dropped { node, reason, packets: count(number) })
        })
    }

    /// What each node did with packets since the start, whatever was cleared. Exact while no packet moves.
    pub fn node_books(&self) -> impl Iterator<Item = NodeBooks> {
        (0..).zip(self.nodes.iter()).map(|(i, n)| {
            let [made, freed, kept] = self.books.total(i);
            let drops = (n.first_reason..).zip(n.reasons).filter(|(_, reason)| reason.drops);
            NodeBooks {
                name: n.name,
                input: n.input,
                packets: self.runtime.total(i)[PACKETS],
                made,
                freed,
                kept: kept as i64,
                dropped: drops.map(|(number, _)| self.reasons.total(number)[0]).sum(),
            }
        })
    }

    /// Counts what the main thread does with punted packets.
    ///
    /// # Errors
    /// When memory for counters is not to be had.
    pub fn main_thread(&self) -> io::Result<MainThread> {
        Ok(MainThread {
            reasons: self.reasons.lane(MAIN_LANE)?,
            first: self.first_of_main,
            drops: self.drops.lane(MAIN_LANE)?,
            handled: self.handled.lane(MAIN_LANE)?,
        })
    }

    /// Punted packets that the main thread is done with since the start, of a punt reason, whatever was cleared.
    pub fn handled_total(&self, reason: PuntReason) -> u64 {
        self.handled.total(reason.0)[0]
    }

    /// How many packets `node` dropped for the reason of this short name; `None` when there is no such reason.
    pub fn dropped_for(&self, node: &str, reason: &str) -> Option<u64> {
        self.dropped().iter().find(|d| d.node == node && d.reason.name == reason).map(|d| d.packets)
    }

    /// Packets passed to the main thread, and policed, for a punt reason.
    pub fn punted(&self, reason: PuntReason) -> [u64; 2] {
        self.punted.read(reason.0)
    }

    /// The same since the start, whatever was cleared.
    pub fn punted_totals(&self, reason: PuntReason) -> [u64; 2] {
        self.punted.total(reason.0)
    }

    /// The vectors that a worker's input nodes brought since the start, by size: class `n` has those of up to `1 << n` packets
    /// that are in no class before; how many vectors, and how many packets in them.
    pub fn vector_sizes(&self, worker: usize) -> [[u64; 2]; SIZE_CLASSES] {
        std::array::from_fn(|class| self.sizes.total_worker(worker, class as u32))
    }

    /// Packets dropped that came in by `interface`; of [`NO_INTERFACE`](buf::NO_INTERFACE), those of the router's own.
    pub fn drops_of(&self, interface: u32) -> u64 {
        self.drops.read(interface)[0]
    }

    /// The same since the start, whatever was cleared.
    pub fn drops_total(&self, interface: u32) -> u64 {
        self.drops.total(interface)[0]
    }

    /// Starts the count of [`drops_of`](Self::drops_of) anew.
    pub fn clear_drops_of(&self, interface: u32) {
        self.drops.clear(interface);
    }

    /// The node and reason behind the number that a dropped packet carries.
    pub fn reason(&self, number: u32) -> Option<(&'static str, &'static ReasonInfo)> {
        let n = self.nodes.iter().find(|n| number.wrapping_sub(n.first_reason) < n.reasons.len() as u32)?;
        Some((n.name, &n.reasons[(number - n.first_reason) as usize]))
    }

    /// Starts the run-time statistics anew.
    pub fn clear_runtime(&self) {
        self.runtime.clear_all();
        self.workers()
            .values()
            .flat_map(|(calls, _)| calls.0.iter())
            .for_each(|call| call.store(0, Ordering::Relaxed));
    }

    /// Starts the drop counters anew.
    pub fn clear_errors(&self) {
        self.reasons.clear_all();
        self.punted.clear_all();
    }
}
