//! Confidence intervals of medians, and of ratios and differences of medians.
//!
//! The method is the percentile bootstrap. Sets of the same size are drawn from the runs with replacement, many times, and the interval
//! covers the middle of the results. Another method, BCa, corrects bias and skew. It was considered and rejected: its acceleration is
//! computed by leaving out one run at a time, and a median then only takes two or three values, whatever the data. For medians the plain
//! percentile interval keeps its confidence level (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, sections 11.6 and 13.3;
//! Wilcox, Introduction to Robust Estimation, chapter 4). The plain interval needs no assumption about the distribution of the runs, which
//! is lumpy for throughput searches.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use serde::{Deserialize, Serialize};

use super::error::{Error, check_positive};
use super::runs::{Runs, middle};

/// Parameters of the resampling. Equal parameters give equal intervals, on every machine and in every release: the generator (PCG XSL RR
/// 128/64) and the mapping of its numbers to runs are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// Seed of the generator.
    pub seed: u64,
    /// Number of sets drawn.
    pub resamples: u32,
    /// Confidence level: 0.95 for 95 %.
    pub level: f64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { seed: 1, resamples: 10_000, level: 0.95 }
    }
}

/// An estimate with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The estimate, from all runs.
    pub estimate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The parameters of the drawing.
    pub drawn: Bootstrap,
}

/// Returns the minimum number of runs for an interval at a confidence level. With fewer, even the range from minimum to maximum
/// misses the true median too often. All n runs are on the same side of the true median with probability 2 · 0.5^n, so a level of
/// 95 % needs 6 runs, and 99 % needs 8.
pub fn fewest_runs(level: f64) -> usize {
    let (mut runs, mut all_on_one_side) = (1, 1.0);
    while all_on_one_side > 1.0 - level && all_on_one_side > 0.0 {
        runs += 1;
        all_on_one_side /= 2.0;
    }
    runs
}

impl Bootstrap {
    /// Returns the median with its confidence interval, in the unit of the runs.
    ///
    /// # Errors
    /// If there are fewer than [`fewest_runs`], or `self` is invalid.
    pub fn median(&self, runs: &Runs) -> Result<Interval, Error> {
        self.check(&[runs])?;
        let (mut draws, mut generator) = (Draws::new(runs), self.generator());
        Ok(self.interval(runs.median(), (0..self.resamples).map(|_| draws.median(&mut generator))))
    }

    /// Returns the ratio of two medians, new / base, with its confidence interval. The two sets must be independent of each other.
    ///
    /// # Errors
    /// As [`Bootstrap::median`] for either set, or if a run is not above 0: the ratio of two resampled medians could then be
    /// undefined.
    pub fn ratio_of_medians(&self, new: &Runs, base: &Runs) -> Result<Interval, Error> {
        self.check(&[new, base])?;
        check_positive("the minimum of the new runs", new.minimum())?;
        check_positive("the minimum of the base runs", base.minimum())?;
        Ok(self.of_both(new, base, |new, base| new / base))
    }

    /// Returns the difference of two medians, new − base, with its confidence interval, in the unit of the runs. Runs may be 0 or negative.
    ///
    /// # Errors
    /// As [`Bootstrap::median`] for either set.
    pub fn difference_of_medians(&self, new: &Runs, base: &Runs) -> Result<Interval, Error> {
        self.check(&[new, base])?;
        Ok(self.of_both(new, base, |new, base| new - base))
    }

    /// Returns the interval of `effect`, which compares the medians of both sets. Draws from both sets in turn with one generator, because
    /// PCG's streams are not independent of each other.
    fn of_both(&self, new: &Runs, base: &Runs, effect: impl Fn(f64, f64) -> f64) -> Interval {
        let (mut of_new, mut of_base, mut generator) = (Draws::new(new), Draws::new(base), self.generator());
        let drawn = (0..self.resamples).map(|_| {
            let new = of_new.median(&mut generator);
            effect(new, of_base.median(&mut generator))
        });
        self.interval(effect(new.median(), base.median()), drawn)
    }

    fn generator(&self) -> Pcg64 {
        Pcg64::new(u128::from(self.seed), 0)
    }

    fn check(&self, sets: &[&Runs]) -> Result<(), Error> {
        if !(self.level > 0.0 && self.level < 1.0) {
            return Err(Error::Invalid { what: "the level", value: self.level, must: "between 0 and 1" });
        }
        if self.left_out() < 1 {
            let value = f64::from(self.resamples);
            return Err(Error::Invalid { what: "resamples", value, must: "2 / (1 - level) or more" });
        }
        let needed = fewest_runs(self.level);
        match sets.iter().map(|runs| runs.len()).find(|have| *have < needed) {
            Some(have) => Err(Error::TooFew { what: "runs", have, needed }),
            None => Ok(()),
        }
    }

    /// Returns the number of drawn values outside the interval, on each side.
    fn left_out(&self) -> usize {
        // Slack for rounding: 2.5 % of 10,000 must be 250, although 1 - 0.95 is not exactly 0.05.
        let share = ((1.0 - self.level) / 2.0 * f64::from(self.resamples) + 1e-6) as usize;
        // Whatever the level, the interval contains at least the middle value.
        share.min((self.resamples.saturating_sub(1) / 2) as usize)
    }

    fn interval(&self, estimate: f64, drawn: impl Iterator<Item = f64>) -> Interval {
        let mut drawn: Vec<f64> = drawn.collect();
        drawn.sort_by(f64::total_cmp);
        let out = self.left_out();
        Interval { estimate, low: drawn[out], high: drawn[drawn.len() - 1 - out], drawn: *self }
    }
}

/// Draws sets of runs.
struct Draws<'a> {
    sorted: &'a [f64],
    /// Number of times each run was drawn.
    times: Vec<u32>,
}

impl<'a> Draws<'a> {
    fn new(runs: &'a Runs) -> Self {
        Self { sorted: runs.sorted(), times: vec![0; runs.len()] }
    }

    /// Draws a set and returns its median. Counts how often each of the sorted runs was drawn, so that the drawn set need not be
    /// sorted.
    fn median(&mut self, generator: &mut Pcg64) -> f64 {
        let n = self.sorted.len();
        self.times.fill(0);
        for _ in 0..n {
            self.times[pick(generator, n)] += 1;
        }
        middle(self.drawn_at((n - 1) / 2), self.drawn_at(n / 2))
    }

    /// Returns the value at index `place` of the drawn set in ascending order. The least value has index 0.
    fn drawn_at(&self, place: usize) -> f64 {
        let mut before = 0;
        for (value, times) in self.sorted.iter().zip(&self.times) {
            before += *times as usize;
            if before > place {
                return *value;
            }
        }
        self.sorted[self.sorted.len() - 1]
    }
}

/// Returns a random index below `n`: the high 64 bits of a random number times `n`. The relative error of the probabilities is at
/// most n / 2^64.
fn pick(generator: &mut Pcg64, n: usize) -> usize {
    ((u128::from(generator.next_u64()) * n as u128) >> 64) as usize
}

#[cfg(test)]
#[path = "bootstrap_tests.rs"]
mod tests;
