//! Which load to try next, at which duration.
//!
//! A goal is reached by way of coarser targets: few short trials find where it is, and only near there are trials
//! long and many. All goals go from one target to the next together, so that what one has tried serves the others.

use std::time::Duration;

use super::classify::Class;
use super::loads::{Bounds, Loads};

/// The way of one goal.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// The first of its targets in the list of all; the last one is the goal itself.
    first: usize,
    last: usize,
    /// The target and load that were chosen: kept until the load is decided.
    at: Option<(usize, f64)>,
    last_move: Move,
}

/// How a load was chosen, and how often in a row so.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Move {
    Up(u32),
    Down(u32),
    Other,
}

/// Loads that are tried for a target, about: its bounds, and one between.
const LOADS_A_TARGET: u32 = 3;

impl Way {
    pub(super) fn new(first: usize, last: usize) -> Self {
        Way { first, last, at: None, last_move: Move::Other }
    }

    /// The goal itself.
    pub(super) fn goal(&self) -> usize {
        self.last
    }

    /// The target to work on: the one behind the finest that is reached; `None` when the goal is. Those before it may
    /// have lost a bound by what longer trials showed, and do not matter any more.
    pub(super) fn target(&self, loads: &Loads) -> Option<usize> {
        let reached = (self.first..=self.last).rev().find(|&target| loads.ended(target).is_some());
        let next = reached.map_or(self.first, |target| target + 1);
        (next <= self.last).then_some(next)
    }

    /// How many targets it has behind it.
    pub(super) fn progress(&self, target: usize) -> usize {
        target - self.first
    }

    /// Trials that the goal still needs, and the time they send: about as many as for a router without noise.
    pub(super) fn left(&self, loads: &Loads) -> (u32, Duration) {
        let Some(now) = self.target(loads) else { return (0, Duration::ZERO) };
        (now..=self.last).fold((0, Duration::ZERO), |(trials, time), target| {
            let target = loads.target(target);
            // An exceed ratio of a half needs half of the sum.
            let share = target.exceed_ratio.max(1.0 - target.exceed_ratio);
            let more = (f64::from(target.trials_a_load()) * share).ceil() as u32 * LOADS_A_TARGET;
            (trials + more, time + target.duration * more)
        })
    }

    /// The next load for a target.
    pub(super) fn choose(&mut self, target: usize, loads: &Loads, min_fps: f64, max_fps: f64) -> f64 {
        let bounds = loads.bounds(target);
        if let Some((at_target, fps)) = self.at
            && at_target == target
            && bounds.has_inside(fps)
            && loads.class(target, fps) == Class::Undecided
        {
            return fps;
        }
        let (fps, how) = self.guess(target, loads, &bounds, max_fps).map_or_else(
            || self.step(loads.target(target).width, &bounds, max_fps),
            |guess| (guess, Move::Other),
        );
        let fps = fps.clamp(min_fps, max_fps);
        self.last_move = how;
        self.at = Some((target, fps));
        fps
    }

    /// A load that is likely to be a bound: the lower bound of the target before, then the middle of its bounds,
    /// which are twice as far apart as they may be now, and its upper bound only if the middle was no upper one. For
    /// the first target, what came back of the largest load, and what came back of that.
    fn guess(&self, target: usize, loads: &Loads, bounds: &Bounds, max_fps: f64) -> Option<f64> {
        let guesses = if target > self.first {
            let before = loads.bounds(target - 1);
            let wide = before
                .lower
                .zip(before.upper)
                .filter(|&(lower, upper)| !loads.target(target).reached(lower, upper));
            let middle = wide.map(|(lower, upper)| lower.sqrt() * upper.sqrt());
            [before.lower, middle, before.upper]
        } else {
            let once = loads.forwarded_fps(max_fps);
            [once, once.and_then(|fps| loads.forwarded_fps(fps)), None]
        };
        guesses.into_iter().flatten().find(|&fps| bounds.has_inside(fps))
    }

    /// A load from the bounds alone.
    fn step(&self, width: f64, bounds: &Bounds, max_fps: f64) -> (f64, Move) {
        // Steps of the same direction double (in the logarithm).
        let narrow = 1.0 - width;
        let ratio = |times: u32| narrow.powf(2f64.powi(times.min(30) as i32));
        let (up, down) = match self.last_move {
            Move::Up(times) => (times + 1, 0),
            Move::Down(times) => (0, times + 1),
            Move::Other => (0, 0),
        };
        match (bounds.lower, bounds.upper) {
            (None, None) => (max_fps, Move::Other),
            (Some(lower), None) => (lower / ratio(up), Move::Up(up)),
            (None, Some(upper)) => (upper * ratio(down), Move::Down(down)),
            (Some(lower), Some(upper)) => {
                let middle = lower.sqrt() * upper.sqrt();
                let above = lower / ratio(up);
                // An upper bound far away is an old one, the largest load perhaps: better from below, if that is
                // nearer. Not when the lower bound itself was found by steps down, for then the upper one is new.
                if down == 0 && above < middle { (above, Move::Up(up)) } else { (middle, Move::Other) }
            }
        }
    }
}
