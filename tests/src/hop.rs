//! The next hops of a [`Fan`](crate::Fan).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use testkit::rib::Family;

/// Number of output ports.
pub(crate) const PORTS: u16 = 4;
/// Number of next hops of each family. They alternate between the ports.
pub const HOPS: u16 = 4096;

/// Returns the address of a next hop.
pub fn gateway<A: Family>(hop: u16) -> IpAddr {
    let (port, host) = (hop % PORTS, hop + 2);
    match A::BITS {
        32 => Ipv4Addr::from_bits(0x0a00_0000 | u32::from(port) << 16 | u32::from(host)).into(),
        _ => Ipv6Addr::new(0xfd00, 0, 0, port, 0, 0, 0, host).into(),
    }
}
