//! Search goals: the conditions under which a load is a bound.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::search::run::BadInput;

/// A search goal of MLRsearch (RFC 9971, "Search Goal").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Name in reports.
    pub name: String,
    /// Goal Loss Ratio: a trial with a higher loss ratio is a high-loss trial. From 0 to below 1.
    pub loss_ratio: f64,
    /// Goal Exceed Ratio: the share of time that high-loss trials may take. From 0 to below 1.
    pub exceed_ratio: f64,
    /// Goal Width: the maximum distance of the bounds, as a share of the upper bound. 10⁻⁶ to 0.5.
    pub width: f64,
    /// Goal Initial Trial Duration: the duration of the first trials.
    pub initial_duration: Duration,
    /// Goal Final Trial Duration: the minimum duration of a full-length trial. Shorter trials can count against a load, but not for it.
    pub final_duration: Duration,
    /// Goal Duration Sum: once the trials of the final duration at a load add up to this time, the load is classified.
    pub duration_sum: Duration,
}

impl Goal {
    /// Returns the goal whose result is the throughput of RFC 2544 section 24 (RFC 9971, "MLRsearch Compliant with RFC 2544"). Shorter
    /// trials can only rule loads out; the throughput itself is from a trial of 60 s.
    pub fn rfc2544() -> Self {
        Goal {
            name: "RFC2544".into(),
            loss_ratio: 0.0,
            exceed_ratio: 0.0,
            width: 0.005,
            initial_duration: Duration::from_secs(1),
            final_duration: Duration::from_secs(60),
            duration_sum: Duration::from_secs(60),
        }
    }

    /// Returns the goal for binary search with loss verification: ETSI GS NFV-TST 009 section 12.3.3, with max(r) = 2 and z = infinity. One
    /// of two trials of 60 s must be without loss.
    pub fn tst009() -> Self {
        Goal {
            name: "TST009".into(),
            exceed_ratio: 0.5,
            initial_duration: Duration::from_secs(60),
            duration_sum: Duration::from_secs(120),
            ..Goal::rfc2544()
        }
    }

    /// Returns the goal for the non-drop rate as in FD.io CSIT: 21 trials of 1 s, half of which must be without loss.
    pub fn csit_ndr() -> Self {
        Goal {
            name: "NDR".into(),
            exceed_ratio: 0.5,
            final_duration: Duration::from_secs(1),
            duration_sum: Duration::from_secs(21),
            ..Goal::rfc2544()
        }
    }

    /// Returns the goal for the partial-drop rate as in FD.io CSIT: [`Goal::csit_ndr`] with a loss ratio of 0.5 %.
    pub fn csit_pdr() -> Self {
        Goal { name: "PDR".into(), loss_ratio: 0.005, ..Goal::csit_ndr() }
    }

    /// Returns the goal with another final duration; the other durations are scaled by the same factor.
    pub fn scaled(&self, final_duration: Duration) -> Goal {
        let by = final_duration.as_secs_f64() / self.final_duration.as_secs_f64();
        let scale = |duration: Duration| duration.mul_f64(by);
        Goal {
            initial_duration: scale(self.initial_duration),
            final_duration,
            duration_sum: scale(self.duration_sum),
            ..self.clone()
        }
    }

    /// Checks the goal.
    ///
    /// # Errors
    /// Returns an error that names the first invalid field.
    pub fn check(&self) -> Result<(), BadInput> {
        let share = |value: f64| (0.0..1.0).contains(&value);
        let told = |value: f64| format!("must be from 0 to below 1, is {value} (goal {})", self.name);
        BadInput::unless(share(self.loss_ratio), "loss_ratio", told(self.loss_ratio))?;
        BadInput::unless(share(self.exceed_ratio), "exceed_ratio", told(self.exceed_ratio))?;
        let width = (1e-6..=0.5).contains(&self.width);
        let told = format!("must be from 0.000001 to 0.5, is {} (goal {})", self.width, self.name);
        BadInput::unless(width, "width", told)?;
        let told = |what: &str| format!("must {what} (goal {})", self.name);
        BadInput::unless(!self.initial_duration.is_zero(), "initial_duration", told("be above 0"))?;
        let longer = self.final_duration >= self.initial_duration;
        BadInput::unless(longer, "final_duration", told("be at least initial_duration"))?;
        let longer = self.duration_sum >= self.final_duration;
        BadInput::unless(longer, "duration_sum", told("be at least final_duration"))
    }

