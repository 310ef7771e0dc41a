//! The nodes of [neighbors](crate::neighbor).
//!
//! ```text
//! ethernet-input → arp-input → punt ┐                        ┌ ARP packets → interface-output
//! ip4-lookup, ip4-rewrite → ip4-arp ┴→ main thread: Neighbors┤ adjacencies, host routes
//!                              └ holds packets               └ arp-release → ip4-lookup, ip4-icmp-error
//! ```

mod hold;
mod input;
mod release;

use std::net::{Ipv4Addr, Ipv6Addr};

use graph::{Builder, GraphError};
use wire::ethernet::ethertype;

use crate::Unused;
use crate::neighbor::Family;
use crate::router::{Hooks, PuntHandler, Router};
use crate::tables::Tables;

/// Maximum number of next hops per second that one worker asks the main thread to resolve. It is larger than
/// the number of next hops for which a worker can hold packets.
const ASK_RATE: u32 = 20_000;
/// Maximum number of ARP requests per second that one worker passes to the main thread; the same for ARP
/// replies.
const ARP_RATE: u32 = 5_000;
/// Maximum number of packets per second that one worker passes to the main thread because another station
/// claims an address of this router.
pub(crate) const CONFLICT_RATE: u32 = 10;

/// Adds the nodes of this feature.
///
/// # Errors
/// If another node is registered for the EtherType of ARP, or there are too many nodes that the main thread can send packets to.
pub fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    let punts = input::Punts {
        request: hooks.punt(b, "arp-request", ARP_RATE, Router::punted_arp),
        reply: hooks.punt(b, "arp-reply", ARP_RATE, Router::punted_arp),
        conflict: hooks.punt(b, "arp-conflict", CONFLICT_RATE, Router::punted_arp),
    };
    let tables = t.clone();
    b.packet(move |_| Ok(input::ArpInput::new(&tables, punts)));
    t.ethertypes.register(b, ethertype::ARP, "arp-input")?;
    waiting::<Ipv4Addr>(b, t, hooks, Router::punted_ask::<Ipv4Addr>)?;
    waiting::<Ipv6Addr>(b, t, hooks, Router::punted_ask::<Ipv6Addr>)?;
    hooks.inject(b, "interface-output")
}

/// Adds a family's nodes that hold and release packets for unresolved next hops. On the main thread, `asked`
/// handles the requests of the holding node.
fn waiting<A: Family>(
    b: &mut Builder,
    t: &Tables,
    hooks: &mut Hooks,
    asked: PuntHandler<Unused>,
) -> Result<(), GraphError> {
    let resolve = hooks.punt(b, A::NODES.ask, ASK_RATE, asked);
    let tables = t.clone();
    b.frame(move |s| {
        let queue = tables.of::<A>().unresolved.of(s.worker, &s.pool);
        Ok(hold::Hold::<A>::new(queue, &tables, resolve))
    });
    let queues = t.of::<A>().unresolved.clone();
    b.frame(move |s| Ok(release::Releasing::<A>::new(queues.of(s.worker, &s.pool))));
    hooks.inject(b, A::NODES.release)
}

#[cfg(test)]
mod tests;
