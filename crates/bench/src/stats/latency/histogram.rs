//! Delays in a high dynamic range histogram.

use hdrhistogram::Histogram;

use super::{Error, LONGEST_NS, Lost, Ranked, check_delay};

/// Significant decimal digits of the histogram.
const DIGITS: u8 = 3;

/// The delays of any number of frames, in about 0.25 MiB. A delay at a rank is up to a thousandth longer than the exact delay, never
/// shorter. Count, minimum, maximum and mean are exact.
#[derive(Clone, Debug)]
pub struct DelayHistogram {
    counts: Histogram<u64>,
    lost: Lost,
    minimum_ns: u64,
    maximum_ns: u64,
    sum_ns: u128,
}

impl DelayHistogram {
    /// Makes an empty histogram in which lost frames count with a delay of `penalty_ns`.
    ///
    /// # Errors
    /// If the penalty is longer than [`LONGEST_NS`].
    pub fn new(penalty_ns: u64) -> Result<Self, Error> {
        let lost = Lost { frames: 0, penalty_ns: check_delay(penalty_ns)? };
        let counts =
            Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).map_err(|_| Error::Histogram("its bounds"))?;
        Ok(Self { counts, lost, minimum_ns: u64::MAX, maximum_ns: 0, sum_ns: 0 })
    }

    /// Counts a received frame.
    ///
    /// # Errors
    /// If the delay is longer than [`LONGEST_NS`].
    #[inline]
    pub fn record(&mut self, delay_ns: u64) -> Result<(), Error> {
        self.count(delay_ns, 1)
    }

    /// Counts lost frames.
    pub fn record_lost(&mut self, frames: u64) -> Result<(), Error> {
        self.count(self.lost.penalty_ns, frames)?;
        self.lost.frames += frames;
        Ok(())
    }

    /// Adds the counts of another histogram.
    ///
    /// # Errors
    /// If the two histograms count lost frames with different penalties.
    pub fn add(&mut self, other: &Self) -> Result<(), Error> {
        if other.lost.penalty_ns != self.lost.penalty_ns {
            let value = other.lost.penalty_ns as f64;
            return Err(Error::Invalid { what: "the penalty", value, must: "the same in both histograms" });
        }
        // Both histograms have the same bounds, so every count fits.
        self.counts.add(&other.counts).map_err(|_| Error::Histogram("the counts of another histogram"))?;
        self.lost.frames += other.lost.frames;
        self.minimum_ns = self.minimum_ns.min(other.minimum_ns);
        self.maximum_ns = self.maximum_ns.max(other.maximum_ns);
        self.sum_ns += other.sum_ns;
        Ok(())
    }

    /// Returns the bins that contain frames, in ascending order of delay. Each bin is given by its longest delay, in nanoseconds,
    /// and its number of frames, including lost ones.
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

    /// Returns the longest delay of the bin that contains the rank. Does not use the quantiles of `hdrhistogram`: they take the share in
    /// floating point, while the rank is exact.
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
