//! The table of adjacencies, with a reference count for each.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use buf::LinkHeader;
use infra::class_a::{Full, SlotWriter};
use infra::counters::CounterSet;
use infra::quiesce::{Domain, Mark};
use wire::Mac;
use wire::ethernet::ethertype;

use crate::ethernet::{HEADER, TAG, Tags};
use crate::interface::Interface;

/// Packets and bytes sent over each adjacency.
pub type AdjacencyCounters = CounterSet<2>;

/// Returns the Ethernet header of packets from `src` to `dst` with these VLAN tags.
pub fn ethernet(dst: Mac, src: Mac, tags: Option<Tags>, ethertype: u16) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER + 2 * TAG);
    header.extend_from_slice(&dst.0);
    header.extend_from_slice(&src.0);
    if let Some(t) = tags {
        let outer = if t.outer_service { ethertype::QINQ } else { ethertype::VLAN };
        header.extend_from_slice(&outer.to_be_bytes());
        header.extend_from_slice(&t.outer.to_be_bytes());
        if let Some(inner) = t.inner {
            header.extend_from_slice(&ethertype::VLAN.to_be_bytes());
            header.extend_from_slice(&inner.to_be_bytes());
        }
    }
    header.extend_from_slice(&ethertype.to_be_bytes());
    header
}

/// Returns the Ethernet header of packets to the neighbor `next_hop`, with the EtherType of the neighbor's address family.
fn header(dst: Mac, next_hop: IpAddr, via: &Interface, tags: Option<Tags>) -> Option<LinkHeader> {
    let kind = if next_hop.is_ipv4() { ethertype::IPV4 } else { ethertype::IPV6 };
    LinkHeader::new(&ethernet(dst, via.mac, tags, kind))
}

/// Maximum number of records freed in one call of [`Adjacencies::collect`], which then takes about a tenth of a millisecond.
const AT_ONCE: usize = 2048;

/// Forwarding index (glean) of packets to a connected host without an adjacency. The next hop of such a packet is its destination.
pub const GLEAN: u32 = u32::MAX;

/// A neighbor on an interface, and the link header for packets to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct Adjacency {
    /// The link header; `None` while the neighbor's Ethernet address is unknown.
    pub rewrite: Option<LinkHeader>,
    /// The transmit interface.
    pub interface: u32,
    /// The MTU: the largest network packet, in bytes.
    pub mtu: u16,
    /// The neighbor.
    pub next_hop: IpAddr,
}

/// The adjacencies by neighbor, with reference counts, as the main thread keeps them.
pub struct Adjacencies {
    records: SlotWriter<Adjacency>,
    by_neighbor: BTreeMap<(u32, IpAddr), Entry>,
    counters: AdjacencyCounters,
    domain: Domain,
    /// Unused records, each kept until no worker can use its index any more.
    unused: VecDeque<(Mark, u32)>,
    /// Interfaces whose adjacencies are outdated, each with the first neighbor whose adjacency is still to be updated.
    stale: VecDeque<(u32, IpAddr)>,
}

struct Entry {
    index: u32,
    users: u32,
    mac: Option<Mac>,
    /// Number of packets that had been sent over the adjacency at the last check.
    seen: u64,
}

impl Adjacencies {
    /// Returns an empty set of adjacencies.
    pub fn new(domain: &Domain, records: SlotWriter<Adjacency>, counters: AdjacencyCounters) -> Adjacencies {
        let (by_neighbor, unused, stale) = (BTreeMap::new(), VecDeque::new(), VecDeque::new());
        Adjacencies { records, by_neighbor, counters, domain: domain.clone(), unused, stale }
    }

    /// Returns the index of the adjacency to a neighbor, and takes a reference to it. If there is no adjacency yet, makes one;
    /// without `mac`, the new adjacency has no link header.
    ///
    /// # Errors
    /// If the table of adjacencies is full.
    pub fn acquire(
        &mut self,
        interface: u32,
        next_hop: IpAddr,
        mac: Option<Mac>,
        via: &Interface,
        tags: Option<Tags>,
    ) -> Result<u32, Full> {
        if let Some(e) = self.by_neighbor.get_mut(&(interface, next_hop)) {
            e.users += 1;
            return Ok(e.index);
        }
        let rewrite = mac.and_then(|dst| header(dst, next_hop, via, tags));
        let index = self.records.insert(Adjacency { rewrite, interface, mtu: via.mtu, next_hop })?;
        self.counters.clear(index);
        let [seen, _] = self.counters.total(index);
        self.by_neighbor.insert((interface, next_hop), Entry { index, users: 1, mac, seen });
        Ok(index)
    }

