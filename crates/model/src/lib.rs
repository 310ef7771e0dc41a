//! What a feature says about itself: its commands, what they show, its fields of a configuration file, and its metrics.
//!
//! Nothing here does I/O, has threads or knows a protocol. `control` runs what is declared here.

#![forbid(unsafe_code)]

pub mod cli;
pub mod family;
pub mod key;
pub mod metrics;
pub mod object;
pub mod origin;
pub mod place;
pub mod schema;
pub mod store;
pub mod tuple;
pub mod visible;
pub mod yaml;
