//! What a campaign found, for people: [`markdown`] for a terminal.
//!
//! It is made of sections, which hold their tables as data.

mod compare;
mod delays;
mod document;
mod loss;
mod markdown;
mod number;
mod outage;
mod setup;
mod table;
mod throughput;
mod usage;

pub use markdown::markdown;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
