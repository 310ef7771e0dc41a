//! A checked set of results of runs.

use super::error::{Error, check_finite};
use super::percentile::Percentile;

/// The results of one or more runs of the same measurement, all in one unit, in ascending order.
#[derive(Clone, Debug, PartialEq)]
pub struct Runs {
    sorted: Vec<f64>,
}

impl Runs {
    /// Takes results in any order.
    ///
    /// # Errors
    /// When there are none, or one is no finite figure.
    pub fn new(results: &[f64]) -> Result<Self, Error> {
        check_finite(results.iter().copied())?;
        if results.is_empty() {
            return Err(Error::Empty);
        }
        let mut sorted = results.to_vec();
        sorted.sort_by(f64::total_cmp);
        Ok(Self { sorted })
    }

    /// Takes results of which some may be missing, because a run failed, say.
    ///
    /// # Errors
    /// As [`Runs::new`], and when one is missing: whether a run is repeated is decided where it is seen, and recorded
    /// there; a summary of what happened to be left would look like one of all.
    pub fn complete(results: &[Option<f64>]) -> Result<Self, Error> {
        match results.iter().position(Option::is_none) {
            Some(index) => Err(Error::Missing(index)),
            None => Self::new(&results.iter().copied().flatten().collect::<Vec<_>>()),
        }
    }

    /// How many.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// All of them, in ascending order.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// The least.
    pub fn minimum(&self) -> f64 {
        self.sorted[0]
    }

    /// The greatest.
    pub fn maximum(&self) -> f64 {
        self.sorted[self.len() - 1]
    }

    /// The middle one, or the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        middle(self.sorted[(self.len() - 1) / 2], self.sorted[self.len() / 2])
    }

    /// A percentile by nearest rank.
    pub fn percentile(&self, percentile: Percentile) -> f64 {
        // There is a value, so there is a rank, and it is not beyond the last.
        let rank = percentile.rank(self.len() as u64).map_or(1, |rank| rank as usize);
        self.sorted[rank - 1]
    }

    /// The arithmetic mean. Differences from the median are summed, so that equal results have exactly themselves as
    /// mean.
    pub fn mean(&self) -> f64 {
        let from = self.median();
        from + self.sorted.iter().map(|x| x - from).sum::<f64>() / self.len() as f64
    }

    /// The standard deviation of the sample (divided by n − 1); `None` for a single run, of which there is none.
    pub fn standard_deviation(&self) -> Option<f64> {
        let mean = self.mean();
        let squares = self.sorted.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        (self.len() > 1).then(|| (squares / (self.len() - 1) as f64).sqrt())
    }
}

/// The mean of two values, and exactly the value when they are equal.
pub(super) fn middle(low: f64, high: f64) -> f64 {
    low + (high - low) / 2.0
}
