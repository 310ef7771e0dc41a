//! Automatic balancing: moves queues and flows when one worker is overloaded while another has capacity.

use std::sync::Arc;

use graph::RxMode;

use super::Router;
use crate::handoff::{Shards, share_out};
use crate::interface::{Attention, Handoff, RxSlot};

/// Time between two checks of the load, in nanoseconds.
const LOOK: u64 = 100_000_000;
/// A worker with a higher load (0 to 1) is overloaded.
const TOO_BUSY: f64 = 0.85;
/// A worker with a lower load (0 to 1) has capacity.
const HAS_TIME: f64 = 0.6;
/// Number of checks in a row before work moves. The first value is for checks with an overloaded worker, before work is spread; the second
/// is for checks with a total load below one half, before work is gathered on one worker. If a worker has no queue, work is spread after
/// one check, because the load has just begun.
const LOOKS: [u32; 2] = [2, 30];

/// The load of the workers.
#[derive(Default)]
pub(super) struct Balance {
    /// Time of the last check, in nanoseconds.
    looked: u64,
    /// Busy and idle nanoseconds of each worker in total, at the last check.
    times: Vec<(u64, u64)>,
    /// The load of each worker between the last two checks, 0 to 1.
    loads: Vec<f64>,
    /// Number of checks in a row with an overloaded worker, and number of checks in a row with little load.
    found: [u32; 2],
    /// See [`Router::shards_chosen`].
    pub(super) shards_chosen: bool,
}

impl Router {
    /// Returns a worker's load over about the last tenth of a second, 0 to 1.
    pub fn load(&self, worker: usize) -> Option<f64> {
        self.balance.loads.get(worker).copied()
    }

    /// True if the operator assigned shards to workers; then the router itself moves no shards.
    pub fn shards_chosen(&self) -> bool {
        self.balance.shards_chosen
    }

    /// Checks the load of the workers every 100 ms, and moves queues and flows if that helps.
    pub(super) fn balance(&mut self, now: u64) {
        let passed = now.saturating_sub(self.balance.looked);
        if passed < LOOK || !self.running {
            return;
        }
        self.balance.looked = now;
        let stats = self.blueprint.stats();
        let times: Vec<(u64, u64)> =
            (0..self.ports.len()).map(|w| stats.worker_totals(w)).map(|t| (t.busy_ns, t.idle_ns)).collect();
        let before = std::mem::replace(&mut self.balance.times, times);
        let share = |((busy, idle), (busy_before, idle_before)): (&(u64, u64), &(u64, u64))| {
            let (busy, idle) = (busy.saturating_sub(*busy_before), idle.saturating_sub(*idle_before));
            busy as f64 / (busy + idle).max(1) as f64
        };
        let loads: Vec<f64> = self.balance.times.iter().zip(&before).map(share).collect();
        self.balance.loads.clone_from(&loads);
        self.found(&loads);
    }

    /// Handles the workers' loads (0 to 1) of one check:
    ///
    /// - If one worker is overloaded and another has no queue, all queues are spread over the workers at once.
    /// - If one worker is overloaded and another has capacity in several checks in a row, half of the overloaded worker's queues move to
    ///   the other. If it has only one queue, and the queue's device has fewer queues than there are workers, the queue's flows are spread
    ///   over the workers. If they already are, some shards move.
    /// - If the load is little in many checks in a row, flows are no longer spread, and one worker gets all queues. Then a single packet
    ///   wakes one worker instead of two, and packets of two devices form one vector.
    ///
    /// Queues that the operator placed, or that are in polling mode, never move.
    pub(super) fn found(&mut self, loads: &[f64]) {
        if loads.len() != self.ports.len() || loads.len() < 2 {
            self.balance.found = [0, 0];
            return;
        }
        let (busiest, calmest) = extremes(loads);
        let much = loads[busiest] > TOO_BUSY && loads[calmest] < HAS_TIME;
        let little = loads.iter().sum::<f64>() < 0.5;
        for (found, is) in self.balance.found.iter_mut().zip([much, little]) {
            *found = if is { *found + 1 } else { 0 };
        }
        let (slots, workers) = (self.tables.placement.slots(), self.ports.len());
        let now: Vec<Attention> = slots.iter().map(|s| s.attention()).collect();
        let begun = scattered(&now, workers, busiest);
        let spread = match self.balance.found {
            [much, _] if much > 0 && begun.is_some() => true,
            [much, _] if much >= LOOKS[0] => true,
            [_, little] if little >= LOOKS[1] => false,
            _ => return,
        };
        self.balance.found = [0, 0];
        let placed = match spread {
            true => begun.or_else(|| halved(&now, busiest, calmest)),
            false => gathered(&now, workers),
        };
        let wish = |(s, now): (&Arc<RxSlot>, Attention)| {
            let concerned = now.handoff == Handoff::Auto
                && s.of < workers
                && (!spread || loads.get(now.worker).is_some_and(|l| *l > TOO_BUSY));
            if concerned { Attention { spread, ..now } } else { now }
        };
        let wished: Vec<Attention> = match (spread, placed) {
            (true, Some(placed)) => placed,
            (_, placed) => slots.iter().zip(placed.unwrap_or(now.clone())).map(wish).collect(),
        };
        if wished != now {
            let moved = wished.iter().zip(&now).any(|(wished, now)| wished.worker != now.worker);
            let what = match (spread, moved) {
                (true, true) => "queues of the busiest worker moved to others",
                (true, false) => "flows of busy queues are now spread over the workers",
                (false, true) => "little load: all queues moved to one worker",
                (false, false) => "flows of busy queues are no longer spread over the workers",
            };
            let shards = self.shards().clone();
            self.rearrange(&slots, wished, shards, what);
        } else if spread && wished.iter().any(|a| a.spread) && !self.balance.shards_chosen {
            let Some(shards) = self.shards().relieved(busiest, calmest) else { return };
            self.rearrange(&slots, wished, shards, "some flows of the busiest worker moved to another");
        }
    }

