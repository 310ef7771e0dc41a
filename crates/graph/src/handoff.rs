//! Handoff: one worker passes packets to another.
//!
//! There are two rings between every two workers, one for each direction, with one producer and one consumer. So passing a packet takes no
//! lock. The sending node has an [`Outbox`], and the receiving input node has an [`Inbox`]. Once per turn, both check whether workers have
//! joined or left ([`Exchange::join`], [`Exchange::leave`]), and take over the ends of new rings.
//!
//! Before work is reassigned between workers, all packets in the rings must have arrived: [`Exchange::settle`].
//!
//! A worker may sleep. It announces its sleep before it checks its rings for the last time. A sender rings the bell of a receiver that has
//! announced its sleep, once for all packets of a frame ([`Outbox::flush`]).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use buf::{Frame, Held};
use infra::doorbell::Doorbell;
use infra::quiesce::Domain;
use infra::ring::{Consumer, Gauge, Producer, spsc};
use infra::sync::atomic::{AtomicU64, Ordering};
use infra::sync::{Arc, Mutex, MutexGuard, lock, thread};

/// Capacity of a ring between two workers, in packets. It is small under loom, which tracks every cell.
pub const RING: usize = if cfg!(feature = "loom") { 2 } else { 2048 };

/// Numbers of the sending and the receiving worker.
type Pair = (usize, usize);

/// A bell that wakes a worker. Under loom, the bell still uses the atomics of the standard library. This is allowed because no memory
/// access is ordered by the bell.
type Bell = std::sync::Arc<Doorbell>;

/// The rings between the workers of a graph. The rings carry packets; in tests under loom, they carry items of a simpler type.
pub struct Exchange<T = Held>(Arc<Shared<T>>);

struct Shared<T> {
    /// Increases when a worker joins or leaves. A worker compares it with the last value that it saw, which is
    /// a cheap check for changes.
    version: AtomicU64,
    state: Mutex<State<T>>,
}

struct State<T> {
    bells: BTreeMap<usize, Bell>,
    gauges: BTreeMap<Pair, Gauge<T>>,
    /// The sending ends of rings that workers have not taken yet.
    producers: BTreeMap<Pair, Producer<T>>,
    /// The receiving ends of rings that workers have not taken yet.
    consumers: BTreeMap<Pair, Consumer<T>>,
}

impl<T> Clone for Exchange<T> {
    fn clone(&self) -> Self {
        Exchange(self.0.clone())
    }
}

impl<T> Default for Exchange<T> {
    fn default() -> Self {
        let state = State {
            bells: BTreeMap::new(),
            gauges: BTreeMap::new(),
            producers: BTreeMap::new(),
            consumers: BTreeMap::new(),
        };
        Exchange(Arc::new(Shared { version: AtomicU64::new(0), state: Mutex::new(state) }))
    }
}

impl<T: Send> State<T> {
    fn connect(&mut self, pair: Pair) {
        let (producer, consumer) = spsc(RING);
        self.gauges.insert(pair, producer.gauge());
        self.producers.insert(pair, producer);
        self.consumers.insert(pair, consumer);
    }
}

impl<T: Send> Exchange<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        // A panic while the lock is held leaves the maps consistent.
        lock(&self.0.state)
    }

    fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// Adds a worker, and creates rings between it and all others. `bell` wakes the worker.
    pub(crate) fn join(&self, worker: usize, bell: Bell) {
        let mut state = self.state();
        let others: Vec<usize> = state.bells.keys().copied().filter(|other| *other != worker).collect();
        for other in others {
            state.connect((worker, other));
            state.connect((other, worker));
        }
        state.bells.insert(worker, bell);
        self.0.version.fetch_add(1, Ordering::Release);
    }

    /// Removes a worker. The caller makes sure that no worker sends packets to it any more, and that the packets sent to it have
    /// [arrived](Self::settle).
    pub fn leave(&self, worker: usize) {
        let mut state = self.state();
        let stays = |(from, to): &Pair| *from != worker && *to != worker;
        state.bells.remove(&worker);
        state.gauges.retain(|pair, _| stays(pair));
        state.producers.retain(|pair, _| stays(pair));
        state.consumers.retain(|pair, _| stays(pair));
        self.0.version.fetch_add(1, Ordering::Release);
    }

    /// Returns the numbers of the current workers.
    pub fn workers(&self) -> Vec<usize> {
        self.state().bells.keys().copied().collect()
    }

    /// True if no packet is in a ring between workers. A worker may still be processing packets that it has received from a ring.
    pub fn is_empty(&self) -> bool {
        self.state().gauges.values().all(Gauge::is_empty)
    }

    /// Waits until the workers (the readers of `domain`) are done with all packets received before this call, in
    /// three steps: their current turns end, the rings between workers become empty, and the turns that took the
    /// last packets from the rings end. Returns false if one of these steps takes longer than `timeout`.
    pub fn settle(&self, domain: &Domain, timeout: Duration) -> bool {
        if !domain.synchronize(timeout) {
            return false;
        }
        let start = Instant::now();
        while !self.is_empty() {
            if start.elapsed() > timeout {
                return false;
            }
            thread::yield_now();
        }
        // This is needed even if the rings were empty at first: the worker that received the last packet may not be done with the packet.
        self.workers().len() < 2 || domain.synchronize(timeout)
    }

    /// Returns an outbox: the sending ends of all rings from `worker` to others.
    pub(crate) fn outbox(&self, worker: usize) -> Outbox<T> {
        Outbox { exchange: self.clone(), worker, version: 0, to: Vec::new() }
    }

    /// Returns an inbox: the receiving ends of all rings from others to `worker`.
    pub(crate) fn inbox(&self, worker: usize) -> Inbox<T> {
        Inbox { exchange: self.clone(), worker, version: 0, from: Vec::new(), next: 0 }
    }
}

