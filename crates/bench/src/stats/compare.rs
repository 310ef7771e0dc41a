//! Whether two sets of runs differ beyond their noise.

use serde::{Deserialize, Serialize};

use super::bootstrap::{Bootstrap, Interval};
use super::error::Error;
use super::runs::Runs;

/// Which way a figure is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// Throughput, packets per watt-hour.
    High,
    /// Latency, loss, energy, clocks per packet.
    Low,
}

/// What came of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The new runs are better, beyond the noise.
    Better,
    /// The new runs are worse, beyond the noise.
    Worse,
    /// What difference there is could be noise. It does not say that there is none.
    NoDifference,
}

/// A comparison of two sets of runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The ratio of the medians, new / base, and how well it is known.
    pub ratio: Interval,
    /// Which way the figure is wanted.
    pub wanted: Wanted,
    /// Differences up to this share count as none.
    pub resolution: f64,
    /// What came of it.
    pub verdict: Verdict,
}

/// Compares new runs with base runs.
///
/// They differ when the whole interval of the ratio of their medians lies beyond `resolution`: above 1 + resolution, or
/// below 1 / (1 + resolution). The resolution is what the measurement itself can tell apart: the width at which a
/// search stops, 0.005 for half a percent, say. With 0, runs that always give the same figure differ as soon as it
/// moves at all.
///
/// Of many comparisons of equal things at a level of 95 %, one in twenty or so will say that they differ: who compares
/// hundreds at once raises the level, and has the runs that it takes.
///
/// # Errors
/// As [`Bootstrap::ratio_of_medians`], and when the resolution is below 0 or no number.
pub fn compare(
    new: &Runs,
    base: &Runs,
    wanted: Wanted,
    resolution: f64,
    bootstrap: &Bootstrap,
) -> Result<Comparison, Error> {
    if !(0.0..f64::INFINITY).contains(&resolution) {
        return Err(Error::Invalid { what: "the resolution", value: resolution, must: "0 or more" });
    }
    let ratio = bootstrap.ratio_of_medians(new, base)?;
    let verdict = if ratio.low > 1.0 + resolution {
        if wanted == Wanted::High { Verdict::Better } else { Verdict::Worse }
    } else if ratio.high < 1.0 / (1.0 + resolution) {
        if wanted == Wanted::High { Verdict::Worse } else { Verdict::Better }
    } else {
        Verdict::NoDifference
    };
    Ok(Comparison { ratio, wanted, resolution, verdict })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use super::*;

    fn runs(results: &[f64]) -> Runs {
        Runs::new(results).unwrap()
    }

    fn verdict(new: &[f64], base: &[f64], wanted: Wanted, resolution: f64) -> Verdict {
        compare(&runs(new), &runs(base), wanted, resolution, &Bootstrap::default()).unwrap().verdict
    }

    const OLD: [f64; 8] = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1];

    #[test]
    fn what_is_wanted_decides_what_better_is() {
        let more = OLD.map(|x| x * 1.1);
        assert_eq!(verdict(&more, &OLD, Wanted::High, 0.0), Verdict::Better);
        assert_eq!(verdict(&more, &OLD, Wanted::Low, 0.0), Verdict::Worse);
        assert_eq!(verdict(&OLD, &more, Wanted::High, 0.0), Verdict::Worse);
        assert_eq!(verdict(&OLD, &more, Wanted::Low, 0.0), Verdict::Better);
        assert_eq!(verdict(&OLD, &OLD, Wanted::High, 0.0), Verdict::NoDifference);
    }

    #[test]
    fn what_the_search_cannot_tell_apart_is_no_difference() {
        let (new, base) = ([1003.0; 6], [1000.0; 6]);
        assert_eq!(verdict(&new, &base, Wanted::High, 0.0), Verdict::Better);
        assert_eq!(verdict(&new, &base, Wanted::High, 0.005), Verdict::NoDifference);
        for resolution in [-0.1, f64::NAN, f64::INFINITY] {
            assert!(
                compare(&runs(&new), &runs(&base), Wanted::High, resolution, &Bootstrap::default()).is_err()
            );
        }
    }

    #[test]
    fn equal_things_are_seldom_said_to_differ() {
        let mut generator = Pcg64::new(3, 3);
        let mut set = || {
            let noise: Vec<f64> =
                (0..20).map(|_| 100.0 + generator.next_u64() as f64 / 2f64.powi(63)).collect();
            runs(&noise)
        };
        let bootstrap = Bootstrap { resamples: 1000, ..Bootstrap::default() };
        let differ = (0..1000)
            .filter(|_| {
                let (new, base) = (set(), set());
                compare(&new, &base, Wanted::High, 0.0, &bootstrap).unwrap().verdict != Verdict::NoDifference
            })
            .count();
        assert!(differ <= 60, "{differ} of 1000");
    }

    proptest! {
        /// Sets that do not overlap by far differ, whichever way round they are given.
        #[test]
        fn who_is_beaten_beats_not(
            new in prop::collection::vec(200f64..300.0, 6..20),
            base in prop::collection::vec(1f64..100.0, 6..20),
        ) {
            prop_assert_eq!(verdict(&new, &base, Wanted::High, 0.1), Verdict::Better);
            prop_assert_eq!(verdict(&base, &new, Wanted::High, 0.1), Verdict::Worse);
        }
    }
}
