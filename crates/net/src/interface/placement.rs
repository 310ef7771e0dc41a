//! Receive queues. For each queue: the worker that polls it, its receive mode, and whether its flows are
//! spread over the workers.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use buf::{Gone, RxQueue};
use graph::{Eager, RxMode};

/// Conditions under which the flows of a receive queue are spread over the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handoff {
    /// If the queue's worker is overloaded, and the device has fewer queues than there are workers.
    #[default]
    Auto,
    /// Always, if there is more than one worker.
    On,
    /// Never.
    Off,
}

/// The assignment of a receive queue: its worker, its receive mode, and whether its flows are spread over the
/// workers (handoff).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attention {
    /// The worker that polls the queue.
    pub worker: usize,
    /// True if the operator chose the worker.
    pub chosen: bool,
    /// The receive mode.
    pub mode: RxMode,
    /// The operator's handoff mode.
    pub handoff: Handoff,
    /// True if the queue's flows are spread at present.
    pub spread: bool,
    /// True while no worker polls the queue, because work is being moved between workers.
    pub paused: bool,
}

/// A receive queue.
pub struct RxSlot {
    /// Index of the device's interface.
    pub interface: u32,
    /// The queue's number among the device's queues.
    pub number: usize,
    /// The number of the device's queues.
    pub of: usize,
    /// Name of the input node that polls the queue.
    pub node: &'static str,
    /// The file descriptor on which the worker can sleep; `None` if the queue must be polled.
    pub fd: Option<OwnedFd>,
    attention: Mutex<Attention>,
    queue: Mutex<Box<dyn RxQueue>>,
    gone: Mutex<Option<Gone>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic cannot leave these values half-written. A panic in a driver leaves its queue between two packets at
    // worst.
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl RxSlot {
    /// Creates the slot of a receive queue. `(number, of)` are the queue's number and the number of the
    /// device's queues. `worker` polls the queue.
    ///
    /// # Errors
    /// Fails if the queue's file descriptor cannot be duplicated.
    pub fn new(
        interface: u32,
        (number, of): (usize, usize),
        worker: usize,
        node: &'static str,
        queue: Box<dyn RxQueue>,
    ) -> io::Result<RxSlot> {
        let fd = queue.fd().map(|fd| fd.try_clone_to_owned()).transpose()?;
        let (mode, handoff) = (RxMode::Adaptive, Handoff::Auto);
        let attention = Attention { worker, chosen: false, mode, handoff, spread: false, paused: false };
        let (queue, attention, gone) = (Mutex::new(queue), Mutex::new(attention), Mutex::new(None));
        Ok(RxSlot { interface, number, of, node, fd, attention, queue, gone })
    }

    /// Returns the queue's assignment.
    pub fn attention(&self) -> Attention {
        *lock(&self.attention)
    }

    /// Sets the queue's assignment, before any worker knows the queue.
    pub(crate) fn attend(&self, attention: Attention) {
        *lock(&self.attention) = attention;
    }

    /// Returns how promptly the worker must serve the queue: the receive mode and, in adaptive mode, the
    /// queue's depth. The depth may change with the device's link.
    pub fn eager(&self) -> Eager {
        let mode = self.attention().mode;
        Eager { mode, depth: if mode == RxMode::Adaptive { self.queue().depth() } else { usize::MAX } }
    }

    /// Returns the queue, locked. There is contention only while the queue moves between workers.
    pub fn queue(&self) -> MutexGuard<'_, Box<dyn RxQueue>> {
        lock(&self.queue)
    }

    /// Marks the device as vanished.
    pub fn set_gone(&self, why: Gone) {
        *lock(&self.gone) = Some(why);
    }

    /// Returns why the device vanished; `None` if it did not.
    pub fn gone(&self) -> Option<Gone> {
        lock(&self.gone).clone()
    }
}

/// All receive queues. Input nodes keep a copy of their own queues. In each iteration of a worker's loop,
/// they compare the [version](Self::version) to notice changes.
#[derive(Clone, Default)]
pub struct Placement(Arc<(AtomicU64, Mutex<Vec<Arc<RxSlot>>>)>);

impl Placement {
    /// Returns the version, which every change increments.
    #[inline(always)]
    pub fn version(&self) -> u64 {
        self.0.0.load(Ordering::Acquire)
    }

    /// Returns the present queues.
    pub fn slots(&self) -> Vec<Arc<RxSlot>> {
        lock(&self.0.1).clone()
    }

    /// Adds or removes queues.
    pub fn change(&self, f: impl FnOnce(&mut Vec<Arc<RxSlot>>)) {
        f(&mut lock(&self.0.1));
        self.ask_again();
    }

    /// Makes the workers read again how promptly they must serve each queue ([`RxSlot::eager`]).
    pub fn ask_again(&self) {
        self.0.0.fetch_add(1, Ordering::Release);
    }

    /// Calls `f` for each queue, to change the queue's assignment.
    pub fn attend(&self, mut f: impl FnMut(&RxSlot, &mut Attention)) {
        for slot in self.slots() {
            f(&slot, &mut lock(&slot.attention));
        }
        self.ask_again();
    }
}
