//! The control plane. It has the configuration ([`intent`]), the state of the application with the requests that change it ([`app`]), the
//! commands ([`commands`]) with their command line ([`cli`]), the binary API ([`api`]), the native API ([`native`]), and the configuration
//! as a file ([`config`]) with checks of files ([`check`]). Further parts are the drivers of interfaces (`ports`), the limits of neighbor
//! tables (`neighbors`), duplicate address detection (`dad`), the list of features ([`features`]), the journal (`journal`), the log
//! ([`logging`]), the metrics ([`metrics`]), the statistics segment (`stats`), and the live view ([`top`]). The process ([`daemon`]) has a
//! start configuration ([`startup`]), and notifies its service manager (`service`).

#![forbid(unsafe_code)]

pub mod api;
pub mod app;
pub mod check;
pub mod cli;
pub mod commands;
pub mod config;
mod dad;
pub mod daemon;
mod fair;
pub mod features;
mod files;
pub mod guardian;
pub mod intent;
mod journal;
pub mod logging;
pub mod metrics;
pub mod native;
mod neighbors;
mod ports;
mod process;
mod service;
pub mod startup;
mod stats;
pub mod system;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod top;
