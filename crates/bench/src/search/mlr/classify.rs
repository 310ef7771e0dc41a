//! Load classification and conditional throughput: RFC 9971, appendices "Load Classification Code" and "Conditional
//! Throughput Code".

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::goal::Target;

/// What one trial showed of a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// How long it sent: decides whether it is a short trial.
    pub duration: Duration,
    /// How long it counts.
    pub effective: Duration,
    /// What it lost; 1 when it was invalid.
    pub loss_ratio: f64,
    /// Whether it was valid.
    pub valid: bool,
}

/// What the trials of a load make it, for a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// It upholds the goal, whatever the trials that are missing would show.
    Lower,
    /// It fails the goal, whatever they would show.
    Upper,
    /// It depends on them.
    Undecided,
}

/// Seconds. Durations are whole nanoseconds: what is less is a rounding error, and must not decide a tie, for ties are
/// common (half of the trials, say) and go to the lower bound.
const ROUNDING: f64 = 1e-9;

/// The effective durations of the trials of a load, by what a goal makes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Trials of the final duration or longer that lost no more than the goal allows.
    pub full_low: Duration,
    /// Those that lost more.
    pub full_high: Duration,
    /// Shorter trials that lost no more.
    pub short_low: Duration,
    /// Shorter trials that lost more.
    pub short_high: Duration,
}

impl Sums {
    /// Counts a trial.
    pub fn add(&mut self, target: &Target, seen: &Seen) {
        let high = seen.loss_ratio > target.loss_ratio;
        let sum = match (seen.duration >= target.duration, high) {
            (true, false) => &mut self.full_low,
            (true, true) => &mut self.full_high,
            (false, false) => &mut self.short_low,
            (false, true) => &mut self.short_high,
        };
        *sum += seen.effective;
    }

    /// Classifies the load.
    pub fn classify(&self, target: &Target) -> Class {
        let [full_low, full_high, short_low, short_high] =
            [self.full_low, self.full_high, self.short_low, self.short_high].map(|sum| sum.as_secs_f64());
        // Short trials count only as far as their high-loss share is beyond what the goal allows: losses of short
        // trials are expected to recur in long ones, their lack is not.
        let coefficient = target.exceed_ratio / (1.0 - target.exceed_ratio);
        let excess = (short_high - short_low * coefficient).max(0.0);
        let high = full_high + excess;
        let whole = (full_low + high).max(target.duration_sum.as_secs_f64());
        let allowed = whole * target.exceed_ratio;
        // What is missing: all of it high-loss, or none.
        let pessimistic = whole - full_low <= allowed + ROUNDING;
        let optimistic = high <= allowed + ROUNDING;
        match (pessimistic, optimistic) {
            (true, true) => Class::Lower,
            (false, false) => Class::Upper,
            _ => Class::Undecided,
        }
    }
}

/// Conditional throughput of a load, in frames a second: the load less the loss that its full-length trials exceed
/// for no more than the goal's share of the time. `None` without a trial of full length.
pub fn conditional_fps(target: &Target, load_fps: f64, trials: &[Seen]) -> Option<f64> {
    let mut full: Vec<&Seen> = trials.iter().filter(|seen| seen.duration >= target.duration).collect();
    full.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
    let sum: Duration = full.iter().map(|seen| seen.effective).sum();
    let whole = sum.max(target.duration_sum).as_secs_f64();
    let mut remaining = whole * (1.0 - target.exceed_ratio);
    let mut loss_ratio = full.first()?.loss_ratio;
    for seen in full {
        if remaining <= ROUNDING {
            return Some(load_fps * (1.0 - loss_ratio));
        }
        loss_ratio = seen.loss_ratio;
        remaining -= seen.effective.as_secs_f64();
    }
    // Trials that are missing may lose everything.
    Some(if remaining > ROUNDING { 0.0 } else { load_fps * (1.0 - loss_ratio) })
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;
