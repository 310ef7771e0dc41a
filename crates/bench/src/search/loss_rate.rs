//! Frame loss rate: the share of lost frames at each load (RFC 2544 section 26.3).
//!
//! The procedure starts at the largest load and goes down in equal steps, until two successive trials have no loss. RFC 2544 requires steps
//! of at most 10 % of the largest load.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::run::{BadInput, Ended, Limits, Progress, Run, Tally, shown_loss};
use crate::trial::{Measure, Outcome, Request};

/// Number of successive trials without loss that end the procedure (RFC 2544).
const CLEAN: u32 = 2;

/// Parameters of the procedure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossRate {
    /// The load of the first trial, in frames per second in each direction: the link's or the tester's maximum at the frame size.
    pub max_fps: f64,
    /// The step, as a share of `max_fps`. RFC 2544 requires at most 0.1, and encourages finer steps.
    pub step: f64,
    /// Sending time of a trial.
    pub duration: Duration,
}

/// The loss at a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossPoint {
    /// The load, as a share of the largest load.
    pub share: f64,
    /// Lost frames as a share of the intended frames: (in − out)/in. Also set for an invalid trial (see `outcome`).
    pub loss_ratio: f64,
    /// Outcome of the trial.
    pub outcome: Outcome,
}

/// Result of the procedure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossRateResult {
    /// The parameters.
    pub asked: LossRate,
    /// How the procedure ended: `NothingForwarded` if, down to the smallest load, no two successive trials were without loss.
    pub ended: Ended,
    /// The points, from the largest load down.
    pub points: Vec<LossPoint>,
    /// Trials and time spent.
    pub tally: Tally,
}

impl LossRate {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Returns an error that names the first invalid parameter.
    pub fn check(&self) -> Result<(), BadInput> {
        BadInput::unless_rate(self.max_fps, "max_fps")?;
        // The smallest step gives a thousand trials, enough for any curve.
        let sensible = self.step >= 0.001 && self.step <= 0.5;
        BadInput::unless(sensible, "step", format_args!("must be from 0.001 to 0.5, is {}", self.step))?;
        BadInput::unless_frames(self.max_fps * self.step, self.duration, "duration")
    }

    /// Returns the maximum number of trials: one for each load above 0.
    pub fn trials_at_most(&self) -> u32 {
        // A division such as 0.3/0.1 can have a rounding error. Without the slack, the last load could be an extra one just above 0.
        (1.0 / self.step - 1e-9).ceil() as u32
    }

    /// Runs the trials.
    ///
    /// # Errors
    /// Returns an error if a parameter is invalid. Whatever the router does is a result, not an error.
    pub fn search(
        &self,
        measure: &mut dyn Measure,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<LossRateResult, BadInput> {
        self.check()?;
        let trials = self.trials_at_most();
        let mut run = Run::new(measure, progress, Limits { trials, time: None });
        let mut points: Vec<LossPoint> = Vec::new();
        let mut clean = 0;
        let mut ended = Ended::NothingForwarded;
        for index in 0..trials {
            // Computed from the index, so that rounding errors do not add up over the steps.
            let share = 1.0 - self.step * f64::from(index);
            let request = Request { load_fps: self.max_fps * share, duration: self.duration };
            let lossy = points.iter().rfind(|p| shown_loss(&p.outcome) > 0.0);
            let upper = lossy.map(|point| point.outcome.request.load_fps);
            match run.trial(request, None, upper) {
                Ok(outcome) => {
                    clean = if shown_loss(&outcome) > 0.0 { 0 } else { clean + 1 };
                    points.push(LossPoint { share, loss_ratio: outcome.loss_ratio(), outcome });
                }
                Err(why) => {
                    ended = why;
                    break;
                }
            }
            if clean == CLEAN {
                ended = Ended::Found;
                break;
            }
        }
        Ok(LossRateResult { asked: *self, ended, points, tally: run.tally })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sim::Router;

    const ASKED: LossRate = LossRate { max_fps: 1e6, step: 0.1, duration: Duration::from_secs(60) };

    fn run(asked: LossRate, router: &mut dyn Measure) -> LossRateResult {
        asked.search(router, &mut |_| ()).unwrap()
    }

    #[test]
    fn two_consecutive_clean_trials_end_the_search() {
        let result = run(ASKED, &mut Router::new(7.5e5));
        let lost: Vec<f64> = result.points.iter().map(|p| (p.loss_ratio * 1e4).round() / 1e4).collect();
        assert_eq!(lost, [0.25, 0.1667, 0.0625, 0.0, 0.0]);
        assert_eq!((result.ended, result.points[4].share), (Ended::Found, 0.6));
    }

    #[test]
    fn one_clean_trial_does_not_end_the_search() {
        let mut trials = 0;
        let mut unlucky = |request| {
            trials += 1;
            Router::new(2e6).loss(if trials == 2 { 0.01 } else { 0.0 }).measure(request)
        };
        assert_eq!(run(ASKED, &mut unlucky).points.len(), 4);
    }

    #[test]
    fn fastest_and_dead_routers_end_the_search() {
        assert_eq!(run(ASKED, &mut Router::new(2e6)).points.len(), 2);
        let dead = run(ASKED, &mut Router::new(0.0));
        assert_eq!((dead.ended, dead.points.len()), (Ended::NothingForwarded, 10));
        assert!(dead.points.iter().all(|p| p.loss_ratio == 1.0));
    }

    #[test]
    fn a_failure_keeps_earlier_points() {
        let mut trials = 0;
        let mut fails = |request| {
            trials += 1;
            Router::new(1e5).fails_above(if trials == 3 { 0.0 } else { 1e9 }).measure(request)
        };
        let result = run(ASKED, &mut fails);
        assert!(matches!(result.ended, Ended::Failed(_)));
        assert_eq!((result.points.len(), result.tally.trials), (2, 3));
    }

    #[test]
    fn bad_input_names_its_field() {
        let field = |bad: LossRate| bad.search(&mut Router::new(1.0), &mut |_| ()).unwrap_err().field;
        assert_eq!(field(LossRate { max_fps: -1.0, ..ASKED }), "max_fps");
        assert_eq!(field(LossRate { step: 0.0, ..ASKED }), "step");
        assert_eq!(field(LossRate { duration: Duration::ZERO, ..ASKED }), "duration");
    }

    proptest! {
        #[test]
        fn loads_are_positive_and_clean_ones_below_the_capacity(capacity in 0f64..2e6, step in 0.001f64..0.5) {
            let result = run(LossRate { step, ..ASKED }, &mut Router::new(capacity));
            prop_assert!(result.points.iter().all(|p| p.share > 0.0 && p.share <= 1.0));
            for point in &result.points {
                prop_assert_eq!(point.loss_ratio == 0.0, point.outcome.request.load_fps <= capacity + 0.1);
            }
            prop_assert!(!matches!(result.ended, Ended::OutOfBudget));
        }
    }
}
