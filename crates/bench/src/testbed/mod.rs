//! Where routers are tested.

pub mod lab;
mod veth;

pub use veth::{Bed, Link};

/// What a number from such a testbed shows, and what not: beside every table that has one.
pub const VIRTUAL: &str = "The links are virtual (veth): the tester's processor does a part of the router's work, no wire or network card \
     bounds the rate, and rates and delays compare routers on this machine only.";
