//! Model of average latency as a function of the load (Okelmann 2019, section 6.4.1).

use serde::{Deserialize, Serialize};

use super::{Curve, Fit, Point, Quality, check_x, least_squares};
use crate::stats::{Error, check_positive};

/// l(t) = 59 − 62 · (1 − t / t_max)^(t_max / (8 t)) microseconds, for loads t between 0 and t_max.
///
/// With these parameters of Okelmann 2019, the latency is 4.7 µs at 10 % of t_max, 6.9 µs at 50 %, 14.0 µs at 90 % and 24.3 µs at 99 %. The
/// curve ends at 59 µs, while the thesis measured about 600 µs with full queues: the model does not apply from t_max on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyModel {
    /// Latency at the end of the curve, in microseconds; 59 in Okelmann 2019.
    pub end_us: f64,
    /// Factor of the falling term that is subtracted from `end_us`, in microseconds; 62 in Okelmann 2019.
    pub span_us: f64,
    /// Bend of the curve: with a larger bend, the curve rises later; 8 in Okelmann 2019.
    pub bend: f64,
    /// Highest load without loss (t_max), in the unit of the measured loads.
    pub max_load: f64,
}

/// Range of bends that the fit searches.
const BENDS: std::ops::RangeInclusive<f64> = 0.05..=500.0;
/// Number of steps from the smallest to the largest bend that the fit tries, before it refines the best one. The steps are equal on a
/// logarithmic scale.
const TRIED: u32 = 400;

impl LatencyModel {
    /// Returns the curve of Okelmann 2019 for VPP, but with this highest load.
    pub const fn of_vpp(max_load: f64) -> Self {
        Self { end_us: 59.0, span_us: 62.0, bend: 8.0, max_load }
    }

    /// Fits `end_us`, `span_us` and `bend` to points of (load, average latency in microseconds). `max_load` is the highest load without
    /// loss.
    ///
    /// For a given bend, the model is linear in `end_us` and `span_us`, and least squares have a direct solution. So the fit tries bends
    /// from 0.05 to 500. For each bend, it computes the best `end_us` and `span_us`. Then it refines the best bend.
    ///
    /// # Errors
    /// Returns an error if there are fewer than four points, or a load is not between 0 and `max_load`.
    pub fn fit(points: &[Point], max_load: f64) -> Result<Fit<Self>, Error> {
        least_squares::check(points, 4)?;
        check_positive("the highest load", max_load)?;
        check_x(points, "a load", "above 0 and below the highest", |load| load > 0.0 && load < max_load)?;
        let (from, to) = (BENDS.start().ln(), BENDS.end().ln());
        let step = (to - from) / f64::from(TRIED);
        let mut best: Option<(f64, f64)> = None;
        for at in (0..=TRIED).map(|i| from + step * f64::from(i)) {
            let squares = squares(points, max_load, at)?;
            if best.is_none_or(|(_, least)| squares < least) {
                best = Some((at, squares));
            }
        }
        let at = best.map_or(from, |(at, _)| at);
        let bend = refine(points, max_load, at - step, at + step)?;
        Fit::of(with_bend(points, max_load, bend)?, points)
    }
}

impl Curve for LatencyModel {
    /// Returns the latency in microseconds. A load out of range has the latency of the nearest end of the range.
    fn at(&self, load: f64) -> f64 {
        self.end_us - self.span_us * falling(load / self.max_load, self.bend)
    }
}

/// Returns (1 − u)^(1 / (bend · u)), which falls from e^(−1 / bend) to 0 as the load's share u grows from 0 to 1.
fn falling(u: f64, bend: f64) -> f64 {
    if u <= 0.0 { (-1.0 / bend).exp() } else { (1.0 - u.min(1.0)).powf(1.0 / (bend * u.min(1.0))) }
}

/// Returns the best-fitting model with a given bend.
fn with_bend(points: &[Point], max_load: f64, bend: f64) -> Result<LatencyModel, Error> {
    let straight: Vec<Point> =
        points.iter().map(|(load, us)| (falling(load / max_load, bend), *us)).collect();
    let line = least_squares::line(&straight)?;
    Ok(LatencyModel { end_us: line.intercept, span_us: -line.slope, bend, max_load })
}

fn squares(points: &[Point], max_load: f64, ln_bend: f64) -> Result<f64, Error> {
    let model = with_bend(points, max_load, ln_bend.exp())?;
    Ok(Quality::of(&model, points)?.residuals.iter().map(|r| r * r).sum())
}

/// Narrows the range of the bend's logarithm by ternary search and returns the bend at its middle.
fn refine(points: &[Point], max_load: f64, mut low: f64, mut high: f64) -> Result<f64, Error> {
    for _ in 0..80 {
        let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if squares(points, max_load, left)? <= squares(points, max_load, right)? {
            high = right;
        } else {
            low = left;
        }
    }
    Ok(f64::midpoint(low, high).exp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_curve_of_the_thesis_is_reproduced() {
        let model = LatencyModel::of_vpp(11.28e6);
        let at = [0.1, 0.5, 0.9, 0.99].map(|share| format!("{:.1}", model.at(share * 11.28e6)));
        assert_eq!(at, ["4.7", "6.9", "14.0", "24.3"]);
    }

    #[test]
    fn the_curve_is_limited_at_both_ends() {
        let model = LatencyModel::of_vpp(10.0);
        assert_eq!([model.at(10.0), model.at(20.0)], [59.0; 2]);
        assert!((model.at(0.0) - model.at(1e-6)).abs() < 1e-3);
        assert!((model.at(0.0) - (59.0 - 62.0 * (-0.125f64).exp())).abs() < 1e-12);
    }

    #[test]
    fn loads_above_the_maximum_are_refused() {
        let points: Vec<Point> = (1..=9).map(|i| (f64::from(i), f64::from(i * i))).collect();
        assert!(LatencyModel::fit(&points, 10.0).is_ok());
        assert!(LatencyModel::fit(&points, 9.0).is_err());
        assert!(LatencyModel::fit(&points, 0.0).is_err());
        assert!(LatencyModel::fit(&points[..3], 10.0).is_err());
        let same = LatencyModel::fit(&[(1.0, 1.0); 4], 10.0).unwrap_err();
        assert_eq!(same, Error::Undetermined("all points have the same x"));
    }

    proptest! {
        #[test]
        fn a_fit_recovers_the_model(end in 10f64..100.0, span in 5f64..100.0, bend in 1f64..30.0, max in 1f64..1e8) {
            let model = LatencyModel { end_us: end, span_us: span, bend, max_load: max };
            let points: Vec<Point> =
                [0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99].map(|u| (u * max, model.at(u * max))).to_vec();
            let fit = LatencyModel::fit(&points, max).unwrap();
            prop_assert!(fit.quality.root_mean_square < 1e-3 * span, "{model:?} {fit:?}");
            prop_assert!((fit.model.bend / bend - 1.0).abs() < 0.02, "{model:?} {fit:?}");
        }
    }
}
