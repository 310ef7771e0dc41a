//! A checked set of results of runs.

use super::error::{Error, check_finite};
use super::percentile::Percentile;

/// The results of one or more runs of the same measurement, all in one unit, in ascending order.
#[derive(Clone, Debug, PartialEq)]
pub struct Runs {
    sorted: Vec<f64>,
}

impl Runs {
    /// Takes the results in any order.
    ///
    /// # Errors
    /// If there are no results, or a result is not a finite number.
    pub fn new(results: &[f64]) -> Result<Self, Error> {
        check_finite(results.iter().copied())?;
        if results.is_empty() {
            return Err(Error::Empty);
        }
        let mut sorted = results.to_vec();
        sorted.sort_by(f64::total_cmp);
        Ok(Self { sorted })
    }

    /// Takes results of which some may be missing, for example because a run failed.
    ///
    /// # Errors
    /// As [`Runs::new`], or if a result is missing: a summary of the remaining runs would look like a summary of all runs. The caller
    /// decides whether to repeat the run, and records the repeat.
    pub fn complete(results: &[Option<f64>]) -> Result<Self, Error> {
        match results.iter().position(Option::is_none) {
            Some(index) => Err(Error::Missing(index)),
            None => Self::new(&results.iter().copied().flatten().collect::<Vec<_>>()),
        }
    }

    /// Returns the number of results.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Returns all results in ascending order.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// Returns the smallest result.
    pub fn minimum(&self) -> f64 {
        self.sorted[0]
    }

    /// Returns the largest result.
    pub fn maximum(&self) -> f64 {
        self.sorted[self.len() - 1]
    }

    /// Returns the middle result, or the mean of the two middle ones.
    pub fn median(&self) -> f64 {
        middle(self.sorted[(self.len() - 1) / 2], self.sorted[self.len() / 2])
    }

    /// Returns a percentile by nearest rank.
    pub fn percentile(&self, percentile: Percentile) -> f64 {
        // There is at least one value, so the rank exists and is within bounds.
        let rank = percentile.rank(self.len() as u64).map_or(1, |rank| rank as usize);
        self.sorted[rank - 1]
    }

    /// Returns the arithmetic mean. It sums differences from the median, so that equal results give exactly their value.
    pub fn mean(&self) -> f64 {
        let from = self.median();
        from + self.sorted.iter().map(|x| x - from).sum::<f64>() / self.len() as f64
    }

    /// Returns the sample standard deviation (divided by n − 1); `None` for a single run.
    pub fn standard_deviation(&self) -> Option<f64> {
        let mean = self.mean();
        let squares = self.sorted.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        (self.len() > 1).then(|| (squares / (self.len() - 1) as f64).sqrt())
    }
}

/// Returns the mean of two values; exactly the value if they are equal.
pub(super) fn middle(low: f64, high: f64) -> f64 {
    low + (high - low) / 2.0
}
