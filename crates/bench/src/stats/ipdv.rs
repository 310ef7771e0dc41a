//! Inter-packet delay variation, IPDV (RFC 8219, section 7.3.2; RFC 5481, section 4.1).
//!
//! IPDV(i) = D(i) − D(i−1), with its sign: negative if a frame was faster than the frame before. A lost frame has no delay, so neither the
//! lost frame nor the next one has an IPDV. The result includes the number of frames without an IPDV.

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::latency::{DelayHistogram, Ranked, check_delay};

/// IPDV figures of one stream, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IpdvFigures {
    /// Frames with an IPDV.
    pub pairs: u64,
    /// Frames without an IPDV, because the frame or the one before it was lost. The first frame is not counted.
    pub undefined: u64,
    /// The minimum, Dmin.
    pub minimum_ns: i64,
    /// The median, Dmed; for an even number the mean of the two middle values.
    pub median_ns: f64,
    /// The maximum, Dmax.
    pub maximum_ns: i64,
}

/// Computes each frame's IPDV, for [`of_delays`] and [`IpdvHistogram`].
#[derive(Clone, Debug, Default)]
struct Steps {
    frames: u64,
    last_ns: Option<u64>,
    undefined: u64,
}

impl Steps {
    /// Takes the next frame's delay, `None` if the frame was lost. Returns the frame's IPDV; `None` if it has none.
    fn next(&mut self, delay_ns: Option<u64>) -> Result<Option<i64>, Error> {
        delay_ns.map_or(Ok(0), check_delay)?;
        let step = delay_ns.zip(self.last_ns).map(|(this, last)| this as i64 - last as i64);
        self.undefined += u64::from(step.is_none() && self.frames > 0);
        self.frames += 1;
        self.last_ns = delay_ns;
        Ok(step)
    }
}

/// Computes the figures from the delays of all frames of one stream, in the order of sending; `None` for lost frames.
///
/// # Errors
/// If no two successive frames were received, or a delay is longer than an hour.
pub fn of_delays(delays_ns: &[Option<u64>]) -> Result<IpdvFigures, Error> {
    let mut steps = Steps::default();
    let mut sorted = Vec::new();
    for delay_ns in delays_ns {
        sorted.extend(steps.next(*delay_ns)?);
    }
    sorted.sort_unstable();
    let (Some(minimum_ns), Some(maximum_ns)) = (sorted.first(), sorted.last()) else {
        return Err(Error::Empty);
    };
    let middle = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    Ok(IpdvFigures {
        pairs: sorted.len() as u64,
        undefined: steps.undefined,
        minimum_ns: *minimum_ns,
        median_ns: (middle.0 + middle.1) as f64 / 2.0,
        maximum_ns: *maximum_ns,
    })
}

/// Counts the IPDV of a stream of any length, in one histogram for negative values and one for all others. The middle values that determine
/// the median may be up to a thousandth too far from 0.
#[derive(Clone, Debug)]
pub struct IpdvHistogram {
    steps: Steps,
    negative: DelayHistogram,
    positive: DelayHistogram,
}

impl IpdvHistogram {
    /// Makes an empty histogram.
    ///
    /// # Errors
    /// None in practice; see [`DelayHistogram::new`].
    pub fn new() -> Result<Self, Error> {
        Ok(Self {
            steps: Steps::default(),
            negative: DelayHistogram::new(0)?,
            positive: DelayHistogram::new(0)?,
        })
    }

    /// Counts the next frame of the stream, in the order of sending; `None` if it was lost.
    ///
    /// # Errors
    /// If the delay is longer than an hour.
    pub fn record(&mut self, delay_ns: Option<u64>) -> Result<(), Error> {
        match self.steps.next(delay_ns)? {
            Some(step) if step < 0 => self.negative.record(step.unsigned_abs()),
            Some(step) => self.positive.record(step.unsigned_abs()),
            None => Ok(()),
        }
    }

    /// Adds the counts of another stream. The first frame of each stream has no IPDV.
    ///
    /// # Errors
    /// As [`DelayHistogram::add`].
    pub fn add(&mut self, other: &IpdvHistogram) -> Result<(), Error> {
        self.steps.undefined += other.steps.undefined;
        self.negative.add(&other.negative)?;
        self.positive.add(&other.positive)
    }

