//! Run-time statistics, for `show runtime` and `show errors`.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use infra::counters::{CounterSet, Lane};

use crate::edge::{ReasonInfo, Reasons};
use crate::info::NodeInfo;
use crate::rings::PuntReason;

/// Positions in a node's counters: calls, packets, packets of timed calls, clocks of timed calls.
pub(crate) const CALLS: usize = 0;
pub(crate) const PACKETS: usize = 1;
pub(crate) const TIMED: usize = 2;
pub(crate) const CLOCKS: usize = 3;

/// Maximum number of interfaces with separate drop counters.
const INTERFACES: u32 = 1 << 16;

/// Name of the main thread among the nodes.
pub const MAIN_THREAD: &str = "main-thread";
/// The main thread's counter lane: no worker has this number.
const MAIN_LANE: usize = usize::MAX;

/// Counts the results of punted packets on the main thread. There is one.
pub struct MainThread {
    reasons: Lane<1>,
    first: u32,
    drops: Lane<1>,
    handled: Lane<1>,
}

impl MainThread {
    /// Counts a packet punted for `reason` and received on `interface` as done. `unused` is the reason why it
    /// was discarded: one of the reasons given to [`Builder`](crate::Builder::main_thread).
    pub fn done<D: Reasons>(&mut self, reason: PuntReason, interface: u32, unused: Option<D>) {
        self.handled.add(reason.0, [1]);
        if let Some(why) = unused {
            self.ended(interface, why);
        }
    }

    /// Counts a packet received on `interface` that ended on the main thread without a punt.
    pub fn ended<D: Reasons>(&mut self, interface: u32, why: D) {
        self.reasons.add(self.first + u32::from(why.code()), [1]);
        if D::INFO[usize::from(why.code())].drops {
            self.drops.add(interface, [1]);
        }
    }
}

/// Counters of a graph, for all workers together or for one.
#[derive(Clone)]
pub struct Stats {
    nodes: Arc<[NodeInfo]>,
    pub(crate) runtime: CounterSet<4>,
    pub(crate) reasons: CounterSet<1>,
    /// The main thread's reasons to discard packets; their numbers follow those of the nodes.
    main: &'static [ReasonInfo],
    first_of_main: u32,
    /// Packets made, freed and kept by nodes.
    pub(crate) books: CounterSet<3>,
    /// Punted packets that the main thread is done with, by punt reason.
    pub(crate) handled: CounterSet<1>,
    /// Packets passed to the main thread and policed, by punt reason.
    pub(crate) punted: CounterSet<2>,
    /// Dropped packets by receive interface.
    pub(crate) drops: CounterSet<1>,
    /// Turns, nanoseconds with and without packets, naps and sleeps; a single entry.
    pub(crate) turns: CounterSet<5>,
    /// Frames of input nodes by [`size_class`]: their number, and their packets.
    pub(crate) sizes: CounterSet<2>,
    /// The slowest calls of each worker, and its running node.
    workers: Arc<Mutex<BTreeMap<usize, Seen>>>,
}

/// The externally visible state of a worker: its slowest calls, and its running node.
type Seen = (Slowest, Arc<At>);

/// The running node of a worker.
#[derive(Default)]
pub(crate) struct At(AtomicU32);

impl At {
    /// Sets the running node.
    #[inline(always)]
    pub(crate) fn node(&self, node: u32) {
        self.0.store(node + 1, Ordering::Relaxed);
    }

    /// Marks the time between two turns.
    pub(crate) fn nowhere(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The slowest timed call of each node on one worker. Its clocks and its packets share a word, so that a
/// reader never sees halves of two calls.
#[derive(Clone)]
pub(crate) struct Slowest(Arc<[AtomicU64]>);

/// Bits of a [`Slowest`] word that hold packets.
const PACKET_BITS: u32 = 16;

impl Slowest {
    /// Records a call if it is the slowest so far. It may overwrite a simultaneous clear.
    #[inline(always)]
    pub(crate) fn note(&self, node: u32, packets: usize, clocks: u64) {
        let cell = &self.0[node as usize];
        let call = clocks << PACKET_BITS | packets as u64;
        if call > cell.load(Ordering::Relaxed) {
            cell.store(call, Ordering::Relaxed);
        }
    }
}

/// Number of vector size classes: one packet, up to two, up to four, and so on up to a full frame.
pub const SIZE_CLASSES: usize = buf::FRAME_SIZE.ilog2() as usize + 1;

/// Returns the class of a vector of `n` packets, at least one: the lowest `class` with `n` at most `1 <<
/// class`.
#[inline(always)]
pub(crate) fn size_class(n: usize) -> u32 {
    n.next_power_of_two().trailing_zeros()
}

/// Run-time statistics of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeRuntime {
    /// Name of the node.
    pub name: &'static str,
    /// Number of calls.
    pub calls: u64,
    /// Packets received, or brought in by an input node.
    pub packets: u64,
    /// TSC clocks per packet over the timed calls.
    pub clocks_per_packet: f64,
    /// TSC clocks of the slowest timed call.
    pub slowest_clocks: u64,
    /// Packets of that call.
    pub slowest_packets: u64,
}

impl NodeRuntime {
    /// Packets per call.
    pub fn packets_per_call(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.packets as f64 / self.calls as f64 }
    }
}

/// Totals of a node since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeTotals {
    /// Name of the node.
    pub name: &'static str,
    /// Number of calls.
    pub calls: u64,
    /// Packets received, or brought in by an input node.
    pub packets: u64,
    /// Packets of the timed calls.
    pub timed_packets: u64,
    /// TSC clocks of the timed calls.
    pub clocks: u64,
}

