//! What a set of runs says, and how far it can be trusted.
//!
//! [`Runs`] is the checked input of everything here: a value that is missing or no number is an error, never left out.
//! [`Summary`] describes one set, [`Bootstrap`] says how well its median is known, and [`compare()`] whether two sets
//! differ beyond their noise. [`scaling`] and [`efficiency`] have the derived figures of the papers, [`latency`] and
//! [`ipdv`] those of RFC 8219.

mod bootstrap;
mod compare;
pub mod efficiency;
mod error;
pub mod ipdv;
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
