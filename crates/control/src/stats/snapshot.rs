//! The numbers of the statistics segment. The main thread collects them, with other work in between. The segment's thread arranges
//! them.

use std::time::{Duration, Instant};

use net::feature::{NodeReason, VppReason};
use net::interface::InterfaceTotals;
use net::router::{InterfaceInfo, Router};

use super::image::{Data, Entry};
use crate::api::numbers;
use crate::app::Context;

/// Time after which the main thread interrupts a collection, and does other work.
const SLICE: Duration = Duration::from_micros(500);
/// Maximum number of interfaces whose counters are collected between two checks of the time limit.
const PAGE: usize = 32;

/// An interface, and its counters by thread. Threads at the end that have counted nothing are left out.
struct Counted {
    number: u32,
    name: String,
    threads: Vec<OfInterface>,
}

/// The counters of an interface on one thread, in the order of [`SIMPLE`] and [`COMBINED`].
#[derive(Clone, Copy)]
struct OfInterface {
    simple: [u64; 4],
    combined: [[u64; 2]; 2],
}

/// Names of the interface counters that are a single number.
const SIMPLE: [&str; 4] = ["drops", "rx-miss", "rx-error", "tx-error"];
/// Names of further single-number interface counters, which are always 0: readers expect all names.
const SIMPLE_ZEROS: [&str; 5] = ["punt", "ip4", "ip6", "rx-no-buf", "mpls"];
/// Names of the interface counters that count both packets and bytes.
const COMBINED: [&str; 2] = ["rx", "tx"];
/// Names of further interface counters of packets and bytes, which are always 0: readers expect all names.
const COMBINED_ZEROS: [&str; 6] =
    ["rx-unicast", "rx-multicast", "rx-broadcast", "tx-unicast", "tx-multicast", "tx-broadcast"];

/// The counters of a node on one worker, in the order of [`OF_NODES`].
type OfNode = [u64; 4];
/// Names of the counters of nodes. Nodes never suspend, so the last counter is always 0.
const OF_NODES: [&str; 4] = ["calls", "vectors", "clocks", "suspends"];

/// Drop reasons that the core of the router counts under other names than VPP: VPP's name, and the core's names. Features add
/// theirs.
const OWN_NAMES: [VppReason; 4] = [
    VppReason { name: ("ethernet-input", "no error"), counted: &[] },
    VppReason { name: ("arp-reply", "l3_dst_address_not_local"), counted: &[("arp-input", "not-for-us")] },
    VppReason { name: ("ip4-input", "mtu_exceeded"), counted: &[("ip4-icmp-error", "fragmentation-needed")] },
    VppReason { name: ("ip6-input", "mtu_exceeded"), counted: &[("ip6-icmp-error", "fragmentation-needed")] },
];

/// The values of all counters at about the same time. Thread 0 is the main thread; the other threads are the workers that have ever
/// existed. So no counter decreases when a worker is removed, and a worker that is added again continues its counters.
#[derive(Default)]
pub struct Snapshot {
    /// True if the segment shows the counters of the first worker as those of the main thread, as VPP without workers does.
    merged: bool,
    /// The present number of workers.
    workers: usize,
    per_node: bool,
    /// Seconds since the router's start.
    uptime: u64,
    /// The time of the router's start in seconds since 1970 (UTC).
    started: u64,
    interfaces: Vec<Counted>,
    nodes: Vec<&'static str>,
    /// For each worker, the counters of each node.
    of_nodes: Vec<Vec<OfNode>>,
    reasons: Vec<NodeReason>,
    /// The drop reasons of features that have other names in VPP.
    vpp_reasons: Vec<VppReason>,
    /// For each thread, the number of dropped packets for each drop reason.
    of_reasons: Vec<Vec<u64>>,
    /// For each worker: the number of vectors from input nodes, the number of packets in them, and the number of iterations of the
    /// worker's loop.
    work: Vec<[u64; 3]>,
    /// Numbers of packet buffers: cached by workers, used, and available.
    buffers: [u64; 3],
}

/// A collection in progress. It refers to the router only by indices, because the router can change while the collection pauses.
pub struct Collection {
    snapshot: Snapshot,
    /// The next interface; `None` when all are collected.
    next: Option<u32>,
}

impl Collection {
    /// Begins a collection. `merged`: see [`Snapshot`]. `started` is the time of the router's start since 1970.
    pub fn new(merged: bool, per_node: bool, started: Duration) -> Collection {
        let snapshot = Snapshot { merged, per_node, started: started.as_secs(), ..Snapshot::default() };
        Collection { snapshot, next: Some(0) }
    }