    /// Drops a reference to the adjacency at `index`. When the last reference is dropped, the adjacency is removed.
    pub fn release(&mut self, index: u32) {
        let Some(record) = self.records.get(index) else { return };
        let key = (record.interface, record.next_hop);
        let Some(e) = self.by_neighbor.get_mut(&key) else { return };
        e.users -= 1;
        if e.users == 0 {
            self.unused.push_back((self.domain.mark(), e.index));
            self.by_neighbor.remove(&key);
        }
    }

    /// Frees records that no worker can read any more, but only a limited number in each call. Returns true if there may be more.
    /// The main thread calls this once in each iteration of its loop.
    pub fn collect(&mut self) -> bool {
        for _ in 0..AT_ONCE {
            let Some((_, index)) = self.unused.pop_front_if(|(mark, _)| self.domain.passed(*mark)) else {
                return false;
            };
            self.records.remove(index);
        }
        true
    }

    /// Sets, changes or clears a neighbor's Ethernet address. Does nothing if the neighbor has no adjacency.
    pub fn set_mac(
        &mut self,
        interface: u32,
        next_hop: IpAddr,
        mac: Option<Mac>,
        via: &Interface,
        tags: Option<Tags>,
    ) {
        let Some(e) = self.by_neighbor.get_mut(&(interface, next_hop)) else { return };
        e.mac = mac;
        let rewrite = mac.and_then(|dst| header(dst, next_hop, via, tags));
        // The index is in use, so it is within the capacity.
        let _ = self.records.set(e.index, Adjacency { rewrite, interface, mtu: via.mtu, next_hop });
    }

    /// True if packets were sent to a neighbor since the last call, or since the adjacency was added. False without an adjacency.
    pub fn was_used(&mut self, interface: u32, next_hop: IpAddr) -> bool {
        let Some(e) = self.by_neighbor.get_mut(&(interface, next_hop)) else { return false };
        let [packets, _] = self.counters.total(e.index);
        std::mem::replace(&mut e.seen, packets) != packets
    }

    /// Marks an interface's adjacencies as outdated, so that [`follow`](Self::follow) updates them. Call it after a change of the
    /// interface's own address, MTU or tags. New adjacencies use the current settings.
    pub fn refresh(&mut self, interface: u32) {
        self.stale.retain(|(other, _)| *other != interface);
        self.stale.push_back((interface, IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
    }

    /// True if adjacencies are still outdated after a change of their interface.
    pub fn is_stale(&self) -> bool {
        !self.stale.is_empty()
    }

    /// Updates the next outdated adjacencies, at most `most`. `of` returns an interface's current state, or `None` if the interface was
    /// removed. Returns true if there are more.
    pub fn follow<'i>(
        &mut self,
        most: usize,
        of: impl Fn(u32) -> Option<(&'i Interface, Option<Tags>)>,
    ) -> bool {
        let Some((interface, first)) = self.stale.pop_front() else { return false };
        if let Some((via, tags)) = of(interface) {
            let last = (interface, IpAddr::V6(Ipv6Addr::from_bits(u128::MAX)));
            let mut stale = self.by_neighbor.range((interface, first)..=last);
            let some: Vec<(IpAddr, Option<Mac>)> =
                stale.by_ref().take(most).map(|(key, e)| (key.1, e.mac)).collect();
            if let Some((key, _)) = stale.next() {
                self.stale.push_front(*key);
            }
            for (next_hop, mac) in some {
                self.set_mac(interface, next_hop, mac, via, tags);
            }
        }
        self.is_stale()
    }

    /// Returns the index of the adjacency to a neighbor, if there is one.
    pub fn index_of(&self, interface: u32, next_hop: IpAddr) -> Option<u32> {
        self.by_neighbor.get(&(interface, next_hop)).map(|e| e.index)
    }

    /// Returns the adjacency at `index`.
    pub fn get(&self, index: u32) -> Option<&Adjacency> {
        self.records.get(index)
    }

    /// Returns all adjacencies in order of their indices: for each, its index, the adjacency, and its number of users.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Adjacency, u32)> {
        self.iter_from(0)
    }

    /// Returns the adjacencies from index `first` on, in order: for each, its index, the adjacency, and its number of users.
    pub fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, &Adjacency, u32)> {
        self.records.iter_from(first).filter_map(|(index, a)| {
            // Skip removed adjacencies, whose records are kept until no worker can read them.
            let e = self.by_neighbor.get(&(a.interface, a.next_hop)).filter(|e| e.index == index)?;
            Some((index, a, e.users))
        })
    }
}
