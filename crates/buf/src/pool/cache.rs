//! Each thread's cache of free buffers, and its counts of packets made and freed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{BATCH, CACHE, Pool, debug_mark, fresh, lock, walk_tail};
use crate::record::{Flags, Record};

/// Maximum number of window buffers that one call of [`Cache::surface`] moves within the cache.
const SOME: usize = 32;

/// One thread's stack of free buffers.
pub struct Cache {
    pool: Pool,
    stack: Vec<u32>,
    /// The pool's number of buffer shortages when this cache last gave up buffers for other caches (see [`Cache::share`]).
    answered: usize,
    fill: Arc<AtomicUsize>,
    tally: Tally,
}

/// Totals of the packets that passed through a cache. The graph uses them for its accounting: debug builds
/// check after each node that no packet is lost.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Packets made. A packet of several buffers counts once.
    pub made: u64,
    /// Packets freed or appended to others.
    pub freed: u64,
    /// Packets stored outside of frames, minus those put back into frames: see [`Cache::note_kept`].
    pub kept: i64,
}

impl Tally {
    /// Returns the numbers of packets made, freed and kept since `before`. A negative number of kept packets
    /// is returned modulo 2^64.
    #[inline(always)]
    pub fn since(self, before: Tally) -> [u64; 3] {
        let kept = self.kept.wrapping_sub(before.kept) as u64;
        [self.made.wrapping_sub(before.made), self.freed.wrapping_sub(before.freed), kept]
    }
}

impl Cache {
    /// Returns an empty cache for buffers of `pool`. The cache publishes its number of buffers in `fill`.
    pub(super) fn new(pool: &Pool, fill: Arc<AtomicUsize>) -> Cache {
        Cache {
            pool: pool.clone(),
            stack: Vec::with_capacity(CACHE + BATCH),
            answered: pool.0.shortages.0.load(Ordering::Relaxed),
            fill,
            tally: Tally::default(),
        }
    }

    /// The pool that this cache gets its buffers from.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The totals so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Records that `change` more packets (fewer, if negative) are outside of this worker's frames: in a
    /// queue that a node keeps from one call to the next, in a device's ring, or with another thread.
    ///
    /// Code that stores packets outside of frames, or takes them back, must call this. The graph includes the
    /// number in its accounting: debug builds check after each node that no packet is missing.
    #[inline(always)]
    pub fn note_kept(&mut self, change: isize) {
        self.tally.kept += change as i64;
    }

    /// Records that a packet has become part of another packet.
    #[inline(always)]
    pub(crate) fn note_merged(&mut self) {
        self.tally.freed += 1;
    }

