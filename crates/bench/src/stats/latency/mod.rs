//! Latency and delay variation figures of RFC 8219 (sections 7.2 and 7.3.1), in nanoseconds.
//!
//! Most figures are derived from the delays at certain ranks, and the mean from the sum of all delays. The delays are [exact](Delays), or
//! in a [histogram](DelayHistogram) if there are too many to store; both implement the lookup of a delay by rank.

mod delays;
mod histogram;

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::percentile::Percentile;

pub use delays::Delays;
pub use histogram::DelayHistogram;

/// Maximum delay: an hour, in nanoseconds. Longer delays are rejected as clock errors.
pub const LONGEST_NS: u64 = 3_600_000_000_000;

/// Lost frames. Each counts with a penalty as its delay, as in siitperf, so that losses do not make a router look faster. The
/// penalty is the duration of the trial plus the wait for late frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Number of lost frames.
    pub frames: u64,
    /// The delay of each lost frame, in nanoseconds.
    pub penalty_ns: u64,
}

/// The figures of one trial. All fields include lost frames, with their penalty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyFigures {
    /// Number of frames, including lost ones.
    pub frames: u64,
    /// The lost frames.
    pub lost: Lost,
    /// The minimum delay, Dmin.
    pub minimum_ns: u64,
    /// Typical latency TL: the median; for an even number of frames the mean of the two middle ones.
    pub typical_ns: f64,
    /// Worst-case latency WCL: the 99.9th percentile by nearest rank, D99.9.
    pub worst_case_ns: u64,
    /// The maximum delay.
    pub maximum_ns: u64,
    /// The arithmetic mean of the delays of all frames. A lost frame counts with its penalty, a long delay. So one lost frame in a thousand
    /// can make the mean many times longer. Reports use [`received_mean_ns`](Self::received_mean_ns).
    pub mean_ns: f64,
    /// Packet delay variation PDV: D99.9 − Dmin.
    pub pdv_ns: u64,
}

impl LatencyFigures {
    /// Returns the arithmetic mean delay of the received frames, as in RFC 2544 section 26.2, Okelmann 2019 and Slavík 2025; `None` if no
    /// frame was received. Lost frames are left out: they have no delay, and their penalty is only a convention of the tester.
    pub fn received_mean_ns(&self) -> Option<f64> {
        let received = self.frames.checked_sub(self.lost.frames).filter(|n| *n > 0)?;
        let penalties = self.lost.frames as f64 * self.lost.penalty_ns as f64;
        Some((self.mean_ns * self.frames as f64 - penalties) / received as f64)
    }
}

/// A set of delays that can be looked up by rank.
pub trait Ranked {
    /// Returns the number of frames, including lost ones.
    fn frames(&self) -> u64;
    /// Returns the lost frames.
    fn lost(&self) -> Lost;
    /// Returns the delay at a rank, from 1 (the shortest) to [`Ranked::frames`].
    fn at_rank(&self, rank: u64) -> u64;
    /// Returns the sum of all delays.
    fn sum_ns(&self) -> u128;

    /// Returns a percentile by nearest rank; `None` if there are no frames.
    fn percentile(&self, percentile: Percentile) -> Option<u64> {
        percentile.rank(self.frames()).map(|rank| self.at_rank(rank))
    }

    /// Returns the figures of RFC 8219.
    ///
    /// # Errors
    /// If there are no frames.
    fn figures(&self) -> Result<LatencyFigures, Error> {
        let frames = self.frames();
        let worst_case_ns = self.percentile(Percentile::P99_9).ok_or(Error::Empty)?;
        let minimum_ns = self.at_rank(1);
        let middle = (self.at_rank(frames.div_ceil(2)), self.at_rank(frames / 2 + 1));
        Ok(LatencyFigures {
            frames,
            lost: self.lost(),
            minimum_ns,
            typical_ns: (middle.0 + middle.1) as f64 / 2.0,
            worst_case_ns,
            maximum_ns: self.at_rank(frames),
            mean_ns: self.sum_ns() as f64 / frames as f64,
            pdv_ns: worst_case_ns - minimum_ns,
        })
    }
}

/// Checks that a delay is at most [`LONGEST_NS`].
pub(super) fn check_delay(ns: u64) -> Result<u64, Error> {
    if ns <= LONGEST_NS {
        return Ok(ns);
    }
    Err(Error::Invalid { what: "a delay in nanoseconds", value: ns as f64, must: "at most an hour" })
}

#[cfg(test)]
mod tests;
