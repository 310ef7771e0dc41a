//! A campaign's results for people: [`markdown()`] for a terminal, [`html()`] for a page with plots.
//!
//! Both use the same sections, which hold tables and plots as data.

mod compare;
mod conclusion;
mod delays;
mod document;
mod figures;
mod html;
mod loss;
mod markdown;
mod meters;
mod models;
mod number;
mod outage;
mod plot;
mod published;
mod rates;
mod routes;
mod sessions;
mod setup;
mod svg;
mod sweep;
mod table;
mod throughput;
mod usage;

pub use html::html;
pub use markdown::markdown;
pub use svg::CannotDraw;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
