//! Runs graph nodes on given packets. Returns the resulting packets with the edges that they took, and the counters.
//!
//! A [`Harness`] builds a graph of the nodes under test. It adds capturing nodes at the ends of all other edges, so a test sees by which
//! edge each packet left. The test sets the time. Every sent packet is traced, and if a test fails, the trace is printed. At the end of a
//! successful test, the harness asserts that no packet was lost and no buffer leaked.

mod sink;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use buf::record::Snapshot;
use buf::{Cache, Cold, Flags, Frame, Held, Packet, Pool};
use graph::stats::Stats;
use graph::trace::Fate;
use graph::{ArcControl, Blueprint, Builder, Missing, Worker, WorkerPort};
use infra::doorbell::Doorbell;
use infra::quiesce::{Domain, Participant};

use sink::{Captured, PassOn};

/// Number of buffers in a harness's pool.
const BUFFERS: usize = 2048;
/// Name of the node that is added in place of `drop`.
const DROPPED: &str = "harness-drop";

/// A packet that left the nodes under test, or was dropped, ignored or punted.
#[derive(Clone, Debug)]
pub struct Out {
    /// Where the packet ended: the node to which it was sent, the node that dropped or ignored it, or `punt`.
    pub node: String,
    /// Short name of the reason why the packet was dropped, ignored or punted; `None` for other packets.
    pub reason: Option<&'static str>,
    /// Bytes in all buffers of the packet, from the packet's start as the last node set it.
    pub bytes: Vec<u8>,
    /// The packet's record.
    pub record: Snapshot,
    /// The packet's cold header. The packet's flags show which of its fields are valid.
    pub cold: Cold,
    /// Index that the packet had in [`send`](Harness::send). For a copy, the index of the packet that was copied. `None` for a packet that
    /// a node made, or that an earlier call sent.
    pub from: Option<usize>,
}

/// A graph under test with one worker. The test sets its time, which starts at one hour.
pub struct Harness {
    blueprint: Blueprint,
    arcs: ArcControl,
    domain: Domain,
    participant: Participant,
    pool: Pool,
    cache: Option<Cache>,
    worker: Option<Worker>,
    port: Option<WorkerPort>,
    captured: Captured,
    now: Duration,
    next_trace: u32,
    /// Number of trace entries already searched for ignored packets.
    looked: usize,
}

impl Harness {
    /// Builds a graph of the nodes that `install` adds, with a new domain for tables.
    ///
    /// # Panics
    /// If the graph cannot be built.
    pub fn new(install: impl FnOnce(&mut Builder)) -> Harness {
        Harness::in_domain(&Domain::new(), install)
    }

    /// Builds a graph like [`new`](Harness::new), for nodes that read tables of `domain`.
    ///
    /// # Panics
    /// If the graph cannot be built.
    pub fn in_domain(domain: &Domain, install: impl FnOnce(&mut Builder)) -> Harness {
        let captured = Captured::default();
        let mut builder = Builder::new();
        install(&mut builder);
        for missing in builder.missing() {
            match missing {
                Missing::Node(name) => captured.sink(&mut builder, name.leak()),
                Missing::Feature(node) => builder.frame_as(node, |_| Ok(PassOn)),
                Missing::Order { arc, feature } => {
                    builder.frame_as(feature, |_| Ok(PassOn));
                    builder.feature(arc, feature, &[], &[]);
                }
            }
        }
        captured.sink(&mut builder, DROPPED);
        let built = builder.end_arc_at("drop", DROPPED).and_then(|()| builder.build(domain));
        let (blueprint, arcs) = built.unwrap_or_else(|e| panic!("{e}"));
        let pool = Pool::new(BUFFERS).expect("buffers for the harness");
        let bell = Arc::new(Doorbell::new().expect("a doorbell for the harness"));
        let (worker, port) = blueprint.worker(0, &pool, &bell).expect("a worker for the harness");
        Harness {
            blueprint,
            arcs,
            domain: domain.clone(),
            participant: domain.register(),
            cache: Some(pool.cache()),
            pool,
            worker: Some(worker),
            port: Some(port),
            captured,
            now: Duration::from_secs(3600),
            next_trace: 1,
            looked: 0,
        }
    }

