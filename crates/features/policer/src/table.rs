//! The table of a router's policers, and their counters. The main thread changes the table; workers read it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use infra::class_a::{SlotReader, SlotWriter, slots};
use infra::counters::{CounterSet, Lane};
use infra::quiesce::Domain;
use model::reason::Reason;
use net::router::RouterError;

use crate::bucket::{Color, Policer};
use crate::rate::Params;

/// Maximum number of policers. Indexes are below this number.
pub const MAX_POLICERS: u32 = 1 << 16;

/// The counters of one color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Packets. A packet that is still to be segmented counts as its segments.
    pub packets: u64,
    /// Bytes that the policer counts: with the link header, without the FCS.
    pub bytes: u64,
}

/// The main thread's table of policers. It is a state of the router: [`Router::state`](net::router::Router::state).
pub struct Policers {
    writer: SlotWriter<Policer>,
    entries: BTreeMap<u32, Entry>,
    /// The indexes of policers with a name.
    named: BTreeMap<String, u32>,
    shared: Shared,
}

/// The main thread's data of a policer.
struct Entry {
    params: Params,
    name: Option<String>,
    /// Baseline of the counters: their totals when this policer was made, left by earlier policers with the same index. It is
    /// subtracted from the current totals.
    before: [u64; 6],
}

/// The part of the table that the nodes use: the policers and their counters. Cheap to clone.
#[derive(Clone)]
pub struct Shared {
    /// The policers by index.
    pub policers: SlotReader<Policer>,
    /// For each policer, by its index: the numbers of packets and bytes for green, yellow and red packets.
    pub counts: CounterSet<6>,
    /// Number of workers.
    workers: Arc<AtomicUsize>,
}

impl Shared {
    /// Returns the counters for a node of a worker. Policers made from now on have a cell for this worker: memory that only this
    /// worker writes.
    ///
    /// # Errors
    /// Fails if there is no address space for the counters.
    pub fn lane(&self, worker: usize) -> io::Result<Lane<6>> {
        self.workers.fetch_max(worker + 1, Relaxed);
        self.counts.lane(worker)
    }
}

impl Policers {
    /// Returns an empty table, which workers read within sections of `domain`.
    ///
    /// # Errors
    /// Fails if there is no address space for the table.
    pub fn new(domain: &Domain) -> io::Result<Policers> {
        let (writer, policers) = slots(domain, MAX_POLICERS)?;
        let counts = CounterSet::new("/policer", MAX_POLICERS);
        let shared = Shared { policers, counts, workers: Arc::default() };
        Ok(Policers { writer, entries: BTreeMap::new(), named: BTreeMap::new(), shared })
    }

    /// Returns the part of the table that the nodes use.
    pub fn shared(&self) -> Shared {
        self.shared.clone()
    }

    /// Makes a policer whose counters are zero, and whose buckets are full at `now` (nanoseconds of the monotonic clock). Returns the
    /// policer's index, which no other policer has.
    ///
    /// # Errors
    /// Fails if the parameters are bad, or if there are [`MAX_POLICERS`] already.
    pub fn add(&mut self, params: Params, now: u64) -> Result<u32, RouterError> {
        let policer = self.made(&params, now)?;
        let index = self.writer.insert(policer)?;
        self.enter(index, params);
        Ok(index)
    }

    /// Makes a policer as [`add`](Self::add) does, with a name.
    ///
    /// # Errors
    /// Fails as [`add`](Self::add) does, and if the name is in use.
    pub fn add_named(&mut self, name: &str, params: Params, now: u64) -> Result<u32, RouterError> {
        if self.named.contains_key(name) {
            return Err(RouterError::new(format!("there is a policer {name} already")).because(Reason::There));
        }
        let index = self.add(params, now)?;
        if let Some(entry) = self.entries.get_mut(&index) {
            entry.name = Some(name.into());
            self.named.insert(name.into(), index);
        }
        Ok(index)
    }

    /// Makes a policer as [`add`](Self::add) does, at this index.
    ///
    /// # Errors
    /// Fails if the parameters are bad, or if the index is in use or at least [`MAX_POLICERS`].
    pub fn add_at(&mut self, index: u32, params: Params, now: u64) -> Result<(), RouterError> {
        let policer = self.made(&params, now)?;
        if self.entries.contains_key(&index) {
            return Err(RouterError::new(format!("policer index {index} is in use")));
        }
        self.writer.set(index, policer)?;
        self.enter(index, params);
        Ok(())
    }

