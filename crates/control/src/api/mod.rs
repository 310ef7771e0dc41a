//! VPP's binary API: a front end for programs that were written for VPP (vpp_papi, GoVPP, vppcfg).
//!
//! The messages of the router's core are defined and answered here, one file per module. Features have theirs in their own folders
//! ([`Feature::messages`](net::feature::Feature::messages)). A message is a request of the same state that commands change: one transaction,
//! journalled with its client, and rolled back in the same way. A message whose feature is missing is not in the table, which clients
//! receive when they connect.

pub(crate) mod change;
mod connection;
mod frame;
pub(crate) mod interface;
mod ip;
mod memclnt;
pub(crate) mod numbers;
mod socket;
mod vlib;
mod vpe;

use vapi::Table;

use crate::app::Context;

pub use interface::watch;
pub use socket::{Service, hello, serve};

/// Returns a table with the API messages of the router's core. Features add theirs.
pub fn own() -> Table<Context> {
    let mut table = Table::default();
    // First, because clients know the identifiers of its messages.
    memclnt::register(&mut table);
    vlib::register(&mut table);
    vpe::register(&mut table);
    interface::register(&mut table);
    ip::register(&mut table);
    table
}
