//! Searches: the choice of trials, and the results derived from them.
//!
//! A search accesses a router only through [`Measure`](crate::trial::Measure), and uses no clock, thread or file. It first checks its
//! parameters ([`BadInput`] names the invalid one). The number of trials is bounded in advance. After each trial the search reports its
//! [`Progress`]. The result states how the search [`Ended`] and keeps everything found until then, also after a failure. To stop a search,
//! let the `Measure` return a failure.
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
//! Durations, repetitions and resolutions are data: a [`profile`].
//!
//! A trial is invalid if the tester, not the router, may have caused its result. [`Valid`] repeats invalid trials. A trial that is still
//! invalid after the repeats counts as failed in every search, because it does not show that the router forwards the load. A measured
//! throughput can therefore be too low, which is marked, but never too high.

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

/// Checks at compile time that results can be serialized for reports.
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
