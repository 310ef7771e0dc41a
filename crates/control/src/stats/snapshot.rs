//! The numbers of the statistics segment. The main thread collects them, with other work in between. The segment's thread arranges
//! them.

use std::time::{Duration, Instant};

use net::feature::{NodeReason, VppReason};
use net::router::{InterfaceInfo, Router};

use super::image::{Data, Entry};
use crate::api::numbers;
use crate::app::Context;

/// Time after which the main thread interrupts a collection, and does other work.
const SLICE: Duration = Duration::from_micros(500);
/// Maximum number of interfaces whose counters are collected between two checks of the time limit.
const PAGE: usize = 32;

/// The counters of an interface, in the order of [`SIMPLE`] and [`COMBINED`].
struct Counted {
    number: u32,
    name: String,
    simple: [u64; 4],
    combined: [[u64; 2]; 2],
}

/// Names of the counters of interfaces. Those in `…_ZEROS` are always 0: readers expect all names.
const SIMPLE: [&str; 4] = ["drops", "rx-miss", "rx-error", "tx-error"];
const SIMPLE_ZEROS: [&str; 5] = ["punt", "ip4", "ip6", "rx-no-buf", "mpls"];
const COMBINED: [&str; 2] = ["rx", "tx"];
const COMBINED_ZEROS: [&str; 6] =
    ["rx-unicast", "rx-multicast", "rx-broadcast", "tx-unicast", "tx-multicast", "tx-broadcast"];

/// The counters of a node on one worker, in the order of [`OF_NODES`].
type OfNode = [u64; 4];
/// Names of the counters of nodes. Nodes never suspend.
const OF_NODES: [&str; 4] = ["calls", "vectors", "clocks", "suspends"];

/// Drop reasons that the core of the router counts under other names than VPP: VPP's name, and the core's names. Features add
/// theirs.
const OWN_NAMES: [VppReason; 2] = [
    VppReason { name: ("ethernet-input", "no error"), counted: &[] },
    VppReason { name: ("arp-reply", "l3_dst_address_not_local"), counted: &[("arp-input", "not-for-us")] },
];

/// The values of all counters at about the same time.
#[derive(Default)]
pub struct Snapshot {
    /// True if the segment shows the counters of the only worker as those of the first thread, as VPP without workers does.
    merged: bool,
    per_node: bool,
    /// Seconds since the router's start. `started` is the time of the start in seconds since 1970 (UTC).
    uptime: u64,
    started: u64,
    interfaces: Vec<Counted>,
    nodes: Vec<&'static str>,
    /// For each worker, the counters of each node.
    of_nodes: Vec<Vec<OfNode>>,
    reasons: Vec<NodeReason>,
    /// VPP's names of reasons of features.
    vpp_reasons: Vec<VppReason>,
    /// The number of packets for each reason: the sums over all threads, and the numbers of each worker.
    of_reasons: (Vec<u64>, Vec<Vec<u64>>),
    /// For each worker: the number of vectors from input nodes, the number of packets in them, and the number of iterations of the
    /// worker's loop.
    work: Vec<[u64; 3]>,
    /// Buffers: cached, used, available.
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
    let t = router.interface_totals(i);
    (number == i.index).then(|| Counted {
        number,
        name: i.name.clone(),
        simple: [t.drops, t.rx_missed, t.rx_errors, t.tx_errors],
        combined: [[t.rx_packets, t.rx_bytes], [t.tx_packets, t.tx_bytes]],
    })
}

impl Snapshot {
    /// Collects what does not belong to interfaces.
    fn graph(&mut self, router: &Router) {
        let stats = router.graph().stats();
        let workers = 0..router.workers();
        self.merged &= workers.len() == 1;
        self.nodes = router.graph().nodes().iter().map(|node| node.name).collect();
        for worker in workers {
            let of_node = |n: graph::stats::NodeTotals| [n.calls, n.packets, n.clocks, 0];
            self.of_nodes.push(stats.node_totals(worker).map(of_node).collect());
            self.of_reasons.1.push(stats.dropped_totals_of(worker).map(|d| d.packets).collect());
            let sizes = stats.vector_sizes(worker);
            let [vectors, packets] =
                sizes.iter().fold([0; 2], |[v, p], [vectors, packets]| [v + vectors, p + packets]);
            self.work.push([vectors, packets, stats.worker_totals(worker).turns]);
        }
        for dropped in stats.dropped_totals() {
            self.reasons.push((dropped.node, dropped.reason.name));
            self.of_reasons.0.push(dropped.packets);
        }
        let pool = router.pool().stats();
        self.buffers = [pool.cached, pool.used + pool.lent, pool.free].map(|n| n as u64);
    }

