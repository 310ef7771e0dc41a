//! Summary statistics of a set of runs.

use serde::{Deserialize, Serialize};

use super::percentile::Percentile;
use super::runs::Runs;

/// Summary statistics of a set of runs, in the unit of the results. Quote the median: single outliers do not change it (Kosak and Lencse
/// 2025, section VI; RFC 8219 requires median, 1st and 99th percentile).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The median: for an even number of runs the mean of the two middle ones.
    pub median: f64,
    /// The minimum.
    pub minimum: f64,
    /// The maximum.
    pub maximum: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The sample standard deviation (divided by n − 1); `None` for a single run.
    pub standard_deviation: Option<f64>,
    /// The 1st percentile by nearest rank: the minimum for up to 100 runs.
    pub p1: f64,
    /// The 99th percentile by nearest rank: the maximum for fewer than 100 runs.
    pub p99: f64,
    /// (maximum − minimum) / median · 100 (Kosak and Lencse 2025, formula 1); `None` if the median is 0.
    pub dispersion_percent: Option<f64>,
    /// The number of runs; all figures above include all of them.
    pub runs: usize,
}

impl Summary {
    /// Summarizes a set of runs.
    pub fn of(runs: &Runs) -> Self {
        Self {
            median: runs.median(),
            minimum: runs.minimum(),
            maximum: runs.maximum(),
            mean: runs.mean(),
            standard_deviation: runs.standard_deviation(),
            p1: runs.percentile(Percentile::P1),
            p99: runs.percentile(Percentile::P99),
            dispersion_percent: dispersion_percent(runs.minimum(), runs.maximum(), runs.median()),
            runs: runs.len(),
        }
    }
}

/// Returns the dispersion of results in percent: (maximum − minimum) / median · 100 (Kosak and Lencse 2025, formula 1). `None` if the
/// median is 0.
pub fn dispersion_percent(minimum: f64, maximum: f64, median: f64) -> Option<f64> {
    (median != 0.0).then(|| (maximum - minimum) / median * 100.0)
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
