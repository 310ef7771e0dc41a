//! Packets of one worker that wait for the Ethernet address of their next hop.
//!
//! Every limit is fixed, and all memory is reserved at the start: a scan of a large network can fill this
//! memory, but not use more. If the queue is full, packets are dropped as described at [`HoldQueue::hold`].

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use buf::{Held, Pool};

/// A next hop: its interface and its address.
pub type NextHop<A> = (u32, A);

const SECOND: u64 = 1_000_000_000;
/// Minimum time between two requests by one worker to resolve the same next hop, in nanoseconds.
const ASK_INTERVAL: u64 = SECOND;
/// Time for which packets to a next hop that did not answer are refused without a new request, in
/// nanoseconds.
const FAILED_FOR: u64 = SECOND;
/// Time in nanoseconds after which all packets for a next hop are dropped, if packets have waited for this next hop without interruption.
/// It is longer than the time after which the main thread gives up a next hop.
pub const LIFE: u64 = 5 * SECOND;
/// Time between two searches for packets that waited too long, in nanoseconds.
const SWEEP: u64 = SECOND / 10;
/// The waiting packets of all workers may use 1/`PART` of the pool's buffers. A packet may have dozens of
/// buffers, so a limit on the number of packets is not enough.
const PART: usize = 4;
const NONE: u32 = u32::MAX;

/// The reason why a packet is not held, or is held no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The packet was the oldest of too many packets for one next hop.
    Displaced,
    /// Packets waited for too many next hops, and this packet's next hop was among the oldest.
    Recycled,
    /// Too many packets wait.
    Full,
    /// The waiting packets use all the buffers that they may use.
    Buffers,
}

/// The limits of a [`HoldQueue`].
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of packets for one next hop.
    pub per_hop: u32,
    /// Maximum number of next hops.
    pub hops: u32,
    /// Maximum number of packets in total.
    pub packets: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { per_hop: 64, hops: 1024, packets: 4096 }
    }
}

/// The part of a buffer pool that the waiting packets of all workers may use together.
pub struct Share {
    pool: Pool,
    taken: AtomicUsize,
}

impl Share {
    /// Returns the share of a pool. No buffer of the share is in use yet.
    pub fn of(pool: &Pool) -> Arc<Share> {
        Arc::new(Share { pool: pool.clone(), taken: AtomicUsize::new(0) })
    }

    fn take(&self, buffers: usize) -> bool {
        let limit = self.pool.total() / PART;
        let more = |taken| Some(taken + buffers).filter(|all| *all <= limit);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, buffers: usize) {
        self.taken.fetch_sub(buffers, Ordering::Relaxed);
    }
}

/// A slot for a packet. It is in the list of the packet's next hop, or in the free list.
struct Place {
    packet: Option<Held>,
    buffers: usize,
    next: u32,
}

#[derive(Clone, Copy)]
struct Hop<A> {
    /// The next hop; `None` if the slot is free.
    key: Option<NextHop<A>>,
    head: u32,
    tail: u32,
    len: u32,
    /// Time in nanoseconds since which packets have waited for this next hop without interruption.
    since: u64,
    /// The main thread is not asked again before this time.
    asked_until: u64,
    /// Until this time, packets for the next hop are refused, because it did not answer.
    failed_until: u64,
}

impl<A> Hop<A> {
    const UNUSED: Hop<A> =
        Hop { key: None, head: NONE, tail: NONE, len: 0, since: 0, asked_until: 0, failed_until: 0 };
}

/// The packets of one worker that wait for their next hops.
pub struct HoldQueue<A> {
    limits: Limits,
    share: Arc<Share>,
    places: Vec<Place>,
    free_place: u32,
    hops: Vec<Hop<A>>,
    free_hops: Vec<u32>,
    index: HashMap<NextHop<A>, u32>,
    /// Number of waiting packets.
    len: usize,
    /// The slot of a next hop that is reused next if all slots are in use.
    victim: usize,
    next_sweep: u64,
}

impl<A: Copy + Eq + Hash> HoldQueue<A> {
    /// Returns an empty queue. Its memory is reserved now, but touched only when it is needed.
    pub fn new(limits: Limits, share: Arc<Share>) -> HoldQueue<A> {
        HoldQueue {
            share,
            places: Vec::with_capacity(limits.packets as usize),
            free_place: NONE,
            hops: Vec::with_capacity(limits.hops as usize),
            free_hops: Vec::with_capacity(limits.hops as usize),
            // Twice the needed capacity, so that removals never make it grow.
            index: HashMap::with_capacity(2 * limits.hops as usize),
            len: 0,
            victim: 0,
            next_sweep: 0,
            limits,
        }
    }

    /// Returns the number of waiting packets.
    pub fn len(&self) -> usize {
        self.len
    }

