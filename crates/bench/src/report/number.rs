//! Formats numbers for reports.

use crate::stats::{Bootstrap, Runs, Summary};

/// Placeholder for a missing number.
pub const NONE: &str = "–";

/// Formats a number with `digits` decimals, and from 1e12 on with an exponent. [`NONE`] if the number is not
/// finite.
pub fn number(value: f64, digits: usize) -> String {
    match value.abs() {
        size if !size.is_finite() => NONE.into(),
        size if size >= 1e12 => format!("{value:.3e}"),
        _ => format!("{value:.digits$}"),
    }
}

/// Formats an optional number; [`NONE`] if there is none.
pub fn maybe(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| NONE.into(), |value| number(value, digits))
}

/// Formats a rate in thousands per second, from frames per second.
pub fn kilo(fps: f64) -> String {
    number(fps / 1e3, 1)
}

/// Formats a delay in microseconds, from nanoseconds.
pub fn micro(ns: f64) -> String {
    number(ns / 1e3, 2)
}

/// Formats a share (0 to 1) in percent; below 0.01 % with an exponent.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        small if small != 0.0 && small.abs() < 0.01 => format!("{small:.1e}"),
        all => number(all, 2),
    }
}

/// Returns the summary of the finite values; `None` without any.
pub fn summary(values: impl IntoIterator<Item = f64>) -> Option<Summary> {
    runs(values).map(|runs| Summary::of(&runs))
}

/// Returns the finite values as runs; `None` without any.
pub fn runs(values: impl IntoIterator<Item = f64>) -> Option<Runs> {
    Runs::new(&values.into_iter().filter(|v| v.is_finite()).collect::<Vec<_>>()).ok()
}

/// Returns the median of the finite values; `None` without any.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    runs(values).map(|runs| runs.median())
}

/// Returns the 95 % confidence interval of the median; `None` with too few runs.
pub fn interval(runs: &Runs) -> Option<(f64, f64)> {
    Bootstrap::default().median(runs).ok().map(|i| (i.low, i.high))
}

/// Formats an interval. `write` formats a value in its unit.
pub fn range(ends: Option<(f64, f64)>, write: impl Fn(f64) -> String) -> String {
    ends.map_or_else(|| NONE.into(), |(low, high)| format!("{} to {}", write(low), write(high)))
}
