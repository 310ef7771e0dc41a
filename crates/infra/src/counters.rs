//! Counters that one worker writes and every thread may read.
//!
//! A [`CounterSet`] is an array of entries, indexed by interface, adjacency or reason. An entry has `N`
//! numbers (packets and bytes, for example). Every worker writes its own [`Lane`] with plain loads and
//! stores; a reader adds up the lanes. Clearing records the present counts as a baseline, so the workers do
//! not notice it. Readers that need monotonic counters use the totals.

use crate::{
    mem::{SharedZeroed, Zeroed},
    prefetch,
    sync::{
        Arc, Mutex,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{AcqRel, Relaxed, Release},
        },
        lock,
    },
};
use std::{array, io, ops::Range};

struct LaneMemory {
    worker: usize,
    /// True while a [`Lane`] that uses this memory exists.
    owned: AtomicBool,
    counted: SharedZeroed<AtomicU64>,
    /// The values of `counted` when the counters were last cleared.
    baseline: Zeroed<AtomicU64>,
}

impl LaneMemory {
    /// Returns the counters in `range`, each with its value at the last clear. Ignores indices beyond the end of the memory.
    fn cells(&self, range: Range<usize>) -> impl Iterator<Item = (&AtomicU64, &AtomicU64)> {
        let range = range.start..range.end.min(self.counted.len());
        let counted = self.counted.get(range.clone()).unwrap_or_default();
        counted.iter().zip(self.baseline.get(range).unwrap_or_default())
    }
}

struct Set {
    name: String,
    capacity: u32,
    lanes: Mutex<Vec<Arc<LaneMemory>>>,
}

fn since_cleared(counted: &AtomicU64, baseline: &AtomicU64) -> u64 {
    counted.load(Relaxed).wrapping_sub(baseline.load(Relaxed))
}

fn ever(counted: &AtomicU64, _: &AtomicU64) -> u64 {
    counted.load(Relaxed)
}

/// An array of entries of `N` counters each. All clones use the same counters.
pub struct CounterSet<const N: usize>(Arc<Set>);

impl<const N: usize> Clone for CounterSet<N> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<const N: usize> CounterSet<N> {
    /// Makes a set with this name (for example, `/if/rx`) for indices below `capacity`. For each worker,
    /// address space for all indices is reserved; only counters in use take memory.
    pub fn new(name: impl Into<String>, capacity: u32) -> Self {
        Self(Arc::new(Set { name: name.into(), capacity, lanes: Mutex::new(Vec::new()) }))
    }

    /// Returns the name of the set.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the number of indices with their own counters. Indices from this number on are counted together, in a spill entry.
    pub fn capacity(&self) -> u32 {
        self.0.capacity
    }

    /// Returns a lane: counters that only `worker` writes. The worker's counts from earlier lanes remain.
    ///
    /// # Errors
    /// Fails if the kernel refuses the address range.
    pub fn lane(&self, worker: usize) -> io::Result<Lane<N>> {
        let mut lanes = lock(&self.0.lanes);
        let own = |l: &&Arc<LaneMemory>| l.worker == worker && !l.owned.swap(true, AcqRel);
        let memory = match lanes.iter().find(own) {
            Some(memory) => memory.clone(),
            None => {
                let cells = (self.0.capacity as usize + 1) * N;
                let (counted, baseline) = (Zeroed::new(cells)?.share(), Zeroed::new(cells)?);
                let memory = Arc::new(LaneMemory { worker, owned: AtomicBool::new(true), counted, baseline });
                lanes.push(memory.clone());
                memory
            }
        };
        Ok(Lane { counted: memory.counted.clone(), spill: self.0.capacity as usize, memory })
    }

    /// Returns the counts of all workers at `idx` since the last clear. For an index that is not below the capacity, returns the counts of
    /// the spill entry.
    pub fn read(&self, idx: u32) -> [u64; N] {
        self.sum(idx, |_| true, since_cleared)
    }

    /// Returns the counts of one worker at `idx` since the last clear.
    pub fn read_worker(&self, worker: usize, idx: u32) -> [u64; N] {
        self.sum(idx, |lane| lane.worker == worker, since_cleared)
    }

    /// Returns the counts of all workers at `idx` since the start. Clearing does not reset these.
    pub fn total(&self, idx: u32) -> [u64; N] {
        self.sum(idx, |_| true, ever)
    }

    /// Returns the counts of one worker at `idx` since the start. Clearing does not reset these.
    pub fn total_worker(&self, worker: usize, idx: u32) -> [u64; N] {
        self.sum(idx, |lane| lane.worker == worker, ever)
    }

    /// Calls `each` with each worker's number and counts at `idx` since the start. If a worker has had several lanes at the same time,
    /// `each` is called once for each of them. A lane that takes over a dropped lane's memory continues its counts.
    pub fn each_total(&self, idx: u32, mut each: impl FnMut(usize, [u64; N])) {
        let at = idx.min(self.0.capacity) as usize * N;
        for lane in lock(&self.0.lanes).iter() {
            let mut cells = lane.cells(at..at + N);
            each(
                lane.worker,
                array::from_fn(|_| cells.next().map_or(0, |(counted, _)| counted.load(Relaxed))),
            );
        }
    }

