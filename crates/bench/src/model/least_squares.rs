//! Least squares for straight lines, with direct formulas.

use super::Point;
use crate::stats::{Error, is_usable};

/// A straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    pub slope: f64,
    /// Value at x = 0.
    pub intercept: f64,
}

/// Checks points and returns their number, which must be at least `needed`.
///
/// # Errors
/// Returns an error if there are fewer than `needed` points, or a value is not finite.
pub fn check(points: &[Point], needed: usize) -> Result<usize, Error> {
    for (index, (x, y)) in points.iter().enumerate() {
        if let Some(value) = [*x, *y].into_iter().find(|value| !is_usable(*value)) {
            return Err(Error::NotFinite(index, value));
        }
    }
    if points.len() < needed {
        return Err(Error::TooFew { what: "points", have: points.len(), needed });
    }
    Ok(points.len())
}

/// Returns the least-squares line. The formulas multiply differences from the means, because products of the values themselves
/// would lose digits by cancellation.
///
/// # Errors
/// Returns an error if there are fewer than two points, or all points have the same x.
pub fn line(points: &[Point]) -> Result<Line, Error> {
    let n = check(points, 2)? as f64;
    if points.iter().all(|(x, _)| *x == points[0].0) {
        return Err(Error::Undetermined("all points have the same x"));
    }
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / n;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / n;
    let products: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let squares: f64 = points.iter().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum();
    let slope = products / squares;
    Ok(Line { slope, intercept: mean_y - slope * mean_x })
}

/// Returns the slope of the least-squares line through the origin.
///
/// # Errors
/// Returns an error if no point has an x other than 0.
pub fn slope_through_origin(points: &[Point]) -> Result<f64, Error> {
    check(points, 1)?;
    let squares: f64 = points.iter().map(|(x, _)| x * x).sum();
    if squares == 0.0 {
        return Err(Error::Undetermined("every x is 0"));
    }
    Ok(points.iter().map(|(x, y)| x * y).sum::<f64>() / squares)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn squares(points: &[Point], line: Line) -> f64 {
        points.iter().map(|(x, y)| (y - line.slope * x - line.intercept).powi(2)).sum()
    }

    /// The textbook's normal equations, solved by determinants.
    fn by_normal_equations(points: &[Point]) -> Line {
        let sum = |of: fn(&Point) -> f64| points.iter().map(of).sum::<f64>();
        let (n, x, y) = (points.len() as f64, sum(|p| p.0), sum(|p| p.1));
        let (xx, xy) = (sum(|p| p.0 * p.0), sum(|p| p.0 * p.1));
        let determinant = n * xx - x * x;
        Line { slope: (n * xy - x * y) / determinant, intercept: (xx * y - x * xy) / determinant }
    }

    #[test]
    fn points_on_a_line_give_this_line() {
        assert_eq!(line(&[(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]), Ok(Line { slope: 2.0, intercept: 3.0 }));
        assert_eq!(slope_through_origin(&[(1.0, 2.0), (2.0, 4.0), (0.0, 0.0)]), Ok(2.0));
    }

    #[test]
    fn points_without_a_unique_line_are_errors() {
        assert_eq!(line(&[]), Err(Error::TooFew { what: "points", have: 0, needed: 2 }));
        assert_eq!(line(&[(1.0, 1.0)]), Err(Error::TooFew { what: "points", have: 1, needed: 2 }));
        assert_eq!(line(&[(1.0, 1.0), (1.0, 2.0)]), Err(Error::Undetermined("all points have the same x")));
        assert_eq!(slope_through_origin(&[(0.0, 2.0)]), Err(Error::Undetermined("every x is 0")));
        assert!(matches!(line(&[(1.0, 1.0), (2.0, f64::NAN)]), Err(Error::NotFinite(1, y)) if y.is_nan()));
        assert_eq!(line(&[(f64::INFINITY, 1.0)]), Err(Error::NotFinite(0, f64::INFINITY)));
    }

    fn points() -> impl Strategy<Value = Vec<Point>> {
        prop::collection::vec((-100f64..100.0, -100f64..100.0), 3..20)
    }

    proptest! {
        #[test]
        fn the_line_equals_that_of_the_normal_equations(points in points()) {
            let (line, plain) = (line(&points).unwrap(), by_normal_equations(&points));
            prop_assume!(plain.slope.abs() < 1e3);
            prop_assert!((line.slope - plain.slope).abs() < 1e-6 && (line.intercept - plain.intercept).abs() < 1e-5);
        }

        #[test]
        fn no_other_line_has_a_smaller_error(points in points(), slope in -1f64..1.0, intercept in -1f64..1.0) {
            let best = line(&points).unwrap();
            let beside = Line { slope: best.slope + slope, intercept: best.intercept + intercept };
            prop_assert!(squares(&points, best) <= squares(&points, beside) + 1e-6);
            let origin = Line { slope: slope_through_origin(&points).unwrap(), intercept: 0.0 };
            let beside = Line { slope: origin.slope + slope, intercept: 0.0 };
            prop_assert!(squares(&points, origin) <= squares(&points, beside) + 1e-6);
        }
    }
}
