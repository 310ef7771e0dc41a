//! Packet traces: records of chosen packets before and after each node.
//!
//! `trace add NODE N` marks the next N packets of the input node NODE, or the next N that match a filter. The mark is a flag in the
//! packet's record. The worker therefore records every later node, with the packet before and after the node. Copies of a traced packet,
//! and packets made from it, have the same trace number. The logs are bounded, and locked only for frames with a traced packet.

use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use buf::Frame;
use buf::bpf::Program;
use buf::layout::FEATURE_LEN;
use buf::record::Snapshot;
use infra::class_a::{Reader, Writer, published};
use infra::quiesce::{Domain, Guard};

use crate::edge::NodeId;
use crate::entry::Features;
pub use crate::entry::{BYTES, Entry, Fate, Place, TraceFn, plain};
use crate::info::NodeInfo;

/// Maximum number of entries in the log of one worker.
const ENTRIES: usize = 64 * 1024;
/// Writes a packet's value of a feature field as a line of the trace. Writes nothing if the packet has no such value.
pub(crate) type FieldTrace = Box<dyn Fn(&[u8; FEATURE_LEN], &mut String) + Send + Sync>;

/// The traces of a graph.
#[derive(Clone)]
pub struct Tracer(Arc<Shared>);

struct Shared {
    nodes: Arc<[NodeInfo]>,
    /// Number of packets that are still to be marked, by input node.
    wanted: Vec<AtomicU32>,
    /// The filters for the packets to be marked, by input node. Without a filter, all packets match.
    filters: Reader<Filters>,
    filters_control: Mutex<Writer<Filters>>,
    next: AtomicU32,
    logs: Mutex<Vec<Arc<Log>>>,
    fields: Vec<FieldTrace>,
}

type Filters = Vec<Option<Arc<Program>>>;

/// One worker's entries.
#[derive(Default)]
pub(crate) struct Log(Mutex<Vec<Entry>>);

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

impl Tracer {
    pub(crate) fn new(nodes: Arc<[NodeInfo]>, fields: Vec<FieldTrace>, domain: &Domain) -> Tracer {
        let wanted = nodes.iter().map(|_| AtomicU32::new(0)).collect();
        let (writer, filters) = published(domain, vec![None; nodes.len()]);
        Tracer(Arc::new(Shared {
            nodes,
            wanted,
            filters,
            filters_control: Mutex::new(writer),
            next: AtomicU32::new(1),
            logs: Mutex::default(),
            fields,
        }))
    }

    /// Traces the next `n` packets of `node`. Returns false if `node` is not an input node. The new filter
    /// replaces the previous one, and also applies to packets still to be traced because of earlier calls.
    pub fn add(&self, node: NodeId, n: u32, filter: Option<Program>) -> bool {
        match (self.0.nodes.get(node.0 as usize), self.0.wanted.get(node.0 as usize)) {
            (Some(info), Some(wanted)) if info.input => {
                let mut filters = lock(&self.0.filters_control);
                let mut new = filters.get().clone();
                if let Some(place) = new.get_mut(node.0 as usize) {
                    *place = filter.map(Arc::new);
                }
                filters.set(new);
                // The sum may saturate: no log has room for that many entries.
                let more = |w: u32| Some(w.saturating_add(n));
                let _ = wanted.fetch_update(Ordering::Release, Ordering::Relaxed, more);
                true
            }
            _ => false,
        }
    }

    /// Returns the number of packets of `node` that are still to be traced.
    pub fn left(&self, node: NodeId) -> u32 {
        self.0.wanted.get(node.0 as usize).map_or(0, |wanted| wanted.load(Ordering::Relaxed))
    }