    /// Returns the figures.
    ///
    /// # Errors
    /// If no two successive frames were received.
    pub fn figures(&self) -> Result<IpdvFigures, Error> {
        let pairs = self.negative.frames() + self.positive.frames();
        if pairs == 0 {
            return Err(Error::Empty);
        }
        let middle = (self.at_rank(pairs.div_ceil(2)), self.at_rank(pairs / 2 + 1));
        Ok(IpdvFigures {
            pairs,
            undefined: self.steps.undefined,
            minimum_ns: self.at_rank(1),
            median_ns: (middle.0 + middle.1) as f64 / 2.0,
            maximum_ns: self.at_rank(pairs),
        })
    }

    /// Returns the IPDV at a rank, from 1 (the minimum). The minimum is the negative value with the largest magnitude.
    fn at_rank(&self, rank: u64) -> i64 {
        let negative = self.negative.frames();
        if rank <= negative {
            -(self.negative.at_rank(negative + 1 - rank) as i64)
        } else {
            self.positive.at_rank(rank - negative) as i64
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted(delays_ns: &[Option<u64>]) -> Result<IpdvFigures, Error> {
        let mut histogram = IpdvHistogram::new().unwrap();
        delays_ns.iter().for_each(|ns| histogram.record(*ns).unwrap());
        histogram.figures()
    }

    #[test]
    fn streams_are_counted_together() {
        let of = |delays: &[Option<u64>]| {
            let mut one = IpdvHistogram::new().unwrap();
            delays.iter().for_each(|ns| one.record(*ns).unwrap());
            one
        };
        let mut both = of(&[10, 14].map(Some));
        both.add(&of(&[Some(100), Some(50), None])).unwrap();
        let f = both.figures().unwrap();
        assert_eq!((f.pairs, f.undefined, f.minimum_ns, f.maximum_ns), (2, 1, -50, 4));
    }

    #[test]
    fn ipdv_is_the_difference_to_the_previous_frame() {
        let f = of_delays(&[10, 14, 13, 13, 20].map(Some)).unwrap();
        let (minimum_ns, median_ns, maximum_ns) = (-1, 2.0, 7);
        assert_eq!(f, IpdvFigures { pairs: 4, undefined: 0, minimum_ns, median_ns, maximum_ns });
        assert_eq!(counted(&[10, 14, 13, 13, 20].map(Some)), Ok(f));
    }

    #[test]
    fn a_lost_frame_makes_two_pairs_undefined() {
        let f = of_delays(&[Some(10), Some(12), None, Some(50), Some(51)]).unwrap();
        assert_eq!((f.pairs, f.undefined, f.minimum_ns, f.maximum_ns), (2, 2, 1, 2));
        let first_lost = of_delays(&[None, Some(1), Some(2)]).unwrap();
        assert_eq!((first_lost.pairs, first_lost.undefined), (1, 1));
    }

    #[test]
    fn without_consecutive_frames_ipdv_is_undefined() {
        for delays in [&[][..], &[Some(1)], &[Some(1), None, Some(1)]] {
            assert_eq!(of_delays(delays), Err(Error::Empty));
            assert_eq!(counted(delays), Err(Error::Empty));
        }
        assert!(of_delays(&[Some(u64::MAX)]).is_err());
    }

    proptest! {
        #[test]
        fn exact_and_counted_figures_agree_to_a_thousandth(
            delays in prop::collection::vec(prop::option::weighted(0.9, 0u64..10_000_000), 0..200),
        ) {
            let (Ok(exact), Ok(counted)) = (of_delays(&delays), counted(&delays)) else {
                prop_assert_eq!(of_delays(&delays).ok(), counted(&delays).ok());
                return Ok(());
            };
            prop_assert_eq!((counted.pairs, counted.undefined), (exact.pairs, exact.undefined));
            prop_assert_eq!((counted.minimum_ns, counted.maximum_ns), (exact.minimum_ns, exact.maximum_ns));
            // The two middle values may have opposite signs; the larger absolute value sets the bound.
            let mut steps: Vec<i64> =
                delays.windows(2).filter_map(|w| Some(w[1]? as i64 - w[0]? as i64)).collect();
            steps.sort_unstable();
            let longer = steps[(steps.len() - 1) / 2].abs().max(steps[steps.len() / 2].abs()) as f64;
            prop_assert!((counted.median_ns - exact.median_ns).abs() <= longer / 1000.0);
            prop_assert_eq!(exact.pairs + exact.undefined, delays.len().saturating_sub(1) as u64);
        }
    }
}
