//! The trials of all loads so far, and the resulting bounds.

use super::classify::{Class, Seen, Sums};
use super::goal::Target;
use crate::search::run::{Ended, shown_loss};
use crate::trial::Outcome;

/// The trials of one load, and sums over them for each target.
#[derive(Clone, Debug)]
struct Load {
    fps: f64,
    trials: Vec<Seen>,
    sums: Vec<Sums>,
}

/// All tried loads, in rising order, and the targets of all goals in one list. The functions take a target as its index in this list.
#[derive(Clone, Debug)]
pub(super) struct Loads {
    min_fps: f64,
    max_fps: f64,
    targets: Vec<Target>,
    loads: Vec<Load>,
}

/// The relevant bounds of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Bounds {
    /// Relevant Lower Bound: the largest lower bound below the relevant upper bound. Without an upper bound, the largest of all lower
    /// bounds.
    pub(super) lower: Option<f64>,
    /// Relevant Upper Bound: the smallest upper bound; `None` if no load is an upper bound.
    pub(super) upper: Option<f64>,
}

impl Bounds {
    pub(super) fn has_inside(&self, fps: f64) -> bool {
        self.lower.is_none_or(|lower| fps > lower) && self.upper.is_none_or(|upper| fps < upper)
    }
}

impl Loads {
    pub(super) fn new(min_fps: f64, max_fps: f64, targets: Vec<Target>) -> Self {
        Loads { min_fps, max_fps, targets, loads: Vec::new() }
    }

    pub(super) fn target(&self, target: usize) -> &Target {
        &self.targets[target]
    }

    /// Records a trial for all targets, whichever target the trial was run for.
    pub(super) fn learn(&mut self, outcome: &Outcome, effective: std::time::Duration) {
        let fps = outcome.request.load_fps;
        let at = self.loads.partition_point(|load| load.fps < fps);
        if self.loads.get(at).is_none_or(|load| load.fps != fps) {
            let sums = vec![Sums::default(); self.targets.len()];
            self.loads.insert(at, Load { fps, trials: Vec::new(), sums });
        }
        let duration = outcome.request.duration;
        let seen = Seen { duration, effective, loss_ratio: shown_loss(outcome), valid: outcome.is_valid() };
        let load = &mut self.loads[at];
        load.trials.push(seen);
        for (sums, target) in load.sums.iter_mut().zip(&self.targets) {
            sums.add(target, &seen);
        }
    }

    pub(super) fn class(&self, target: usize, fps: f64) -> Class {
        let load = self.loads.iter().find(|load| load.fps == fps);
        load.map_or(Class::Undecided, |load| load.sums[target].classify(&self.targets[target]))
    }

    pub(super) fn bounds(&self, target: usize) -> Bounds {
        let is = |load: &&Load, class| load.sums[target].classify(&self.targets[target]) == class;
        let upper = self.loads.iter().find(|load| is(load, Class::Upper)).map(|load| load.fps);
        let below = self.loads.iter().filter(|load| upper.is_none_or(|upper| load.fps < upper));
        let lower = below.rev().find(|load| is(load, Class::Lower)).map(|load| load.fps);
        Bounds { lower, upper }
    }

    /// Returns how the search for a target ended; `None` if it has not ended.
    pub(super) fn ended(&self, target: usize) -> Option<Ended> {
        let Bounds { lower, upper } = self.bounds(target);
        match (lower, upper) {
            (_, Some(upper)) if upper <= self.min_fps => Some(Ended::NothingForwarded),
            (Some(lower), None) if lower >= self.max_fps => Some(Ended::AllForwarded),
            (Some(lower), Some(upper)) if self.targets[target].reached(lower, upper) => Some(Ended::Found),
            _ => None,
        }
    }

    pub(super) fn trials(&self, fps: f64) -> &[Seen] {
        self.loads.iter().find(|load| load.fps == fps).map_or(&[], |load| &load.trials)
    }

    /// Returns all loads with their trials.
    pub(super) fn all(&self) -> impl Iterator<Item = (f64, &[Seen])> {
        self.loads.iter().map(|load| (load.fps, load.trials.as_slice()))
    }

    /// Returns the rate forwarded in the first trial of a load, in frames per second. This is a good estimate of the router's capacity if
    /// the load was above the capacity. `None` if the load was not tried, or all frames were lost; an invalid trial counts as total loss.
    pub(super) fn forwarded_fps(&self, fps: f64) -> Option<f64> {
        let forwarded = fps * (1.0 - self.trials(fps).first()?.loss_ratio);
        (forwarded > 0.0).then_some(forwarded)
    }
}
