//! The control plane: what the operator asked for ([`intent`]), the commands that change it ([`commands`]), the command
//! line that carries them ([`cli`]), the same as a file ([`config`]), what is wrong with files ([`check`]), what interfaces are made of (`ports`), bounds of neighbours (`neighbors`), the list of what the program can do ([`features`]), what Prometheus sees ([`metrics`]), what an operator watches ([`top`]), the start
//! configuration ([`startup`]), and the process that holds it all ([`daemon`]) and talks to its
//! service manager (`service`).

#![forbid(unsafe_code)]

pub mod check;
pub mod cli;
pub mod commands;
pub mod config;
pub mod daemon;
pub mod features;
mod files;
pub mod guardian;
pub mod intent;
mod journal;
pub mod logging;
pub mod metrics;
mod neighbors;
mod ports;
mod process;
mod service;
pub mod startup;
pub mod system;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod top;
