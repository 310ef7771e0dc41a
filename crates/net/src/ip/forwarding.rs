//! The forwarding tables of one family, as workers read them and as the main thread writes them.

use std::io;

use infra::class_a::{
    Reader, SlotReader, SlotWriter, WordReader, WordWriter, Writer, published, slots, words,
};
use infra::quiesce::Domain;

use super::balance::Buckets;
use super::cause::Causes;
use super::fibs::Fibs;
use super::kind::{self, ForwardingKind};
use super::own::OwnAddresses;
use super::packet::Packets;
use super::undelivered::Unreachables;
use crate::registry::{IcmpTypes, Registry};
use crate::waiting::{Budget, Queues};

/// Maximum number of forwarding objects.
const MAX_OBJECTS: u32 = 1 << 22;
/// Maximum number of path lists with several paths.
const MAX_BALANCES: u32 = 1 << 20;

/// The tables as workers read them. Clones are cheap.
#[derive(Clone)]
pub struct Forwarding<A: Packets> {
    /// Lookup tables by FIB index.
    pub fibs: Reader<Fibs<A>>,
    /// Forwarding objects by index. The leaf of a lookup is such an index.
    pub objects: WordReader,
    /// Buckets of path lists with several paths, by index.
    pub balances: SlotReader<Buckets>,
    /// The router's own addresses.
    pub own: Reader<OwnAddresses<A>>,
    /// Packets that wait until the next hop's Ethernet address is resolved.
    pub(crate) unresolved: Queues<A>,
    /// Nodes for packets to this router, by IP protocol.
    pub protocols: Registry,
    /// Node for fragments of packets to this router. The registry has only this one entry, with the number 0.
    pub fragments: Registry,
    /// Nodes for datagrams to this router, by UDP port.
    pub udp_ports: Registry,
    /// Nodes of features for packets with a forwarding kind, by this kind.
    pub(crate) kinds: Registry,
    /// Nodes for packets with a router alert (RFC 2113, RFC 2711), by IP protocol.
    pub router_alerts: Registry,
    /// Punt reasons of messages of ICMP or ICMPv6 for this router, by type.
    pub icmp_types: IcmpTypes,
    /// Features' causes of ICMP errors.
    pub causes: Causes,
    /// The switch for messages "destination unreachable".
    pub unreachables: Unreachables,
}

/// The writers of the forwarding tables, for the main thread.
pub struct ForwardingWriters<A: Packets> {
    /// See [`Forwarding::fibs`].
    pub fibs: Writer<Fibs<A>>,
    /// See [`Forwarding::objects`].
    pub objects: WordWriter,
    /// See [`Forwarding::balances`].
    pub balances: SlotWriter<Buckets>,
    /// See [`Forwarding::own`].
    pub own: Writer<OwnAddresses<A>>,
}

impl<A: Packets> Forwarding<A> {
    /// True if a node for packets of this family is registered for the kind.
    pub(crate) fn takes(&self, kind: ForwardingKind) -> bool {
        self.kinds.get(kind.to_raw().into()).is_some()
    }

    /// Creates the tables, all empty. `waiting` limits the packets that wait for next hops.
    ///
    /// # Errors
    /// Fails if address space for the tables cannot be reserved.
    pub(crate) fn new(
        domain: &Domain,
        waiting: &Budget,
    ) -> io::Result<(ForwardingWriters<A>, Forwarding<A>)> {
        let (fibs_w, fibs) = published(domain, Fibs::default());
        let (objects_w, objects) = words(domain, MAX_OBJECTS)?;
        let (balances_w, balances) = slots(domain, MAX_BALANCES)?;
        let (own_w, own) = published(domain, OwnAddresses::default());
        let writers =
            ForwardingWriters { fibs: fibs_w, objects: objects_w, balances: balances_w, own: own_w };
        let unresolved = Queues::new(waiting);
        let protocols = Registry::new(A::NODES.local, 1 << 8);
        let fragments = Registry::new(A::NODES.local, 1);
        let router_alerts = Registry::new(A::NODES.options, 1 << 8);
        let udp_ports = Registry::new(A::NODES.udp, 1 << 16);
        let kinds = Registry::new(A::NODES.lookup, kind::MOST);
        let tables = Forwarding {
            fibs,
            objects,
            balances,
            own,
            unresolved,
            protocols,
            fragments,
            udp_ports,
            kinds,
            router_alerts,
            icmp_types: IcmpTypes::new(A::NODES.icmp),
            causes: Causes::default(),
            unreachables: Unreachables::default(),
        };
        Ok((writers, tables))
    }
}
