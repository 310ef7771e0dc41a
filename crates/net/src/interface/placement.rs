//! Receive queues: who polls which, how eagerly, and whether its packets are shared out.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use buf::{Gone, RxQueue};
use graph::{Eager, RxMode};

/// Whether the flows of a queue are shared out between the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handoff {
    /// When its worker cannot do all the work, and its device has fewer queues than there are workers.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// How a queue is attended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attention {
    /// The worker that polls it.
    pub worker: usize,
    /// Whether the operator chose the worker.
    pub chosen: bool,
    /// How eagerly it is polled.
    pub mode: RxMode,
    /// What the operator said about sharing its packets out.
    pub handoff: Handoff,
    /// Whether they are shared out now.
    pub spread: bool,
    /// Nobody polls it for a moment, while work moves from one worker to another.
    pub paused: bool,
}

/// A receive queue.
pub struct RxSlot {
    /// Index of the device's interface.
    pub interface: u32,
    /// Its number among the device's queues.
    pub number: usize,
    /// How many queues the device has.
    pub of: usize,
    /// The input node that polls it.
    pub node: &'static str,
    /// What to sleep on; `None`: the queue has to be polled.
    pub fd: Option<OwnedFd>,
    attention: Mutex<Attention>,
    queue: Mutex<Box<dyn RxQueue>>,
    gone: Mutex<Option<Gone>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole at every point where a panic could leave it; a panic in a driver leaves its
    // queue as it was between two packets at worst.
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl RxSlot {
    /// Queue `number` of `of` queues of `interface`, polled by `worker`.
    ///
    /// # Errors
    /// When its file cannot be duplicated.
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

    /// How it is attended to.
    pub fn attention(&self) -> Attention {
        *lock(&self.attention)
    }

    /// Has it attended to so, before it is anybody's.
    pub(crate) fn attend(&self, attention: Attention) {
        *lock(&self.attention) = attention;
    }

    /// What it asks of its worker. How much the queue has room for may change when its device's link does.
    pub fn eager(&self) -> Eager {
        let mode = self.attention().mode;
        Eager { mode, depth: if mode == RxMode::Adaptive { self.queue().depth() } else { usize::MAX } }
    }

    /// The queue; uncontended but while it moves from one worker to another.
    pub fn queue(&self) -> MutexGuard<'_, Box<dyn RxQueue>> {
        lock(&self.queue)
    }

    /// Notes that the device vanished.
    pub fn set_gone(&self, why: Gone) {
        *lock(&self.gone) = Some(why);
    }

    /// Why the device vanished, if it did.
    pub fn gone(&self) -> Option<Gone> {
        lock(&self.gone).clone()
    }
}

/// All receive queues. Input nodes keep a copy of their share, and look for a newer one once a turn.
#[derive(Clone, Default)]
pub struct Placement(Arc<(AtomicU64, Mutex<Vec<Arc<RxSlot>>>)>);

impl Placement {
    /// Counts the changes: a cheap way to see that there was one.
    #[inline(always)]
    pub fn version(&self) -> u64 {
        self.0.0.load(Ordering::Acquire)
    }

    /// The queues now.
    pub fn slots(&self) -> Vec<Arc<RxSlot>> {
        lock(&self.0.1).clone()
    }

    /// Changes which queues there are.
    pub fn change(&self, f: impl FnOnce(&mut Vec<Arc<RxSlot>>)) {
        f(&mut lock(&self.0.1));
        self.ask_again();
    }

    /// Has the workers ask all queues anew what they want.
    pub fn ask_again(&self) {
        self.0.0.fetch_add(1, Ordering::Release);
    }

    /// Changes how queues are attended to.
    pub fn attend(&self, mut f: impl FnMut(&RxSlot, &mut Attention)) {
        for slot in self.slots() {
            f(&slot, &mut lock(&slot.attention));
        }
        self.ask_again();
    }
}
