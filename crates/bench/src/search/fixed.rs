//! Trials at given loads: maximum receive rate, soak, and lists of rates.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::run::{BadInput, Ended, Limits, Progress, Run, Tally};
use crate::trial::{Measure, Outcome, Request};

/// A load: in frames per second, or as a share of the largest load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rate {
    /// Frames per second in each direction.
    Fps(f64),
    /// A share of the largest load; 0.1 is 10 %.
    Share(f64),
}

impl Rate {
    /// Returns the load in frames per second, with `max_fps` as the largest load.
    pub fn fps(&self, max_fps: f64) -> f64 {
        match *self {
            Rate::Fps(fps) => fps,
            Rate::Share(share) => max_fps * share,
        }
    }
}

/// Trials at given loads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fixed {
    /// The largest load, in frames per second in each direction: the link's or the tester's maximum.
    pub max_fps: f64,
    /// The loads, in the order of the trials.
    pub rates: Vec<Rate>,
    /// Sending time of a trial.
    pub duration: Duration,
    /// Number of consecutive trials at each load.
    pub repetitions: u32,
}

/// The trials at one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FixedPoint {
    /// The load, in frames per second in each direction.
    pub load_fps: f64,
    /// Loss in all valid trials together, as a share of the intended frames; `None` without valid trials.
    pub loss_ratio: Option<f64>,
    /// The forwarding rate of each valid trial, in frames per second in each direction.
    pub forwarding_fps: Vec<f64>,
    /// The mean of `forwarding_fps`; `None` without valid trials.
    pub mean_fps: Option<f64>,
    /// All trials, including invalid ones.
    pub outcomes: Vec<Outcome>,
}

/// Result of the trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FixedResult {
    /// The parameters.
    pub asked: Fixed,
    /// How the procedure ended: `Found` if all trials were run, whatever their loss.
    pub ended: Ended,
    /// A point for each load that was tried.
    pub points: Vec<FixedPoint>,
    /// Trials and time spent.
    pub tally: Tally,
}

impl Fixed {
    /// Returns the procedure for the maximum receive rate, or forwarding rate at maximum offered load (RFC 2285 section 3.6.2). CSIT uses
    /// ten trials of 1 s to observe trends, and five trials of 10 s to judge a change.
    pub fn maximum_receive_rate(max_fps: f64, duration: Duration, repetitions: u32) -> Self {
        Fixed { max_fps, rates: vec![Rate::Share(1.0)], duration, repetitions }
    }

