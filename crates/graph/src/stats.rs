//! Run-time statistics, for `show runtime` and `show errors`.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use infra::counters::CounterSet;

use crate::edge::ReasonInfo;
use crate::info::NodeInfo;
use crate::main_thread::{MainReasons, MainThread};
use crate::rings::PuntReason;

pub use crate::main_thread::MAIN_THREAD;

/// Position of a node's counter of calls.
pub(crate) const CALLS: usize = 0;
/// Position of a node's counter of packets.
pub(crate) const PACKETS: usize = 1;
/// Position of a node's counter of packets in timed calls.
pub(crate) const TIMED: usize = 2;
/// Position of a node's counter of TSC clocks in timed calls.
pub(crate) const CLOCKS: usize = 3;

/// Maximum number of interfaces with separate drop counters.
const INTERFACES: u32 = 1 << 16;

/// Number of the main thread's lane, its own set of counters. No worker has this number.
const MAIN_LANE: usize = usize::MAX;

/// Returns the number of the thread that writes the counters of a lane: 0 for the main thread, otherwise the worker's number plus 1.
pub fn thread_of_lane(lane: usize) -> usize {
    // The main thread's number wraps around to 0.
    lane.wrapping_add(1)
}

/// Returns the number of the lane whose counters a thread writes. The inverse of [`thread_of_lane`].
fn lane_of_thread(thread: usize) -> usize {
    thread.wrapping_sub(1)
}

/// The counters of a graph. They can be read for one worker, or as the sum of all.
#[derive(Clone)]
pub struct Stats {
    nodes: Arc<[NodeInfo]>,
    pub(crate) runtime: CounterSet<4>,
    pub(crate) reasons: CounterSet<1>,
    /// The reasons why the main thread discards packets. Their numbers follow those of the nodes' reasons.
    main: Arc<MainReasons>,
    first_of_main: u32,
    /// Numbers of packets that nodes made, freed and kept.
    pub(crate) books: CounterSet<3>,
    /// Number of punted packets that the main thread is done with, by punt reason.
    pub(crate) handled: CounterSet<1>,
    /// By punt reason: number of packets within the rate limit, which are passed to the main thread, and
    /// number of packets dropped by the limit.
    pub(crate) punted: CounterSet<2>,
    /// Number of dropped packets, by receive interface.
    pub(crate) drops: CounterSet<1>,
    /// A single entry: number of turns, nanoseconds with packets, nanoseconds without packets (naps and
    /// sleeps included), and numbers of naps and sleeps.
    pub(crate) turns: CounterSet<5>,
    /// Frames of input nodes, by [`size_class`]: the number of frames, and the number of their packets.
    pub(crate) sizes: CounterSet<2>,
    /// For each worker, the slowest calls of its nodes, and the node that is running.
    workers: Arc<Mutex<BTreeMap<usize, Seen>>>,
}

/// A worker's data for other threads: the slowest calls of its nodes, and the node that is running.
type Seen = (Slowest, Arc<At>);

/// The number of the node that a worker is running, plus one; 0 while it is running none.
#[derive(Default)]
pub(crate) struct At(AtomicU32);

impl At {
    /// Records that the worker is running `node`.
    #[inline(always)]
    pub(crate) fn node(&self, node: u32) {
        self.0.store(node + 1, Ordering::Relaxed);
    }

    /// Records that the worker is running no node.
    pub(crate) fn nowhere(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The slowest timed call of each node on one worker. The clocks and the number of packets of a call share a
/// word, so that a reader never mixes two calls.
#[derive(Clone)]
pub(crate) struct Slowest(Arc<[AtomicU64]>);

/// Number of bits of a [`Slowest`] word that hold the number of packets.
const PACKET_BITS: u32 = 16;

impl Slowest {
    /// Records a call of `node` if it is the slowest so far. If another thread clears the record at the same
    /// time, the clearing may be lost.
    #[inline(always)]
    pub(crate) fn note(&self, node: u32, packets: usize, clocks: u64) {
        let cell = &self.0[node as usize];
        let call = clocks << PACKET_BITS | packets as u64;
        if call > cell.load(Ordering::Relaxed) {
            cell.store(call, Ordering::Relaxed);
        }
    }
}

/// Number of size classes of vectors: one packet, up to two, up to four, and so on up to a full frame.
pub const SIZE_CLASSES: usize = buf::FRAME_SIZE.ilog2() as usize + 1;

/// Returns the size class of a vector with `n` packets: the lowest `class` for which `n` is at most
/// `1 << class`. `n` is at least 1.
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
    /// Number of packets that the node received, or brought in as an input node.
    pub packets: u64,
    /// Average of TSC clocks per packet, over the timed calls.
    pub clocks_per_packet: f64,
    /// TSC clocks of the slowest timed call.
    pub slowest_clocks: u64,
    /// Number of packets of the slowest timed call.
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
    /// Number of packets that the node received, or brought in as an input node.
    pub packets: u64,
    /// Number of packets of the timed calls.
    pub timed_packets: u64,
    /// Number of TSC clocks of the timed calls.
    pub clocks: u64,
}

/// Packet accounting of a node since the start. The packets received and made add up to the packets sent on, dropped, freed and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeBooks {
    /// Name of the node.
    pub name: &'static str,
    /// True for an input node. For an input node, only `packets` and `dropped` are counted.
    pub input: bool,
    /// Number of packets that the node received, or brought in as an input node.
    pub packets: u64,
    /// Number of packets that the node made.
    pub made: u64,
    /// Number of packets freed because the node was done with them.
    pub freed: u64,
    /// Number of packets that the node kept, or passed to another thread or device. Packets that it took back
    /// are subtracted.
    pub kept: i64,
    /// Number of packets that the node dropped.
    pub dropped: u64,
}