    fn sum(
        &self,
        idx: u32,
        of: impl Fn(&LaneMemory) -> bool,
        value: impl Fn(&AtomicU64, &AtomicU64) -> u64,
    ) -> [u64; N] {
        let mut total = [0u64; N];
        let at = idx.min(self.0.capacity) as usize * N;
        for lane in lock(&self.0.lanes).iter().filter(|l| of(l)) {
            for (total, (counted, baseline)) in total.iter_mut().zip(lane.cells(at..at + N)) {
                *total = total.wrapping_add(value(counted, baseline));
            }
        }
        total
    }

    /// Resets the counts of all workers at `idx`.
    pub fn clear(&self, idx: u32) {
        let at = idx.min(self.0.capacity) as usize * N;
        self.clear_cells(at..at + N);
    }

    /// Clears every entry.
    pub fn clear_all(&self) {
        self.clear_cells(0..usize::MAX);
    }

    fn clear_cells(&self, range: Range<usize>) {
        for lane in lock(&self.0.lanes).iter() {
            for (counted, baseline) in lane.cells(range.clone()) {
                let now = counted.load(Relaxed);
                // Write only changed entries: an untouched page of the baseline must stay untouched.
                if baseline.load(Relaxed) != now {
                    baseline.store(now, Relaxed);
                }
            }
        }
    }
}

/// One worker's part of a [`CounterSet`]. No other lane uses the same memory, so only the lane's owner writes
/// to it.
pub struct Lane<const N: usize> {
    counted: SharedZeroed<AtomicU64>,
    /// Index of the spill entry, which is the last entry.
    spill: usize,
    memory: Arc<LaneMemory>,
}

impl<const N: usize> Lane<N> {
    /// Adds `amounts` to the counters at `idx`, or to the spill entry if `idx` is not below the capacity.
    #[inline(always)]
    pub fn add(&mut self, idx: u32, amounts: [u64; N]) {
        let at = (idx as usize).min(self.spill) * N;
        let cells: [&AtomicU64; N] = array::from_fn(|k| {
            // SAFETY: the array has (spill + 1) * N cells, and at <= spill * N.
            unsafe { self.counted.get_unchecked(at + k) }
        });
        for (cell, amount) in cells.into_iter().zip(amounts) {
            // No read-modify-write is needed: no other thread writes this cell.
            cell.store(cell.load(Relaxed).wrapping_add(amount), Relaxed);
        }
    }

    /// Prefetches the counters at `idx`, before a caller adds to the counters of many indices.
    #[inline(always)]
    pub fn prefetch(&self, idx: u32) {
        let at = (idx as usize).min(self.spill) * N;
        let cells = self.counted.get(at..at + N).unwrap_or_default();
        // The counters may span two cache lines.
        [cells.first(), cells.last()].into_iter().flatten().for_each(|cell| prefetch::write(cell));
    }
}

impl<const N: usize> Drop for Lane<N> {
    fn drop(&mut self) {
        self.memory.owned.store(false, Release);
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn sums_lanes_since_the_last_clear() {
        let set = CounterSet::<2>::new("/test", 10);
        let (mut a, mut b) = (set.lane(0).unwrap(), set.lane(1).unwrap());
        a.add(3, [1, 64]);
        a.add(3, [2, 128]);
        b.add(3, [10, 1000]);
        b.add(4, [5, 5]);
        assert_eq!((set.read(3), set.read(4), set.read(5)), ([13, 1192], [5, 5], [0, 0]));
        assert_eq!((set.read_worker(0, 3), set.read_worker(1, 3)), ([3, 192], [10, 1000]));
        set.clear(3);
        a.add(3, [1, 1]);
        assert_eq!((set.read(3), set.read(4)), ([1, 1], [5, 5]));
        set.clear_all();
        assert_eq!((set.read(3), set.read(4)), ([0, 0], [0, 0]));
        assert_eq!((set.total(3), set.total(4)), ([14, 1193], [5, 5]), "earlier counts remain");
        assert_eq!((set.total_worker(0, 3), set.total_worker(1, 3)), ([4, 193], [10, 1000]));
        let mut each = Vec::new();
        set.each_total(3, |worker, counts| each.push((worker, counts)));
        assert_eq!(each, [(0, [4, 193]), (1, [10, 1000])]);
    }

    #[test]
    fn indexes_above_the_capacity_use_the_spill_entry() {
        let set = CounterSet::<1>::new("/test", 2);
        let mut lane = set.lane(0).unwrap();
        lane.add(1, [1]);
        lane.add(2, [10]);
        lane.add(u32::MAX, [100]);
        [0, 2, u32::MAX].into_iter().for_each(|idx| lane.prefetch(idx));
        assert_eq!((set.read(0), set.read(1), set.read(2), set.read(99)), ([0], [1], [110], [110]));
    }

    #[test]
    fn a_lane_is_reused_but_never_shared() {
        let set = CounterSet::<1>::new("/test", 4);
        let mut first = set.lane(7).unwrap();
        let mut second = set.lane(7).unwrap();
        first.add(0, [1]);
        second.add(0, [2]);
        drop(first);
        set.lane(7).unwrap().add(0, [4]);
        assert_eq!((set.read(0), lock(&set.0.lanes).len()), ([7], 2));
    }
}
