//! The figures of latency and delay variation that RFC 8219 asks for (sections 7.2 and 7.3.1), in nanoseconds.
//!
//! They come from the [delays themselves](Delays), or from a [histogram](DelayHistogram) when there are too many to
//! keep. Both answer one question, which delay has a rank, and the figures are computed from that alone.

mod delays;
mod histogram;

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::percentile::Percentile;

pub use delays::Delays;
pub use histogram::DelayHistogram;

/// Delays beyond an hour are refused: a clock went wrong.
pub const LONGEST_NS: u64 = 3_600_000_000_000;

/// Frames that never came back. They must not make a router look faster, so each counts with a penalty, as siitperf has
/// it: the rest of the trial and the time it waited for stragglers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// How many.
    pub frames: u64,
    /// The delay that each counts with.
    pub penalty_ns: u64,
}

/// The figures of one trial. Lost frames are in all of them, with their penalty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyFigures {
    /// Frames with a delay, lost ones included.
    pub frames: u64,
    /// Lost frames among them.
    pub lost: Lost,
    /// The shortest delay, Dmin.
    pub minimum_ns: u64,
    /// Typical latency TL: the median; of an even number of frames the mean of the two in the middle.
    pub typical_ns: f64,
    /// Worst-case latency WCL: the 99.9th percentile by nearest rank, D99.9.
    pub worst_case_ns: u64,
    /// The longest delay.
    pub maximum_ns: u64,
    /// The arithmetic mean, which RFC 2544 asks for (section 26.2).
    pub mean_ns: f64,
    /// Packet delay variation PDV: D99.9 − Dmin.
    pub pdv_ns: u64,
}

/// A set of delays in which each has a rank.
pub trait Ranked {
    /// How many there are, lost frames included.
    fn frames(&self) -> u64;
    /// Lost frames among them.
    fn lost(&self) -> Lost;
    /// The delay of a rank, from 1 (the shortest) to [`Ranked::frames`].
    fn at_rank(&self, rank: u64) -> u64;
    /// The sum of all delays.
    fn sum_ns(&self) -> u128;

    /// A percentile by nearest rank; `None` when there are no frames.
    fn percentile(&self, percentile: Percentile) -> Option<u64> {
        percentile.rank(self.frames()).map(|rank| self.at_rank(rank))
    }

    /// The figures of RFC 8219.
    ///
    /// # Errors
    /// When there are no frames.
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

/// Checks that a delay is one.
pub(super) fn check_delay(ns: u64) -> Result<u64, Error> {
    if ns <= LONGEST_NS {
        return Ok(ns);
    }
    Err(Error::Invalid { what: "a delay in nanoseconds", value: ns as f64, must: "an hour or less" })
}

#[cfg(test)]
mod tests;