/// Packet accounting of a node since the start: packets received and made equal the packets sent on, dropped,
/// freed and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeBooks {
    /// Name of the node.
    pub name: &'static str,
    /// True for an input node. Only its `packets` and `dropped` are counted.
    pub input: bool,
    /// Packets received, or brought in by an input node.
    pub packets: u64,
    /// Packets that it made.
    pub made: u64,
    /// Packets freed because the node was done with them.
    pub freed: u64,
    /// Packets kept, or passed to another thread or device, minus the packets taken back.
    pub kept: i64,
    /// Packets that it dropped.
    pub dropped: u64,
}

/// Time and turns of a worker since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerTotals {
    /// Turns.
    pub turns: u64,
    /// Nanoseconds of turns with packets.
    pub busy_ns: u64,
    /// Nanoseconds of turns without packets, and of sleep.
    pub idle_ns: u64,
    /// Number of sleeps of a few microseconds, because few packets arrived.
    pub naps: u64,
    /// Number of sleeps until an event.
    pub sleeps: u64,
}

/// Number of packets that a node dropped for a reason.
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
    /// Returns the counters of these nodes, which have `reasons` reasons, and of the main thread's reasons.
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

    /// Returns the place of `worker`'s slowest calls.
    pub(crate) fn slowest(&self, worker: usize) -> Slowest {
        self.of_worker(worker).0
    }

    /// Returns the place of `worker`'s running node.
    pub(crate) fn at(&self, worker: usize) -> Arc<At> {
        self.of_worker(worker).1
    }

    /// The node that a worker runs at this moment; `None` between two turns or while asleep.
    pub fn running(&self, worker: usize) -> Option<&'static str> {
        let at = self.of_worker(worker).1.0.load(Ordering::Relaxed);
        Some(self.nodes.get(at.checked_sub(1)? as usize)?.name)
    }

    /// Statistics of each node, for all workers or for one.
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

    /// Totals of each node on a worker since the start; clearing does not affect them.
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

    /// Times of a worker since the start, up to its last turn.
    pub fn worker_totals(&self, worker: usize) -> WorkerTotals {
        let [turns, busy_ns, idle_ns, naps, sleeps] = self.turns.total_worker(worker, 0);
        WorkerTotals { turns, busy_ns, idle_ns, naps, sleeps }
    }

    /// All reasons of all nodes with their counts, zeros included.
    pub fn dropped(&self) -> Vec<Dropped> {
        self.by_reason(|number| self.reasons.read(number)[0]).collect()
    }

    /// Like [`dropped`](Self::dropped), but since the start; clearing does not affect it.
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

    /// Packet accounting of each node since the start; clearing does not affect it. Exact while no packet
    /// moves.
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

    /// Returns the main thread's counters.
    ///
    /// # Errors
    /// If memory for counters cannot be allocated.
    pub fn main_thread(&self) -> io::Result<MainThread> {
        Ok(MainThread {
            reasons: self.reasons.lane(MAIN_LANE)?,
            first: self.first_of_main,
            drops: self.drops.lane(MAIN_LANE)?,
            handled: self.handled.lane(MAIN_LANE)?,
        })
    }

    /// Punted packets of a punt reason that the main thread is done with since the start; clearing does not
    /// affect it.
    pub fn handled_total(&self, reason: PuntReason) -> u64 {
        self.handled.total(reason.0)[0]
    }

    /// Number of packets that `node` dropped for the reason with this name; `None` if there is no such
    /// reason.
    pub fn dropped_for(&self, node: &str, reason: &str) -> Option<u64> {
        self.dropped().iter().find(|d| d.node == node && d.reason.name == reason).map(|d| d.packets)
    }

    /// Packets passed to the main thread and policed, for a punt reason.
    pub fn punted(&self, reason: PuntReason) -> [u64; 2] {
        self.punted.read(reason.0)
    }

    /// Like [`punted`](Self::punted), but since the start; clearing does not affect it.
    pub fn punted_totals(&self, reason: PuntReason) -> [u64; 2] {
        self.punted.total(reason.0)
    }

    /// Vectors of a worker's input nodes since the start, by size: class `n` has the vectors of up to `1 <<
    /// n` packets that are in no lower class. Each entry is the number of vectors and of their packets.
    pub fn vector_sizes(&self, worker: usize) -> [[u64; 2]; SIZE_CLASSES] {
        std::array::from_fn(|class| self.sizes.total_worker(worker, class as u32))
    }

    /// Dropped packets received on `interface`; for [`NO_INTERFACE`](buf::NO_INTERFACE), the router's own.
    pub fn drops_of(&self, interface: u32) -> u64 {
        self.drops.read(interface)[0]
    }

    /// Like [`drops_of`](Self::drops_of), but since the start; clearing does not affect it.
    pub fn drops_total(&self, interface: u32) -> u64 {
        self.drops.total(interface)[0]
    }

    /// Resets the count of [`drops_of`](Self::drops_of).
    pub fn clear_drops_of(&self, interface: u32) {
        self.drops.clear(interface);
    }

    /// Returns the node and the reason for the number in a dropped packet.
    pub fn reason(&self, number: u32) -> Option<(&'static str, &'static ReasonInfo)> {
        let n = self.nodes.iter().find(|n| number.wrapping_sub(n.first_reason) < n.reasons.len() as u32)?;
        Some((n.name, &n.reasons[(number - n.first_reason) as usize]))
    }

    /// Resets the run-time statistics.
    pub fn clear_runtime(&self) {
        self.runtime.clear_all();
        self.workers()
            .values()
            .flat_map(|(calls, _)| calls.0.iter())
            .for_each(|call| call.store(0, Ordering::Relaxed));
    }

    /// Resets the drop counters.
    pub fn clear_errors(&self) {
        self.reasons.clear_all();
        self.punted.clear_all();
    }
}
