//! Declarations of a feature: its commands, its shows, its fields of a configuration file, and its metrics.
//!
//! Nothing here does I/O, has threads or depends on a protocol. `control` runs these declarations.

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