    /// Continues the collection until it is complete or [`SLICE`] has passed. Returns the snapshot if it is complete, otherwise
    /// `None`.
    pub fn slice(&mut self, c: &Context) -> Option<Snapshot> {
        let begun = Instant::now();
        let router = &c.system.router;
        while let Some(first) = self.next {
            if begun.elapsed() >= SLICE {
                return None;
            }
            self.next = None;
            for i in router.interfaces_from(first).take(PAGE) {
                self.next = i.index.checked_add(1);
                self.snapshot.interfaces.extend(counted(router, i));
            }
        }
        let mut snapshot = std::mem::take(&mut self.snapshot);
        snapshot.uptime = c.started.elapsed().as_secs();
        snapshot.graph(router);
        snapshot.vpp_reasons = c.system.abilities.catalog.vpp_reasons().to_vec();
        Some(snapshot)
    }
}

/// Returns the counters of an interface. `None` for an interface with index 0, because this index belongs to `local0` in the segment.
fn counted(router: &Router, i: &InterfaceInfo) -> Option<Counted> {
    let number = numbers::number(i.index).0;
    let of_thread = |t: &InterfaceTotals| OfInterface {
        simple: [t.drops, t.rx_missed, t.rx_errors, t.tx_errors],
        combined: [[t.rx_packets, t.rx_bytes], [t.tx_packets, t.tx_bytes]],
    };
    (number == i.index).then(|| Counted {
        number,
        name: i.name.clone(),
        threads: router.interface_totals_by_thread(i).iter().map(of_thread).collect(),
    })
}

impl Snapshot {
    /// Collects the workers, and the statistics of nodes, drop reasons and buffers.
    fn graph(&mut self, router: &Router) {
        let stats = router.graph().stats();
        self.workers = router.workers();
        self.nodes = router.graph().nodes().iter().map(|node| node.name).collect();
        let workers = stats.workers_ever();
        for worker in 0..workers {
            let of_node = |n: graph::stats::NodeTotals| [n.calls, n.packets, n.clocks, 0];
            self.of_nodes.push(stats.node_totals(worker).map(of_node).collect());
            let sizes = stats.vector_sizes(worker);
            let [vectors, packets] =
                sizes.iter().fold([0; 2], |[v, p], [vectors, packets]| [v + vectors, p + packets]);
            self.work.push([vectors, packets, stats.worker_totals(worker).turns]);
        }
        self.reasons = stats.dropped_totals().map(|dropped| (dropped.node, dropped.reason.name)).collect();
        let of_thread = |thread| stats.dropped_totals_of(thread).map(|dropped| dropped.packets).collect();
        self.of_reasons = (0..=workers).map(of_thread).collect();
        let pool = router.pool().stats();
        self.buffers = [pool.cached, pool.used + pool.lent, pool.free].map(|n| n as u64);
    }

    /// Returns the column of a thread's counters. If counters are merged, the main thread and the first worker share a column.
    fn column(&self, thread: usize) -> usize {
        if self.merged { thread.saturating_sub(1) } else { thread }
    }

    /// Returns the number of columns.
    fn columns(&self) -> usize {
        self.column(self.of_nodes.len()) + 1
    }

    /// Arranges counters by column. `threads` returns the counters of each thread; those of the main thread are first.
    fn by_column(&self, threads: impl Iterator<Item = Vec<u64>>) -> Vec<Vec<u64>> {
        let mut columns: Vec<Vec<u64>> = Vec::new();
        for (thread, counters) in threads.enumerate() {
            match columns.get_mut(self.column(thread)) {
                Some(column) => column.iter_mut().zip(counters).for_each(|(sum, counter)| *sum += counter),
                None => columns.push(counters),
            }
        }
        columns
    }

    /// Arranges counters of workers by column. `of_main` fills the main thread's column: the main thread has no such counters.
    fn by_worker(&self, of_main: Vec<u64>, workers: impl Iterator<Item = Vec<u64>>) -> Vec<Vec<u64>> {
        self.by_column(std::iter::once(of_main).chain(workers))
    }

    /// Returns one counter of all interfaces by column. `of` selects the counter from those of an interface on a thread; `add` adds a value
    /// to a sum; `none` is the value of an interface that has counted nothing.
    fn of_interfaces<T: Clone>(
        &self,
        none: T,
        of: impl Fn(&OfInterface) -> T,
        add: impl Fn(&mut T, T),
    ) -> Vec<Vec<T>> {
        let mut columns = vec![vec![none; self.places()]; self.columns()];
        for i in &self.interfaces {
            for (thread, counters) in i.threads.iter().enumerate() {
                // Every thread here has a column: workers are counted after the counters of interfaces are read.
                let column = columns.get_mut(self.column(thread));
                if let Some(sum) = column.and_then(|column| column.get_mut(i.number as usize)) {
                    add(sum, of(counters));
                }
            }
        }
        columns
    }

    /// Returns the length of a vector with an element for each interface: the highest number of an interface, plus 1.
    fn places(&self) -> usize {
        self.interfaces.last().map_or(0, |last| last.number as usize) + 1
    }
}

