//! Multiple loss ratio search: RFC 9971, draft-ietf-bmwg-mlrsearch.
//!
//! Several goals (a loss ratio, and the share of the time it may be exceeded for) are searched at once. A load is
//! tried until its trials decide whether it is a lower or an upper bound of a goal, and every trial counts for every
//! goal. What a goal ends in is its relevant lower and upper bound, not further apart than its width.
//!
//! The RFC leaves open which trials are run: see [`Mlr::search`].

mod choose;
mod classify;
mod goal;
mod loads;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::choose::Way;
use self::loads::Loads;
use super::run::{BadInput, Ended, Limits, Progress, Run, Tally, Wanted};
use crate::trial::{Measure, Outcome, Request};

pub use classify::{Class, Seen, Sums, conditional_fps};
pub use goal::{Goal, Target};

/// What counts as the effective duration of a trial: what the duration sums are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effective {
    /// The time it sent.
    Sent,
    /// The time it took, waits included: fewer trials decide. CSIT counts so.
    Took,
}

/// What to search, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mlr {
    /// The goals. Their order matters for nothing but which is first when two are as far.
    pub goals: Vec<Goal>,
    /// Min Load, frames a second in each direction: a goal that it fails ends the search for that goal.
    pub min_fps: f64,
    /// Max Load.
    pub max_fps: f64,
    /// Coarser targets before each goal: CSIT has 2. With 0 all trials have the final duration.
    pub preceding: u32,
    /// The effective duration.
    pub effective: Effective,
    /// What it may take.
    pub limits: Limits,
}

/// What came of a goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalResult {
    /// What was asked.
    pub goal: Goal,
    /// How it ended. With `Found` it is a regular result of the RFC, else an irregular one, to be marked as such.
    pub ended: Ended,
    /// The relevant lower bound, frames a second in each direction. After `AllForwarded` it is the largest load, in
    /// effect.
    pub lower_fps: Option<f64>,
    /// The relevant upper bound.
    pub upper_fps: Option<f64>,
    /// Conditional throughput at the lower bound, frames a second: what to compare results by.
    pub conditional_fps: Option<f64>,
    /// The upper bound rests on an invalid trial, among others: the limit may be the tester's, not the router's.
    pub upper_unproved: bool,
}

/// A load that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadTried {
    /// The load, frames a second in each direction.
    pub load_fps: f64,
    /// Its trials, in order.
    pub trials: Vec<Seen>,
}

/// What came of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MlrResult {
    /// What was asked.
    pub asked: Mlr,
    /// One for each goal, in their order.
    pub goals: Vec<GoalResult>,
    /// Every load that was tried, in rising order.
    pub loads: Vec<LoadTried>,
    /// What it took.
    pub tally: Tally,
}

impl Mlr {
    /// Non-drop and partial-drop rate as FD.io CSIT searches them, with at most 2,000 trials.
    pub fn csit(min_fps: f64, max_fps: f64) -> Self {
        Mlr {
            goals: vec![Goal::csit_ndr(), Goal::csit_pdr()],
            min_fps,
            max_fps,
            preceding: 2,
            effective: Effective::Sent,
            limits: Limits { trials: 2000, time: None },
        }
    }

    /// Whether it can be searched.
    ///
    /// # Errors
    /// The first field that makes no sense.
    pub fn check(&self) -> Result<(), BadInput> {
        BadInput::unless_range(self.min_fps, self.max_fps)?;
        BadInput::unless(!self.goals.is_empty(), "goals", "must have one at least")?;
        for goal in &self.goals {
            goal.check()?;
            BadInput::unless_frames(self.min_fps, goal.initial_duration, "initial_duration")?;
        }
        BadInput::unless(
            self.preceding <= 8,
            "preceding",
            format_args!("must be 8 at most, is {}", self.preceding),
        )?;
        BadInput::unless(self.limits.trials >= 1, "limits", "must allow a trial")
    }