    /// Sends packets with these bytes to `node`, in frames of up to 256. Returns the resulting packets in the order in which they left the
    /// nodes under test; punted and ignored packets come last. `set` is called for each packet with its index. It sets what earlier nodes
    /// would have set, such as the receive interface.
    ///
    /// # Panics
    /// If the node does not exist or is an input node, or no buffer is free.
    pub fn send(
        &mut self,
        node: &str,
        packets: &[impl AsRef<[u8]>],
        mut set: impl FnMut(usize, &mut Packet<'_>),
    ) -> Vec<Out> {
        let id = self.blueprint.node(node).unwrap_or_else(|| panic!("no such node: \"{node}\""));
        let first = self.next_trace;
        for (chunk, packets) in packets.chunks(buf::FRAME_SIZE).enumerate() {
            let mut frame = Frame::new();
            for (i, bytes) in packets.iter().enumerate() {
                let i = chunk * buf::FRAME_SIZE + i;
                let mut held = self.held(bytes.as_ref());
                let mut packet = held.packet();
                set(i, &mut packet);
                packet.set_flags(packet.flags() | Flags::TRACED);
                packet.cold_mut().trace = self.next_trace;
                self.next_trace += 1;
                assert!(frame.push(held).is_ok(), "a chunk of packets fits into a frame");
            }
            let section = self.participant.enter();
            if let Some(worker) = &mut self.worker {
                worker.feed(section.guard(), self.now.as_nanos() as u64, id, &mut frame);
            }
            assert!(frame.is_empty(), "cannot send to \"{node}\": it is an input node");
        }
        self.outputs(first)
    }

    /// Runs one turn of the worker, which polls the input nodes. Returns the resulting packets.
    pub fn turn(&mut self) -> Vec<Out> {
        let section = self.participant.enter();
        if let Some(worker) = &mut self.worker {
            worker.turn_at(section.guard(), self.now.as_nanos() as u64);
        }
        drop(section);
        self.outputs(self.next_trace)
    }

    /// Returns a packet with these bytes, for a node or a table under test.
    ///
    /// # Panics
    /// If no buffer is free.
    pub fn held(&mut self, bytes: &[u8]) -> Held {
        let cache = self.cache.as_mut().expect("the harness has its cache until it is dropped");
        let mut held = Held::alloc(cache).expect("no buffer is free in the harness");
        assert!(held.packet().fill_chained(bytes, cache), "no buffer is free in the harness");
        held
    }

    /// Advances the time of the graph.
    pub fn advance(&mut self, time: Duration) {
        self.now += time;
    }

    /// Returns the time of the graph in nanoseconds, which nodes see as `Cx::now`.
    pub fn now(&self) -> u64 {
        self.now.as_nanos() as u64
    }

    /// Returns the control by which features in arcs are enabled and disabled.
    pub fn arcs(&mut self) -> &mut ArcControl {
        &mut self.arcs
    }

    /// Returns the graph under test: its nodes, punt reasons and traces.
    pub fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    /// Returns run-time statistics and drop counters.
    pub fn stats(&self) -> &Stats {
        self.blueprint.stats()
    }

    /// Returns the number of packets that `node` dropped for the reason with this short name.
    ///
    /// # Panics
    /// If the reason does not exist.
    pub fn dropped(&self, node: &str, reason: &str) -> u64 {
        let n = self.stats().dropped_for(node, reason);
        n.unwrap_or_else(|| panic!("node \"{node}\" has no drop reason \"{reason}\""))
    }

    /// Returns the pool of the packets' buffers.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns the trace of all packets sent so far, as text.
    pub fn trace(&self) -> String {
        let tracer = self.blueprint.tracer();
        let mut text = String::new();
        let mut packet = None;
        for entry in tracer.entries() {
            if packet.replace(entry.trace) != Some(entry.trace) {
                text.push_str(&format!("packet {}\n", entry.trace));
            }
            let node = tracer.node_name(entry.node);
            text.push_str(&format!("{node}\n{}", tracer.describe(&entry)));
        }
        text
    }

    /// Appends packets that nodes ignored. They are taken from the trace, which has only the first bytes of a packet. Bytes and
    /// metadata of a packet are as the node has left them.
    fn ignored(&mut self, all: &mut Vec<Out>) {
        let tracer = self.blueprint.tracer();
        let places = tracer.places(0, self.looked, usize::MAX);
        self.looked += places.len();
        let entries: Vec<_> = places.into_iter().filter_map(|place| tracer.entry(place)).collect();
        for entry in entries {
            let (Fate::Ignored(reason), Some(record)) = (entry.fate, entry.after) else { continue };
            let node = self.blueprint.tracer().node_name(entry.node).to_string();
            let mut held = self.held(&[]);
            let mut cold = *held.packet().cold();
            cold.trace = entry.trace;
            held.discard();
            let bytes = entry.bytes_after().to_vec();
            all.push(Out { node, reason: Some(reason.name), bytes, record, cold, from: None });
        }
    }

    /// Returns captured, punted and ignored packets. The index of a packet is its trace number minus `first`.
    fn outputs(&mut self, first: u32) -> Vec<Out> {
        let mut all = self.captured.take();
        while let Some(p) = self.port.as_mut().and_then(WorkerPort::punted) {
            let mut held = p.packet;
            let mut out = sink::capture("punt", &held.packet());
            out.reason = self.blueprint.punt_reasons().get(p.reason.0 as usize).map(|r| r.name);
            all.push(out);
            held.discard();
        }
        self.ignored(&mut all);
        for out in &mut all {
            if out.node == DROPPED
                && let Some((node, reason)) = self.stats().reason(out.record.fwd)
            {
                (out.node, out.reason) = (node.to_string(), Some(reason.name));
            }
            let traced = out.record.flags.any(Flags::TRACED);
            out.from = out.cold.trace.checked_sub(first).filter(|_| traced).map(|i| i as usize);
        }
        all
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("trace of the packets sent:\n{}", self.trace());
            return;
        }
        // Dropping the nodes discards packets that they hold; retired tables may hold some packets too.
        self.worker = None;
        self.port = None;
        self.cache = None;
        self.domain.collect();
        let stats = self.pool.stats();
        assert_eq!(stats.lost, 0, "packets left without a reason\n{}", self.trace());
        assert_eq!(stats.used, 0, "buffers leaked: {stats:?}\n{}", self.trace());
    }
}
