//! Chooses the next load, and the duration of its trials.
//!
//! A goal is reached through a series of targets, of which each is finer than the one before. For the first target, a few short trials find
//! the approximate load. Only near this load does the search run many and long trials. All goals proceed through their targets at the same
//! pace, so that trials for one goal also count for the others.

use std::time::Duration;

use super::classify::Class;
use super::loads::{Bounds, Loads};

/// The progress of one goal through its targets.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// Index of the goal's first target in the list of all targets.
    first: usize,
    /// Index of the goal itself, which is the last target.
    last: usize,
    /// The target and load chosen last. Further trials use the same load until it is classified, it no longer lies between the bounds, or
    /// the target changes.
    at: Option<(usize, f64)>,
    last_move: Move,
}

/// How the last load was chosen: by a step up, by a step down, or otherwise. A step's number is the number of steps in the same direction
/// immediately before it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Move {
    Up(u32),
    Down(u32),
    Other,
}

/// Approximate number of loads tried for a target: its two bounds, and one load between them.
const LOADS_A_TARGET: u32 = 3;

impl Way {
    pub(super) fn new(first: usize, last: usize) -> Self {
        Way { first, last, at: None, last_move: Move::Other }
    }

    /// Returns the index of the goal itself.
    pub(super) fn goal(&self) -> usize {
        self.last
    }

    /// Returns the target to search next: the one after the finest target whose search has ended, or the first one. `None` if the search
    /// for the last target, which is the goal itself, has ended. Coarser targets are not searched again, even if longer trials have removed
    /// one of their bounds.
    pub(super) fn target(&self, loads: &Loads) -> Option<usize> {
        let reached = (self.first..=self.last).rev().find(|&target| loads.ended(target).is_some());
        let next = reached.map_or(self.first, |target| target + 1);
        (next <= self.last).then_some(next)
    }

    /// Returns the number of the goal's targets before `target`.
    pub(super) fn progress(&self, target: usize) -> usize {
        target - self.first
    }

    /// Estimates the trials that the goal still needs, and their sending time, for a router without noise.
    pub(super) fn left(&self, loads: &Loads) -> (u32, Duration) {
        let Some(now) = self.target(loads) else { return (0, Duration::ZERO) };
        (now..=self.last).fold((0, Duration::ZERO), |(trials, time), target| {
            let target = loads.target(target);
            // With an exceed ratio of one half, half of the duration sum decides.
            let share = target.exceed_ratio.max(1.0 - target.exceed_ratio);
            let more = (f64::from(target.trials_a_load()) * share).ceil() as u32 * LOADS_A_TARGET;
            (trials + more, time + target.duration * more)
        })
    }

    /// Chooses the next load for a target.
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

    /// Returns the first of these loads that lies between the bounds.
    ///
    /// For the first target:
    /// 1. the rate forwarded at the largest load
    /// 2. the rate forwarded at the load of item 1
    ///
    /// For a later target:
    /// 1. the lower bound of the preceding target
    /// 2. the middle of the preceding target's bounds, unless they are close enough for this target
    /// 3. the upper bound of the preceding target
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

    /// Derives the next load from the bounds alone. Also returns how the load was chosen.
    fn step(&self, width: f64, bounds: &Bounds, max_fps: f64) -> (f64, Move) {
        // Consecutive steps in the same direction double in size (logarithmically).
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
                // A distant upper bound is an old one, such as the largest load. If a step up from the lower bound is shorter, take that
                // step, unless steps down found the lower bound: the upper bound is new then.
                if down == 0 && above < middle { (above, Move::Up(up)) } else { (middle, Move::Other) }
            }
        }
    }
}