    /// The most trials for a router that does the same each time, whatever its capacity: for each goal the steps that
    /// find it, and four loads of each target. `limits` bounds those of any other router. A capacity that moves by
    /// half a percent stays below this, too, with CSIT's goals: 63 trials on average and 113 at worst of 4,000
    /// searches, 35 without noise.
    pub fn trials_without_noise(&self) -> u32 {
        let of_goal = |goal: &Goal| {
            let targets = goal.targets(self.preceding);
            // Widths in the whole range: steps that double, then as many that halve.
            let widths = (self.max_fps / self.min_fps).ln() / -(-targets[0].width).ln_1p();
            let steps = 2 * widths.max(1.0).log2().ceil() as u32 + 4;
            steps * targets[0].trials_a_load()
                + targets.iter().map(|target| 4 * target.trials_a_load()).sum::<u32>()
        };
        self.goals.iter().map(of_goal).sum()
    }

    /// Runs the search.
    ///
    /// The first trial is at the largest load; what comes back of it is the second load, and what comes back of that
    /// the third. From there, steps that double, then geometric means, to the width of the coarsest target; then the
    /// bounds are tried again with longer and more trials, and so on to the goals.
    ///
    /// # Errors
    /// When the configuration makes no sense. Whatever the router does is a result.
    pub fn search(
        &self,
        measure: &mut dyn Measure,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<MlrResult, BadInput> {
        self.check()?;
        let mut run = Run::new(measure, progress, self.limits);
        let mut targets = Vec::new();
        let mut ways = Vec::new();
        for goal in &self.goals {
            let first = targets.len();
            targets.extend(goal.targets(self.preceding));
            ways.push(Way::new(first, targets.len() - 1));
        }
        let mut loads = Loads::new(self.min_fps, self.max_fps, targets);
        // The goal that has come least far, the first of several.
        let least = |ways: &[Way], loads: &Loads| {
            let open = ways.iter().enumerate().filter_map(|(goal, way)| Some((goal, way.target(loads)?)));
            open.min_by_key(|&(goal, target)| (ways[goal].progress(target), goal))
        };
        let mut stopped = Ended::Found;
        while let Some((goal, target)) = least(&ways, &loads) {
            match self.trial(&mut run, &mut ways, &loads, goal, target) {
                Ok(outcome) => loads.learn(&outcome, self.effective(&outcome)),
                Err(ended) => {
                    stopped = ended;
                    break;
                }
            }
        }
        let goals =
            self.goals.iter().zip(&ways).map(|(goal, way)| result(goal, way, &loads, &stopped)).collect();
        let tried = |(load_fps, trials): (f64, &[Seen])| LoadTried { load_fps, trials: trials.to_vec() };
        Ok(MlrResult {
            asked: self.clone(),
            goals,
            loads: loads.all().map(tried).collect(),
            tally: run.tally,
        })
    }

    fn trial(
        &self,
        run: &mut Run<'_>,
        ways: &mut [Way],
        loads: &Loads,
        goal: usize,
        target: usize,
    ) -> Result<Outcome, Ended> {
        let load_fps = ways[goal].choose(target, loads, self.min_fps, self.max_fps);
        let bounds = loads.bounds(target);
        let left = ways
            .iter()
            .map(|way| way.left(loads))
            .fold((0, Duration::ZERO), |sum, left| (sum.0 + left.0, sum.1 + left.1));
        run.wanted(Wanted {
            request: Request { load_fps, duration: loads.target(target).duration },
            goal: &self.goals[goal].name,
            lower: bounds.lower,
            upper: bounds.upper,
            left: Some(left),
        })
    }

    fn effective(&self, outcome: &Outcome) -> Duration {
        match self.effective {
            Effective::Sent => outcome.request.duration,
            // What repeats took is not its own; and a clock that stands still must not make trials that never count.
            Effective::Took => outcome.took.max(outcome.request.duration),
        }
    }
}

fn result(goal: &Goal, way: &Way, loads: &Loads, stopped: &Ended) -> GoalResult {
    let bounds = loads.bounds(way.goal());
    let target = loads.target(way.goal());
    GoalResult {
        goal: goal.clone(),
        ended: loads.ended(way.goal()).unwrap_or_else(|| stopped.clone()),
        lower_fps: bounds.lower,
        upper_fps: bounds.upper,
        conditional_fps: bounds.lower.and_then(|fps| conditional_fps(target, fps, loads.trials(fps))),
        upper_unproved: bounds.upper.is_some_and(|fps| loads.trials(fps).iter().any(|seen| !seen.valid)),
    }
}

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;
