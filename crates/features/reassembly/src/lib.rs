//! Fragments: full reassembly of datagrams for this router (RFC 1812 section 4.2.2.8, RFC 8200 section 4.5), and shallow virtual reassembly
//! for features that need the ports of every fragment (IPv4).
//!
//! ```text
//! ip4-local → ip4-full-reassembly → ip4-lookup (whole datagrams), ip4-local (whole datagrams to multicast groups)
//! (arc ip4-unicast) ip4-sv-reassembly → next feature
//! main thread: a datagram has expired → ip4-reassembly-expire → ip4-icmp-error
//!                                     → ip4-sv-reassembly-expire
//! ```
//!
//! IPv6 datagrams are reassembled by nodes of the same types, with a 6 in their names; `family.rs` has the differences. Features that need
//! ports are placed after `ip4-sv-reassembly`, and read [the ports](net::ip::Ports) of each fragment in a field of the packet. The operator
//! or such a feature enables this node.
//!
//! Both kinds of reassembly store their state by VRF, addresses, protocol and identification (`fragment.rs`) in tables that all workers
//! share, because any worker may receive the fragments of a datagram. A table is split into shards by a hash of the key; each shard has a
//! lock, which is taken once per fragment (`shards.rs`). `waiting.rs` stores fragments within the limits, for all tables; `datagrams.rs`
//! and `ports.rs` interpret the fragments. The main thread's list of the tables is [`Reassembly`].
//!
//! Fragments wait longer than one turn of a worker. Meanwhile, the main thread may free entries of the workers' tables
//! ([`infra::class_a`]). So a waiting fragment keeps no index into these tables: whole datagrams are looked up again, and fragments that
//! continue on an arc use their receive interface.

#![forbid(unsafe_code)]

mod bounds;
mod commands;
mod datagrams;
mod expire;
mod family;
mod fragment;
mod full;
mod kind;
mod messages;
mod ports;
mod shallow;
mod shallow_expire;
mod shards;
mod state;
mod vpp;
mod waiting;

use std::net::{Ipv4Addr, Ipv6Addr};

use buf::Held;
use graph::{Builder, GraphError};
use net::Tables;
use net::feature::{App, Registrar, Variation};
use net::ip::{PORTS, Ports};
use net::router::Hooks;

pub use state::Reassembly;

use datagrams::Datagrams;
use family::Fragmented;
use fragment::Key;

/// The feature.
pub struct Feature;

impl<C: App> net::feature::Feature<C> for Feature {
    fn name(&self) -> &'static str {
        "reassembly"
    }

    fn about(&self) -> &'static str {
        "Reassembles datagrams for this router, and gives features the ports of every IPv4 fragment."
    }

    fn install(&self, b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        install(b, t, hooks)
    }

    fn register(&self, r: &mut Registrar<'_, C>) {
        for info in [Ipv4Addr::FULL, Ipv6Addr::FULL, &shallow::INFO] {
            commands::register(r, info);
        }
        vpp::register(r);
        r.variation(Variation {
            vary: state::vary,
            state: |router| format!("{:?}", router.state::<Reassembly>()),
        });
    }

    fn messages(&self, table: &mut vapi::Table<C>) {
        messages::register(table);
    }
}

/// Adds the nodes.
///
/// # Errors
/// If too many nodes already receive messages from the main thread, or if packets have no room for another
/// field.
pub fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    install_full::<Ipv4Addr>(b, t, hooks)?;
    install_full::<Ipv6Addr>(b, t, hooks)?;
    install_shallow(b, hooks)?;
    hooks.on_turn(state::expire);
    Ok(())
}

/// Adds the nodes of shallow virtual reassembly, for forwarded packets.
fn install_shallow(b: &mut Builder, hooks: &mut Hooks) -> Result<(), GraphError> {
    let known = state::table(b, hooks, &shallow::INFO, ports::PortsOf::new)?;
    let field = b.feature_field(PORTS, Ports::trace)?;
    let of_node = known.clone();
    b.frame(move |_| Ok(shallow::Ip4SvReassembly::new(&of_node, field)));
    b.frame(move |_| Ok(shallow_expire::Ip4SvReassemblyExpire::new(&known)));
    b.feature("ip4-unicast", PORTS, &[], &[]);
    Ok(())
}

/// Adds the nodes of full reassembly, for packets to this router.
fn install_full<A: Fragmented>(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    let datagrams = state::table(b, hooks, A::FULL, Datagrams::<Key<A>, Held>::new)?;
    let of_node = datagrams.clone();
    b.frame(move |_| Ok(full::FullReassembly::<A>::new(&of_node)));
    let cause = t.of::<A>().causes.register(expire::report::<A>())?;
    b.frame(move |_| Ok(expire::ReassemblyExpire::<A>::new(&datagrams, cause)));
    t.of::<A>().fragments.register(b, 0, A::FULL.name)
}

#[cfg(test)]
mod full4_tests;
#[cfg(test)]
mod full6_tests;
#[cfg(test)]
mod lab;
#[cfg(test)]
mod shallow_tests;
