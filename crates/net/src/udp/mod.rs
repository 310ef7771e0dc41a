//! UDP for this router itself: datagrams go to the node that is registered for their port
//! ([`Tables::udp_ports`]).

mod local;

use graph::{Builder, GraphError};
use wire::protocol;

use crate::Tables;
use crate::router::Hooks;

/// The node that sorts datagrams by port.
pub(crate) const NODE: &str = "udp4-local";

/// Adds the nodes of this feature; behind `ip`.
///
/// # Errors
/// When another feature takes UDP.
pub fn install(b: &mut Builder, t: &Tables, _: &mut Hooks) -> Result<(), GraphError> {
    let tables = t.clone();
    b.packet(move |_| Ok(local::Udp4Local::new(&tables)));
    t.ip4.protocols.register(b, u16::from(protocol::UDP), NODE)
}

#[cfg(test)]
mod tests;
