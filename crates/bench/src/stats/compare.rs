//! Tests whether two sets of runs differ beyond their noise.

use serde::{Deserialize, Serialize};

use super::bootstrap::{Bootstrap, Interval};
use super::error::Error;
use super::runs::Runs;

/// Whether higher or lower figures are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// Higher is better: throughput, packets per watt-hour.
    High,
    /// Lower is better: latency, loss, energy, clocks per packet.
    Low,
}

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The new runs are better, beyond the noise.
    Better,
    /// The new runs are worse, beyond the noise.
    Worse,
    /// The difference may be noise. This does not prove that there is no difference.
    NoDifference,
}

/// The quantity that compares two medians.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The ratio new / base. [`Terms::resolution`] is a share: 0.005 for 0.5 %.
    Ratio,
    /// The difference new − base, for figures that may be 0, such as losses. [`Terms::resolution`] has the unit of the runs.
    Difference,
}

/// Parameters of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Whether higher or lower figures are better.
    pub wanted: Wanted,
    /// The quantity to compare.
    pub effect: Effect,
    /// Effects up to this size count as no difference. Use the resolution of the measurement itself, such as the width at which a
    /// search stops. With 0, even the smallest change counts as a difference if the runs have no noise.
    pub resolution: f64,
}

/// A comparison of two sets of runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The parameters.
    pub terms: Terms,
    /// The effect, with its confidence interval.
    pub effect: Interval,
    /// The result.
    pub verdict: Verdict,
}

/// Compares new runs with base runs. They differ if the effect's whole confidence interval is beyond the resolution: for a ratio,
/// above 1 + resolution or below 1 / (1 + resolution); for a difference, above resolution or below −resolution.
///
/// At a level of 95 %, about one in twenty comparisons of equal things finds a difference. For hundreds of comparisons at once, use a
/// higher level, which needs more runs.
///
/// # Errors
/// As [`Bootstrap::ratio_of_medians`] or [`Bootstrap::difference_of_medians`], or if the resolution is negative or not finite.
pub fn compare(new: &Runs, base: &Runs, terms: Terms, bootstrap: &Bootstrap) -> Result<Comparison, Error> {
    let resolution = terms.resolution;
    if !(0.0..f64::INFINITY).contains(&resolution) {
        return Err(Error::Invalid { what: "the resolution", value: resolution, must: "0 or more" });
    }
    let (effect, none) = match terms.effect {
        Effect::Ratio => {
            (bootstrap.ratio_of_medians(new, base)?, 1.0 / (1.0 + resolution)..=1.0 + resolution)
        }
        Effect::Difference => (bootstrap.difference_of_medians(new, base)?, -resolution..=resolution),
    };
    let verdict = match terms.wanted {
        Wanted::High if effect.low > *none.end() => Verdict::Better,
        Wanted::High if effect.high < *none.start() => Verdict::Worse,
        Wanted::Low if effect.low > *none.end() => Verdict::Worse,
        Wanted::Low if effect.high < *none.start() => Verdict::Better,
        _ => Verdict::NoDifference,
    };
    Ok(Comparison { terms, effect, verdict })
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

    fn by_ratio(wanted: Wanted, resolution: f64) -> Terms {
        Terms { wanted, effect: Effect::Ratio, resolution }
    }

    fn verdict(new: &[f64], base: &[f64], wanted: Wanted, resolution: f64) -> Verdict {
        let terms = by_ratio(wanted, resolution);
        compare(&runs(new), &runs(base), terms, &Bootstrap::default()).unwrap().verdict
    }

    const OLD: [f64; 8] = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1];

    #[test]
    fn the_wanted_direction_decides_which_result_is_better() {
        let more = OLD.map(|x| x * 1.1);
        assert_eq!(verdict(&more, &OLD, Wanted::High, 0.0), Verdict::Better);
        assert_eq!(verdict(&more, &OLD, Wanted::Low, 0.0), Verdict::Worse);
        assert_eq!(verdict(&OLD, &more, Wanted::High, 0.0), Verdict::Worse);
        assert_eq!(verdict(&OLD, &more, Wanted::Low, 0.0), Verdict::Better);
        assert_eq!(verdict(&OLD, &OLD, Wanted::High, 0.0), Verdict::NoDifference);
    }

    #[test]
    fn changes_within_the_resolution_are_no_difference() {
        let (new, base) = ([1003.0; 6], [1000.0; 6]);
        assert_eq!(verdict(&new, &base, Wanted::High, 0.0), Verdict::Better);
        assert_eq!(verdict(&new, &base, Wanted::High, 0.005), Verdict::NoDifference);
        for resolution in [-0.1, f64::NAN, f64::INFINITY] {
            let terms = by_ratio(Wanted::High, resolution);
            assert!(compare(&runs(&new), &runs(&base), terms, &Bootstrap::default()).is_err());
        }
    }

    #[test]
    fn new_losses_are_worse_than_none() {
        let verdict = |new: [f64; 6], base: [f64; 6], resolution| {
            let terms = Terms { wanted: Wanted::Low, effect: Effect::Difference, resolution };
            compare(&runs(&new), &runs(&base), terms, &Bootstrap::default()).unwrap().verdict
        };
        assert_eq!(verdict([7.0; 6], [0.0; 6], 0.0), Verdict::Worse);
        assert_eq!(verdict([0.0; 6], [7.0; 6], 0.0), Verdict::Better);
        assert_eq!(verdict([0.0; 6], [0.0; 6], 0.0), Verdict::NoDifference);
        assert_eq!(verdict([7.0; 6], [0.0; 6], 10.0), Verdict::NoDifference);
        // The ratio is undefined if the base is 0.
        let zero =
            compare(&runs(&[7.0; 6]), &runs(&[0.0; 6]), by_ratio(Wanted::Low, 0.0), &Bootstrap::default());
        assert!(zero.is_err());
    }

    #[test]
    fn equal_sets_rarely_differ() {
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
                compare(&new, &base, by_ratio(Wanted::High, 0.0), &bootstrap).unwrap().verdict
                    != Verdict::NoDifference
            })
            .count();
        assert!(differ <= 60, "{differ} of 1000");
    }

    proptest! {
        /// Sets that are far apart differ, in either order.
        #[test]
        fn distant_sets_differ_in_both_orders(
            new in prop::collection::vec(200f64..300.0, 6..20),
            base in prop::collection::vec(1f64..100.0, 6..20),
        ) {
            prop_assert_eq!(verdict(&new, &base, Wanted::High, 0.1), Verdict::Better);
            prop_assert_eq!(verdict(&base, &new, Wanted::High, 0.1), Verdict::Worse);
        }
    }
}
