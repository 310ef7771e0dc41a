//! Pools of buffers, and each thread's cache of them.
//!
//! A [`Pool`] has a configurable size and grows by regions. Threads allocate and free through a [`Cache`]: a
//! stack, last in first out, so that the next buffer is one whose lines are still in the CPU's cache. The
//! shared depot behind it is locked once for [`BATCH`] buffers, and separates the buffers that devices may
//! use. Any thread may free any buffer. A buffer freed into a cache of another pool stays there: checking its
//! pool would cost a cache miss per packet.
//!
//! The caches of idle threads can hold every free buffer of a small pool. So a cache that is short of buffers asks the others. Each of them
//! then moves half of its buffers to the depot in the next iteration of its thread's loop ([`Cache::share`]). If a thread keeps asking, the
//! caches of idle threads are empty after at most nine iterations of those threads, because a cache holds fewer than 2^9 buffers.

mod cache;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use infra::mem::PageSize;

use crate::arena::{self, Region};
use crate::depot::Depot;
use crate::layout::DATA;
use crate::record::{Flags, NO_INTERFACE, Record};
use crate::window::Window;

pub use cache::{Cache, Tally};

/// Number of buffers moved between a cache and the depot at once.
pub const BATCH: usize = 256;
/// A cache with this many buffers returns all but [`BATCH`] of them to the depot.
const CACHE: usize = 2 * BATCH;

/// Number of times that a cache was short of buffers. Each thread reads the number in every iteration of its loop, but it is
/// written only when buffers have run out. So it is on its own pair of cache lines, apart from data written more often.
#[derive(Default)]
#[repr(align(128))]
struct Shortages(AtomicUsize);

/// Pools by number, so that a buffer freed without a cache finds its pool. Numbers are never reused: a packet
/// may outlive its pool.
static POOLS: Mutex<BTreeMap<u32, Weak<Shared>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU32 = AtomicU32::new(1);
/// Number of packets that were lost because a [`Held`](crate::Held) or [`Frame`](crate::Frame) that contained them was dropped.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Returns the number of packets since the process started that were lost because a [`Held`](crate::Held) or [`Frame`](crate::Frame) that
/// contained them was dropped. While the router runs, a number other than 0 is a bug.
pub fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

struct Shared {
    number: u32,
    /// The memory of the initial buffers.
    window: Window,
    /// Number of initial buffers.
    buffers: usize,
    depot: Mutex<Depot>,
    regions: Mutex<Vec<Region>>,
    /// Held while buffers are added.
    growing: Mutex<()>,
    total: AtomicUsize,
    refused: AtomicU64,
    lost: AtomicU64,
    shortages: Shortages,
    /// Number of buffers in each cache, written by the cache's owner after each batch of work.
    cached: Mutex<Vec<Weak<AtomicUsize>>>,
    /// Number of buffers lent to each device queue, written by the queue's owner.
    lent: Mutex<Vec<Weak<AtomicUsize>>>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock is held leaves plain integers behind, never a broken structure.
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// Adds a new counter to `list` and returns it. Removes counters without owners from `list`.
fn counter(list: &Mutex<Vec<Weak<AtomicUsize>>>) -> Arc<AtomicUsize> {
    let new = Arc::new(AtomicUsize::new(0));
    let mut list = lock(list);
    list.retain(|w| w.strong_count() > 0);
    list.push(Arc::downgrade(&new));
    new
}

fn sum(list: &Mutex<Vec<Weak<AtomicUsize>>>) -> usize {
    lock(list).iter().filter_map(Weak::upgrade).map(|c| c.load(Ordering::Relaxed)).sum()
}

/// A pool of buffers. Clones are handles on the same pool.
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

/// Statistics of the initial buffers of a pool, or of the buffers added later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of buffers.
    pub total: usize,
    /// Number of free buffers: those in the depot.
    pub free: usize,
    /// The page size of the buffers' memory. If the memory has several page sizes, the worst of them.
    pub page: PageSize,
}