/// Turns snapshots into entries of the segment. Keeps values of the previous snapshot, to compute rates from the differences.
#[derive(Default)]
pub struct Arranger {
    heartbeat: u64,
    /// When the last snapshot was taken, and the work of each worker until then.
    before: Option<(Instant, Vec<[u64; 3]>)>,
}

/// The entries in the order in which they were added. An entry has its position as number.
struct Entries(Vec<Entry>);

impl Entries {
    /// Adds an entry. Returns its number.
    fn add(&mut self, name: impl Into<String>, data: Data) -> u32 {
        self.0.push(Entry { name: name.into(), data });
        self.0.len() as u32 - 1
    }

    /// Adds a number.
    fn scalar(&mut self, name: &str, number: u64) {
        self.add(name, Data::Scalar(number));
    }
}

impl Arranger {
    /// Returns the entries. Readers expect the first three at fixed positions.
    pub fn entries(&mut self, s: &Snapshot) -> Vec<Entry> {
        let mut to = Entries(Vec::new());
        self.heartbeat += 1;
        to.scalar("/sys/heartbeat", self.heartbeat);
        to.scalar("/sys/last_stats_clear", 0);
        to.scalar("/sys/boottime", s.started);
        self.system(s, &mut to);
        nodes(s, &mut to);
        interfaces(s, &mut to);
        errors(s, &mut to);
        for (name, number) in ["cached", "used", "available"].into_iter().zip(s.buffers) {
            to.scalar(&format!("/buffer-pools/default-numa-0/{name}"), number);
        }
        to.0
    }

    fn system(&mut self, s: &Snapshot, to: &mut Entries) {
        let now = Instant::now();
        let (seconds, before) = match self.before.take() {
            Some((then, before)) => ((now - then).as_secs_f64(), before),
            None => (0.0, Vec::new()),
        };
        let since: Vec<[u64; 3]> = s
            .work
            .iter()
            .enumerate()
            .map(|(worker, now)| {
                let before = before.get(worker).copied().unwrap_or_default();
                std::array::from_fn(|n| now[n].saturating_sub(before[n]))
            })
            .collect();
        self.before = Some((now, s.work.clone()));
        let per_vector = |[vectors, packets, _]: [u64; 3]| packets.checked_div(vectors).unwrap_or(0);
        let all = since.iter().fold([0; 3], |sum, one| std::array::from_fn(|n| sum[n] + one[n]));
        let rate = |count: u64| if seconds > 0.0 { (count as f64 / seconds) as u64 } else { 0 };
        to.scalar("/sys/num_worker_threads", s.workers.saturating_sub(usize::from(s.merged)) as u64);
        to.scalar("/sys/last_update", s.uptime);
        to.scalar("/sys/vector_rate", per_vector(all));
        to.scalar("/sys/input_rate", rate(all[1]));
        let rates = s.by_worker(vec![0], since.iter().map(|one| vec![per_vector(*one)]));
        to.add("/sys/vector_rate_per_worker", Data::Simple(rates));
        let loops = s.by_worker(vec![0], since.iter().map(|one| vec![rate(one[2])]));
        to.add("/sys/loops_per_worker", Data::Simple(loops));
    }
}

fn nodes(s: &Snapshot, to: &mut Entries) {
    let names = s.nodes.iter().map(|name| Some((*name).to_owned())).collect();
    to.add("/sys/node/names", Data::Names(names));
    let mut entries = [0; OF_NODES.len()];
    for (kind, (name, entry)) in OF_NODES.iter().zip(&mut entries).enumerate() {
        let workers = s.of_nodes.iter().map(|nodes| nodes.iter().map(|counters| counters[kind]).collect());
        *entry =
            to.add(format!("/sys/node/{name}"), Data::Simple(s.by_worker(vec![0; s.nodes.len()], workers)));
    }
    if !s.per_node {
        return;
    }
    for (column, node) in (0..).zip(&s.nodes) {
        for (name, entry) in OF_NODES.iter().zip(entries) {
            to.add(format!("/nodes/{}/{name}", part(node)), Data::Link(entry, column));
        }
    }
}

