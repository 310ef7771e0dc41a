//! State shared by the main thread and the queues of an interface. It includes the rings, which exist only during a connection.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use buf::{LentInOrder, Pool};
use infra::doorbell::Doorbell;

use super::Config;
use super::lending::Lending;
use super::patience::Patience;
use super::ring::{Fault, Memory, Ring};
use super::rx::RxRing;
use super::signal::{Pace, Signals, Watch};
use super::tx::TxRing;

/// A receive queue's rings. The queue locks them once per poll. The main thread locks them to connect, disconnect or
/// show them.
pub(super) struct RxPort {
    /// File that the worker sleeps on.
    pub(super) watch: Watch,
    pub(super) rings: Mutex<Vec<RxRing>>,
}

/// The shared state of an interface.
pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) rx: Vec<RxPort>,
    tx: Vec<Mutex<Option<TxRing>>>,
    /// Number of entries in `tx` that have a ring.
    rings_out: AtomicUsize,
    /// True if the interface is set up.
    up: AtomicBool,
    /// True if the device is closed.
    closed: AtomicBool,
    /// True if packets can pass.
    connected: AtomicBool,
    /// A fault of the peer that a queue has detected, as a code; 0 if there is none.
    fault: AtomicU8,
    pub(super) patience: Patience,
    pace: Arc<Pace>,
    /// Wakes the main thread after a change of this state.
    bell: Arc<Doorbell>,
}

pub(super) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock is held leaves at worst a broken ring, and its connection ends.
    m.lock().unwrap_or_else(|e| e.into_inner())
}

impl Shared {
    pub(super) fn new(config: Config, bell: Arc<Doorbell>) -> io::Result<Shared> {
        let port = |_| Ok(RxPort { watch: Watch::new()?, rings: Mutex::default() });
        Ok(Shared {
            rx: (0..config.rx_queues).map(port).collect::<io::Result<_>>()?,
            tx: (0..config.tx_queues).map(|_| Mutex::default()).collect(),
            config,
            rings_out: AtomicUsize::new(0),
            up: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            connected: AtomicBool::new(false),
            fault: AtomicU8::new(0),
            patience: Patience::default(),
            pace: Arc::default(),
            bell,
        })
    }

    /// Returns the ring that a transmit queue uses; `None` while there are no rings. Queues share a ring if there are more queues than
    /// rings.
    pub(super) fn tx_port(&self, queue: usize) -> Option<&Mutex<Option<TxRing>>> {
        let rings = self.rings_out.load(Ordering::Acquire);
        self.tx.get(queue.checked_rem(rings)?)
    }

    /// Records a fault of the peer. The main thread then disconnects it.
    #[cold]
    pub(super) fn fail(&self, fault: Fault) {
        self.fault.store(fault as u8, Ordering::Release);
        self.bell.ring();
    }

    /// Takes the recorded fault, if there is one.
    pub(super) fn take_fault(&self) -> Option<Fault> {
        Fault::from_code(self.fault.swap(0, Ordering::AcqRel))
    }

    pub(super) fn set_up(&self, up: bool) {
        self.up.store(up, Ordering::Release);
        self.bell.ring();
    }

    pub(super) fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.bell.ring();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }

    /// Gives the queues their rings. If `pool` is set, packets stay in its buffers.
    ///
    /// # Errors
    /// If the process cannot watch one of the peer's event descriptors; no ring is attached then.
    pub(super) fn attach(
        &self,
        rx: Vec<Ring>,
        tx: Vec<Ring>,
        signals: &Arc<Signals>,
        pool: Option<&Pool>,
    ) -> Result<(), String> {
        let lending = |ring: &Ring| pool.map(|pool| Lending::new(pool, ring.size()));
        rx.iter().chain(&tx).for_each(Ring::publish);
        self.fault.store(0, Ordering::Release);
        // A queue may lend buffers as soon as it has a ring, so all steps that can fail come first.
        let ports = || self.rx.iter().cycle();
        for (at, (port, ring)) in ports().zip(&rx).enumerate() {
            if let Err(e) = port.watch.add(ring.bell()) {
                ports().zip(&rx).take(at).for_each(|(port, ring)| port.watch.remove(ring.bell()));
                return Err(format!("cannot watch a receive ring's eventfd: {e}"));
            }
        }
        for (port, ring) in ports().zip(rx) {
            let lending = lending(&ring);
            lock(&port.rings).push(RxRing::new(ring, lending));
        }
        let mut out = 0;
        for (port, ring) in self.tx.iter().zip(tx) {
            let lending = lending(&ring);
            *lock(port) = Some(TxRing::new(ring, lending, signals.clone(), self.pace.clone()));
            out += 1;
        }
        self.rings_out.store(out, Ordering::Release);
        Ok(())
    }

    /// Sets the link up if the peer offers room for packets in every transmit ring. On a link that is up earlier, packets would be lost.
    /// With `at_last`, sets the link up in any case, because some clients offer their first buffers only then. Returns true if the link is
    /// up.
    pub(super) fn settle(&self, at_last: bool) -> bool {
        let rings = self.rings_out.load(Ordering::Acquire);
        let has_room = |port: &Mutex<Option<TxRing>>| {
            lock(port).as_ref().is_some_and(|tx| tx.ring.available().is_ok_and(|n| n > 0))
        };
        let settled = rings > 0 && (at_last || self.tx.iter().take(rings).all(has_room));
        if settled {
            self.connected.store(true, Ordering::Release);
        }
        settled
    }

    /// Takes the rings away from the queues, and drops them on the caller's thread. After that, the workers do not use the peer's
    /// memory. Returns the lent buffers, because the peer may still write to them.
    #[must_use]
    pub(super) fn detach(&self) -> Vec<LentInOrder> {
        let mut lent = Vec::new();
        self.connected.store(false, Ordering::Release);
        self.rings_out.store(0, Ordering::Release);
        for port in &self.rx {
            let rings = std::mem::take(&mut *lock(&port.rings));
            rings.iter().for_each(|r| port.watch.remove(r.ring.bell()));
            lent.extend(rings.into_iter().filter_map(|r| r.lending.map(Lending::into_lent)));
        }
        for port in &self.tx {
            let ring = lock(port).take();
            lent.extend(ring.and_then(|r| r.lending).map(Lending::into_lent));
        }
        lent
    }

    /// Returns an entry for each ring: true for a receive ring or false for a transmit ring, its number, and its memory. Callers
    /// can read the memory without blocking workers.
    pub(super) fn rings(&self) -> Vec<(bool, usize, Memory)> {
        let mut all = Vec::new();
        for (queue, port) in self.rx.iter().enumerate() {
            for (k, r) in lock(&port.rings).iter().enumerate() {
                all.push((true, queue + k * self.rx.len(), r.ring.memory().clone()));
            }
        }
        for (queue, port) in self.tx.iter().enumerate() {
            all.extend(lock(port).as_ref().map(|r| (false, queue, r.ring.memory().clone())));
        }
        all
    }
}