/// The numbers shown by `show buffers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStats {
    /// Number of buffers.
    pub total: usize,
    /// Buffers in the depot.
    pub free: usize,
    /// Buffers in threads' caches.
    pub cached: usize,
    /// Buffers lent to devices, to fill or to send.
    pub lent: usize,
    /// Buffers that belong to packets.
    pub used: usize,
    /// Allocations refused because no buffer was free.
    pub refused: u64,
    /// Packets that were lost because a [`Held`](crate::Held) or [`Frame`](crate::Frame) that contained them was dropped: a bug if it is
    /// not 0.
    pub lost: u64,
    /// The initial buffers. They are in the [`window`](Pool::window), so devices may use them.
    pub window: Part,
    /// The buffers that were added to the pool later, if any.
    pub added: Option<Part>,
}

impl Pool {
    /// Makes a pool of `buffers` buffers, with its memory already touched.
    ///
    /// # Errors
    /// If memory or address space is not available.
    pub fn new(buffers: usize) -> io::Result<Pool> {
        let region = arena::map(buffers)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let window = Window::new(region.segment.at, region.segment.len);
        let depot = Depot::new(window, region.prepare(number), CACHE);
        let shared = Arc::new(Shared {
            number,
            window,
            buffers,
            depot: Mutex::new(depot),
            regions: Mutex::new(vec![region]),
            growing: Mutex::default(),
            total: AtomicUsize::new(buffers),
            refused: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            shortages: Shortages::default(),
            cached: Mutex::default(),
            lent: Mutex::default(),
        });
        lock(&POOLS).insert(number, Arc::downgrade(&shared));
        Ok(Pool(shared))
    }