/// Turns and times of a worker since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerTotals {
    /// Number of turns.
    pub turns: u64,
    /// Nanoseconds spent in turns with packets.
    pub busy_ns: u64,
    /// Nanoseconds spent in turns without packets, and in naps and sleeps.
    pub idle_ns: u64,
    /// Number of naps: sleeps of a few tens of microseconds, because few packets arrived.
    pub naps: u64,
    /// Number of sleeps until an event, or until the maximum length of a sleep.
    pub sleeps: u64,
}

/// How often a node dropped a packet for a reason, or counted this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The node.
    pub node: &'static str,
    /// The reason.
    pub reason: &'static ReasonInfo,
    /// Number of packets or events.
    pub packets: u64,
}

impl Stats {
    /// Returns counters for the nodes and for the main thread's reasons. `reasons` is the number of reasons
    /// that all nodes have together.
    pub(crate) fn new(nodes: &Arc<[NodeInfo]>, reasons: u32, main: MainReasons) -> Stats {
        Stats {
            nodes: nodes.clone(),
            runtime: CounterSet::new("/node/runtime", nodes.len() as u32),
            reasons: CounterSet::new("/err", reasons + main.all().count() as u32),
            main: Arc::new(main),
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

    /// Returns the record of the slowest calls of `worker`.
    pub(crate) fn slowest(&self, worker: usize) -> Slowest {
        self.of_worker(worker).0
    }

    /// Returns the record of the node that `worker` is running.
    pub(crate) fn at(&self, worker: usize) -> Arc<At> {
        self.of_worker(worker).1
    }

    /// Returns the node that a worker is running at this moment; `None` between two turns or during sleep.
    pub fn running(&self, worker: usize) -> Option<&'static str> {
        let at = self.workers().get(&worker)?.1.0.load(Ordering::Relaxed);
        Some(self.nodes.get(at.checked_sub(1)? as usize)?.name)
    }

    /// Returns the run-time statistics of each node: for one worker, or with `None` for all workers together.
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

    /// Returns the totals of each node on a worker since the start. Clearing the statistics does not reset
    /// them.
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

    /// Returns the worker's numbers of turns, naps and sleeps, and its busy and idle times, from the start to the beginning of its last
    /// turn or rest.
    pub fn worker_totals(&self, worker: usize) -> WorkerTotals {
        let [turns, busy_ns, idle_ns, naps, sleeps] = self.turns.total_worker(worker, 0);
        WorkerTotals { turns, busy_ns, idle_ns, naps, sleeps }
    }

    /// Returns all reasons of all nodes and of the main thread with their counts, even if these are zero.
    pub fn dropped(&self) -> Vec<Dropped> {
        self.by_reason(|number| self.reasons.read(number)[0]).collect()
    }

    /// Like [`dropped`](Self::dropped), but with the counts since the start, which are not reset when the
    /// counters are cleared.
    pub fn dropped_totals(&self) -> impl Iterator<Item = Dropped> {
        self.by_reason(|number| self.reasons.total(number)[0])
    }

    /// Like [`dropped_totals`](Self::dropped_totals), but of one [thread](thread_of_lane).
    pub fn dropped_totals_of(&self, thread: usize) -> impl Iterator<Item = Dropped> {
        self.by_reason(move |number| self.reasons.total_worker(lane_of_thread(thread), number)[0])
    }

    /// Returns the highest number of a worker since the start, plus 1; 0 if there was no worker. It does not decrease when workers leave.
    pub fn workers_ever(&self) -> usize {
        self.workers().last_key_value().map_or(0, |(worker, _)| worker + 1)
    }

    fn by_reason(&self, count: impl Fn(u32) -> u64 + Copy) -> impl Iterator<Item = Dropped> {
        let main = (self.first_of_main..).zip(self.main.all()).map(|(at, reason)| (MAIN_THREAD, at, reason));
        let of_nodes =
            self.nodes.iter().flat_map(|n| n.numbered_reasons().map(|(at, reason)| (n.name, at, reason)));
        let all = of_nodes.chain(main);
        all.map(move |(node, number, reason)| Dropped { node, reason, packets: count(number) })
    }

    /// Returns the packet accounting of each node since the start. Clearing the counters does not reset it.
    /// The numbers are exact while no packet moves.
    pub fn node_books(&self) -> impl Iterator<Item = NodeBooks> {
        (0..).zip(self.nodes.iter()).map(|(i, n)| {
            let [made, freed, kept] = self.books.total(i);
            let drops = n.numbered_reasons().filter(|(_, reason)| reason.drops);
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

    /// Returns the counters that the main thread writes.
    ///
    /// # Errors
    /// Fails if memory for counters cannot be allocated.
    pub fn main_thread(&self) -> io::Result<MainThread> {
        Ok(MainThread {
            reasons: self.reasons.lane(MAIN_LANE)?,
            drops: self.drops.lane(MAIN_LANE)?,
            handled: self.handled.lane(MAIN_LANE)?,
            first: self.first_of_main,
            declared: (*self.main).clone(),
        })
    }

    /// Returns the number of packets with this punt reason that the main thread has finished since the start. Clearing the counters does
    /// not reset this number.
    pub fn handled_total(&self, reason: PuntReason) -> u64 {
        self.handled.total(reason.0)[0]
    }

    /// Returns the number of packets that `node` dropped for the reason with this name; `None` if the node
    /// has no such reason.
    pub fn dropped_for(&self, node: &str, reason: &str) -> Option<u64> {
        self.dropped().iter().find(|d| d.node == node && d.reason.name == reason).map(|d| d.packets)
    }

    /// Returns two numbers for a punt reason: packets within the rate limit, which are passed to the main
    /// thread, and packets dropped by the limit.
    pub fn punted(&self, reason: PuntReason) -> [u64; 2] {
        self.punted.read(reason.0)
    }

    /// Like [`punted`](Self::punted), but with the counts since the start, which are not reset when the
    /// counters are cleared.
    pub fn punted_totals(&self, reason: PuntReason) -> [u64; 2] {
        self.punted.total(reason.0)
    }

    /// Returns how many vectors the input nodes of a worker brought in since the start, by size class. Class
    /// `n` is for vectors of up to `1 << n` packets that are too large for class `n - 1`. An entry is the
    /// number of vectors, and the number of their packets.
    pub fn vector_sizes(&self, worker: usize) -> [[u64; 2]; SIZE_CLASSES] {
        std::array::from_fn(|class| self.sizes.total_worker(worker, class as u32))
    }

    /// Returns the number of dropped packets that were received on `interface`. For
    /// [`NO_INTERFACE`](buf::NO_INTERFACE), these are the router's own packets.
    pub fn drops_of(&self, interface: u32) -> u64 {
        self.drops.read(interface)[0]
    }

    /// Like [`drops_of`](Self::drops_of), but with the count since the start, which is not reset when the
    /// counters are cleared.
    pub fn drops_total(&self, interface: u32) -> u64 {
        self.drops.total(interface)[0]
    }

    /// Calls `each` for each [thread](thread_of_lane), with the thread's number and its part of [`drops_total`](Self::drops_total).
    pub fn each_drops_total(&self, interface: u32, mut each: impl FnMut(usize, u64)) {
        self.drops.each_total(interface, |lane, [drops]| each(thread_of_lane(lane), drops));
    }

    /// Resets the count of [`drops_of`](Self::drops_of).
    pub fn clear_drops_of(&self, interface: u32) {
        self.drops.clear(interface);
    }

    /// Returns the reason with this number, and its node; `None` if no node has it. Dropped packets carry the number of their reason.
    pub fn reason(&self, number: u32) -> Option<(&'static str, &'static ReasonInfo)> {
        let n = self.nodes.iter().find(|n| number.wrapping_sub(n.first_reason) < n.reasons.len() as u32)?;
        Some((n.name, n.reasons[(number - n.first_reason) as usize]))
    }

    /// Resets the run-time statistics.
    pub fn clear_runtime(&self) {
        self.runtime.clear_all();
        self.workers()
            .values()
            .flat_map(|(calls, _)| calls.0.iter())
            .for_each(|call| call.store(0, Ordering::Relaxed));
    }

    /// Resets the counters of all reasons and of punted packets, but not those of [`drops_of`](Self::drops_of).
    pub fn clear_errors(&self) {
        self.reasons.clear_all();
        self.punted.clear_all();
    }
}
