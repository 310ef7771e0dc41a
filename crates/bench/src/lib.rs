//! The tester, `volley bench`: measures routers by the methods of RFC 2544, its successors, and the papers about VPP.
//!
//! The tester is independent of the router's packet graph. A [`trial`] sends the described traffic at a load for a time, and reports what
//! was received. Searches, campaigns and statistics run trials and compute results from them.

#![forbid(unsafe_code)]

pub mod accuracy;
pub mod cable;
pub mod campaign;
mod command_line;
pub mod compare;
pub mod dut;
pub mod energy;
pub mod engine;
pub mod host;
pub mod idle;
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
