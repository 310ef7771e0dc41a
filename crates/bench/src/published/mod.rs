//! Published results, shown next to measured ones.
//!
//! `data/published.csv` has one row for each column or row of the papers' result tables. Figures keep their printed digits, so that they
//! can be recomputed exactly. A remark marks where a paper contradicts itself; the printed figure stays unchanged.

mod case;
mod figure;
mod load;

pub use case::{Case, Paper, Path, Traffic};
pub use figure::{Figure, Metric};
pub use load::{LoadError, parse};

/// Returns the published results that come with the tester.
///
/// # Errors
/// Returns an error if the file is invalid, which a test rules out for releases.
pub fn cases() -> Result<Vec<Case>, LoadError> {
    parse(include_str!("../../data/published.csv"))
}

#[cfg(test)]
mod load_tests;
#[cfg(test)]
mod recompute_tests;
