//! Each thread's cache of buffers, and the tally of the packets that pass it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{BATCH, CACHE, Pool, debug_mark, fresh, lock, walk_tail};
use crate::record::{Flags, Record};

/// Buffers of the window that are looked for in a cache at once.
const SOME: usize = 32;

/// One thread's stack of free buffers.
pub struct Cache {
    pool: Pool,
    stack: Vec<u32>,
    /// Shortages of the pool's caches that this one has shared its buffers for, and its own.
    answered: usize,
    fill: Arc<AtomicUsize>,
    tally: Tally,
}

/// What became of the packets that passed a cache. The graph keeps its books by it: debug builds check after each node that none
/// is lost.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Packets made (a packet of several buffers is one).
    pub made: u64,
    /// Packets freed, or put behind others.
    pub freed: u64,
    /// Packets that were put where no frame is, less those that came from there: see [`Cache::note_kept`].
    pub kept: i64,
}

impl Tally {
    /// Returns what was made, freed and kept since `before`. Packets kept less than then are a number modulo 2^64.
    #[inline(always)]
    pub fn since(self, before: Tally) -> [u64; 3] {
        let kept = self.kept.wrapping_sub(before.kept) as u64;
        [self.made.wrapping_sub(before.made), self.freed.wrapping_sub(before.freed), kept]
    }
}

impl Cache {
    /// An empty cache of `pool`, which says in `fill` how full it is.
    pub(super) fn new(pool: &Pool, fill: Arc<AtomicUsize>) -> Cache {
        Cache {
            pool: pool.clone(),
            stack: Vec::with_capacity(CACHE + BATCH),
            answered: pool.0.shortages.0.load(Ordering::Relaxed),
            fill,
            tally: Tally::default(),
        }
    }

    /// The pool behind this cache.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// What was counted so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Says that so many packets more (less, if negative) than before are where no frame of this worker is: in a queue
    /// that a node keeps from one call to the next, in a device's ring, with another thread.
    ///
    /// Whoever puts packets there, or takes them out, says so. The graph counts it, and debug builds check after each node that all
    /// packets are accounted for.
    #[inline(always)]
    pub fn note_kept(&mut self, change: isize) {
        self.tally.kept += change as i64;
    }

    /// Says that a packet has become part of another one.
    #[inline(always)]
    pub(crate) fn note_merged(&mut self) {
        self.tally.freed += 1;
    }

    /// Takes the head of a new packet, `None` (and counted) when the pool is empty.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Record> {
        let record = self.take_segment();
        self.tally.made += u64::from(record.is_some());
        record
    }

    /// Takes one buffer, `None` (and counted) when the pool is empty.
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

    /// Makes sure that `n` ≤ [`BATCH`] buffers are in the cache if the pool has them; returns how many are.
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

    /// Whether `n` ≤ [`BATCH`] buffers lie here, or could be fetched: for whoever keeps some in reserve.
    pub fn has(&mut self, n: usize) -> bool {
        if self.stack.len() < n {
            self.refill(n);
        }
        self.stack.len() >= n
    }

    /// Takes the heads of `n` ≤ [`BATCH`] new packets, or of as many as there are, up to the first that is not wanted. Gives how many.
    #[inline]
    pub(crate) fn take_while(&mut self, n: usize, mut wanted: impl FnMut(u32) -> bool) -> usize {
        let n = self.prepare(n);
        // Should `wanted` panic, all of them are lost rather than owned twice.
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

    /// Gives the buffers of packets back that have only this one.
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

    /// Publishes how many buffers lie here. Called once per turn, not per packet.
    pub fn publish(&self) {
        self.fill.store(self.stack.len(), Ordering::Relaxed);
    }

    /// Gives half of the buffers here, except `keep`, to the depot if another cache was short of buffers since the last call. Called
    /// once per turn, not per packet.
    #[inline]
    pub fn share(&mut self, keep: usize) {
        let shortages = self.pool.0.shortages.0.load(Ordering::Relaxed);
        if self.answered != shortages {
            self.answered = shortages;
            self.give(self.stack.len().saturating_sub(keep).div_ceil(2));
        }
    }

    /// Fetches buffers from the depot. Asks the other caches for more if fewer than `n` are then here.
    #[cold]
    fn refill(&mut self, n: usize) {
        lock(&self.pool.0.depot).take(BATCH, &mut self.stack);
        if self.stack.len() < n {
            self.ask();
        }
        self.publish();
    }

    /// Asks the other caches to [share](Self::share).
    fn ask(&mut self) {
        self.pool.0.shortages.0.fetch_add(1, Ordering::Relaxed);
        // This cache would get back what it gave.
        self.answered = self.answered.wrapping_add(1);
    }

    #[cold]
    fn spill(&mut self) {
        self.give(self.stack.len() - BATCH);
    }

    /// Gives `n` buffers to the depot: those at the bottom of the stack, which are the coldest.
    #[cold]
    fn give(&mut self, n: usize) {
        if n > 0 {
            lock(&self.pool.0.depot).give(self.stack.drain(..n));
            self.publish();
        }
    }

    /// Has the next buffer be one of the window, for a device: one from deeper in the cache, or in exchange for others one of
    /// the depot's. `false` (and counted) when none is free. Costs a look at some of the cache for many buffers.
    #[cold]
    #[inline(never)]
    pub(crate) fn surface(&mut self) -> bool {
        // What lies from `at` to `top` is outside of the window, what lies above is inside.
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

    /// Gives a packet's buffers back.
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

    /// Frees `n` packets whose records lie at `records`, but not the tails that they may have.
    ///
    /// # Safety
    /// `records[..n]` are valid, and the caller forgets them: their buffers belong to the pool after this.
    pub(crate) unsafe fn free_plain(&mut self, records: *const Record, n: usize) {
        for i in 0..n {
            // SAFETY: the caller vouches for the first n records.
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
