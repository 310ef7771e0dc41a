//! Statistics of sets of runs, and their reliability.
//!
//! [`Runs`] is the checked input of everything here: a missing or non-finite value is an error, and is never left out. [`Summary`]
//! describes one set. [`Bootstrap`] computes confidence intervals of its median. [`compare()`] tests whether two sets differ beyond
//! their noise. [`scaling`] and [`efficiency`] compute figures that papers about VPP derive from measurements, [`latency`] and
//! [`ipdv`] those of RFC 8219.

mod bootstrap;
mod compare;
pub mod efficiency;
mod error;
pub mod ipdv;
pub mod jitter;
pub mod latency;
mod percentile;
mod runs;
pub mod scaling;
mod summary;

pub use bootstrap::{Bootstrap, Interval, fewest_runs};
pub use compare::{Comparison, Effect, Terms, Verdict, Wanted, compare};
pub use error::Error;
pub(crate) use error::{check_positive, is_usable};
pub use percentile::Percentile;
pub use runs::Runs;
pub use summary::{Summary, dispersion_percent};
