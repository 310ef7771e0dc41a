//! Load classification and conditional throughput: RFC 9971, appendices "Load Classification Code" and "Conditional
//! Throughput Code".

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::goal::Target;

/// The result of one trial of a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Sending time, which decides whether the trial is a short one.
    pub duration: Duration,
    /// Effective duration of the trial, which [`Sums`] adds up.
    pub effective: Duration,
    /// Loss ratio; 1 if the trial was invalid.
    pub loss_ratio: f64,
    /// True if the trial was valid.
    pub valid: bool,
}

/// The classification of a load for a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The load meets the goal, whatever the result of the trials that are still missing from the duration sum.
    Lower,
    /// The load fails the goal, whatever the result of the trials that are still missing from the duration sum.
    Upper,
    /// The classification depends on the trials that are still missing from the duration sum.
    Undecided,
}

/// Rounding tolerance in seconds. Durations are whole nanoseconds, so any smaller difference is a rounding error. Such an error
/// must not decide a tie, such as high loss in exactly half of the trials: ties are common, and count as a lower bound.
const ROUNDING: f64 = 1e-9;

/// Sums of the effective durations of a load's trials, by trial length and by loss. The goal defines which trials are full-length,
/// and which have high loss.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Full-length trials with loss within the goal's loss ratio.
    pub full_low: Duration,
    /// Full-length trials with a loss above the goal's loss ratio.
    pub full_high: Duration,
    /// Short trials with loss within the goal's loss ratio.
    pub short_low: Duration,
    /// Short trials with a loss above the goal's loss ratio.
    pub short_high: Duration,
}

impl Sums {
    /// Adds a trial.
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
        // Short trials count only by the excess of high loss over what the goal allows. High loss in short trials is expected to recur in
        // long ones; low loss is not.
        let coefficient = target.exceed_ratio / (1.0 - target.exceed_ratio);
        let excess = (short_high - short_low * coefficient).max(0.0);
        let high = full_high + excess;
        let whole = (full_low + high).max(target.duration_sum.as_secs_f64());
        let allowed = whole * target.exceed_ratio;
        // The remaining time: all of it high-loss (pessimistic), or none of it (optimistic).
        let pessimistic = whole - full_low <= allowed + ROUNDING;
        let optimistic = high <= allowed + ROUNDING;
        match (pessimistic, optimistic) {
            (true, true) => Class::Lower,
            (false, false) => Class::Upper,
            _ => Class::Undecided,
        }
    }
}

/// Returns the conditional throughput of a load, in frames per second: the load times (1 − r). Here r is the smallest loss ratio such that
/// full-length trials with more loss take at most the goal's exceed ratio of the time. Time missing from the duration sum counts as total
/// loss. `None` without a full-length trial.
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
    // Missing trials count as total loss.
    Some(if remaining > ROUNDING { 0.0 } else { load_fps * (1.0 - loss_ratio) })
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;
