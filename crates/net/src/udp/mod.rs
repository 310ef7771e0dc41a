//! UDP for this router itself: datagrams are delivered to the node that registered for their port
//! ([`Forwarding::udp_ports`](crate::ip::Forwarding::udp_ports)).

mod local;

use std::net::{Ipv4Addr, Ipv6Addr};

use graph::{Builder, GraphError};
use wire::protocol;

use crate::Tables;
use crate::ip::Packets;
use crate::router::Hooks;

/// Adds the nodes of this feature. Must be called after the `install` of `ip`.
///
/// # Errors
/// If another node is registered for UDP.
pub fn install(b: &mut Builder, t: &Tables, _: &mut Hooks) -> Result<(), GraphError> {
    install_family::<Ipv4Addr>(b, t)?;
    install_family::<Ipv6Addr>(b, t)
}

fn install_family<A: Packets>(b: &mut Builder, t: &Tables) -> Result<(), GraphError> {
    let tables = t.clone();
    b.frame(move |_| Ok(local::UdpLocal::<A>::new(&tables)));
    t.of::<A>().protocols.register(b, u16::from(protocol::UDP), A::NODES.udp)
}

#[cfg(test)]
mod tests;
