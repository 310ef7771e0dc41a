//! Back-to-back frames: the longest burst with minimum gaps and without loss (RFC 2544 section 26.4, updated by RFC 9004).
//!
//! The search measures the buffer in front of the router's bottleneck, so it only makes sense for frame sizes whose throughput is below the
//! link's maximum. Each repetition is a whole bisection of the burst's length.

use serde::{Deserialize, Serialize};

use super::run::{BadInput, Ended, Limits, Progress, Run, Tally, shown_loss};
use crate::trial::{Measure, Request};

/// Parameters of the search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackToBack {
    /// The maximum theoretical frame rate, in frames per second: the rate within a burst.
    pub max_fps: f64,
    /// The throughput measured before, in frames per second.
    pub throughput_fps: f64,
    /// The longest burst to try, in frames, for example all frames that the link carries in 30 s. If the router forwards this burst without
    /// loss, the search finds no limit.
    pub longest: u64,
    /// Resolution of the bounds, in frames.
    pub resolution: u64,
    /// Repetitions of the search: at least 50 in RFC 2544.
    pub repetitions: u32,
    /// Number of retries of a burst with loss. The burst passes if one of the retries is without loss.
    pub verifications: u32,
}

/// Result of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackToBackResult {
    /// The parameters.
    pub asked: BackToBack,
    /// How the search ended. `AllForwarded`: the throughput reaches `max_fps`, or the longest burst passed in some repetition, so there is
    /// no buffer time. `NothingForwarded`: in some repetition not even a burst of one frame passed.
    pub ended: Ended,
    /// The longest burst without loss of each completed repetition, in frames.
    pub bursts: Vec<u64>,
    /// Statistics of the bursts; `None` without a completed repetition.
    pub summary: Option<BurstSummary>,
    /// Trials and time spent.
    pub tally: Tally,
}

/// Statistics of the bursts, in frames, and the buffer times of RFC 9004 section 6.4, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BurstSummary {
    /// Mean length, which RFC 2544 requires in the report.
    pub mean: f64,
    /// The shortest burst.
    pub min: u64,
    /// The longest burst.
    pub max: u64,
    /// Sample standard deviation; 0 for a single burst.
    pub deviation: f64,
    /// Implied buffer time in seconds: [`implied_buffer_seconds`].
    pub implied_seconds: f64,
    /// Corrected buffer time in seconds: [`corrected_buffer_seconds`].
    pub corrected_seconds: f64,
}

/// Returns the implied buffer time: average number of back-to-back frames / maximum theoretical frame rate (RFC 9004 section 6.4).
pub fn implied_buffer_seconds(mean_frames: f64, max_fps: f64) -> f64 {
    mean_frames / max_fps
}

/// Returns the buffer time, corrected for the frames that the router forwarded while the burst arrived: implied − implied · (measured
/// throughput / maximum theoretical frame rate) (RFC 9004 section 6.4).
pub fn corrected_buffer_seconds(mean_frames: f64, throughput_fps: f64, max_fps: f64) -> f64 {
    let implied = implied_buffer_seconds(mean_frames, max_fps);
    implied - implied * (throughput_fps / max_fps)
}

impl BackToBack {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Returns an error that names the first invalid parameter.
    pub fn check(&self) -> Result<(), BadInput> {
        BadInput::unless_rate(self.max_fps, "max_fps")?;
        let sensible = self.throughput_fps >= 0.0 && self.throughput_fps.is_finite();
        BadInput::unless(
            sensible,
            "throughput_fps",
            format_args!("must be at least 0, is {}", self.throughput_fps),
        )?;
        BadInput::unless(self.longest >= 2, "longest", "must be at least 2 frames")?;
        BadInput::unless(self.resolution >= 1, "resolution", "must be at least 1 frame")?;
        BadInput::unless(self.repetitions >= 1, "repetitions", "must be at least 1")
    }

    /// Returns the maximum number of trials. Each repetition tries both ends of the range and the bisection steps between them, each with
    /// all retries.
    pub fn trials_at_most(&self) -> u32 {
        let halvings = (self.longest as f64 / self.resolution as f64).max(1.0).log2().ceil() as u32;
        (halvings + 3).saturating_mul(self.repetitions).saturating_mul(self.verifications.saturating_add(1))
    }

    /// Runs the search.
    ///
    /// # Errors
    /// Returns an error if a parameter is invalid. Whatever the router does is a result, not an error.
    pub fn search(
        &self,
        measure: &mut dyn Measure,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<BackToBackResult, BadInput> {
        self.check()?;
        let mut run = Run::new(measure, progress, Limits { trials: self.trials_at_most(), time: None });
        let mut bursts = Vec::new();
        // RFC 9004 section 6.1: only frame sizes whose throughput is below the link's maximum are tested.
        let mut ended = if self.throughput_fps >= self.max_fps { Ended::AllForwarded } else { Ended::Found };
        while ended == Ended::Found && bursts.len() < self.repetitions as usize {
            match self.longest_burst(&mut run) {
                Ok(burst) => bursts.push(burst),
                Err(why) => ended = why,
            }
        }
        let summary = self.summary(&bursts);
        Ok(BackToBackResult { asked: *self, ended, bursts, summary, tally: run.tally })
    }

    /// Searches once for the longest burst without loss.
    fn longest_burst(&self, run: &mut Run<'_>) -> Result<u64, Ended> {
        if self.passes(run, self.longest, None, None)? {
            return Err(Ended::AllForwarded);
        }
        // A burst of one frame is only tried when the search gets that low.
        let (mut lower, mut upper) = (0, self.longest);
        while upper - lower > self.resolution.max(1) || lower == 0 {
            if upper == 1 {
                return Err(Ended::NothingForwarded);
            }
            let frames = if upper - lower <= self.resolution { 1 } else { lower + (upper - lower) / 2 };
            if self.passes(run, frames, Some(lower), Some(upper))? {
                lower = frames;
            } else {
                upper = frames;
            }
        }
        Ok(lower)
    }

    fn passes(
        &self,
        run: &mut Run<'_>,
        frames: u64,
        lower: Option<u64>,
        upper: Option<u64>,
    ) -> Result<bool, Ended> {
        for _ in 0..=self.verifications {
            let request = Request::burst(frames, self.max_fps);
            let outcome = run.trial(request, lower.map(|n| n as f64), upper.map(|n| n as f64))?;
            if shown_loss(&outcome) == 0.0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn summary(&self, bursts: &[u64]) -> Option<BurstSummary> {
        let (min, max) = (*bursts.iter().min()?, *bursts.iter().max()?);
        let count = bursts.len() as f64;
        let mean = bursts.iter().map(|&n| n as f64).sum::<f64>() / count;
        let squares = bursts.iter().map(|&n| (n as f64 - mean).powi(2)).sum::<f64>();
        Some(BurstSummary {
            mean,
            min,
            max,
            deviation: (squares / (count - 1.0).max(1.0)).sqrt(),
            implied_seconds: implied_buffer_seconds(mean, self.max_fps),
            corrected_seconds: corrected_buffer_seconds(mean, self.throughput_fps, self.max_fps),
        })
    }
}

#[cfg(test)]
#[path = "back_to_back_tests.rs"]
mod tests;