    fn enter(&mut self, index: u32, params: Params) {
        self.shared.counts.clear(index);
        let before = self.shared.counts.total(index);
        self.entries.insert(index, Entry { params, name: None, before });
    }

    /// Changes a policer at `now` (nanoseconds of the monotonic clock). Each bucket keeps its fill level as a fraction of its burst; if the
    /// type or the unit changes, the buckets are full. The counters continue.
    ///
    /// A vector that a worker is policing at that moment may still use the old buckets.
    ///
    /// # Errors
    /// Fails if there is no such policer, or if the parameters are bad.
    pub fn change(&mut self, index: u32, params: Params, now: u64) -> Result<(), RouterError> {
        params.check().map_err(|e| RouterError::new(e.why))?;
        let old = self.writer.get(index).ok_or_else(|| unknown(index))?;
        let new = Policer::instead_of(old, &params, self.workers(), now);
        self.writer.set(index, new)?;
        if let Some(entry) = self.entries.get_mut(&index) {
            entry.params = params;
        }
        Ok(())
    }

    /// Fills the buckets of a policer at `now` (nanoseconds of the monotonic clock). The counters continue.
    ///
    /// # Errors
    /// Fails if there is no such policer.
    pub fn reset(&mut self, index: u32, now: u64) -> Result<(), RouterError> {
        let entry = self.entries.get(&index).ok_or_else(|| unknown(index))?;
        let policer = Policer::new(&entry.params, self.workers(), now);
        self.writer.set(index, policer)?;
        Ok(())
    }

    /// Removes a policer. Interfaces that still use the index pass all packets. The caller makes sure that no interface uses it, because
    /// another policer will get the index.
    ///
    /// # Errors
    /// Fails if there is no such policer.
    pub fn remove(&mut self, index: u32) -> Result<(), RouterError> {
        let entry = self.entries.remove(&index).ok_or_else(|| unknown(index))?;
        if let Some(name) = entry.name {
            self.named.remove(&name);
        }
        self.writer.remove(index);
        Ok(())
    }

    /// Returns the parameters of a policer; `None` if there is no policer with this index.
    pub fn get(&self, index: u32) -> Option<&Params> {
        self.entries.get(&index).map(|entry| &entry.params)
    }

    /// Returns the index of the policer with this name; `None` if there is no such policer.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.named.get(name).copied()
    }

    /// Returns the name of a policer, if it has one.
    pub fn name(&self, index: u32) -> Option<&str> {
        self.entries.get(&index)?.name.as_deref()
    }

    /// Returns the indexes of policers in ascending order, from `first` on.
    pub fn from(&self, first: u32) -> impl Iterator<Item = u32> {
        self.entries.range(first..).map(|(index, _)| *index)
    }

    /// Returns all policers with their indexes, in order of index.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Params)> {
        self.entries.iter().map(|(index, entry)| (*index, &entry.params))
    }

    /// Returns the number of policers.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are no policers.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the numbers of tokens (bytes or packets) in the committed and the excess bucket at `now` (nanoseconds of the monotonic
    /// clock); `None` if there is no such policer.
    pub fn tokens(&self, index: u32, now: u64) -> Option<[u64; 2]> {
        Some(self.writer.get(index)?.tokens(now))
    }

    /// Returns a policer's counters of green, yellow and red packets, since the policer was made or its counters were cleared.
    pub fn counted(&self, index: u32) -> [Counted; 3] {
        by_color(self.shared.counts.read(index))
    }

    /// Returns a policer's counters of green, yellow and red packets since the policer was made, even if they have been cleared.
    pub fn total(&self, index: u32) -> [Counted; 3] {
        let before = self.entries.get(&index).map(|entry| entry.before).unwrap_or_default();
        let mut all = self.shared.counts.total(index);
        all.iter_mut().zip(before).for_each(|(now, before)| *now = now.wrapping_sub(before));
        by_color(all)
    }

    /// Resets the counters of a policer.
    pub fn clear(&mut self, index: u32) {
        self.shared.counts.clear(index);
    }

    fn workers(&self) -> usize {
        self.shared.workers.load(Relaxed)
    }

    fn made(&self, params: &Params, now: u64) -> Result<Policer, RouterError> {
        params.check().map_err(|e| RouterError::new(e.why))?;
        Ok(Policer::new(params, self.workers(), now))
    }
}

