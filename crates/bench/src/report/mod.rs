//! Reports.

mod markdown;

pub use markdown::markdown;
