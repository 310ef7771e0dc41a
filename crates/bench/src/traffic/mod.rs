//! Descriptions of traffic, from a campaign's file or built in.

mod build;
mod builtin;
mod capture;
mod describe;
mod in_flows;
mod routes;

pub use build::{Ends, Fault};
pub use builtin::{BUILTIN, builtin};
pub use capture::{Captured, Keep, captured, told};
pub use describe::{Family, Field, Flow, How, Kind, Load, Mark, Protocol, Traffic, Vary};
pub use routes::{MOST as MOST_NETWORKS, networks};

#[cfg(test)]
mod tests;