/// The sending end of the ring to one worker, and the worker's bell.
struct Way<T> {
    ring: Producer<T>,
    bell: Bell,
    staged: bool,
}

/// A worker's outbox: sends packets to other workers.
pub struct Outbox<T = Held> {
    exchange: Exchange<T>,
    worker: usize,
    version: u64,
    /// The connections, by the number of the receiving worker.
    to: Vec<Option<Way<T>>>,
}

impl<T: Send> Outbox<T> {
    /// Checks whether workers have joined or left, and updates the connections. A node calls this before it sends packets, at least once
    /// per turn.
    #[inline(always)]
    pub fn refresh(&mut self) {
        if self.version != self.exchange.version() {
            self.take_ends();
        }
    }

    #[cold]
    fn take_ends(&mut self) {
        let mut state = self.exchange.state();
        self.version = self.exchange.version();
        let State { bells, producers, .. } = &mut *state;
        self.to.resize_with(bells.keys().max().map_or(0, |last| last + 1), || None);
        for (to, way) in self.to.iter_mut().enumerate() {
            let Some(bell) = bells.get(&to) else {
                *way = None;
                continue;
            };
            // A worker that left and joined again has another ring.
            if let Some(ring) = producers.remove(&(self.worker, to)) {
                *way = Some(Way { ring, bell: bell.clone(), staged: false });
            }
        }
    }

    /// Sends a packet to a worker. The worker sees the packet after [`flush`](Self::flush).
    ///
    /// # Errors
    /// Returns the packet if the ring is full, or if `worker` does not exist or is the sender itself.
    #[inline(always)]
    pub fn give(&mut self, worker: usize, packet: T) -> Result<(), T> {
        match self.to.get_mut(worker) {
            Some(Some(way)) => {
                way.staged = true;
                way.ring.stage(packet)
            }
            _ => Err(packet),
        }
    }

    /// Makes the packets visible to their receivers, and wakes receivers that sleep.
    pub fn flush(&mut self) {
        for way in self.to.iter_mut().flatten().filter(|way| way.staged) {
            way.staged = false;
            way.ring.publish();
            way.bell.ring_sleeper();
        }
    }
}

/// A worker's inbox: receives packets from other workers.
pub struct Inbox<T = Held> {
    exchange: Exchange<T>,
    worker: usize,
    version: u64,
    from: Vec<(usize, Consumer<T>)>,
    /// Position in `from` of the next worker to receive from.
    next: usize,
}

impl Inbox {
    /// Receives packets from one other worker, as many as fit, and appends them to `frame`. The next call receives from the next worker.
    /// Returns false after the call for the last worker, or if there is no other worker.
    #[inline(always)]
    pub fn take(&mut self, frame: &mut Frame) -> bool {
        let Some(ring) = self.ring() else { return false };
        while frame.room() > 0
            && let Some(packet) = ring.pop()
            && frame.push(packet).is_ok()
        {}
        self.next > 0
    }
}

impl<T: Send> Inbox<T> {
    /// Returns the ring from the next sending worker, in rotation; `None` if there is no other worker.
    #[inline(always)]
    pub(crate) fn ring(&mut self) -> Option<&mut Consumer<T>> {
        if self.version != self.exchange.version() {
            self.take_ends();
        }
        let at = self.next;
        self.next = if at + 1 < self.from.len() { at + 1 } else { 0 };
        self.from.get_mut(at).map(|(_, ring)| ring)
    }

