//! Whether a worker has too much to do while another has time, and what then moves.

use std::sync::Arc;

use graph::RxMode;

use super::Router;
use crate::handoff::{Shards, share_out};
use crate::interface::{Attention, Handoff, RxSlot};

/// How often it is looked whether a worker has too much to do, in nanoseconds.
const LOOK: u64 = 100_000_000;
/// A worker that is busy for more of its time than this has too much to do.
const TOO_BUSY: f64 = 0.85;
/// One that is busy for less can take more.
const HAS_TIME: f64 = 0.6;
/// Looks in a row that find one worker too busy until flows are shared out, and that find all of them together with less than
/// half of one's work until they no longer are. Where another worker has no queue at all, one look will do: the load has begun anew.
const LOOKS: [u32; 2] = [2, 30];

/// What is known of how busy the workers are.
#[derive(Default)]
pub(super) struct Balance {
    /// When it was last looked.
    looked: u64,
    /// Nanoseconds busy and idle of each worker then.
    times: Vec<(u64, u64)>,
    /// The share of its time that each was busy between the last two looks.
    loads: Vec<f64>,
    /// Looks in a row that found too much work, and little.
    found: [u32; 2],
    /// See [`Router::shards_chosen`].
    pub(super) shards_chosen: bool,
}

impl Router {
    /// The share of its time that a worker was busy in the last tenth of a second or so, 0 to 1.
    pub fn load(&self, worker: usize) -> Option<f64> {
        self.balance.loads.get(worker).copied()
    }

    /// Whether the operator has said whose some shards are; the others are moved no more, either.
    pub fn shards_chosen(&self) -> bool {
        self.balance.shards_chosen
    }

    /// Looks now and then how busy the workers are, and moves flows when that pays.
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

    /// One look has found the workers so busy. Where one has too much to do and another no queue at all, the queues are shared out
    /// among all at once: they were gathered. Where the other has time only, again and again, half of the queues
    /// go there. If there is but one, the flows of that are shared out, if its device has too few queues; if they are
    /// already, some of its shards go to the other. When all is quiet, no flows are shared out, and one worker has all queues: a
    /// packet that comes alone wakes one worker, and not two, and what comes by two devices makes one vector of work. What the
    /// operator has placed stays where it is.
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
                (true, true) => "queues of the busiest worker are another's now",
                (true, false) => "the flows of busy queues are shared out between the workers",
                (false, true) => "there is little to do: one worker has all queues now",
                (false, false) => "the flows of busy queues are no longer shared out between the workers",
            };
            let shards = self.shards().clone();
            self.rearrange(&slots, wished, shards, what);
        } else if spread && wished.iter().any(|a| a.spread) && !self.balance.shards_chosen {
            let Some(shards) = self.shards().relieved(busiest, calmest) else { return };
            self.rearrange(&slots, wished, shards, "some flows of the busiest worker are another's now");
        }
    }

    fn rearrange(&mut self, slots: &[Arc<RxSlot>], wished: Vec<Attention>, shards: Shards, what: &str) {
        match self.arrange(slots, wished, shards) {
            Ok(()) => {
                let time = self.stood_still().as_micros();
                tracing::info!(event = "workers", "{what}; the queues concerned stood still for {time} µs");
            }
            Err(e) => tracing::warn!(event = "workers", "flows cannot be shared out anew: {e}"),
        }
    }
}

/// The worker that has most to do, and the one that has most time; `loads` is not empty.
fn extremes(loads: &[f64]) -> (usize, usize) {
    let by_load = |a: &usize, b: &usize| loads[*a].total_cmp(&loads[*b]);
    let all = || 0..loads.len();
    (all().max_by(by_load).unwrap_or(0), all().min_by(by_load).unwrap_or(0))
}

/// Whether a queue's worker is for the router to choose. One that is polled without end costs its worker a core wherever that is.
fn movable(a: &Attention) -> bool {
    !a.chosen && a.mode != RxMode::Polling
}

/// The queues shared out among all workers; `None` unless the busiest has several that can move, and another worker none at all.
fn scattered(now: &[Attention], workers: usize, busiest: usize) -> Option<Vec<Attention>> {
    let idle = (0..workers).any(|worker| now.iter().all(|a| a.worker != worker));
    let several = now.iter().filter(|a| a.worker == busiest && movable(a)).count() > 1;
    let owners: Vec<usize> = now.iter().map(|a| a.worker).collect();
    let shared = share_out(&owners, workers);
    let place = |(a, worker): (&Attention, usize)| if movable(a) { Attention { worker, ..*a } } else { *a };
    (idle && several).then(|| now.iter().zip(shared).map(place).collect())
}

/// The queues with every second one of the busiest worker's given to the one that has most time; `None` where it has no two, of
/// which one can move.
pub(super) fn halved(now: &[Attention], busiest: usize, calmest: usize) -> Option<Vec<Attention>> {
    let own: Vec<usize> = (0..now.len()).filter(|at| now[*at].worker == busiest).collect();
    let some: Vec<usize> = own.iter().copied().filter(|at| movable(&now[*at])).collect();
    // One stays, so that it does not run out of them.
    let stays = usize::from(some.len() == own.len());
    let some: Vec<usize> = some.into_iter().skip(stays).step_by(2).collect();
    let mut placed = now.to_vec();
    some.iter().for_each(|at| placed[*at].worker = calmest);
    (!some.is_empty()).then_some(placed)
}

/// All queues given to the worker that has most of them; `None` where it has them.
fn gathered(now: &[Attention], workers: usize) -> Option<Vec<Attention>> {
    let has = |worker: &usize| now.iter().filter(|a| a.worker == *worker).count();
    let home = (0..workers).rev().max_by_key(has)?;
    let place = |a: &Attention| if movable(a) { Attention { worker: home, ..*a } } else { *a };
    let placed: Vec<Attention> = now.iter().map(place).collect();
    (placed != now).then_some(placed)
}
