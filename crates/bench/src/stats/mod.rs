//! What a set of runs says, and how far it can be trusted.
//!
//! [`Runs`] is the checked input of everything here: a value that is missing or no number is an error, never left out.
//! [`Summary`] describes one set. [`scaling`] and [`efficiency`] have the derived figures of the papers.

pub mod efficiency;
mod error;
mod percentile;
mod runs;
pub mod scaling;
mod summary;

pub use error::Error;
pub use percentile::Percentile;
pub use runs::Runs;
pub use summary::{Summary, dispersion_percent};