    fn rearrange(&mut self, slots: &[Arc<RxSlot>], wished: Vec<Attention>, shards: Shards, what: &str) {
        match self.arrange(slots, wished, shards) {
            Ok(()) => {
                let time = self.stood_still().as_micros();
                tracing::info!(event = "workers", "{what}; queues were paused for {time} µs");
            }
            Err(e) => tracing::warn!(event = "workers", "balancing failed: {e}"),
        }
    }
}

/// Returns the worker with the highest load and the worker with the lowest. `loads` must not be empty.
fn extremes(loads: &[f64]) -> (usize, usize) {
    let by_load = |a: &usize, b: &usize| loads[*a].total_cmp(&loads[*b]);
    let all = || 0..loads.len();
    (all().max_by(by_load).unwrap_or(0), all().min_by(by_load).unwrap_or(0))
}

/// True if the router may move a queue. A queue in polling mode keeps its worker's core busy anyway, so it is not moved.
fn movable(a: &Attention) -> bool {
    !a.chosen && a.mode != RxMode::Polling
}

/// Returns the placement with all movable queues spread over the workers. `None` unless the busiest worker has several movable queues and
/// another worker has no queue.
fn scattered(now: &[Attention], workers: usize, busiest: usize) -> Option<Vec<Attention>> {
    let idle = (0..workers).any(|worker| now.iter().all(|a| a.worker != worker));
    let several = now.iter().filter(|a| a.worker == busiest && movable(a)).count() > 1;
    let owners: Vec<usize> = now.iter().map(|a| a.worker).collect();
    let shared = share_out(&owners, workers);
    let place = |(a, worker): (&Attention, usize)| if movable(a) { Attention { worker, ..*a } } else { *a };
    (idle && several).then(|| now.iter().zip(shared).map(place).collect())
}

/// Returns the placement with half of the busiest worker's movable queues moved to the calmest worker. `None` if the busiest worker has no
/// queue that can be moved.
pub(super) fn halved(now: &[Attention], busiest: usize, calmest: usize) -> Option<Vec<Attention>> {
    let own: Vec<usize> = (0..now.len()).filter(|at| now[*at].worker == busiest).collect();
    let some: Vec<usize> = own.iter().copied().filter(|at| movable(&now[*at])).collect();
    // The busiest worker keeps one queue at least.
    let stays = usize::from(some.len() == own.len());
    let some: Vec<usize> = some.into_iter().skip(stays).step_by(2).collect();
    let mut placed = now.to_vec();
    some.iter().for_each(|at| placed[*at].worker = calmest);
    (!some.is_empty()).then_some(placed)
}

/// Returns the placement with all movable queues on the worker that has the most queues; `None` if they are there already.
fn gathered(now: &[Attention], workers: usize) -> Option<Vec<Attention>> {
    let has = |worker: &usize| now.iter().filter(|a| a.worker == *worker).count();
    let home = (0..workers).rev().max_by_key(has)?;
    let place = |a: &Attention| if movable(a) { Attention { worker: home, ..*a } } else { *a };
    let placed: Vec<Attention> = now.iter().map(place).collect();
    (placed != now).then_some(placed)
}
