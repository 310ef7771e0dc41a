//! The tables of the core that nodes read, with one handle for each table. The main thread is the only writer; workers read without
//! locks ([`infra::class_a`]). Features keep their own tables in their state ([`Hooks::state`](crate::router::Hooks::state)).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use infra::class_a::{Reader, SlotReader, SlotWriter, Writer, published, slots};
use infra::quiesce::Domain;

use crate::adjacency::{Adjacency, AdjacencyCounters};
use crate::ethernet::MOST_MODES;
use crate::handoff::Shards;
use crate::interface::{Interface, InterfaceCounters, MOST_KINDS, Placement, TX, TxPort};
use crate::ip::{Forwarding, ForwardingWriters, Packets, UtcClock};
use crate::registry::Registry;
use crate::waiting::Budget;

/// Maximum number of interfaces of all kinds.
pub const MAX_INTERFACES: u32 = 1 << 16;
/// Maximum number of adjacencies.
pub const MAX_ADJACENCIES: u32 = 1 << 20;

/// The read handles of all tables, for workers. Cheap to clone.
#[derive(Clone)]
pub struct Tables {
    /// Interfaces by index.
    pub interfaces: SlotReader<Interface>,
    /// Counters of interfaces.
    pub counters: InterfaceCounters,
    /// Transmit queues by the index of the device's interface.
    pub ports: SlotReader<TxPort>,
    /// Receive queues, with the worker that polls each of them.
    pub placement: Placement,
    /// The node for each EtherType. It gets packets without their link header, and with their VRF set.
    pub ethertypes: Registry,
    /// The node for frames received on interfaces that are not routed, by port mode.
    pub(crate) port_modes: Registry,
    /// The node that sends packets on interfaces made by features, by kind of interface.
    pub(crate) interface_kinds: Registry,
    /// The worker of each shard of flows.
    pub shards: Reader<Shards>,
    /// Adjacencies by index.
    pub adjacencies: SlotReader<Adjacency>,
    /// Counters of adjacencies.
    pub adjacency_counters: AdjacencyCounters,
    /// IPv4 forwarding tables.
    pub ip4: Forwarding<Ipv4Addr>,
    /// IPv6 forwarding tables.
    pub ip6: Forwarding<Ipv6Addr>,
    /// UTC clock, for timestamp options.
    pub utc: UtcClock,
}

impl Tables {
    /// Returns the forwarding tables of a family.
    pub fn of<A: Packets>(&self) -> &Forwarding<A> {
        A::tables(&self.ip4, &self.ip6)
    }
}

/// The write handles of the same tables, for the main thread.
pub struct Writers {
    /// See [`Tables::interfaces`].
    pub interfaces: SlotWriter<Interface>,
    /// See [`Tables::ports`].
    pub ports: SlotWriter<TxPort>,
    /// See [`Tables::adjacencies`].
    pub adjacencies: SlotWriter<Adjacency>,
    /// See [`Tables::ip4`].
    pub ip4: ForwardingWriters<Ipv4Addr>,
    /// See [`Tables::ip6`].
    pub ip6: ForwardingWriters<Ipv6Addr>,
    /// See [`Tables::shards`].
    pub shards: Writer<Shards>,
}

/// Creates empty tables.
///
/// # Errors
/// If address space for the tables cannot be reserved.
pub fn tables(domain: &Domain) -> io::Result<(Writers, Tables)> {
    let (interfaces_w, interfaces) = slots(domain, MAX_INTERFACES)?;
    let (ports_w, ports) = slots(domain, MAX_INTERFACES)?;
    let (adjacencies_w, adjacencies) = slots(domain, MAX_ADJACENCIES)?;
    let waiting = Budget::default();
    let (ip4_w, ip4) = Forwarding::new(domain, &waiting)?;
    let (ip6_w, ip6) = Forwarding::new(domain, &waiting)?;
    let (shards_w, shards) = published(domain, Shards::default());
    let writers = Writers {
        interfaces: interfaces_w,
        ports: ports_w,
        adjacencies: adjacencies_w,
        ip4: ip4_w,
        ip6: ip6_w,
        shards: shards_w,
    };
    let tables = Tables {
        interfaces,
        counters: InterfaceCounters::new(MAX_INTERFACES),
        ports,
        placement: Placement::default(),
        ethertypes: Registry::new("ethernet-input", 1 << 16),
        port_modes: Registry::new("ethernet-input", MOST_MODES),
        interface_kinds: Registry::new(TX, MOST_KINDS),
        shards,
        adjacencies,
        adjacency_counters: AdjacencyCounters::new("/adjacency", MAX_ADJACENCIES),
        ip4,
        ip6,
        utc: UtcClock::default(),
    };
    Ok((writers, tables))
}
