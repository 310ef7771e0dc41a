//! Common parts of all searches: running and counting trials, progress, budget, and how a search ends.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::trial::{Measure, Outcome, Request};

/// An invalid parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadInput {
    /// Name of the parameter's field.
    pub field: &'static str,
    /// The condition that the parameter violates; messages put it after the name of the field.
    pub why: String,
}

impl BadInput {
    /// Returns an error unless `holds`.
    pub(crate) fn unless(holds: bool, field: &'static str, why: impl fmt::Display) -> Result<(), BadInput> {
        if holds { Ok(()) } else { Err(BadInput { field, why: why.to_string() }) }
    }

    /// Returns an error unless 0 < `min_fps` < `max_fps` < ∞, as every search between two loads requires.
    pub(crate) fn unless_range(min_fps: f64, max_fps: f64) -> Result<(), BadInput> {
        let positive = min_fps.is_finite() && min_fps > 0.0;
        BadInput::unless(positive, "min_fps", format_args!("must be above 0, is {min_fps}"))?;
        BadInput::unless_rate(max_fps, "max_fps")?;
        BadInput::unless(
            max_fps > min_fps,
            "max_fps",
            format_args!("must be above min_fps ({min_fps}), is {max_fps}"),
        )
    }

    /// Returns an error unless a rate is above 0 and finite.
    pub(crate) fn unless_rate(fps: f64, field: &'static str) -> Result<(), BadInput> {
        BadInput::unless(fps.is_finite() && fps > 0.0, field, format_args!("must be above 0, is {fps}"))
    }

    /// Returns an error unless a trial at `fps` for `duration` sends at least one frame.
    pub(crate) fn unless_frames(fps: f64, duration: Duration, field: &'static str) -> Result<(), BadInput> {
        BadInput::unless(!duration.is_zero(), field, "must be above 0")?;
        let frames = Request { load_fps: fps, duration }.frames();
        BadInput::unless(frames > 0, field, format_args!("is too short to send a frame at {fps} frames/s"))
    }
}

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.why)
    }
}

impl std::error::Error for BadInput {}

/// How a search ended. Only `Found` is a result as the procedure defines it; reports must mark all others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The search found its result.
    Found,
    /// The largest load was forwarded: the router's limit is at least this load.
    AllForwarded,
    /// Not even the smallest load was forwarded.
    NothingForwarded,
    /// The limit of trials or of time was reached.
    OutOfBudget,
    /// A trial failed; with the reason.
    Failed(String),
}

/// The budget of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum number of trials.
    pub trials: u32,
    /// Maximum total time of the trials, as counted in [`Tally::spent`]. Once it is spent, no further trial starts.
    pub time: Option<Duration>,
}

/// The trials and time that a search spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Number of trials, including one that failed. A repeated trial counts once.
    pub trials: u32,
    /// Trials that stayed invalid after all repeats.
    pub invalid: u32,
    /// Sum of [`Outcome::took`] over the trials, without the invalid trials that were repeated.
    pub spent: Duration,
}

/// The state of a search after a trial.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// Trials and time spent so far.
    pub tally: Tally,
    /// Name of the goal that the trial was for; empty in all searches but MLRsearch.
    pub goal: &'a str,
    /// Number of remaining trials: the maximum, or an estimate if the number depends on their results
    /// (MLRsearch).
    pub trials_left: u32,
    /// Estimated time of the remaining trials, if their waits are as long as those of this trial.
    pub time_left: Duration,
    /// Lower bound of the result before the trial, in frames per second (in a burst search: in frames);
    /// `None` if none is known yet.
    pub lower: Option<f64>,
    /// Upper bound of the result before the trial, in the unit of `lower`; `None` if none is known yet.
    pub upper: Option<f64>,
    /// Outcome of the trial.
    pub outcome: &'a Outcome,
}

/// A trial that a search requests, with the search's state for progress reports.
pub(crate) struct Wanted<'g> {
    pub(crate) request: Request,
    pub(crate) goal: &'g str,
    pub(crate) lower: Option<f64>,
    pub(crate) upper: Option<f64>,
    /// Number of remaining trials with this one, and their sending time, as estimated by MLRsearch. `None` for all other searches: both
    /// values then follow from the limit of trials.
    pub(crate) left: Option<(u32, Duration)>,
}

/// Runs the trials of a search.
pub(crate) struct Run<'a> {
    measure: &'a mut dyn Measure,
    progress: &'a mut dyn FnMut(&Progress<'_>),
    limits: Limits,
    pub(crate) tally: Tally,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        measure: &'a mut dyn Measure,
        progress: &'a mut dyn FnMut(&Progress<'_>),
        limits: Limits,
    ) -> Self {
        Run { measure, progress, limits, tally: Tally::default() }
    }

    /// Runs a trial between the current bounds.
    ///
    /// # Errors
    /// Returns how the search ended, if the budget is spent or the trial failed.
    pub(crate) fn trial(
        &mut self,
        request: Request,
        lower: Option<f64>,
        upper: Option<f64>,
    ) -> Result<Outcome, Ended> {
        self.wanted(Wanted { request, goal: "", lower, upper, left: None })
    }

    /// Runs a trial, with the search's state for progress reports.
    ///
    /// # Errors
    /// Same as [`Run::trial`].
    pub(crate) fn wanted(&mut self, wanted: Wanted<'_>) -> Result<Outcome, Ended> {
        let late = self.limits.time.is_some_and(|time| self.tally.spent >= time);
        if late || self.tally.trials >= self.limits.trials {
            return Err(Ended::OutOfBudget);
        }
        self.tally.trials += 1;
        let outcome = self.measure.measure(wanted.request).map_err(|failure| Ended::Failed(failure.0))?;
        self.tally.invalid += u32::from(!outcome.is_valid());
        self.tally.spent += outcome.took;
        let allowed = self.limits.trials - self.tally.trials;
        let this = wanted.request.duration;
        let (trials, sending) = match wanted.left {
            Some((trials, sending)) => (trials.saturating_sub(1), sending.saturating_sub(this)),
            None => (allowed, this.saturating_mul(allowed)),
        };
        let trials_left = trials.min(allowed);
        let waits = outcome.took.saturating_sub(wanted.request.duration);
        let mut time_left = sending.saturating_add(waits.saturating_mul(trials_left));
        if let Some(time) = self.limits.time {
            time_left = time_left.min(time.saturating_sub(self.tally.spent));
        }
        let Wanted { goal, lower, upper, .. } = wanted;
        let tally = self.tally;
        (self.progress)(&Progress { tally, goal, trials_left, time_left, lower, upper, outcome: &outcome });
        Ok(outcome)
    }
}

/// Returns the loss ratio that a trial proves. An invalid trial proves nothing, and counts as total loss.
pub(crate) fn shown_loss(outcome: &Outcome) -> f64 {
    if outcome.is_valid() { outcome.loss_ratio() } else { 1.0 }
}
