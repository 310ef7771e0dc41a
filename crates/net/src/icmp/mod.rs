//! ICMP and ICMPv6: error reports, replies to echo requests, and the dispatch of Neighbor Discovery messages
//! to the main thread.
//!
//! ```text
//! (undeliverable packets) ─→ ip4-icmp-error ───────────────────┐
//! ip4-local → icmp4-input → icmp4-echo-request → ip4-lookup ←──┘
//!                  └ error-punt (types for which features have registered)
//!
//! (undeliverable packets) ─→ ip6-icmp-error ───────────────────┐
//! ip6-local → icmp6-input → icmp6-echo-request → ip6-lookup ←──┘
//!                  └ error-punt (Neighbor Discovery, MLD queries, and types for which features have registered)
//! ```
//!
//! The same nodes send error reports for both families. The differences between the families are in
//! `family.rs`.

mod echo;
mod echo6;
mod error;
mod family;
mod input;
mod input6;
mod limit;
mod report;

use std::net::{Ipv4Addr, Ipv6Addr};

use graph::{Builder, GraphError};
use wire::icmpv6::kind;
use wire::{icmpv4, protocol};

pub use report::{Message, Reporter, Unreported};

use crate::Tables;
use crate::ip::Packets;
use crate::nodes::neighbor::CONFLICT_RATE;
use crate::router::{Hooks, Router};

/// Maximum number of Neighbor Discovery messages of each kind per second that one worker passes to the main thread. For messages that claim
/// the router's addresses, and for MLD queries, the limit is [`CONFLICT_RATE`].
const ND_RATE: u32 = 5_000;

/// Adds the nodes of this feature. Call it after `ip`.
///
/// # Errors
/// Fails if another feature already registered a node for ICMP.
pub fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    let tables = t.clone();
    b.frame(move |_| Ok(error::Ip4IcmpError::new(&tables)));
    b.more_reasons(Ipv4Addr::NODES.report, &t.ip4.causes.reasons);
    let tables = t.clone();
    b.packet(move |_| Ok(input::Icmp4Input::new(&tables)));
    b.packet(|_| Ok(echo::Icmp4EchoRequest::default()));
    t.ip4.icmp_types.keep([icmpv4::kind::ECHO_REQUEST]);
    t.ip4.protocols.register(b, u16::from(protocol::ICMP), "icmp4-input")?;
    install6(b, t, hooks)
}

fn install6(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    let tables = t.clone();
    b.frame(move |_| Ok(error::Ip6IcmpError::new(&tables)));
    b.more_reasons(Ipv6Addr::NODES.report, &t.ip6.causes.reasons);
    let punts = input6::Punts {
        solicitation: hooks.punt(b, "nd-solicitation", ND_RATE, Router::punted_nd),
        advertisement: hooks.punt(b, "nd-advertisement", ND_RATE, Router::punted_nd),
        router: hooks.punt(b, "nd-router", ND_RATE, Router::punted_nd),
        conflict: hooks.punt(b, "nd-conflict", CONFLICT_RATE, Router::punted_nd),
        query: hooks.punt(b, "mld-query", CONFLICT_RATE, Router::punted_mld),
    };
    let tables = t.clone();
    b.packet(move |_| Ok(input6::Icmp6Input::new(&tables, punts)));
    let tables = t.clone();
    b.packet(move |_| Ok(echo6::Icmp6EchoRequest::new(&tables)));
    let neighbor_discovery = kind::ROUTER_SOLICITATION..=kind::NEIGHBOR_ADVERTISEMENT;
    t.ip6.icmp_types.keep(neighbor_discovery.chain([kind::ECHO_REQUEST, kind::MLD_QUERY]));
    t.ip6.protocols.register(b, u16::from(protocol::ICMPV6), "icmp6-input")
}

#[cfg(test)]
mod echo6_tests;
#[cfg(test)]
mod error6_tests;
#[cfg(test)]
mod error_tests;
#[cfg(test)]
mod limit_tests;
#[cfg(test)]
mod router_tests;
#[cfg(test)]
mod tests;
