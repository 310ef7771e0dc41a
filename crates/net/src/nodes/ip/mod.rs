//! The nodes of IPv4 and IPv6 forwarding.
//!
//! ```text
//! ip4-input → (arc ip4-unicast) → ip4-lookup → ip4-rewrite → (arc ip4-output) → interface-output
//!     │ └ (arc ip4-multicast) → ip4-multicast  ├ ip4-arp (resolve, hold)
//!     └ ip4-options → both arcs                │
//!                                              ├ (arc ip4-local) → ip4-local → icmp, udp, …
//!                                              │                      └ ip4-full-reassembly → ip4-lookup
//!                                              └ ip4-icmp-error
//! ```
//!
//! The IPv6 nodes have a 6 in place of the 4 in their names, except `ip6-hop-by-hop` (in place of `ip4-options`) and
//! `ip6-discover-neighbor` (in place of `ip4-arp`). The nodes for lookup and rewrite are the same types for both families; `ip/packet.rs`
//! has the differences.

mod fragment;
mod input;
mod input6;
pub(crate) mod local;
pub(crate) mod local6;
mod lookup;
mod multicast;
mod multicast6;
mod options;
mod options6;
mod rewrite;
pub(crate) mod straight;
mod trace;

use std::net::{Ipv4Addr, Ipv6Addr};

use graph::{ArcKey, Builder, GraphError};
use wire::ethernet::ethertype;

pub use lookup::through_tables;

use crate::ip::Nodes;
use crate::router::Hooks;
use crate::tables::Tables;

/// Adds the nodes and arcs of this feature.
///
/// # Errors
/// If another node is registered for the EtherType of IPv4 or IPv6, or there are too many nodes that the main thread can send packets to.
pub fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    let tables = t.clone();
    b.frame(move |_| Ok(input::Ip4Input::new(&tables)));
    let tables = t.clone();
    b.frame(move |_| Ok(local::Ip4Local::new(&tables)));
    let tables = t.clone();
    b.frame(move |_| Ok(options::Ip4Options::new(&tables)));
    b.packet(|_| Ok(multicast::Ip4Multicast));
    let tables = t.clone();
    b.frame(move |_| Ok(input6::Ip6Input::new(&tables)));
    let tables = t.clone();
    b.frame(move |_| Ok(local6::Ip6Local::new(&tables)));
    t.ethertypes.register(b, ethertype::IPV4, "ip4-input")?;
    t.ethertypes.register(b, ethertype::IPV6, "ip6-input")?;
    let tables = t.clone();
    b.packet(move |_| Ok(options6::Ip6HopByHop::new(&tables)));
    b.packet(|_| Ok(multicast6::Ip6Multicast));
    install_family::<Ipv4Addr>(b, t, hooks)?;
    install_family::<Ipv6Addr>(b, t, hooks)
}

/// Adds those nodes and arcs of the family `A` that exist for both families.
fn install_family<A: fragment::Cut>(
    b: &mut Builder,
    t: &Tables,
    hooks: &mut Hooks,
) -> Result<(), GraphError> {
    let tables = t.clone();
    b.frame(move |_| Ok(lookup::Lookup::<A>::new(&tables)));
    let tables = t.clone();
    b.frame(move |_| Ok(lookup::Follow::<A>::new(&tables)));
    let tables = t.clone();
    b.frame(move |s| rewrite::Rewrite::<A>::new(&tables, s.worker));
    let Nodes { unicast, multicast, lookup, local, output, .. } = A::NODES;
    b.arc(unicast, lookup, ArcKey::Rx);
    b.arc(multicast, multicast, ArcKey::Rx);
    b.arc(local, local, ArcKey::Rx);
    b.arc(output, "interface-output", ArcKey::Tx);
    hooks.inject(b, lookup)
}

#[cfg(test)]
mod fragment6_tests;
#[cfg(test)]
mod fragment_tests;
#[cfg(test)]
mod input6_tests;
#[cfg(test)]
mod input_tests;
#[cfg(test)]
mod local6_tests;
#[cfg(test)]
mod local_tests;
#[cfg(test)]
mod lookup_tests;
#[cfg(test)]
mod options6_tests;
#[cfg(test)]
mod options_tests;
#[cfg(test)]
mod rewrite_tests;