    /// Returns a soak: consecutive trials of `interval` at one load, as many as fit into `total`. Their outcomes give the loss over time.
    /// Nothing is sent during the waits between trials, so an interval should be much longer than a wait.
    ///
    /// A soak measures the loss of a load. Unlike PLRsearch, it does not search for the load with a given loss.
    pub fn soak(load_fps: f64, total: Duration, interval: Duration) -> Self {
        let intervals = total.as_nanos().checked_div(interval.as_nanos()).unwrap_or(0);
        let repetitions = u32::try_from(intervals).unwrap_or(u32::MAX);
        Fixed { max_fps: load_fps, rates: vec![Rate::Share(1.0)], duration: interval, repetitions }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// Returns an error that names the first invalid parameter.
    pub fn check(&self) -> Result<(), BadInput> {
        BadInput::unless_rate(self.max_fps, "max_fps")?;
        BadInput::unless(!self.rates.is_empty(), "rates", "must not be empty")?;
        BadInput::unless(self.repetitions >= 1, "repetitions", "must be at least 1")?;
        for rate in &self.rates {
            let fps = rate.fps(self.max_fps);
            BadInput::unless_rate(fps, "rates")?;
            let most = self.max_fps * (1.0 + 1e-9);
            BadInput::unless(
                fps <= most,
                "rates",
                format_args!("must be at most max_fps ({}), one is {fps}", self.max_fps),
            )?;
            BadInput::unless_frames(fps, self.duration, "duration")?;
        }
        Ok(())
    }

    /// Returns the maximum number of trials.
    pub fn trials_at_most(&self) -> u32 {
        u32::try_from(self.rates.len()).unwrap_or(u32::MAX).saturating_mul(self.repetitions)
    }

    /// Runs the trials.
    ///
    /// # Errors
    /// Returns an error if a parameter is invalid. Whatever the router does is a result, not an error.
    pub fn run(
        &self,
        measure: &mut dyn Measure,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<FixedResult, BadInput> {
        self.check()?;
        let mut run = Run::new(measure, progress, Limits { trials: self.trials_at_most(), time: None });
        let mut points = Vec::new();
        let mut ended = Ended::Found;
        for rate in &self.rates {
            let request = Request { load_fps: rate.fps(self.max_fps), duration: self.duration };
            let mut outcomes = Vec::new();
            while ended == Ended::Found && outcomes.len() < self.repetitions as usize {
                match run.trial(request, None, None) {
                    Ok(outcome) => outcomes.push(outcome),
                    Err(why) => ended = why,
                }
            }
            if !outcomes.is_empty() {
                points.push(FixedPoint::of(request.load_fps, outcomes));
            }
        }
        Ok(FixedResult { asked: self.clone(), ended, points, tally: run.tally })
    }
}

impl FixedPoint {
    fn of(load_fps: f64, outcomes: Vec<Outcome>) -> Self {
        let valid = || outcomes.iter().filter(|outcome| outcome.is_valid());
        let intended: u64 = valid().map(|outcome| outcome.intended).sum();
        let lost: u64 = valid().map(Outcome::lost).sum();
        let forwarding_fps: Vec<f64> = valid().map(Outcome::forwarding_fps).collect();
        let count = forwarding_fps.len();
        FixedPoint {
            load_fps,
            loss_ratio: (intended > 0).then(|| lost as f64 / intended as f64),
            mean_fps: (count > 0).then(|| forwarding_fps.iter().sum::<f64>() / count as f64),
            forwarding_fps,
            outcomes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Router;

    const SECOND: Duration = Duration::from_secs(1);

    fn run(asked: &Fixed, router: &mut dyn Measure) -> FixedResult {
        asked.run(router, &mut |_| ()).unwrap()
    }

    #[test]
    fn the_maximum_receive_rate_is_the_capacity() {
        let asked = Fixed::maximum_receive_rate(2e6, SECOND, 10);
        let result = run(&asked, &mut Router::new(1e6));
        assert_eq!((&result.ended, result.tally.trials), (&Ended::Found, 10));
        assert!((result.points[0].mean_fps.unwrap() - 1e6).abs() < 1.0);
        let noisy = run(&asked, &mut Router::noisy(1e6, 3));
        assert!((noisy.points[0].mean_fps.unwrap() - 1e6).abs() < 6e3);
    }

    #[test]
    fn a_soak_shows_the_time_of_losses() {
        let mut trials = 0;
        let mut hiccup = |request| {
            trials += 1;
            Router::new(1e6).loss(if trials == 7 { 1e-3 } else { 0.0 }).measure(request)
        };
        let asked = Fixed::soak(1e5, SECOND * 100, SECOND * 10);
        let result = run(&asked, &mut hiccup);
        let lost: Vec<u64> = result.points[0].outcomes.iter().map(Outcome::lost).collect();
        assert_eq!(lost, [0, 0, 0, 0, 0, 0, 1000, 0, 0, 0]);
        assert_eq!(result.points[0].loss_ratio, Some(1e-4));
    }

    #[test]
    fn rates_are_tried_in_their_order() {
        let rates = vec![Rate::Share(0.5), Rate::Fps(2e5), Rate::Share(1.0)];
        let asked = Fixed { max_fps: 1e6, rates, duration: SECOND, repetitions: 2 };
        let result = run(&asked, &mut Router::new(4e5));
        let found: Vec<_> = result.points.iter().map(|p| (p.load_fps, p.loss_ratio.unwrap())).collect();
        assert_eq!(found, [(5e5, 0.2), (2e5, 0.0), (1e6, 0.6)]);
        let failed = run(&asked, &mut Router::new(4e5).fails_above(6e5));
        assert!(matches!(failed.ended, Ended::Failed(_)) && failed.points.len() == 2);
    }

    #[test]
    fn invalid_trials_are_kept_but_not_counted() {
        let asked = Fixed::maximum_receive_rate(2e6, SECOND, 3);
        let result = run(&asked, &mut Router::new(1e6).invalid(1.0));
        let point = &result.points[0];
        assert_eq!(
            (point.loss_ratio, point.mean_fps, point.outcomes.len(), result.tally.invalid),
            (None, None, 3, 3)
        );
    }

    #[test]
    fn bad_input_names_its_field() {
        let good = Fixed { max_fps: 1e6, rates: vec![Rate::Share(0.5)], duration: SECOND, repetitions: 1 };
        let field = |bad: Fixed| bad.run(&mut Router::new(1.0), &mut |_| ()).unwrap_err().field;
        assert_eq!(field(Fixed { max_fps: 0.0, ..good.clone() }), "max_fps");
        assert_eq!(field(Fixed { rates: vec![], ..good.clone() }), "rates");
        assert_eq!(field(Fixed { rates: vec![Rate::Share(1.1)], ..good.clone() }), "rates");
        assert_eq!(field(Fixed { repetitions: 0, ..good.clone() }), "repetitions");
        assert_eq!(field(Fixed { duration: Duration::ZERO, ..good }), "duration");
        assert_eq!(field(Fixed::soak(1e5, SECOND, Duration::ZERO)), "repetitions");
    }
}