    fn hop_mut(&mut self, key: NextHop<A>) -> Option<(u32, &mut Hop<A>)> {
        let at = *self.index.get(&key)?;
        Some((at, self.hops.get_mut(at as usize)?))
    }

    /// True if the next hop has recently failed to answer.
    pub fn failed(&self, now: u64, key: NextHop<A>) -> bool {
        let hop = self.index.get(&key).and_then(|at| self.hops.get(*at as usize));
        hop.is_some_and(|h| h.failed_until > now)
    }

    /// Holds a packet until its next hop is resolved. Returns true if the main thread should be [asked](Self::asked) to resolve the
    /// next hop.
    ///
    /// If a limit is reached, passes packets to `refuse`:
    /// - the oldest packet for this next hop, if too many packets wait for it
    /// - all packets for one of the oldest next hops, if packets wait for too many next hops
    /// - this packet, if too many packets wait in total, or if they use too many buffers
    pub fn hold(
        &mut self,
        now: u64,
        key: NextHop<A>,
        packet: Held,
        mut refuse: impl FnMut(Refused, Held),
    ) -> bool {
        let Some(at) = self.hop_for(key, &mut refuse) else {
            refuse(Refused::Full, packet);
            return false;
        };
        if self.hops[at as usize].len >= self.limits.per_hop
            && let Some(oldest) = self.pop(at)
        {
            refuse(Refused::Displaced, oldest);
        }
        match self.place_for(packet) {
            Ok(place) => self.append(now, at, place),
            Err((why, packet)) => refuse(why, packet),
        }
        self.hops[at as usize].asked_until <= now
    }

    /// Records that the main thread was asked to resolve a next hop.
    pub fn asked(&mut self, now: u64, key: NextHop<A>) {
        if let Some((_, hop)) = self.hop_mut(key) {
            hop.asked_until = now + ASK_INTERVAL;
        }
    }

    /// Passes every packet that waits for a next hop to `each`, in order. The request for this next hop
    /// counts as answered, so that the next packet to be held causes a new request.
    pub fn release(&mut self, key: NextHop<A>, mut each: impl FnMut(Held)) {
        let Some((at, hop)) = self.hop_mut(key) else { return };
        (hop.failed_until, hop.asked_until) = (0, 0);
        while let Some(packet) = self.pop(at) {
            each(packet);
        }
    }

    /// Like [`release`](Self::release), for a next hop that did not answer: more packets to it are refused
    /// for a while.
    pub fn fail(&mut self, now: u64, key: NextHop<A>, each: impl FnMut(Held)) {
        self.release(key, each);
        if let Some((_, hop)) = self.hop_mut(key) {
            hop.failed_until = now + FAILED_FOR;
            hop.asked_until = hop.failed_until;
        }
    }

    /// Removes all waiting packets and passes them to `each`, in order for each next hop.
    pub fn take_all(&mut self, mut each: impl FnMut(Held)) {
        for at in 0..self.hops.len() as u32 {
            while let Some(packet) = self.pop(at) {
                each(packet);
            }
            self.forget(at);
        }
    }

