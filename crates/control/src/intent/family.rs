//! The families of addresses that routers route.

use std::net::{Ipv4Addr, Ipv6Addr};

pub use model::family::Family;
use net::router::Routed;

/// A family that routers route, for code that serves both.
pub trait OfFamily: Routed {
    /// Which it is.
    const FAMILY: Family;
}

impl OfFamily for Ipv4Addr {
    const FAMILY: Family = Family::V4;
}

impl OfFamily for Ipv6Addr {
    const FAMILY: Family = Family::V6;
}
