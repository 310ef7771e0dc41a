//! Numbers as reports write them.

use crate::stats::{Bootstrap, Runs, Summary};

/// What stands for a number that there is not.
pub const NONE: &str = "–";

/// With so many digits behind the point; very large ones with an exponent. What is no number is not there.
pub fn number(value: f64, digits: usize) -> String {
    match value.abs() {
        size if !size.is_finite() => NONE.into(),
        size if size >= 1e12 => format!("{value:.3e}"),
        _ => format!("{value:.digits$}"),
    }
}

/// One that may not be there.
pub fn maybe(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| NONE.into(), |value| number(value, digits))
}

/// A rate, in thousands a second of what is given in ones.
pub fn kilo(fps: f64) -> String {
    number(fps / 1e3, 1)
}

/// A delay, in microseconds of what is given in nanoseconds.
pub fn micro(ns: f64) -> String {
    number(ns / 1e3, 2)
}

/// A share, in percent.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        small if small != 0.0 && small.abs() < 0.01 => format!("{small:.1e}"),
        all => number(all, 2),
    }
}

/// The finite ones of some values, summed up; `None` without any.
pub fn summary(values: impl IntoIterator<Item = f64>) -> Option<Summary> {
    runs(values).map(|runs| Summary::of(&runs))
}

/// The finite ones of some values; `None` without any.
pub fn runs(values: impl IntoIterator<Item = f64>) -> Option<Runs> {
    Runs::new(&values.into_iter().filter(|v| v.is_finite()).collect::<Vec<_>>()).ok()
}

/// The median of the finite ones of some values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    runs(values).map(|runs| runs.median())
}

/// Where the true median lies, at 95 %; `None` of too few runs.
pub fn interval(runs: &Runs) -> Option<(f64, f64)> {
    Bootstrap::default().median(runs).ok().map(|i| (i.low, i.high))
}

/// Two ends, in a unit that `write` knows.
pub fn range(ends: Option<(f64, f64)>, write: impl Fn(f64) -> String) -> String {
    ends.map_or_else(|| NONE.into(), |(low, high)| format!("{} to {}", write(low), write(high)))
}
