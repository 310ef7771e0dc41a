//! The address families that routers route.

use std::net::{Ipv4Addr, Ipv6Addr};

pub use model::family::Family;
use net::router::Routed;

/// An address family, for code generic over both.
pub trait OfFamily: Routed {
    /// The family.
    const FAMILY: Family;
}

impl OfFamily for Ipv4Addr {
    const FAMILY: Family = Family::V4;
}

impl OfFamily for Ipv6Addr {
    const FAMILY: Family = Family::V6;
}
