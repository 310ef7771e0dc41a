//! Searches: which trials to run, and what follows from them.
//!
//! A search knows a router by nothing but [`Measure`](crate::trial::Measure): no clock, no thread, no file. Each is a
//! configuration that is checked first ([`BadInput`] names the field), runs a number of trials that is bounded
//! beforehand, tells its [`Progress`] after each, and ends in a result that says how it [`Ended`] and keeps what was
//! found until then, a failure included. To stop one, let the `Measure` return a failure.
//!
//! | procedure | source |
//! |---|---|
//! | [`throughput`] | RFC 2544 section 26.1 |
//! | [`loss_rate`] | RFC 2544 section 26.3 |
//! | [`back_to_back`] | RFC 2544 section 26.4, RFC 9004 |
//! | [`recovery`] | RFC 2544 sections 26.5 and 26.6, RFC 6201 |
//! | [`mlr`] | MLRsearch: RFC 9971, draft-ietf-bmwg-mlrsearch |
//! | [`fixed`] | maximum receive rate (RFC 2285 section 3.6.2), soak, given rates |
//!
//! How long, how often and how near is data: a [`profile`].
//!
//! An invalid trial says nothing of the router. [`Valid`] repeats it; one that stays invalid counts against its load in
//! every search, because nobody has shown that the router forwards it: a throughput can come out too low, and is marked
//! then, but never too high.

pub mod back_to_back;
pub mod fixed;
pub mod loss_rate;
pub mod mlr;
pub mod profile;
pub mod recovery;
mod run;
pub mod throughput;
mod valid;

pub use run::{BadInput, Ended, Limits, Progress, Tally};
pub use valid::Valid;

/// Reports are made of results: each can be written down.
#[cfg(test)]
const _: () = {
    const fn written<T: serde::Serialize>() {}
    written::<throughput::ThroughputResult>();
    written::<loss_rate::LossRateResult>();
    written::<back_to_back::BackToBackResult>();
    written::<fixed::FixedResult>();
    written::<mlr::MlrResult>();
    written::<profile::Profile>();
    written::<profile::Deviation>();
};
