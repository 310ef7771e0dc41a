//! Threads that only send, each through its own queue, for loads that one core cannot send.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use buf::{Frame, Pool, TxQueue};
use infra::clock::tsc;

use super::sending::{Sending, due_of_others};
use crate::host;
use crate::trial::Failure;

/// Send queues of each port, besides the first one.
pub(super) type Queues = Vec<Vec<Box<dyn TxQueue>>>;

/// A thread's flows and its send queue.
struct Lane {
    sending: Vec<Sending>,
    /// Position of each flow among all flows of the trial.
    places: Vec<usize>,
    tx: Box<dyn TxQueue>,
    port: usize,
    core: usize,
}

/// A thread's lane after the thread has ended, its delays, and whether it failed.
struct Done {
    lane: Lane,
    late: Late,
    result: Result<(), Failure>,
}

/// How far a sending thread fell behind its schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Late {
    /// Number of the thread's port.
    pub port: usize,
    /// Largest number of frames that were overdue at one time.
    pub overdue: u64,
    /// Time in which the thread was ready to run, but had no processor. `None` if the kernel does not count it.
    pub waited: Option<Duration>,
}

/// The threads of a trial.
pub(super) struct Lanes<'scope> {
    threads: Vec<ScopedJoinHandle<'scope, Done>>,
    running: &'scope AtomicUsize,
}

impl<'scope> Lanes<'scope> {
    /// Starts a thread for each queue, and moves the thread's flows out of `sending`; [`end`](Self::end) puts them back. The threads are
    /// assigned to `cores` in turn. Each thread ends by the time `stop`, in ticks.
    pub fn start(
        scope: &'scope Scope<'scope, '_>,
        sending: &mut [Option<Sending>],
        queues: &mut Queues,
        (cores, pool): (&[usize], &'scope Pool),
        running: &'scope AtomicUsize,
        stop: u64,
    ) -> Lanes<'scope> {
        let mut lanes = Vec::new();
        for (port, all) in queues.iter_mut().enumerate() {
            for (number, tx) in std::mem::take(all).into_iter().enumerate() {
                let (mut own, mut places) = (Vec::new(), Vec::new());
                for (place, flow) in sending.iter_mut().enumerate() {
                    let is_own = |flow: &mut Sending| (flow.from, flow.lane) == (port, Some(number));
                    if let Some(flow) = flow.take_if(is_own) {
                        own.push(flow);
                        places.push(place);
                    }
                }
                let core = cores.get(lanes.len() % cores.len().max(1)).copied().unwrap_or_default();
                lanes.push(Lane { sending: own, places, tx, port, core });
            }
        }
        running.store(lanes.len(), Ordering::Release);
        let spawned = lanes.into_iter().map(|lane| {
            scope.spawn(move || {
                let done = lane.run(pool, stop);
                running.fetch_sub(1, Ordering::Release);
                done
            })
        });
        Lanes { threads: spawned.collect(), running }
    }

    /// True if a thread still sends.
    #[inline]
    pub fn are_sending(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }

    /// Waits for the end of all threads, and puts their flows and queues back. Returns how far each thread fell behind.
    ///
    /// # Errors
    /// Returns an error if a thread died or could not be pinned to its core, or if its port vanished.
    pub fn end(self, sending: &mut [Option<Sending>], queues: &mut Queues) -> Result<Vec<Late>, Failure> {
        let mut all = Vec::new();
        let mut failed = None;
        for thread in self.threads {
            let Ok(Done { lane, late, result }) = thread.join() else {
                return Err(Failure("internal error: a sender thread died".into()));
            };
            failed = failed.or(result.err());
            for (place, flow) in lane.places.into_iter().zip(lane.sending) {
                sending[place] = Some(flow);
            }
            // The threads are in the order of their queues, so a port gets its queues back in the old order.
            queues[lane.port].push(lane.tx);
            all.push(late);
        }
        failed.map_or(Ok(all), Err)
    }
}

impl Lane {
    /// Sends the flows by their schedules.
    fn run(mut self, pool: &Pool, stop: u64) -> Done {
        let result = infra::cpu::pin_current(self.core)
            .map_err(|e| Failure(format!("sender-cores: core {}: {e}", self.core)));
        let (mut cache, mut frame, mut overdue) = (pool.cache(), Box::new(Frame::new()), 0);
        let waited = host::waited();
        let mut sent = result;
        while sent.is_ok() && self.sending.iter().any(|s| !s.schedule.is_done()) && tsc() < stop {
            for at in 0..self.sending.len() {
                let now = tsc();
                match self.sending[at].send(now, &mut *self.tx, &mut frame, &mut cache) {
                    Ok(due) if due > 1 => {
                        overdue = overdue.max(due - 1 + due_of_others(&self.sending, at, now))
                    }
                    Ok(_) => {}
                    Err(e) => sent = Err(e),
                }
            }
        }
        let waited = waited.and_then(|before| Some(host::waited()?.saturating_sub(before)));
        let late = Late { port: self.port, overdue, waited };
        Done { lane: self, late, result: sent }
    }
}
