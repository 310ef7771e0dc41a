//! The declarations of a feature: its commands and their output, its objects, its fields in a configuration file,
//! and its metrics. The [`store`] has all objects, makes transactions, and keeps the journal of changes.
//!
//! Nothing here does I/O, starts threads or depends on a protocol. The crate `control` executes these
//! declarations.

#![forbid(unsafe_code)]

pub mod cli;
pub mod family;
pub mod key;
pub mod metrics;
pub mod object;
pub mod origin;
pub mod place;
pub mod reason;
pub mod schema;
pub mod store;
pub mod tuple;
pub mod visible;
pub mod yaml;
