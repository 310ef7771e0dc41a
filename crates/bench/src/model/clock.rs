//! Throughput over the processor's clock (Okelmann 2019, section 6.1).

use serde::{Deserialize, Serialize};

use super::{Curve, Fit, Point, check_x, least_squares};
use crate::stats::Error;

/// f(c) = (0.9 · c / c_max + 0.1) · p_max: half the clock leaves 55 % of the throughput. If the clock were the only limit, the share would
/// be 1, and half the clock would leave half.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockModel {
    /// Share of the throughput that is proportional to the clock; 0.9 in the thesis. The rest is constant.
    pub share: f64,
    /// The highest clock, in the unit of the points' x.
    pub max_clock: f64,
    /// The throughput at the highest clock, in the unit of the points' y.
    pub max_throughput: f64,
}

impl ClockModel {
    /// Share that the thesis found for VPP.
    pub const SHARE_OF_VPP: f64 = 0.9;

    /// Fits the share and the highest throughput to points of (clock, throughput).
    ///
    /// # Errors
    /// Returns an error if there are fewer than two different clocks, if a clock is not above 0, or if the fitted throughput at the highest
    /// clock is not above 0.
    pub fn fit(points: &[Point]) -> Result<Fit<Self>, Error> {
        let line = least_squares::line(points)?;
        check_x(points, "a clock", "above 0", |clock| clock > 0.0)?;
        let max_clock = points.iter().fold(0.0, |max: f64, (clock, _)| max.max(*clock));
        let max_throughput = line.slope * max_clock + line.intercept;
        if max_throughput <= 0.0 {
            return Err(Error::Undetermined("the fitted throughput at the highest clock is not above 0"));
        }
        let share = line.slope * max_clock / max_throughput;
        Fit::of(Self { share, max_clock, max_throughput }, points)
    }
}

impl Curve for ClockModel {
    fn at(&self, clock: f64) -> f64 {
        (self.share * clock / self.max_clock + (1.0 - self.share)) * self.max_throughput
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::Quality;

    #[test]
    fn half_the_clock_gives_55_percent() {
        let model = ClockModel { share: ClockModel::SHARE_OF_VPP, max_clock: 3.2e9, max_throughput: 10.0 };
        assert!((model.at(1.6e9) - 5.5).abs() < 1e-12);
        assert_eq!(model.at(3.2e9), 10.0);
    }

    #[test]
    fn a_given_model_reports_its_residuals() {
        let model = ClockModel { share: 1.0, max_clock: 2.0, max_throughput: 2.0 };
        let quality = Quality::of(&model, &[(1.0, 1.5), (2.0, 2.0)]).unwrap();
        assert_eq!((quality.residuals, quality.r_squared), (vec![0.5, 0.0], Some(-1.0)));
        assert!((quality.root_mean_square - 0.125f64.sqrt()).abs() < 1e-12);
        assert_eq!(Quality::of(&model, &[(1.0, 1.5), (2.0, 1.5)]).unwrap().r_squared, None);
    }

    #[test]
    fn invalid_clocks_are_refused() {
        assert!(ClockModel::fit(&[(1.0, 1.0)]).is_err());
        assert!(ClockModel::fit(&[(0.0, 1.0), (1.0, 2.0)]).is_err());
        assert!(ClockModel::fit(&[(1.0, 0.0), (2.0, 0.0)]).is_err());
    }

    proptest! {
        #[test]
        fn a_fit_recovers_the_model(share in 0.1f64..1.0, throughput in 1f64..1e8) {
            let model = ClockModel { share, max_clock: 3200.0, max_throughput: throughput };
            let points: Vec<Point> = [1600.0, 2400.0, 3100.0, 3200.0].map(|c| (c, model.at(c))).to_vec();
            let fit = ClockModel::fit(&points).unwrap();
            prop_assert!((fit.model.share - share).abs() < 1e-9);
            prop_assert!((fit.model.max_throughput / throughput - 1.0).abs() < 1e-9);
            prop_assert!(fit.quality.r_squared.unwrap() > 1.0 - 1e-9);
        }
    }
}