    /// Passes all packets for a next hop to `each` if packets have waited for this next hop without interruption for [`LIFE`]. Does this at
    /// most once in 100 milliseconds. Frees the slots of next hops without packets, unless the next hop was recently requested or has
    /// recently failed.
    pub fn sweep(&mut self, now: u64, mut each: impl FnMut(Held)) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + SWEEP;
        for at in 0..self.hops.len() as u32 {
            let hop = self.hops[at as usize];
            if hop.len > 0 && now >= hop.since + LIFE {
                while let Some(packet) = self.pop(at) {
                    each(packet);
                }
            }
            let hop = self.hops[at as usize];
            if hop.key.is_some() && hop.len == 0 && hop.asked_until.max(hop.failed_until) <= now {
                self.forget(at);
            }
        }
    }

    fn hop_for(&mut self, key: NextHop<A>, refuse: &mut impl FnMut(Refused, Held)) -> Option<u32> {
        if let Some(at) = self.index.get(&key) {
            return Some(*at);
        }
        if self.free_hops.is_empty() {
            if self.hops.len() < self.limits.hops as usize {
                self.free_hops.push(self.hops.len() as u32);
                self.hops.push(Hop::UNUSED);
            } else {
                // Slots are used in rotation, so the next hop in this slot is among the oldest.
                let victim = self.victim as u32;
                self.victim = (self.victim + 1) % self.hops.len().max(1);
                while let Some(packet) = self.pop(victim) {
                    refuse(Refused::Recycled, packet);
                }
                self.forget(victim);
            }
        }
        let at = self.free_hops.pop()?;
        *self.hops.get_mut(at as usize)? = Hop { key: Some(key), ..Hop::UNUSED };
        self.index.insert(key, at);
        Some(at)
    }

    fn forget(&mut self, at: u32) {
        if let Some(hop) = self.hops.get_mut(at as usize)
            && let Some(key) = hop.key
        {
            self.index.remove(&key);
            *hop = Hop::UNUSED;
            self.free_hops.push(at);
        }
    }

    fn place_for(&mut self, mut packet: Held) -> Result<u32, (Refused, Held)> {
        if self.free_place == NONE && self.places.len() >= self.limits.packets as usize {
            return Err((Refused::Full, packet));
        }
        let buffers = packet.packet().buffers();
        if !self.share.take(buffers) {
            return Err((Refused::Buffers, packet));
        }
        let taken = Place { packet: Some(packet), buffers, next: NONE };
        if let Some(place) = self.places.get_mut(self.free_place as usize) {
            let free = std::mem::replace(place, taken);
            return Ok(std::mem::replace(&mut self.free_place, free.next));
        }
        self.places.push(taken);
        Ok(self.places.len() as u32 - 1)
    }

    fn append(&mut self, now: u64, at: u32, place: u32) {
        self.len += 1;
        let hop = &mut self.hops[at as usize];
        hop.len += 1;
        let last = std::mem::replace(&mut hop.tail, place);
        if last == NONE {
            (hop.head, hop.since) = (place, now);
        } else {
            self.places[last as usize].next = place;
        }
    }

    fn pop(&mut self, at: u32) -> Option<Held> {
        let hop = self.hops.get_mut(at as usize)?;
        let place = self.places.get_mut(hop.head as usize)?;
        let at = std::mem::replace(&mut hop.head, place.next);
        hop.len -= 1;
        self.len -= 1;
        if hop.head == NONE {
            hop.tail = NONE;
        }
        self.share.give_back(place.buffers);
        place.next = std::mem::replace(&mut self.free_place, at);
        place.packet.take()
    }
}

#[cfg(test)]
impl<A: Copy + Eq + Hash> HoldQueue<A> {
    /// True if a slot is used for this next hop.
    pub fn knows(&self, key: NextHop<A>) -> bool {
        self.index.contains_key(&key)
    }
}

impl<A> Drop for HoldQueue<A> {
    fn drop(&mut self) {
        for (packet, buffers) in self.places.drain(..).filter_map(|p| Some((p.packet?, p.buffers))) {
            packet.discard();
            self.share.give_back(buffers);
        }
    }
}

/// A worker's queue, which its two nodes for waiting packets share.
pub struct Shared<A>(Arc<Mutex<HoldQueue<A>>>);

impl<A> Clone for Shared<A> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<A> Shared<A> {
    /// Locks the queue and returns it. Both nodes run on the same worker, so the lock does not block.
    pub fn lock(&self) -> MutexGuard<'_, HoldQueue<A>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// The part of the buffer pool that the queues of both families may use. It is created with the first queue.
pub type Budget = Arc<OnceLock<Arc<Share>>>;

/// The queue of each worker, for the creation of the nodes that share it.
pub struct Queues<A>(Arc<Mutex<Made<A>>>);

struct Made<A> {
    by_worker: HashMap<usize, Weak<Mutex<HoldQueue<A>>>>,
    budget: Budget,
}

impl<A> Clone for Queues<A> {
    fn clone(&self) -> Self {
        Queues(self.0.clone())
    }
}

impl<A> Queues<A> {
    /// Returns an empty set of queues that will share this budget.
    pub fn new(budget: &Budget) -> Queues<A> {
        Queues(Arc::new(Mutex::new(Made { by_worker: HashMap::new(), budget: Arc::clone(budget) })))
    }
}

impl<A: Copy + Eq + Hash> Queues<A> {
    /// Removes all packets that wait on a removed worker and passes them to `each`, in order for each next
    /// hop.
    pub fn take(&self, worker: usize, mut each: impl FnMut(Held)) {
        let made = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let Some(queue) = made.by_worker.get(&worker).and_then(Weak::upgrade) else { return };
        Shared(queue).lock().take_all(&mut each);
    }

    /// Returns the queue of a worker; `pool` has the buffers of its packets. The queue is created for the
    /// worker's first node, and freed with the last one.
    pub fn of(&self, worker: usize, pool: &Pool) -> Shared<A> {
        let mut made = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(queue) = made.by_worker.get(&worker).and_then(Weak::upgrade) {
            return Shared(queue);
        }
        let share = made.budget.get_or_init(|| Share::of(pool)).clone();
        let queue = Arc::new(Mutex::new(HoldQueue::new(Limits::default(), share)));
        made.by_worker.insert(worker, Arc::downgrade(&queue));
        Shared(queue)
    }
}

#[cfg(test)]
mod tests;