    #[cold]
    fn take_ends(&mut self) {
        let mut state = self.exchange.state();
        self.version = self.exchange.version();
        self.next = 0;
        let State { bells, consumers, .. } = &mut *state;
        let worker = self.worker;
        self.from.retain(|(from, _)| bells.contains_key(from) && !consumers.contains_key(&(*from, worker)));
        let new: Vec<Pair> = consumers.keys().filter(|(_, to)| *to == worker).copied().collect();
        for pair in new {
            self.from.extend(consumers.remove(&pair).map(|ring| (pair.0, ring)));
        }
    }

    /// True if there is nothing to receive, and no worker has joined or left since the last [`take`](Inbox::take). A worker calls this
    /// after it has announced its sleep.
    pub fn is_empty(&self) -> bool {
        self.version == self.exchange.version() && self.from.iter().all(|(_, ring)| ring.is_empty())
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::sync::Arc;

    use buf::Pool;

    use super::*;

    fn all(inbox: &mut Inbox) -> Vec<u32> {
        let (mut frame, mut got) = (Frame::new(), Vec::new());
        while inbox.take(&mut frame) {}
        frame.drain(|mut packet| {
            got.push(packet.packet().fwd());
            packet.discard();
        });
        got
    }

    fn give(outbox: &mut Outbox, cache: &mut buf::Cache, worker: usize, number: u32) -> bool {
        outbox.refresh();
        let mut packet = Held::alloc(cache).expect("a buffer");
        packet.packet().set_fwd(number);
        let given = outbox.give(worker, packet).map_err(Held::discard).is_ok();
        outbox.flush();
        given
    }

    #[test]
    fn packets_reach_their_worker_in_order() {
        let pool = Pool::new(256).unwrap();
        let mut cache = pool.cache();
        let exchange = Exchange::default();
        let bell = || Arc::new(Doorbell::new().unwrap());
        let mut out = exchange.outbox(0);
        assert!(!give(&mut out, &mut cache, 1, 0), "there is no worker 1");
        (0..3).for_each(|worker| exchange.join(worker, bell()));
        let (mut one, mut two) = (exchange.inbox(1), exchange.inbox(2));
        for number in 0..20 {
            assert!(give(&mut out, &mut cache, 1 + number as usize % 2, number));
        }
        assert!(!give(&mut out, &mut cache, 0, 0), "a worker gives itself nothing");
        assert!(give(&mut exchange.outbox(2), &mut cache, 1, 99));
        assert!(!exchange.is_empty());
        assert_eq!(all(&mut one), (0..20).step_by(2).chain([99]).collect::<Vec<_>>());
        assert_eq!(all(&mut two), (1..20).step_by(2).collect::<Vec<_>>());
        assert!(exchange.is_empty() && one.is_empty());
    }

    #[test]
    fn a_full_ring_returns_the_packet() {
        let pool = Pool::new(RING + 512).unwrap();
        let mut cache = pool.cache();
        let exchange = Exchange::default();
        (0..2).for_each(|worker| exchange.join(worker, Arc::new(Doorbell::new().unwrap())));
        let (mut out, mut inbox) = (exchange.outbox(0), exchange.inbox(1));
        let given = (0..RING as u32 + 1).filter(|n| give(&mut out, &mut cache, 1, *n)).count();
        assert_eq!(given, RING);
        assert_eq!(all(&mut inbox).len(), buf::FRAME_SIZE, "one frame at a time");
        assert!(give(&mut out, &mut cache, 1, 0));
    }

    #[test]
    fn workers_join_and_leave() {
        let pool = Pool::new(64).unwrap();
        let mut cache = pool.cache();
        let exchange = Exchange::default();
        let bells: Vec<_> = (0..2).map(|_| Arc::new(Doorbell::new().unwrap())).collect();
        exchange.join(0, bells[0].clone());
        let (mut out, mut inbox) = (exchange.outbox(0), exchange.inbox(1));
        for round in 0..3 {
            exchange.join(1, bells[1].clone());
            assert!(!inbox.is_empty(), "a worker that has not seen the new worker must check again");
            assert!(give(&mut out, &mut cache, 1, round) && !bells[1].clear());
            assert_eq!(all(&mut inbox), [round]);
            bells[1].about_to_sleep();
            assert!(inbox.is_empty() && give(&mut out, &mut cache, 1, 7));
            assert!(bells[1].clear(), "a sleeping worker is woken");
            assert_eq!(all(&mut inbox), [7]);
            exchange.leave(1);
            assert!(!give(&mut out, &mut cache, 1, 0));
            assert_eq!(all(&mut inbox), []);
        }
    }
}