    /// Returns the number of threads with counters: the main thread and all workers, or 1 if the counters are merged.
    fn threads(&self) -> usize {
        if self.merged { 1 } else { self.of_nodes.len() + 1 }
    }

    /// Arranges counters by thread: first `main`, then one list for each worker. If the counters are merged, returns only the list
    /// of the single worker.
    fn by_thread<T>(&self, main: Vec<T>, workers: impl Iterator<Item = Vec<T>>) -> Vec<Vec<T>> {
        if self.merged { workers.take(1).collect() } else { std::iter::once(main).chain(workers).collect() }
    }
}

/// Turns snapshots into entries of the segment. Keeps values of the previous snapshot, to compute rates from the differences.
#[derive(Default)]
pub struct Arranger {
    heartbeat: u64,
    /// When the last snapshot was taken, and the work of each worker until then.
    before: Option<(Instant, Vec<[u64; 3]>)>,
}

/// Entries as they are added.
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
        to.scalar("/sys/num_worker_threads", s.threads() as u64 - 1);
        to.scalar("/sys/last_update", s.uptime);
        to.scalar("/sys/vector_rate", per_vector(all));
        to.scalar("/sys/input_rate", rate(all[1]));
        let rates = s.by_thread(vec![0], since.iter().map(|one| vec![per_vector(*one)]));
        to.add("/sys/vector_rate_per_worker", Data::Simple(rates));
        let loops = s.by_thread(vec![0], since.iter().map(|one| vec![rate(one[2])]));
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
            to.add(format!("/sys/node/{name}"), Data::Simple(s.by_thread(vec![0; s.nodes.len()], workers)));
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
    let len = s.interfaces.last().map_or(0, |last| last.number as usize) + 1;
    let mut names = vec![None; len];
    // As in VPP, number 0 is the interface that sends and receives nothing.
    names[0] = Some("local0".to_owned());
    s.interfaces.iter().for_each(|i| names[i.number as usize] = Some(i.name.clone()));
    let names = Data::Names(names);
    to.add("/if/names", names);
    let mut counters = Vec::new();
    // Counters of interfaces are sums over all threads.
    for (kind, name) in SIMPLE.into_iter().map(Some).chain([None; SIMPLE_ZEROS.len()]).enumerate() {
        let mut sums = vec![0; len];
        if name.is_some() {
            s.interfaces.iter().for_each(|i| sums[i.number as usize] = i.simple[kind]);
        }
        let name = name.unwrap_or_else(|| SIMPLE_ZEROS[kind - SIMPLE.len()]);
        let mut threads = vec![vec![0; len]; s.threads() - 1];
        threads.insert(0, sums);
        counters.push((name, to.add(format!("/if/{name}"), Data::Simple(threads))));
    }
    for (kind, name) in COMBINED.into_iter().map(Some).chain([None; COMBINED_ZEROS.len()]).enumerate() {
        let mut sums = vec![[0; 2]; len];
        if name.is_some() {
            s.interfaces.iter().for_each(|i| sums[i.number as usize] = i.combined[kind]);
        }
        let name = name.unwrap_or_else(|| COMBINED_ZEROS[kind - COMBINED.len()]);
        let mut threads = vec![vec![[0; 2]; len]; s.threads() - 1];
        threads.insert(0, sums);
        counters.push((name, to.add(format!("/if/{name}"), Data::Combined(threads))));
    }
    for i in &s.interfaces {
        for (name, entry) in &counters {
            to.add(format!("/interfaces/{}/{name}", part(&i.name)), Data::Link(*entry, i.number));
        }
    }
}

fn errors(s: &Snapshot, to: &mut Entries) {
    let (all, workers) = &s.of_reasons;
    // Counts that no current worker has are those of the main thread, or of removed workers.
    let by_workers = |n: usize| workers.iter().filter_map(|counts| counts.get(n)).sum();
    let main = all.iter().enumerate().map(|(n, all)| all.saturating_sub(by_workers(n))).collect();
    let mut threads = if s.merged { vec![all.clone()] } else { s.by_thread(main, workers.iter().cloned()) };
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