fn interfaces(s: &Snapshot, to: &mut Entries) {
    let mut names = vec![None; s.places()];
    // As in VPP, number 0 is the interface that sends and receives nothing.
    names[0] = Some("local0".to_owned());
    s.interfaces.iter().for_each(|i| names[i.number as usize] = Some(i.name.clone()));
    let names = Data::Names(names);
    to.add("/if/names", names);
    let mut counters = Vec::new();
    for (kind, name) in SIMPLE.into_iter().chain(SIMPLE_ZEROS).enumerate() {
        let of = |i: &OfInterface| i.simple.get(kind).copied().unwrap_or(0);
        let columns = s.of_interfaces(0, of, |sum, counter| *sum += counter);
        counters.push((name, to.add(format!("/if/{name}"), Data::Simple(columns))));
    }
    for (kind, name) in COMBINED.into_iter().chain(COMBINED_ZEROS).enumerate() {
        let of = |i: &OfInterface| i.combined.get(kind).copied().unwrap_or_default();
        let columns = s.of_interfaces([0; 2], of, |sum, [packets, bytes]| {
            *sum = [sum[0] + packets, sum[1] + bytes];
        });
        counters.push((name, to.add(format!("/if/{name}"), Data::Combined(columns))));
    }
    for i in &s.interfaces {
        for (name, entry) in &counters {
            to.add(format!("/interfaces/{}/{name}", part(&i.name)), Data::Link(*entry, i.number));
        }
    }
}

fn errors(s: &Snapshot, to: &mut Entries) {
    let mut threads = s.by_column(s.of_reasons.iter().cloned());
    let own = s.reasons.len() as u32;
    let mut names: Vec<_> = s.reasons.iter().copied().zip(0..own).collect();
    for (known, VppReason { name, counted }) in (own..).zip(OWN_NAMES.iter().chain(&s.vpp_reasons)) {
        let is_counted: Vec<bool> = s.reasons.iter().map(|reason| counted.contains(reason)).collect();
        for thread in &mut threads {
            thread.push(thread.iter().zip(&is_counted).filter(|(_, is)| **is).map(|(count, _)| count).sum());
        }
        names.push((*name, known));
    }
    let entry = to.add("/node/errors", Data::Simple(threads));
    for ((node, reason), column) in names {
        to.add(format!("/err/{}/{}", part(node), part(reason)), Data::Link(entry, column));
    }
}

/// Replaces `/` in a name, because `/` separates the parts of an entry's name.
fn part(name: &str) -> String {
    name.replace('/', "_")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a snapshot of a router that once had this many workers. `counts` has one number for each interface and thread. All counters
    /// of the interface on the thread are derived from this number.
    fn snapshot(merged: bool, workers: usize, counts: &[Vec<u64>]) -> Snapshot {
        let counted = |(number, threads): (u32, &Vec<u64>)| {
            let of = |n: &u64| OfInterface { simple: [*n; 4], combined: [[*n, 64 * n]; 2] };
            let threads = threads.iter().take(workers + 1).map(of).collect();
            Counted { number, name: format!("pg{number}"), threads }
        };
        Snapshot {
            merged,
            workers: workers.min(1),
            interfaces: (1..).zip(counts).map(counted).collect(),
            nodes: vec!["pg-input"],
            of_nodes: vec![vec![[1; 4]]; workers],
            reasons: vec![("drop", "reason")],
            of_reasons: vec![vec![1]; workers + 1],
            work: vec![[1; 3]; workers],
            ..Snapshot::default()
        }
    }

    fn of<'e>(entries: &'e [Entry], name: &str) -> &'e Data {
        &entries.iter().find(|e| e.name == name).unwrap().data
    }

    proptest! {
        /// Each thread has a column in every entry. If counters are merged, the main thread shares the column of the first worker. All
        /// columns together have all counts.
        #[test]
        fn threads_have_columns_and_no_count_is_lost(
            merged in any::<bool>(),
            workers in 1usize..5,
            counts in prop::collection::vec(prop::collection::vec(0..1_000u64, 0..6), 0..5),
        ) {
            let s = snapshot(merged, workers, &counts);
            let entries = Arranger::default().entries(&s);
            let columns = workers + usize::from(!merged);
            for entry in &entries {
                match &entry.data {
                    Data::Simple(threads) => prop_assert_eq!(threads.len(), columns, "{}", entry.name),
                    Data::Combined(threads) => prop_assert_eq!(threads.len(), columns, "{}", entry.name),
                    _ => {}
                }
            }
            let Data::Combined(rx) = of(&entries, "/if/rx") else { panic!("not combined") };
            let Data::Simple(drops) = of(&entries, "/if/drops") else { panic!("not simple") };
            for (number, threads) in (1..).zip(&counts) {
                for (column, (rx, drops)) in rx.iter().zip(drops).enumerate() {
                    let here = threads.iter().take(workers + 1).enumerate().filter(|(thread, _)| {
                        if merged { thread.saturating_sub(1) == column } else { *thread == column }
                    });
                    let sum: u64 = here.map(|(_, n)| n).sum();
                    prop_assert_eq!((rx[number], drops[number]), ([sum, 64 * sum], sum));
                }
            }
            let Data::Simple(errors) = of(&entries, "/node/errors") else { panic!("not simple") };
            prop_assert_eq!(errors.iter().map(|column| column[0]).sum::<u64>(), workers as u64 + 1);
        }
    }
}
