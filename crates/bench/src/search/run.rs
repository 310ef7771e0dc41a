//! What all searches share: how they run a trial, count, tell their progress, and end.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::trial::{Measure, Outcome, Request};

/// A configuration that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadInput {
    /// The field.
    pub field: &'static str,
    /// What it must be.
    pub why: String,
}

impl BadInput {
    /// Passes when `holds`.
    pub(crate) fn unless(holds: bool, field: &'static str, why: impl fmt::Display) -> Result<(), BadInput> {
        if holds { Ok(()) } else { Err(BadInput { field, why: why.to_string() }) }
    }

    /// Passes when 0 < `min` < `max` < ∞: what every search between two loads needs.
    pub(crate) fn unless_range(min_fps: f64, max_fps: f64) -> Result<(), BadInput> {
        let positive = min_fps.is_finite() && min_fps > 0.0;
        BadInput::unless(positive, "min_fps", format_args!("must be above 0, is {min_fps}"))?;
        BadInput::unless_rate(max_fps, "max_fps")?;
        BadInput::unless(
            max_fps > min_fps,
            "max_fps",
            format_args!("must be above min_fps, {min_fps}, is {max_fps}"),
        )
    }

    /// Passes when a rate is above 0 and finite.
    pub(crate) fn unless_rate(fps: f64, field: &'static str) -> Result<(), BadInput> {
        BadInput::unless(fps.is_finite() && fps > 0.0, field, format_args!("must be above 0, is {fps}"))
    }

    /// Passes when a trial at `fps` for `duration` sends a frame.
    pub(crate) fn unless_frames(fps: f64, duration: Duration, field: &'static str) -> Result<(), BadInput> {
        BadInput::unless(!duration.is_zero(), field, "must be above 0")?;
        let frames = Request { load_fps: fps, duration }.frames();
        BadInput::unless(frames > 0, field, format_args!("is too short: no frame is sent at {fps} frames/s"))
    }
}

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.why)
    }
}

impl std::error::Error for BadInput {}

/// How a search ended. Only with `Found` is its result one that the procedure defines; everything else is to be marked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// It found what it looked for.
    Found,
    /// The largest load was forwarded: the router can do that, and perhaps more.
    AllForwarded,
    /// Not even the smallest load was forwarded.
    NothingForwarded,
    /// The trials or the time it may take were used up.
    OutOfBudget,
    /// A trial had no outcome: why.
    Failed(String),
}

/// What a search may take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Trials.
    pub trials: u32,
    /// Time that trials take ([`Outcome::took`]). No trial begins after it.
    pub time: Option<Duration>,
}

/// What a search took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Trials.
    pub trials: u32,
    /// Trials among them that were invalid, and had been repeated as often as was allowed.
    pub invalid: u32,
    /// The time they took.
    pub spent: Duration,
}

/// How far a search is, after a trial.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// What it took so far.
    pub tally: Tally,
    /// Which of several goals the trial was for; empty in a search that has one.
    pub goal: &'a str,
    /// Trials that are left: at most, or as an estimate where the number depends on what they show (MLRsearch).
    pub trials_left: u32,
    /// The time they take, if they wait as long as this one did.
    pub time_left: Duration,
    /// What the search looks for is no less than this, in frames a second (a burst search: in frames).
    pub lower: Option<f64>,
    /// And less than this. The bounds are those before the trial.
    pub upper: Option<f64>,
    /// The trial.
    pub outcome: &'a Outcome,
}

/// A trial that a search wants, and what it knows at that moment.
pub(crate) struct Wanted<'g> {
    pub(crate) request: Request,
    pub(crate) goal: &'g str,
    pub(crate) lower: Option<f64>,
    pub(crate) upper: Option<f64>,
    /// Trials that are left after it, and the time they send; `None` leaves it at the limits.
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

    /// Runs a trial, between the bounds of now.
    ///
    /// # Errors
    /// How the search ends when no trial may begin, or this one had no outcome.
    pub(crate) fn trial(
        &mut self,
        request: Request,
        lower: Option<f64>,
        upper: Option<f64>,
    ) -> Result<Outcome, Ended> {
        self.wanted(Wanted { request, goal: "", lower, upper, left: None })
    }

    /// Runs a trial.
    ///
    /// # Errors
    /// As [`Run::trial`].
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
        let (trials, sending) =
            wanted.left.unwrap_or((allowed, wanted.request.duration.saturating_mul(allowed)));
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

/// What a trial shows that the router loses: an invalid one shows nothing, and counts as if all were lost.
pub(crate) fn shown_loss(outcome: &Outcome) -> f64 {
    if outcome.is_valid() { outcome.loss_ratio() } else { 1.0 }
}