    /// Takes a buffer as the head of a new packet. Returns `None`, and counts a refused allocation, if cache and depot are empty.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Record> {
        let record = self.take_segment();
        self.tally.made += u64::from(record.is_some());
        record
    }

    /// Takes a buffer for a packet's chain, after its first buffer. Returns `None`, and counts a refused allocation, if cache and depot
    /// are empty.
    #[inline]
    pub(crate) fn take_segment(&mut self) -> Option<Record> {
        if self.stack.is_empty() {
            self.refill(1);
        }
        let Some(index) = self.stack.pop() else {
            self.pool.0.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        debug_mark(index, true);
        Some(fresh(index))
    }

    /// Ensures that `n` ≤ [`BATCH`] buffers are in the cache, if the depot has them. Returns `n`, or the number of buffers in the cache if
    /// that is smaller; counts each missing buffer as a refused allocation.
    #[inline]
    pub(crate) fn prepare(&mut self, n: usize) -> usize {
        if self.stack.len() < n {
            self.refill(n);
            if self.stack.len() < n {
                self.pool.0.refused.fetch_add((n - self.stack.len()) as u64, Ordering::Relaxed);
            }
        }
        self.stack.len().min(n)
    }

    /// True if the cache has at least `n` ≤ [`BATCH`] buffers, after fetching buffers from the depot if necessary. For callers that
    /// must keep some buffers in reserve.
    pub fn has(&mut self, n: usize) -> bool {
        if self.stack.len() < n {
            self.refill(n);
        }
        self.stack.len() >= n
    }

    /// Takes the heads of up to `n` ≤ [`BATCH`] new packets, until no buffer is left or `wanted` returns
    /// false for one. Returns the number of heads taken.
    #[inline]
    pub(crate) fn take_while(&mut self, n: usize, mut wanted: impl FnMut(u32) -> bool) -> usize {
        let n = self.prepare(n);
        // If `wanted` panics, all buffers of the cache are leaked rather than owned twice.
        let mut stack = std::mem::take(&mut self.stack);
        let want = |index: &&u32| {
            let takes = wanted(**index);
            if takes {
                debug_mark(**index, true);
            }
            takes
        };
        let taken = stack[stack.len() - n..].iter().rev().take_while(want).count();
        stack.truncate(stack.len() - taken);
        self.stack = stack;
        self.tally.made += taken as u64;
        taken
    }

    /// Frees the buffers of packets with one buffer.
    #[inline]
    pub(crate) fn free_heads(&mut self, buffers: &[u32]) {
        for some in buffers.chunks(BATCH) {
            some.iter().for_each(|index| debug_mark(*index, false));
            self.stack.extend_from_slice(some);
            self.count_freed(some.len());
            if self.stack.len() >= CACHE {
                self.spill();
            }
        }
    }

    /// Publishes the number of buffers in the cache. Called once per iteration of the thread's loop, not per packet.
    pub fn publish(&self) {
        self.fill.store(self.stack.len(), Ordering::Relaxed);
    }

    /// If another cache was short of buffers since the last call, moves half of the buffers beyond `keep` to the depot. Called once
    /// per iteration of the thread's loop, not per packet.
    #[inline]
    pub fn share(&mut self, keep: usize) {
        let shortages = self.pool.0.shortages.0.load(Ordering::Relaxed);
        if self.answered != shortages {
            self.answered = shortages;
            self.give(self.stack.len().saturating_sub(keep).div_ceil(2));
        }
    }

    /// Fetches buffers from the depot. If the cache still has fewer than `n` after that, asks the other
    /// caches for more.
    #[cold]
    fn refill(&mut self, n: usize) {
        lock(&self.pool.0.depot).take(BATCH, &mut self.stack);
        if self.stack.len() < n {
            self.ask();
        }
        self.publish();
    }

    /// Asks the other caches to [share](Self::share) their buffers.
    fn ask(&mut self) {
        self.pool.0.shortages.0.fetch_add(1, Ordering::Relaxed);
        // This cache must not return the buffers that it just received.
        self.answered = self.answered.wrapping_add(1);
    }

    #[cold]
    fn spill(&mut self) {
        self.give(self.stack.len() - BATCH);
    }

    /// Moves `n` buffers to the depot: those at the bottom of the stack, which are the coldest.
    #[cold]
    fn give(&mut self, n: usize) {
        if n > 0 {
            lock(&self.pool.0.depot).give(self.stack.drain(..n));
            self.publish();
        }
    }

    /// Moves buffers of the window, which devices can access, to the top of the cache's stack. If the cache has none, exchanges some of
    /// its buffers for such buffers of the depot. If the depot has none either, counts a refused allocation, asks the other caches to
    /// [share](Self::share) theirs, and returns false. Moves many buffers at once, so that it is called rarely.
    #[cold]
    #[inline(never)]
    pub(crate) fn surface(&mut self) -> bool {
        // The buffers from `at` to `top` are outside of the window; those above are inside.
        let (window, mut at, mut top) = (self.pool.0.window, self.stack.len(), self.stack.len());
        while at > 0 && self.stack.len() - top < SOME {
            at -= 1;
            if window.place(self.stack[at]).is_some() {
                top -= 1;
                self.stack.swap(at, top);
            }
        }
        if top < self.stack.len() {
            return true;
        }
        let had = lock(&self.pool.0.depot).exchange(BATCH, &mut self.stack) > 0;
        if !had {
            self.pool.0.refused.fetch_add(1, Ordering::Relaxed);
            self.ask();
        }
        self.publish();
        had
    }

    /// Frees a packet's buffers.
    #[inline]
    pub(crate) fn free(&mut self, record: Record) {
        let (buf, flags) = (record.buf, record.flags);
        if flags.any(Flags::CHAINED) {
            self.free_tail(buf);
        }
        self.put(buf);
        self.count_freed(1);
    }

    #[inline(always)]
    fn count_freed(&mut self, packets: usize) {
        self.tally.freed += packets as u64;
    }

    #[inline(always)]
    pub(crate) fn put(&mut self, index: u32) {
        debug_mark(index, false);
        self.stack.push(index);
        if self.stack.len() >= CACHE {
            self.spill();
        }
    }

    /// Frees the heads of `n` packets, whose records are at `records`, but not the later buffers of their chains.
    ///
    /// # Safety
    /// `records[..n]` are valid, and the caller does not use them again: their buffers belong to the pool
    /// after this.
    pub(crate) unsafe fn free_plain(&mut self, records: *const Record, n: usize) {
        for i in 0..n {
            // SAFETY: the caller guarantees the first n records.
            let index = unsafe { (*records.add(i)).buf };
            debug_mark(index, false);
            self.stack.push(index);
        }
        self.count_freed(n);
        if self.stack.len() >= CACHE {
            self.spill();
        }
    }

    #[cold]
    pub(crate) fn free_tail(&mut self, head: u32) {
        walk_tail(head, |index| self.put(index));
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.give(self.stack.len());
    }
}
