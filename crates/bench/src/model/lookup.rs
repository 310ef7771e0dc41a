//! Model of throughput as a function of the share of time spent on lookups (Okelmann 2019, section 6.3.4).

use serde::{Deserialize, Serialize};

use super::{Curve, Fit, Point, check_x, least_squares};
use crate::stats::Error;

/// f = t_max · (1 − d_lookup): the time spent on lookups in a large table is not available for forwarding.
///
/// In Okelmann 2019, t_max is the throughput with one or two routes, and d_lookup the share of time in the lookup node. This node also
/// takes time with a single route. A fitted t_max is therefore somewhat higher: it is the throughput that the router would have if lookups
/// cost nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LookupModel {
    /// Throughput without lookups, in the unit of the measured throughputs.
    pub max_throughput: f64,
}

impl LookupModel {
    /// Fits t_max to points of (share of time in lookups, from 0 to below 1; throughput).
    ///
    /// # Errors
    /// Returns an error if there are no points, or a share is out of range.
    pub fn fit(points: &[Point]) -> Result<Fit<Self>, Error> {
        least_squares::check(points, 1)?;
        check_x(points, "a share of time", "0 or more and below 1", |share| (0.0..1.0).contains(&share))?;
        let left: Vec<Point> = points.iter().map(|(share, y)| (1.0 - share, *y)).collect();
        Fit::of(Self { max_throughput: least_squares::slope_through_origin(&left)? }, points)
    }
}

impl Curve for LookupModel {
    fn at(&self, share: f64) -> f64 {
        self.max_throughput * (1.0 - share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_time_reduces_throughput_linearly() {
        let fit = LookupModel::fit(&[(0.0, 12.0), (0.25, 9.0), (0.5, 6.0)]).unwrap();
        assert_eq!((fit.model.max_throughput, fit.quality.r_squared), (12.0, Some(1.0)));
        assert_eq!(fit.model.at(0.75), 3.0);
    }

    #[test]
    fn shares_are_below_one() {
        assert!(LookupModel::fit(&[]).is_err());
        let percent = LookupModel::fit(&[(40.0, 6.0)]).unwrap_err();
        assert_eq!(percent.to_string(), "a share of time is 40: it must be 0 or more and below 1");
        assert!(LookupModel::fit(&[(1.0, 6.0)]).is_err());
    }
}