fn by_color(all: [u64; 6]) -> [Counted; 3] {
    Color::ALL.map(|color| {
        let at = 2 * color as usize;
        Counted { packets: all[at], bytes: all[at + 1] }
    })
}

fn unknown(index: u32) -> RouterError {
    RouterError::new(format!("no policer has the index {index}")).because(Reason::NotThere)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::Item;

    fn params(cir: u64) -> Params {
        Params { cir, cb: 1000, ..Params::default() }
    }

    #[test]
    fn policers_are_added_changed_and_removed() {
        let domain = Domain::new();
        let mut p = Policers::new(&domain).unwrap();
        let mut lane = p.shared().lane(1).unwrap();
        let a = p.add(params(8), 0).unwrap();
        p.add_at(7, params(16), 0).unwrap();
        assert_eq!(p.iter().collect::<Vec<_>>(), [(a, &params(8)), (7, &params(16))]);
        assert!(p.add_at(7, params(8), 0).unwrap_err().why.contains("index 7 is in use"));
        assert!(p.add_at(MAX_POLICERS, params(8), 0).is_err() && p.add(params(0), 0).is_err());
        lane.add(7, [1, 100, 2, 200, 3, 300]);
        let counted = |p: &Policers| p.counted(7).map(|c| [c.packets, c.bytes]);
        assert_eq!(counted(&p), [[1, 100], [2, 200], [3, 300]]);

        // Half of the burst remains, whatever its size.
        p.writer.get(7).unwrap().each(0, 0, &mut [Item { tokens: 500, ..Item::default() }]);
        assert_eq!(p.tokens(7, 0), Some([500, 0]));
        p.change(7, Params { cb: 3000, ..params(16) }, 0).unwrap();
        assert_eq!((p.tokens(7, 0), counted(&p)[0]), (Some([1500, 0]), [1, 100]));
        p.reset(7, 0).unwrap();
        assert_eq!(p.tokens(7, 0), Some([3000, 0]));
        p.clear(7);
        assert_eq!(counted(&p), [[0; 2]; 3]);

        lane.add(7, [1; 6]);
        p.remove(7).unwrap();
        assert_eq!((p.get(7), p.tokens(7, 0), p.len()), (None, None, 1));
        for why in [p.remove(7), p.reset(7, 0), p.change(7, params(8), 0)] {
            assert_eq!(why.unwrap_err().why, "no policer has the index 7");
        }
        domain.collect();
        p.add_at(7, params(8), 0).unwrap();
        assert_eq!(counted(&p), [[0; 2]; 3], "what another one counted is forgotten");
        lane.add(7, [1, 2, 0, 0, 0, 0]);
        p.clear(7);
        lane.add(7, [1, 2, 0, 0, 0, 0]);
        let of = |counted: [Counted; 3]| counted.map(|c| [c.packets, c.bytes]);
        let zero = [0; 2];
        assert_eq!((of(p.counted(7)), of(p.total(7))), ([[1, 2], zero, zero], [[2, 4], zero, zero]));
    }

    #[test]
    fn names_are_found_and_removed_with_their_policers() {
        let domain = Domain::new();
        let mut p = Policers::new(&domain).unwrap();
        let nameless = p.add(params(8), 0).unwrap();
        let gold = p.add_named("gold", params(8), 0).unwrap();
        assert!(
            p.add_named("gold", params(8), 0).unwrap_err().why.contains("there is a policer gold already")
        );
        assert!(p.add_named("bad", params(0), 0).is_err() && p.find("bad").is_none());
        assert_eq!((p.find("gold"), p.name(gold), p.name(nameless)), (Some(gold), Some("gold"), None));
        p.change(gold, params(16), 0).unwrap();
        assert_eq!((p.find("gold"), p.from(gold).collect::<Vec<_>>()), (Some(gold), vec![gold]));
        p.remove(gold).unwrap();
        assert_eq!((p.find("gold"), p.name(gold), p.from(0).count()), (None, None, 1));
    }

    #[test]
    fn the_table_holds_the_maximum_number_of_policers() {
        let mut p = Policers::new(&Domain::new()).unwrap();
        let three = Params { kind: crate::rate::Kind::TwoRates4115, eir: 8, eb: 1, ..params(8) };
        for index in 0..MAX_POLICERS {
            assert_eq!(p.add(three, 0), Ok(index));
        }
        assert_eq!(p.len(), MAX_POLICERS as usize);
        assert!(p.add(three, 0).unwrap_err().why.contains("65536"));
    }
}
