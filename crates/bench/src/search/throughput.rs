//! Throughput: the largest load without loss (RFC 2544 section 26.1, RFC 1242 section 3.17).
//!
//! Bisects between a load that was forwarded and a load that was not, until the two are within the resolution of each other. A frame that
//! could not be sent counts as lost.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::run::{BadInput, Ended, Limits, Progress, Run, Tally, shown_loss};
use crate::trial::{Measure, Outcome, Request};

/// The first load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// The largest load: if the router is as fast as the link, one trial is enough.
    Maximum,
    /// The middle between the bounds, as in siitperf.
    Middle,
    /// This load, in frames per second: for example the result of an earlier run.
    At(f64),
}

/// The choice of a load between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// The arithmetic mean: halves the difference.
    Halve,
    /// The geometric mean: halves the distance on a logarithmic scale. Suits a relative resolution, and bounds that are orders of
    /// magnitude apart.
    HalveRatio,
}

/// The maximum distance of the final bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resolution {
    /// In frames per second.
    Absolute(f64),
    /// As a share of the upper bound, above 0 and below 1.
    Relative(f64),
}

impl Resolution {
    /// True if the distance of the bounds is within the resolution.
    pub fn reached(&self, lower: f64, upper: f64) -> bool {
        upper - lower <= self.of(upper)
    }

    /// Returns the resolution in the unit of the bounds, for an upper bound `upper`.
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
            format_args!("must be above 0 (and below 1 if it is a share), is {what}"),
        )
    }
}

/// Parameters of the search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// The smallest load, in frames per second in each direction. A router that cannot forward it has no throughput.
    pub min_fps: f64,
    /// The largest load, in frames per second in each direction: the link's or the tester's maximum.
    pub max_fps: f64,
    /// The first load.
    pub start: Start,
    /// The rule for the next load.
    pub step: Step,
    /// The maximum distance of the bounds at the end of the search.
    pub resolution: Resolution,
    /// Sending time of a trial: at least 60 s in RFC 2544 section 24.
    pub duration: Duration,
}

/// Result of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThroughputResult {
    /// The parameters.
    pub asked: Throughput,
    /// How the search ended.
    pub ended: Ended,
    /// The largest load forwarded without loss, in frames per second in each direction; `None` if every load had loss or an invalid trial.
    pub throughput_fps: Option<f64>,
    /// The smallest load with loss or with an invalid trial, in frames per second in each direction; `None` if there was no such load.
    pub upper_fps: Option<f64>,
    /// True if the upper bound is from an invalid trial: the limit may be the tester's, not the router's.
    pub upper_unproved: bool,
    /// Trials and time spent.
    pub tally: Tally,
    /// All trials, in order.
    pub outcomes: Vec<Outcome>,
}

impl Throughput {
    /// Checks the parameters.
    ///
    /// # Errors
    /// If a parameter is invalid; names the first one.
    pub fn check(&self) -> Result<(), BadInput> {
        BadInput::unless_range(self.min_fps, self.max_fps)?;
        self.resolution.check()?;
        if let Start::At(fps) = self.start {
            let inside = fps >= self.min_fps && fps <= self.max_fps;
            BadInput::unless(inside, "start", format_args!("must be from min_fps to max_fps, is {fps}"))?;
        }
        BadInput::unless_frames(self.min_fps, self.duration, "duration")
    }

    /// Returns the maximum number of trials for any router: the steps of the bisection, one trial at each end of the range, and one trial
    /// for a start that does not halve the range.
    pub fn trials_at_most(&self) -> u32 {
        let (min, max) = (self.min_fps, self.max_fps);
        let halvings = match self.step {
            // With a relative resolution, the smallest possible upper bound is the smallest load.
            Step::Halve => ((max - min) / self.resolution.of(min)).log2(),
            // Bounds with ratio q have the distance (1 − 1/q)·upper.
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
    /// If the parameters are invalid. Whatever the router does is a result, not an error.
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

    /// Returns the next load, or how the search ended.
    fn next(&self, bounds: &Bounds, first: bool) -> Result<f64, Ended> {
        // An end of the range that was not tried serves as a bound. It is tried once the search gets near it.
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
        // Floating-point numbers cannot get nearer, whatever the resolution.
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
