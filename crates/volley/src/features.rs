//! What this router can do: every feature, in one list. To add one, add its line.

use graph::{Builder, GraphError};
use net::Tables;
use net::router::Hooks;

/// Adds the nodes of every feature to the graph.
///
/// # Errors
/// When the features do not fit together.
pub fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    net::interface::install(b, t);
    net::handoff::install(b, t);
    net::ethernet::install(b, t);
    net::neighbor::install(b, t, hooks)?;
    net::ip::install(b, t, hooks)?;
    net::icmp::install(b, t, hooks)?;
    net::udp::install(b, t, hooks)?;
    policer::install(b, t, hooks)?;
    // Last on its arcs: it captures what is sent.
    net::pcap::install(b, t)
}
