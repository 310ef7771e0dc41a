//! Delays, counted in a histogram with high dynamic range.

use hdrhistogram::Histogram;

use super::{Error, LONGEST_NS, Lost, Ranked, check_delay};

/// Significant decimal digits that the histogram keeps.
const DIGITS: u8 = 3;

/// The delays of any number of frames, in about a quarter of a MiB. A figure from it is up to a thousandth longer than
/// the exact one, never shorter; count, minimum, maximum and mean are exact.
#[derive(Clone, Debug)]
pub struct DelayHistogram {
    counts: Histogram<u64>,
    lost: Lost,
    minimum_ns: u64,
    maximum_ns: u64,
    sum_ns: u128,
}

impl DelayHistogram {
    /// An empty one, in which lost frames will count with a delay of `penalty_ns`.
    ///
    /// # Errors
    /// When the penalty is longer than [`LONGEST_NS`].
    pub fn new(penalty_ns: u64) -> Result<Self, Error> {
        let lost = Lost { frames: 0, penalty_ns: check_delay(penalty_ns)? };
        let counts =
            Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).map_err(|_| Error::Histogram("its bounds"))?;
        Ok(Self { counts, lost, minimum_ns: u64::MAX, maximum_ns: 0, sum_ns: 0 })
    }

    /// Counts a frame that came back.
    ///
    /// # Errors
    /// When the delay is longer than [`LONGEST_NS`].
    #[inline]
    pub fn record(&mut self, delay_ns: u64) -> Result<(), Error> {
        self.count(delay_ns, 1)
    }

    /// Counts frames that did not.
    pub fn record_lost(&mut self, frames: u64) -> Result<(), Error> {
        self.count(self.lost.penalty_ns, frames)?;
        self.lost.frames += frames;
        Ok(())
    }

    /// Adds what another receiver counted.
    ///
    /// # Errors
    /// When lost frames count with another penalty there.
    pub fn add(&mut self, other: &Self) -> Result<(), Error> {
        if other.lost.penalty_ns != self.lost.penalty_ns {
            let value = other.lost.penalty_ns as f64;
            return Err(Error::Invalid { what: "the penalty", value, must: "the same in both histograms" });
        }
        // Both have the same bounds, so every count has its place.
        self.counts.add(&other.counts).map_err(|_| Error::Histogram("the counts of another"))?;
        self.lost.frames += other.lost.frames;
        self.minimum_ns = self.minimum_ns.min(other.minimum_ns);
        self.maximum_ns = self.maximum_ns.max(other.maximum_ns);
        self.sum_ns += other.sum_ns;
        Ok(())
    }

    /// The delays that were counted, in rising order, lost frames included: the longest that a bin counts, in nanoseconds, and how many.
    pub fn bins(&self) -> Vec<(u64, u64)> {
        let recorded = self.counts.iter_recorded();
        recorded.map(|bin| (bin.value_iterated_to(), bin.count_since_last_iteration())).collect()
    }

    #[inline]
    fn count(&mut self, delay_ns: u64, frames: u64) -> Result<(), Error> {
        check_delay(delay_ns)?;
        if frames == 0 {
            return Ok(());
        }
        self.counts.record_n(delay_ns, frames).map_err(|_| Error::Histogram("a delay"))?;
        self.minimum_ns = self.minimum_ns.min(delay_ns);
        self.maximum_ns = self.maximum_ns.max(delay_ns);
        self.sum_ns += u128::from(delay_ns) * u128::from(frames);
        Ok(())
    }
}

impl Ranked for DelayHistogram {
    fn frames(&self) -> u64 {
        self.counts.len()
    }

    fn lost(&self) -> Lost {
        self.lost
    }

    /// The longest delay of the bin in which the rank falls. Counting is done here, as the crate's quantiles take their
    /// share in floating point, and the rank is known exactly.
    fn at_rank(&self, rank: u64) -> u64 {
        let mut frames = 0;
        for bin in self.counts.iter_recorded() {
            frames += bin.count_since_last_iteration();
            if frames >= rank {
                let longest = self.counts.highest_equivalent(bin.value_iterated_to());
                return if rank == 1 { self.minimum_ns } else { longest.min(self.maximum_ns) };
            }
        }
        self.maximum_ns
    }

    fn sum_ns(&self) -> u128 {
        self.sum_ns
    }
}
