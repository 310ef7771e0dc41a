//! Published results, to be shown beside measured ones.
//!
//! `data/published.csv` has one row for each column or row of the papers' tables of results, with figures as printed:
//! their digits are kept, so that they can be recomputed exactly. A remark says where a paper contradicts itself; what
//! is printed stands unchanged all the same.

mod case;
mod figure;
mod load;

pub use case::{Case, Paper, Path, Traffic};
pub use figure::{Figure, Metric};
pub use load::{LoadError, parse};

/// The published results that come with the tester.
///
/// # Errors
/// None that can happen in a release: a test reads the file.
pub fn cases() -> Result<Vec<Case>, LoadError> {
    parse(include_str!("../../data/published.csv"))
}

#[cfg(test)]
mod load_tests;
#[cfg(test)]
mod recompute_tests;
