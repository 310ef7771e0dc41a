//! Three performance models of Okelmann 2019 (chapter 6), and the marks in its plots: the largest tables that fit each cache.
//!
//! Each model is a [`Curve`] in the thesis' form. A model can be [fitted](Fit) to measured points by least squares. A model with the
//! thesis' parameters can be [compared](Quality::of) with measured points. In both cases the error is part of the result.

pub mod cache;
pub mod cores;
pub mod latency;
mod least_squares;
pub mod lookup;

use serde::{Deserialize, Serialize};

use crate::stats::Error;

/// A model: a value for each x.
pub trait Curve {
    /// Returns the model's value at x, in the model's units.
    fn at(&self, x: f64) -> f64;
}

/// A measured point: (x, y), where x was varied and y was measured.
pub type Point = (f64, f64);

/// A model fitted to points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit<M> {
    /// The model with the least squares.
    pub model: M,
    /// Error of the fit.
    pub quality: Quality,
}

/// Error of a model for the points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Residual of each point, in the order of the points and in the unit of y: the measured value minus the model's value.
    pub residuals: Vec<f64>,
    /// Root mean square of the residuals, in the unit of y.
    pub root_mean_square: f64,
    /// R² = 1 − Σ residual² / Σ (y − mean)²: 1 is a perfect fit, below 0 is worse than the mean alone. `None` if y never varies.
    pub r_squared: Option<f64>,
}

impl Quality {
    /// Computes the error of a model for points.
    ///
    /// # Errors
    /// Returns an error if there are no points, or a value is not finite.
    pub fn of(model: &impl Curve, points: &[Point]) -> Result<Self, Error> {
        let n = least_squares::check(points, 1)? as f64;
        let mean = points.iter().map(|(_, y)| y).sum::<f64>() / n;
        let around_mean: f64 = points.iter().map(|(_, y)| (y - mean) * (y - mean)).sum();
        let residuals: Vec<f64> = points.iter().map(|(x, y)| y - model.at(*x)).collect();
        let squares: f64 = residuals.iter().map(|r| r * r).sum();
        // The mean of equal values may be off in the last digit, which is no variation.
        let varies = points.iter().any(|(_, y)| *y != points[0].1);
        Ok(Self {
            residuals,
            root_mean_square: (squares / n).sqrt(),
            r_squared: (varies && around_mean > 0.0).then(|| 1.0 - squares / around_mean),
        })
    }
}

impl<M: Curve> Fit<M> {
    fn of(model: M, points: &[Point]) -> Result<Self, Error> {
        Ok(Self { quality: Quality::of(&model, points)?, model })
    }
}

/// Checks that all x satisfy `may`.
///
/// # Errors
/// Returns [`Error::Invalid`] for the first x that does not satisfy `may`.
fn check_x(
    points: &[Point],
    what: &'static str,
    must: &'static str,
    may: impl Fn(f64) -> bool,
) -> Result<(), Error> {
    match points.iter().find(|(x, _)| !may(*x)) {
        Some((x, _)) => Err(Error::Invalid { what, value: *x, must }),
        None => Ok(()),
    }
}
