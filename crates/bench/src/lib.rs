//! The tester, `volley bench`: measures routers as RFC 2544, its successors and the papers about VPP do.
//!
//! It knows nothing of the router's graph. A [`trial`] sends a described traffic at a load for a time, and says what came back;
//! everything else (searches, campaigns, statistics) is given trials and computes.

#![forbid(unsafe_code)]

pub mod cable;
pub mod campaign;
pub mod compare;
pub mod dut;
pub mod energy;
pub mod engine;
pub mod host;
pub mod model;
mod program;
pub mod published;
pub mod report;
pub mod search;
pub mod sessions;
pub mod sim;
pub mod stats;
pub mod store;
pub mod testbed;
pub mod traffic;
pub mod trial;
pub mod version;
