//! Decides which receive queues and flows move to another worker. The functions here only compute; the router makes the change.

use graph::RxMode;
use net::handoff::{Shards, share_out};
use net::interface::{Attention, Handoff};

/// A worker whose load (0 to 1) is above this is overloaded.
const TOO_BUSY: f64 = 0.85;
/// A worker whose load (0 to 1) is below this can take more work.
const HAS_TIME: f64 = 0.6;
/// If the loads of all workers add up to less than this, one worker can do all the work.
const LITTLE: f64 = 0.5;
/// Number of consecutive checks with an overloaded worker before work is spread over the workers. One check is enough if another worker has
/// no queue and the overloaded worker has several movable queues. This happens when traffic grows again after a time of little load.
const BUSY_CHECKS: u32 = 2;
/// Number of consecutive checks with little load before all movable queues are moved to one worker.
const CALM_CHECKS: u32 = 30;

/// A receive queue.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// The queue's worker, receive mode and handoff.
    pub at: Attention,
    /// Number of receive queues of the queue's device.
    pub of: usize,
}

/// The present assignment of work to the workers.
pub struct Situation<'a> {
    pub queues: &'a [Queue],
    /// Number of workers.
    pub workers: usize,
    pub shards: &'a Shards,
    /// True if the operator assigned shards (groups of flows by hash) to workers; the balancer then moves no shard.
    pub fixed: bool,
}

/// A change of assignments.
#[derive(Debug, PartialEq)]
pub struct Change {
    /// The new assignment of each queue.
    pub queues: Vec<Attention>,
    pub shards: Shards,
    /// A description of the change for the log.
    pub what: &'static str,
}

/// The results of the last checks of the workers' loads.
#[derive(Default)]
pub struct Checks {
    /// Number of checks in a row with an overloaded worker.
    busy: u32,
    /// Number of checks in a row with little load.
    calm: u32,
}

impl Checks {
    /// Returns the change that the workers' loads (0 to 1) of one check require; `None` if they require none. The busiest worker has the
    /// highest load, and the calmest worker the lowest.
    ///
    /// - The busiest worker is overloaded and has several movable queues, the calmest worker has capacity, and a worker has no queue: all
    ///   movable queues are spread over the workers at once.
    /// - The busiest worker is overloaded and the calmest worker has capacity, in `BUSY_CHECKS` consecutive checks: half of the busiest
    ///   worker's movable queues move to the calmest worker. If no queue can move, the flows of shareable queues of overloaded workers are
    ///   spread over the workers. If these flows are already spread, some shards of flows move, unless the operator assigned the shards.
    /// - The load is little in `CALM_CHECKS` consecutive checks: flows of shareable queues are no longer spread, and one worker gets all
    ///   movable queues. Then a single packet wakes one worker instead of two, and packets of two devices form one vector.
    ///
    /// Queues that the operator assigned to a worker, or that are in polling mode, are not movable.
    pub fn plan(&mut self, loads: &[f64], s: &Situation<'_>) -> Option<Change> {
        if loads.len() != s.workers || loads.len() < 2 {
            *self = Checks::default();
            return None;
        }
        let (busiest, calmest) = extremes(loads)?;
        let overloaded = loads[busiest] > TOO_BUSY && loads[calmest] < HAS_TIME;
        let little = loads.iter().sum::<f64>() < LITTLE;
        self.busy = if overloaded { self.busy + 1 } else { 0 };
        self.calm = if little { self.calm + 1 } else { 0 };
        let now: Vec<Attention> = s.queues.iter().map(|q| q.at).collect();
        let scattered = scattered(&now, s.workers, busiest);
        if self.busy >= BUSY_CHECKS || self.busy > 0 && scattered.is_some() {
            *self = Checks::default();
            spread(loads, (busiest, calmest), s, now, scattered)
        } else if self.calm >= CALM_CHECKS {
            *self = Checks::default();
            gather(s, now)
        } else {
            None
        }
    }
}