    /// Adds `buffers` buffers while packets pass. This takes time in proportion to the added memory, so call
    /// it on a thread without other work. Workers only wait while the list of free added buffers is copied.
    ///
    /// # Errors
    /// If memory or address space is not available; the pool is unchanged then.
    pub fn grow(&self, buffers: usize) -> io::Result<()> {
        let _alone = lock(&self.0.growing);
        let before = self.total() - self.0.buffers;
        // Room for all buffers ever added, so that freeing a buffer never waits for memory.
        let all = before.checked_add(buffers).and_then(|n| n.checked_add(CACHE));
        let mut added = Vec::new();
        added.try_reserve_exact(all.unwrap_or(usize::MAX)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let region = arena::map(buffers)?;
        // Touched from the first to the last, so that no page fault occurs while the depot is locked.
        added.resize(added.capacity(), 0);
        added.clear();
        added.extend(region.prepare(self.0.number));
        lock(&self.0.regions).push(region);
        let mut depot = lock(&self.0.depot);
        let replaced = depot.add(added);
        self.0.total.fetch_add(buffers, Ordering::Relaxed);
        drop(depot);
        // Frees the memory of the old list while no lock is held.
        drop(replaced);
        Ok(())
    }

    /// Returns a cache for one thread.
    pub fn cache(&self) -> Cache {
        Cache::new(self, counter(&self.0.cached))
    }

    /// Returns a counter for the buffers of a device queue.
    pub(crate) fn lender(&self) -> Arc<AtomicUsize> {
        counter(&self.0.lent)
    }

    /// Returns the memory of the initial buffers. Buffers that were added later are not in it.
    pub fn window(&self) -> Window {
        self.0.window
    }

    /// Returns the memory of the [`window`](Pool::window) as a file that other processes can map. The file
    /// begins with the window's first byte.
    ///
    /// # Errors
    /// If the process has no descriptor left. Under miri, always: the buffers have no file.
    pub fn file(&self) -> io::Result<OwnedFd> {
        let regions = lock(&self.0.regions);
        let file = regions.first().and_then(|r| r.segment.fd.as_ref());
        file.ok_or_else(|| io::Error::other("the buffers are not backed by a file"))?.try_clone()
    }

    /// Number of buffers.
    pub fn total(&self) -> usize {
        self.0.total.load(Ordering::Relaxed)
    }

    /// Returns the numbers of free, cached, lent and used buffers. They are exact only while no packet moves.
    pub fn stats(&self) -> PoolStats {
        let s = &*self.0;
        // `grow` adds to the total only while it holds this lock. So the depot and the total are consistent.
        let depot = lock(&s.depot);
        let ((home, others), total) = (depot.lens(), self.total());
        drop(depot);
        let (free, added) = (home + others, total - s.buffers);
        let (cached, lent) = (sum(&s.cached), sum(&s.lent));
        let regions = lock(&s.regions);
        let (start, since) = regions.split_at(1);
        let part = |total, free, regions: &[Region]| {
            let page = regions.iter().map(|r| r.segment.page).max().unwrap_or(PageSize::Small);
            Part { total, free, page }
        };
        PoolStats {
            total,
            free,
            window: part(s.buffers, home, start),
            added: (added > 0).then(|| part(added, others, since)),
            cached,
            lent,
            used: total.saturating_sub(free + cached + lent),
            refused: s.refused.load(Ordering::Relaxed),
            lost: s.lost.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        lock(&POOLS).remove(&self.number);
        // The address range is reused only if each buffer was returned exactly once. Otherwise a packet still
        // owns a buffer; then the memory stays mapped forever, so that no buffer gets two owners.
        let regions = std::mem::take(self.regions.get_mut().unwrap_or_else(|e| e.into_inner()));
        let mut home = self.depot.get_mut().unwrap_or_else(|e| e.into_inner()).all();
        home.sort_unstable();
        let mut own: Vec<u32> = regions.iter().flat_map(|r| r.indexes()).collect();
        own.sort_unstable();
        if home == own {
            regions.into_iter().for_each(arena::give_back);
        } else {
            regions.into_iter().for_each(std::mem::forget);
        }
    }
}

/// Returns a record for a newly taken buffer.
#[inline(always)]
pub(crate) fn fresh(index: u32) -> Record {
    Record {
        buf: index,
        off: DATA as u16,
        len: 0,
        flags: Flags::NONE,
        fib: 0,
        rx_if: NO_INTERFACE,
        tx_if: NO_INTERFACE,
        fwd: 0,
        hash: 0,
        l3: 0,
        l2_len: 0,
        l4: 0,
    }
}

/// Releases the later buffers of the chain that begins at `head`. Calls `each` for every buffer that no other chain shares.
fn walk_tail(head: u32, mut each: impl FnMut(u32)) {
    // SAFETY: the caller owns the head; `next` was written by `fill_chained` with indexes of the pool.
    let mut next = unsafe { arena::link(head) }.next;
    while next != 0 {
        // SAFETY: the chain is a user of the buffer. The count is atomic because two chains on two threads may release the buffer at once;
        // only the last one touches it afterwards.
        let after = unsafe {
            let link = arena::link_ptr(next);
            let shares = AtomicU32::from_ptr(&raw mut (*link).shares);
            if shares.load(Ordering::Acquire) > 1 && shares.fetch_sub(1, Ordering::AcqRel) > 1 {
                // A chain that shares this buffer shares all buffers after it.
                return;
            }
            (*link).next
        };
        each(next);
        next = after;
    }
}

/// Frees a packet's buffers without using a cache. Each buffer goes to the pool whose number it has. `lost` is true for a packet that was
/// dropped, which is counted as lost.
#[cold]
pub(crate) fn free_far(record: &Record, lost: bool) {
    if lost {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
    let mut all = Vec::new();
    if record.flags.any(Flags::CHAINED) {
        walk_tail(record.buf, |i| all.push(i));
    }
    all.push(record.buf);
    for index in all {
        debug_mark(index, false);
        // SAFETY: the record owned the buffer until now.
        let number = unsafe { arena::link(index) }.pool;
        let pool = lock(&POOLS).get(&number).and_then(Weak::upgrade);
        // Buffers that outlive their pool are never reused, and neither is the pool's memory.
        if let Some(shared) = pool {
            shared.lost.fetch_add(u64::from(lost && index == record.buf), Ordering::Relaxed);
            lock(&shared.depot).give([index].into_iter());
        }
    }
}

/// Records whether a buffer is allocated (`out`) or free. Only debug builds do this. They panic if a buffer is taken or freed twice.
#[inline(always)]
fn debug_mark(index: u32, out: bool) {
    if cfg!(debug_assertions) {
        // SAFETY: the caller owns the buffer: it was just taken from a pool, or is being freed into one.
        let link = unsafe { arena::link(index) };
        assert_eq!(
            link.allocated,
            !out as u8,
            "buffer {index} is {} twice",
            if out { "taken" } else { "freed" }
        );
        link.allocated = out as u8;
    }
}
