//! Model of throughput as a function of the number of workers (Okelmann 2019, section 6.2).

use serde::{Deserialize, Serialize};

use super::{Curve, Fit, Point, Quality, check_x, least_squares};
use crate::stats::{Error, check_positive};

/// f(w) = w · w_t until the link is full: each worker on its own physical core adds the same throughput.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreModel {
    /// Throughput of one worker (w_t), in the unit of the measured throughputs.
    pub per_worker: f64,
    /// Maximum throughput of the link, the network card or the tester, in the unit of the measured throughputs; `None` if the measured
    /// throughputs stayed well below this maximum.
    pub ceiling: Option<f64>,
}

impl CoreModel {
    /// Fits the throughput of a worker to points of (workers, throughput). `ceiling` is the maximum throughput, if there is one.
    ///
    /// The fit uses all points, and determines which of them are at the ceiling. For each possible number of points below the ceiling, the
    /// sum of squares is a parabola, whose minimum has a direct formula. The smallest of these minimums is the global one.
    ///
    /// # Errors
    /// Returns an error if there are no points, if a number of workers or the ceiling is not above 0, or if the best fit has every point at
    /// the ceiling, so that the throughput of a worker is undetermined.
    pub fn fit(points: &[Point], ceiling: Option<f64>) -> Result<Fit<Self>, Error> {
        let free = least_squares::slope_through_origin(points)?;
        check_x(points, "a number of workers", "above 0", |workers| workers > 0.0)?;
        let Some(limit) = ceiling else {
            return Fit::of(Self { per_worker: free, ceiling }, points);
        };
        check_positive("the ceiling", limit)?;
        let mut ascending = points.to_vec();
        ascending.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Start with all points at the ceiling: the throughput of a worker is such that the first point just reaches it.
        let mut best = Self { per_worker: limit / ascending[0].0, ceiling };
        let all_full = squares(&best, points)?;
        let mut least = all_full;
        for below in 1..=ascending.len() {
            // The points after the first `below` points are at the ceiling. So `per_worker` is at least the value at which the first of
            // them reaches the ceiling.
            let from = ascending.get(below).map_or(0.0, |(workers, _)| limit / workers);
            let to = limit / ascending[below - 1].0;
            let lowest = least_squares::slope_through_origin(&ascending[..below])?.clamp(from, to);
            let model = Self { per_worker: lowest, ceiling };
            let squares = squares(&model, points)?;
            if squares < least {
                (best, least) = (model, squares);
            }
        }
        if least >= all_full {
            return Err(Error::Undetermined("every point is at the ceiling"));
        }
        Fit::of(best, points)
    }
}

impl Curve for CoreModel {
    fn at(&self, workers: f64) -> f64 {
        self.ceiling.unwrap_or(f64::INFINITY).min(workers * self.per_worker)
    }
}

fn squares(model: &CoreModel, points: &[Point]) -> Result<f64, Error> {
    Ok(Quality::of(model, points)?.residuals.iter().map(|r| r * r).sum())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn throughput_grows_with_workers_up_to_the_ceiling() {
        let model = CoreModel { per_worker: 6.0, ceiling: Some(20.0) };
        assert_eq!([1.0, 3.0, 4.0].map(|w| model.at(w)), [6.0, 18.0, 20.0]);
    }

    #[test]
    fn points_at_the_ceiling_do_not_affect_the_slope() {
        let points = [(1.0, 6.0), (2.0, 12.0), (4.0, 20.0), (6.0, 20.0)];
        let fit = CoreModel::fit(&points, Some(20.0)).unwrap();
        assert_eq!(fit.model.per_worker, 6.0);
        assert_eq!(fit.quality.residuals, [0.0; 4]);
        assert!(CoreModel::fit(&points, None).unwrap().quality.r_squared.unwrap() < 0.9);
    }

    #[test]
    fn undetermined_models_are_refused() {
        let full = CoreModel::fit(&[(2.0, 20.0), (4.0, 20.0)], Some(20.0)).unwrap_err();
        assert_eq!(full.to_string(), "the points do not determine the model: every point is at the ceiling");
        assert!(CoreModel::fit(&[], None).is_err());
        assert!(CoreModel::fit(&[(0.0, 1.0), (1.0, 1.0)], None).is_err());
        for ceiling in [0.0, f64::NAN, f64::INFINITY] {
            assert!(CoreModel::fit(&[(1.0, 1.0)], Some(ceiling)).is_err(), "{ceiling}");
        }
    }

    proptest! {
        /// No other slope out of thousands fits better.
        #[test]
        fn no_other_slope_has_a_smaller_error(
            throughputs in prop::collection::vec(0.1f64..25.0, 1..8),
            ceiling in prop::option::of(5f64..25.0),
        ) {
            let points: Vec<Point> = throughputs.iter().zip(1..).map(|(y, w)| (f64::from(w), *y)).collect();
            let Ok(fit) = CoreModel::fit(&points, ceiling) else { return Ok(()) };
            let least = squares(&fit.model, &points).unwrap();
            for step in 1..3000 {
                let tried = CoreModel { per_worker: f64::from(step) / 100.0, ceiling };
                prop_assert!(least <= squares(&tried, &points).unwrap() + 1e-9, "{:?} {tried:?}", fit.model);
            }
        }
    }
}
