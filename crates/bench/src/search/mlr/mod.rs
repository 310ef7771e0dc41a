//! Multiple loss ratio search: RFC 9971, draft-ietf-bmwg-mlrsearch.
//!
//! Several goals are searched at once. Each has a loss ratio, and a share of time in which trials may exceed this loss ratio. A load is
//! tried until its trials decide whether the load is a lower or an upper bound of a goal. Every trial counts for every goal. The result of
//! a goal is its relevant lower and upper bound, which are at most the goal's width apart.
//!
//! The RFC does not specify which trials to run. [`Mlr::search`] describes the choice made here.

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

/// The effective duration of a trial: the time for which the trial counts in a goal's duration sum (RFC 9971).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effective {
    /// Only the time of sending counts.
    Sent,
    /// The whole elapsed time counts, including waits, as in CSIT. So fewer trials reach a goal's duration sum.
    Took,
}

/// Parameters of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mlr {
    /// The goals. If several goals have made equal progress, the search works on the first of them.
    pub goals: Vec<Goal>,
    /// Min Load, in frames per second in each direction. If this load fails a goal, the search for the goal ends.
    pub min_fps: f64,
    /// Max Load, in frames per second in each direction.
    pub max_fps: f64,
    /// Number of targets before each goal, with shorter trials and wider intervals than the goal has: 2 in CSIT. With 0, all trials have
    /// the duration of the goal.
    pub preceding: u32,
    /// The time of a trial that counts in a goal's duration sum.
    pub effective: Effective,
    /// Limits of the search: number of trials, and time.
    pub limits: Limits,
}

/// Result of a goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalResult {
    /// The goal.
    pub goal: Goal,
    /// How the search ended. `Found` is a regular result in the RFC's terms; all others are irregular, and reports must mark them.
    pub ended: Ended,
    /// The relevant lower bound, in frames per second in each direction. If the search ended with `AllForwarded`, this is the largest load.
    /// `None` if there is no lower bound.
    pub lower_fps: Option<f64>,
    /// The relevant upper bound, in frames per second in each direction; `None` if no load is an upper bound.
    pub upper_fps: Option<f64>,
    /// Conditional throughput at the lower bound, in frames per second in each direction. Comparisons of results use this figure. `None`
    /// without a lower bound or a full-length trial.
    pub conditional_fps: Option<f64>,
    /// True if a trial at the upper bound was invalid, so that the limit may be the tester's, not the router's.
    pub upper_unproved: bool,
}

/// A load that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadTried {
    /// The load, in frames per second in each direction.
    pub load_fps: f64,
    /// The trials at this load, in the order in which they ran.
    pub trials: Vec<Seen>,
}

/// Result of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MlrResult {
    /// The parameters.
    pub asked: Mlr,
    /// The results of the goals, in the goals' order.
    pub goals: Vec<GoalResult>,
    /// All loads that were tried, in rising order.
    pub loads: Vec<LoadTried>,
    /// Trials and time spent.
    pub tally: Tally,
}

impl Mlr {
    /// Returns the search for non-drop and partial-drop rate as in FD.io CSIT, with at most 2,000 trials.
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

    /// Checks the parameters.
    ///
    /// # Errors
    /// Returns an error that names the first invalid parameter.
    pub fn check(&self) -> Result<(), BadInput> {
        BadInput::unless_range(self.min_fps, self.max_fps)?;
        BadInput::unless(!self.goals.is_empty(), "goals", "must not be empty")?;
        for goal in &self.goals {
            goal.check()?;
            BadInput::unless_frames(self.min_fps, goal.initial_duration, "initial_duration")?;
        }
        BadInput::unless(
            self.preceding <= 8,
            "preceding",
            format_args!("must be at most 8, is {}", self.preceding),
        )?;
        BadInput::unless(self.limits.trials >= 1, "limits", "must allow at least 1 trial")
    }

    /// Returns the maximum number of trials for a deterministic router of any capacity: for each goal, the trials of the steps that find
    /// the capacity, and the trials of four loads for each of the goal's targets. For other routers, only `limits` bounds the number of
    /// trials.
    ///
    /// With CSIT's goals, searches with a capacity jitter of 0.5 % also stay below this number: 4,000 such searches took 63 trials on
    /// average and 113 at most. Without jitter, 35 trials were enough.
    pub fn trials_without_noise(&self) -> u32 {
        let of_goal = |goal: &Goal| {
            let targets = goal.targets(self.preceding);
            // Number of widths in the whole range. The steps to a load first double, and then as many steps halve the distance of the
            // bounds.
            let widths = (self.max_fps / self.min_fps).ln() / -(-targets[0].width).ln_1p();
            let steps = 2 * widths.max(1.0).log2().ceil() as u32 + 4;
            steps * targets[0].trials_a_load()
                + targets.iter().map(|target| 4 * target.trials_a_load()).sum::<u32>()
        };
        self.goals.iter().map(of_goal).sum()
    }

    /// Runs the search.
    ///
    /// The first trial is at the largest load. The second load is the rate forwarded in the first trial, and the third load is the rate
    /// forwarded in the second. Then the search goes up or down in steps of doubling size, and then tries geometric means of the bounds,
    /// until the bounds are within the width of the coarsest target. The bounds are then tried again with longer or more trials, target by
    /// target, until the goals are reached.
    ///
    /// # Errors
    /// Returns an error if a parameter is invalid. Whatever the router does is a result, not an error.
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
        // The goal with the least progress; of several, the first.
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
            // Excludes the time of repeated trials. At least the sending time: with a clock that stands still, trials would never count.
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