    /// Takes back at most `n` of the packets of `node` that are still to be traced.
    pub fn withdraw(&self, node: NodeId, n: u32) {
        if let Some(wanted) = self.0.wanted.get(node.0 as usize) {
            let _ = wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |w| Some(w.saturating_sub(n)));
        }
    }

    /// True if the log of a worker is full: no more packets of that worker are traced until the logs are [cleared](Self::clear).
    pub fn is_full(&self) -> bool {
        lock(&self.0.logs).iter().any(|log| lock(&log.0).len() >= ENTRIES)
    }

    /// Returns the number of the packet that is traced next.
    pub fn next(&self) -> u32 {
        self.0.next.load(Ordering::Relaxed)
    }

    /// Removes all traces and stops marking packets.
    pub fn clear(&self) {
        self.0.wanted.iter().for_each(|w| w.store(0, Ordering::Relaxed));
        lock(&self.0.logs).iter().for_each(|l| lock(&l.0).clear());
    }

    /// Returns all entries, ordered by packet and then by the packet's path.
    pub fn entries(&self) -> Vec<Entry> {
        let mut all: Vec<Place> = (0..self.logs()).flat_map(|log| self.places(log, 0, ENTRIES)).collect();
        all.sort_unstable();
        all.into_iter().filter_map(|place| self.entry(place)).collect()
    }

    /// Returns the number of logs: one for each worker, including removed workers.
    pub fn logs(&self) -> usize {
        lock(&self.0.logs).len()
    }

    /// Returns the positions of at most `n` entries of a log, from position `first` on. The log is locked
    /// during the call.
    pub fn places(&self, log: usize, first: usize, n: usize) -> Vec<Place> {
        let Some(entries) = lock(&self.0.logs).get(log).cloned() else { return Vec::new() };
        let entries = lock(&entries.0);
        let found = entries.iter().enumerate().skip(first).take(n);
        found.map(|(at, e)| Place { trace: e.trace, time: e.time, log, at }).collect()
    }

    /// Returns the entry at a position; `None` if the entry was cleared.
    pub fn entry(&self, place: Place) -> Option<Entry> {
        let log = lock(&self.0.logs).get(place.log).cloned()?;
        let entry = lock(&log.0).get(place.at).cloned()?;
        ((entry.trace, entry.time) == (place.trace, place.time)).then_some(entry)
    }

    /// Returns the name of a node.
    pub fn node_name(&self, node: NodeId) -> &'static str {
        self.0.nodes.get(node.0 as usize).map_or("?", |n| n.name)
    }

    /// Returns the text of an entry: indented lines, and the packet's fate if its path ends at this node.
    pub fn describe(&self, entry: &Entry) -> String {
        let mut text = String::new();
        if let Some(info) = self.0.nodes.get(entry.node.0 as usize) {
            let mut own = String::new();
            (info.trace)(entry, &mut own);
            if let Some(bytes) = &entry.features {
                if !own.is_empty() && !own.ends_with('\n') {
                    own.push('\n');
                }
                self.0.fields.iter().for_each(|field| field(bytes, &mut own));
            }
            for line in own.lines() {
                let _ = writeln!(text, "  {line}");
            }
        }
        match entry.fate {
            Fate::Dropped(reason) => {
                let _ = writeln!(text, "  dropped: {} ({})", reason.text, reason.name);
            }
            Fate::Ignored(reason) => {
                let _ = writeln!(text, "  ignored: {} ({})", reason.text, reason.name);
            }
            Fate::Held => text.push_str("  held\n"),
            Fate::Next(_) | Fate::Taken => {}
        }
        text
    }

    pub(crate) fn log(&self) -> Arc<Log> {
        let log = Arc::new(Log::default());
        lock(&self.0.logs).push(log.clone());
        log
    }

    /// Marks the packets to be traced among those that `node` has just brought in. Returns true if any are
    /// marked.
    #[inline(always)]
    pub(crate) fn mark(&self, guard: &Guard, node: u32, frame: &mut Frame) -> bool {
        let wanted = &self.0.wanted[node as usize];
        // Acquire, so that the filter of a waiting request is seen together with its count.
        if wanted.load(Ordering::Acquire) == 0 { false } else { self.mark_some(guard, node, wanted, frame) }
    }

    #[cold]
    fn mark_some(&self, guard: &Guard, node: u32, wanted: &AtomicU32, frame: &mut Frame) -> bool {
        // Positions and number of the packets that may be marked.
        let (mut at, mut found) = ([0u16; buf::FRAME_SIZE], 0);
        let filter = self.0.filters.get(guard).get(node as usize).and_then(Option::as_deref);
        for (i, p) in frame.packets().enumerate() {
            if filter.is_none_or(|filter| p.matches(filter)) {
                at[found] = i as u16;
                found += 1;
            }
        }
        let mut k = 0;
        let _ = wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |w| {
            k = w.min(found as u32);
            Some(w - k)
        });
        let first = self.0.next.fetch_add(k, Ordering::Relaxed);
        for (n, i) in at[..found].iter().take(k as usize).enumerate() {
            let i = usize::from(*i);
            frame.set_traced(i..i + 1, first.wrapping_add(n as u32));
        }
        k > 0
    }
}

/// A traced packet as it was before a node.
pub(crate) struct Before {
    pub(crate) at: usize,
    pub(crate) trace: u32,
    snapshot: Option<Snapshot>,
    bytes: [u8; BYTES],
    kept: u8,
    total_len: u32,
    features: Features,
}

fn keep(from: &[u8]) -> ([u8; BYTES], u8) {
    let mut bytes = [0; BYTES];
    let n = from.len().min(BYTES);
    bytes[..n].copy_from_slice(&from[..n]);
    (bytes, n as u8)
}

/// Writes the traced packets of a frame into `into`, as they are before a node runs.
#[cold]
pub(crate) fn before(frame: &mut buf::Frame, input: bool, into: &mut Vec<Before>) {
    into.clear();
    for (at, p) in frame.packets().enumerate() {
        if p.flags().any(buf::Flags::TRACED) {
            let (bytes, kept) = keep(p.bytes());
            let snapshot = (!input).then(|| p.snapshot());
            into.push(Before {
                at,
                trace: p.cold().trace,
                snapshot,
                bytes,
                kept,
                total_len: p.total_len() as u32,
                features: p.feature_bytes(),
            });
        }
    }
}

/// Adds an entry for each traced packet in `noted`: the packet before and after the node. Adds no entry if the log is full.
#[cold]
pub(crate) fn record(
    log: &Log,
    node: NodeId,
    time: u64,
    frame: &mut buf::Frame,
    noted: &[Before],
    fate: impl Fn(usize) -> Fate,
) {
    let mut entries = lock(&log.0);
    for b in noted {
        if entries.len() >= ENTRIES {
            return;
        }
        let mut entry = Entry {
            trace: b.trace,
            node,
            time,
            before: b.snapshot,
            after: None,
            vrf: 0,
            fate: Fate::Taken,
            total_len: b.total_len,
            bytes_before: b.bytes,
            bytes_after: b.bytes,
            kept: [b.kept; 2],
            features: b.features,
        };
        if let Some(p) = frame.get(b.at) {
            (entry.bytes_after, entry.kept[1]) = keep(p.bytes());
            entry.after = Some(p.snapshot());
            entry.vrf = p.fib().into();
            entry.total_len = p.total_len() as u32;
            entry.features = p.feature_bytes();
            entry.fate = fate(b.at);
        }
        entries.push(entry);
    }
}
