//! Throughput: the largest load of which no frame is lost. RFC 2544 section 26.1, RFC 1242 section 3.17.
//!
//! Bisection between a load that was forwarded and one that was not, until they are as near as the resolution asks. A
//! frame that could not be sent counts as lost.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::run::{BadInput, Ended, Limits, Progress, Run, Tally, shown_loss};
use crate::trial::{Measure, Outcome, Request};

/// The first load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// The largest: a router as fast as the link is done after one trial.
    Maximum,
    /// Half way between the bounds, as siitperf begins.
    Middle,
    /// This one, in frames a second: a guess, from a run before.
    At(f64),
}

/// Which load between two is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Their arithmetic mean: halves the difference.
    Halve,
    /// Their geometric mean: halves the ratio, which suits a relative resolution and bounds that are orders apart.
    HalveRatio,
}

/// How near the bounds must come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resolution {
    /// So many frames a second.
    Absolute(f64),
    /// This share of the upper bound, above 0 and below 1.
    Relative(f64),
}

impl Resolution {
    /// Whether bounds are near enough.
    pub fn reached(&self, lower: f64, upper: f64) -> bool {
        upper - lower <= self.of(upper)
    }

    /// In the unit of the bounds, when the upper one is `upper`.
    pub(crate) fn of(&self, upper: f64) -> f64 {
        match *self {
            Resolution::Absolute(width) => width,
            Resolution::Relative(share) => share * upper,
        }
    }

    pub(crate) fn check(&self) -> Result<(), BadInput> {
        let (holds, what) = match *self {
            Resolution::Absolute(width) => (width.is_finite() && width > 0.0, width),
            Resolution::Relative(share) => (share > 0.0 && share < 1.0, share),
        };
        BadInput::unless(
            holds,
            "resolution",
            format_args!("must be above 0 (and a share below 1), is {what}"),
        )
    }
}

/// What to search, and how.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// The smallest load, frames a second in each direction. Less is not distinguished from none at all.
    pub min_fps: f64,
    /// The largest load: the link's, or what the tester itself can do.
    pub max_fps: f64,
    /// The first load.
    pub start: Start,
    /// The rule for the next.
    pub step: Step,
    /// When to stop.
    pub resolution: Resolution,
    /// How long a trial sends: 60 s at least in RFC 2544 section 24.
    pub duration: Duration,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThroughputResult {
    /// What was asked.
    pub asked: Throughput,
    /// How it ended.
    pub ended: Ended,
    /// The largest load, in frames a second and direction, that was forwarded whole; `None` when none was.
    pub throughput_fps: Option<f64>,
    /// The smallest load that was not; `None` when there was none.
    pub upper_fps: Option<f64>,
    /// The upper bound rests on an invalid trial: the limit may be the tester's, not the router's.
    pub upper_unproved: bool,
    /// What it took.
    pub tally: Tally,
    /// All trials, in order.
    pub outcomes: Vec<Outcome>,
}

impl Throughput {
    /// Whether it can be searched.
    ///
    /// # Errors
    /// The first field that makes no sense.
    pub fn check(&self) -> Result<(), BadInput> {
        BadInput::unless_range(self.min_fps, self.max_fps)?;
        self.resolution.check()?;
        if let Start::At(fps) = self.start {
            let inside = fps >= self.min_fps && fps <= self.max_fps;
            BadInput::unless(inside, "start", format_args!("must be from min_fps to max_fps, is {fps}"))?;
        }
        BadInput::unless_frames(self.min_fps, self.duration, "duration")
    }

    /// The most trials that it takes, whatever the router does: the bisection, one for either end, and one for a start
    /// that halves nothing.
    pub fn trials_at_most(&self) -> u32 {
        let (min, max) = (self.min_fps, self.max_fps);
        let halvings = match self.step {
            // The upper bound of a relative resolution is no less than the smallest load.
            Step::Halve => ((max - min) / self.resolution.of(min)).log2(),
            // Bounds of a ratio q are (1 − 1/q)·upper apart.
            Step::HalveRatio => {
                let share = (self.resolution.of(max) / max).min(0.5);
                ((max / min).ln() / -(-share).ln_1p()).log2()
            }
        };
        halvings.max(0.0).ceil() as u32 + 3
    }

    /// Runs the search.
    ///
    /// # Errors
    /// When the configuration makes no sense. Whatever the router does is a result.
    pub fn search(
        &self,
        measure: &mut dyn Measure,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<ThroughputResult, BadInput> {
        self.check()?;
        let limits = Limits { trials: self.trials_at_most(), time: None };
        let mut run = Run::new(measure, progress, limits);
        let mut bounds = Bounds::default();
        let mut outcomes = Vec::new();
        let ended = loop {
            let load_fps = match self.next(&bounds, outcomes.is_empty()) {
                Ok(load_fps) => load_fps,
                Err(ended) => break ended,
            };
            let request = Request { load_fps, duration: self.duration };
            match run.trial(request, bounds.lower, bounds.upper) {
                Ok(outcome) => {
                    bounds.learn(&outcome);
                    outcomes.push(outcome);
                }
                Err(ended) => break ended,
            }
        };
        Ok(ThroughputResult {
            asked: *self,
            ended,
            throughput_fps: bounds.lower,
            upper_fps: bounds.upper,
            upper_unproved: bounds.upper_unproved,
            tally: run.tally,
            outcomes,
        })
    }

    /// The next load, or how the search ended.
    fn next(&self, bounds: &Bounds, first: bool) -> Result<f64, Ended> {
        // Ends that were not tried stand for bounds until the search has come near them, and are tried then.
        let (lower, upper) = (bounds.lower.unwrap_or(self.min_fps), bounds.upper.unwrap_or(self.max_fps));
        if lower >= self.max_fps {
            return Err(Ended::AllForwarded);
        }
        if upper <= self.min_fps {
            return Err(Ended::NothingForwarded);
        }
        let middle = match self.step {
            Step::Halve => lower / 2.0 + upper / 2.0,
            Step::HalveRatio => lower.sqrt() * upper.sqrt(),
        };
        if first {
            return Ok(match self.start {
                Start::Maximum => self.max_fps,
                Start::Middle => middle,
                Start::At(fps) => fps,
            });
        }
        // Numbers have no more digits: as near as it gets, whatever the resolution.
        let exhausted = middle <= lower || middle >= upper;
        if !self.resolution.reached(lower, upper) && !exhausted {
            return Ok(middle);
        }
        match (bounds.lower, bounds.upper) {
            (Some(_), Some(_)) => Err(Ended::Found),
            (Some(_), None) => Ok(self.max_fps),
            (None, _) => Ok(self.min_fps),
        }
    }
}

#[derive(Default)]
struct Bounds {
    lower: Option<f64>,
    upper: Option<f64>,
    upper_unproved: bool,
}

impl Bounds {
    fn learn(&mut self, outcome: &Outcome) {
        let load = Some(outcome.request.load_fps);
        if shown_loss(outcome) > 0.0 {
            self.upper = load;
            self.upper_unproved = !outcome.is_valid();
        } else {
            self.lower = load;
        }
    }
}

#[cfg(test)]
#[path = "throughput_tests.rs"]
mod tests;