/// Returns the change that relieves the busiest worker; `None` if no change is possible. `scattered` is the result of [`scattered`]: it is
/// preferred to moving half of the queues.
fn spread(
    loads: &[f64],
    (busiest, calmest): (usize, usize),
    s: &Situation<'_>,
    now: Vec<Attention>,
    scattered: Option<Vec<Attention>>,
) -> Option<Change> {
    if let Some(queues) = scattered.or_else(|| halved(&now, busiest, calmest)) {
        let what = "queues of the busiest worker moved to others";
        return Some(Change { queues, shards: s.shards.clone(), what });
    }
    let share = |q: &Queue| {
        let overloaded = loads.get(q.at.worker).is_some_and(|load| *load > TOO_BUSY);
        Attention { spread: q.at.spread || overloaded && shareable(q, s.workers), ..q.at }
    };
    let queues: Vec<Attention> = s.queues.iter().map(share).collect();
    if queues != now {
        let what = "flows of busy queues are now spread over the workers";
        return Some(Change { queues, shards: s.shards.clone(), what });
    }
    if s.fixed || !now.iter().any(|a| a.spread) {
        return None;
    }
    let shards = s.shards.relieved(busiest, calmest)?;
    Some(Change { queues, shards, what: "some flows of the busiest worker moved to another" })
}

/// Returns the change that moves all movable queues to one worker, and ends the spreading of flows over the workers. `None` if
/// nothing would change.
fn gather(s: &Situation<'_>, now: Vec<Attention>) -> Option<Change> {
    let gathered = gathered(&now, s.workers);
    let moved = gathered.is_some();
    let placed = gathered.unwrap_or_else(|| now.clone());
    let keep =
        |(q, at): (&Queue, Attention)| Attention { spread: at.spread && !shareable(q, s.workers), ..at };
    let queues: Vec<Attention> = s.queues.iter().zip(placed).map(keep).collect();
    let what = match moved {
        true => "little load: all queues moved to one worker",
        false => "flows of busy queues are no longer spread over the workers",
    };
    (queues != now).then(|| Change { queues, shards: s.shards.clone(), what })
}

/// Returns the worker with the highest load and the worker with the lowest; `None` without workers.
fn extremes(loads: &[f64]) -> Option<(usize, usize)> {
    let by_load = |a: &usize, b: &usize| loads[*a].total_cmp(&loads[*b]);
    let all = || 0..loads.len();
    Some((all().max_by(by_load)?, all().min_by(by_load)?))
}

/// True if the router may spread the queue's flows over the workers: the operator has not decided this, and the device has fewer
/// queues than there are workers.
fn shareable(q: &Queue, workers: usize) -> bool {
    q.at.handoff == Handoff::Auto && q.of < workers
}

/// True if the router may move a queue: the operator did not choose the queue's worker, and the queue is not in polling mode. A
/// queue in polling mode keeps its worker's core busy anyway.
fn movable(a: &Attention) -> bool {
    !a.chosen && a.mode != RxMode::Polling
}

/// Returns the assignment with all movable queues spread over the workers. `None` unless the busiest worker has several movable queues,
/// another worker has no queue, and the assignment differs from the present one.
fn scattered(now: &[Attention], workers: usize, busiest: usize) -> Option<Vec<Attention>> {
    let idle = (0..workers).any(|worker| now.iter().all(|a| a.worker != worker));
    let several = now.iter().filter(|a| a.worker == busiest && movable(a)).count() > 1;
    let owners: Vec<usize> = now.iter().map(|a| a.worker).collect();
    let shared = share_out(&owners, workers);
    let place = |(a, worker): (&Attention, usize)| if movable(a) { Attention { worker, ..*a } } else { *a };
    let placed: Vec<Attention> = now.iter().zip(shared).map(place).collect();
    (idle && several && placed != now).then_some(placed)
}

/// Returns the assignment with half of the busiest worker's movable queues moved to the calmest worker. `None` if the busiest worker has no
/// movable queue, or only one queue.
fn halved(now: &[Attention], busiest: usize, calmest: usize) -> Option<Vec<Attention>> {
    let own: Vec<usize> = (0..now.len()).filter(|at| now[*at].worker == busiest).collect();
    let some: Vec<usize> = own.iter().copied().filter(|at| movable(&now[*at])).collect();
    // The busiest worker keeps one queue at least.
    let stays = usize::from(some.len() == own.len());
    let some: Vec<usize> = some.into_iter().skip(stays).step_by(2).collect();
    let mut placed = now.to_vec();
    some.iter().for_each(|at| placed[*at].worker = calmest);
    (!some.is_empty()).then_some(placed)
}

/// Returns the assignment with all movable queues on the worker that has the most queues; `None` if they are there already.
fn gathered(now: &[Attention], workers: usize) -> Option<Vec<Attention>> {
    let has = |worker: &usize| now.iter().filter(|a| a.worker == *worker).count();
    let home = (0..workers).rev().max_by_key(has)?;
    let place = |a: &Attention| if movable(a) { Attention { worker: home, ..*a } } else { *a };
    let placed: Vec<Attention> = now.iter().map(place).collect();
    (placed != now).then_some(placed)
}