    /// Returns the targets in order: `preceding` coarser ones, then the goal itself. A coarser target has shorter or fewer trials, and
    /// about twice the width of the next one.
    pub(super) fn targets(&self, preceding: u32) -> Vec<Target> {
        (0..=preceding)
            .rev()
            .map(|above| Target {
                loss_ratio: self.loss_ratio,
                exceed_ratio: self.exceed_ratio,
                // Twice the next target's width on a logarithmic scale. So the geometric mean of two bounds at this distance is within the
                // next width of both.
                width: 1.0 - (1.0 - self.width).powf(2f64.powi(above as i32)),
                duration: between(self.initial_duration, self.final_duration, above, preceding),
                duration_sum: between(self.initial_duration, self.duration_sum, above, preceding),
            })
            .collect()
    }
}

/// Interpolates geometrically from `last` (at `above` = 0) to `first` (at `above` = `steps`).
fn between(first: Duration, last: Duration, above: u32, steps: u32) -> Duration {
    if above == 0 {
        return last;
    }
    let ratio = first.as_secs_f64() / last.as_secs_f64();
    last.mul_f64(ratio.powf(f64::from(above) / f64::from(steps)))
}

/// The conditions that classify a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// As in [`Goal`].
    pub loss_ratio: f64,
    /// As in [`Goal`].
    pub exceed_ratio: f64,
    /// As in [`Goal`].
    pub width: f64,
    /// Minimum duration of a full-length trial.
    pub duration: Duration,
    /// Total duration of full-length trials that is enough to decide about a load.
    pub duration_sum: Duration,
}

impl From<&Goal> for Target {
    fn from(goal: &Goal) -> Self {
        Target {
            loss_ratio: goal.loss_ratio,
            exceed_ratio: goal.exceed_ratio,
            width: goal.width,
            duration: goal.final_duration,
            duration_sum: goal.duration_sum,
        }
    }
}

impl Target {
    /// True if the distance of the bounds is within the width.
    pub fn reached(&self, lower_fps: f64, upper_fps: f64) -> bool {
        // Slack for rounding errors: the targets' widths are powers and roots of each other.
        upper_fps - lower_fps <= self.width * upper_fps * (1.0 + 1e-9)
    }

    /// Returns the number of full-length trials that is always enough to decide about a load.
    pub(super) fn trials_a_load(&self) -> u32 {
        (self.duration_sum.as_secs_f64() / self.duration.as_secs_f64()).ceil() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_converge_to_the_goal() {
        // CSIT's sums from its first trial to 21 s; the geometric mean is 4.58 s.
        let targets = Goal::csit_ndr().targets(2);
        let sums: Vec<u128> = targets.iter().map(|target| target.duration_sum.as_millis()).collect();
        assert_eq!(sums, [1000, 4582, 21_000]);
        let widths: Vec<f64> = targets.iter().map(|target| (target.width * 1e4).round() / 1e4).collect();
        assert_eq!(widths, [0.0199, 0.01, 0.005]);
        let durations =
            |goal: Goal| goal.targets(2).iter().map(|t| t.duration.as_millis()).collect::<Vec<_>>();
        assert_eq!(durations(Goal::csit_ndr()), [1000, 1000, 1000]);
        assert_eq!(durations(Goal::rfc2544()), [1000, 7745, 60_000]);
    }

    #[test]
    fn the_last_target_equals_the_goal() {
        for goal in [Goal::rfc2544(), Goal::tst009(), Goal::csit_ndr(), Goal::csit_pdr()] {
            for preceding in [0, 1, 5] {
                let targets = goal.targets(preceding);
                assert_eq!(targets.len() as u32, preceding + 1);
                let last = targets[targets.len() - 1];
                assert!((last.width - goal.width).abs() < 1e-12);
                assert_eq!(Target { width: goal.width, ..last }, Target::from(&goal));
            }
        }
    }
}
