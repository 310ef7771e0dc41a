//! The records, and who owns which.

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

/// The Ethernet header of packets from `src` to `dst` with these VLAN tags.
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

/// The header of packets to a neighbour, which are of its family.
fn header(dst: Mac, next_hop: IpAddr, via: &Interface, tags: Option<Tags>) -> Option<LinkHeader> {
    let kind = if next_hop.is_ipv4() { ethertype::IPV4 } else { ethertype::IPV6 };
    LinkHeader::new(&ethernet(dst, via.mac, tags, kind))
}

/// Records that are given back in one turn: about a tenth of a millisecond's worth.
const AT_ONCE: usize = 2048;

/// The forwarding index of packets that go over no adjacency yet: their next hop is their destination.
pub const GLEAN: u32 = u32::MAX;

/// How to reach a neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct Adjacency {
    /// The link header; `None` while the neighbour's address is not known.
    pub rewrite: Option<LinkHeader>,
    /// The interface to send by.
    pub interface: u32,
    /// The largest network packet that may be sent, in bytes.
    pub mtu: u16,
    /// The neighbour.
    pub next_hop: IpAddr,
}

/// The main thread's side: adjacencies by neighbour, counted by their users.
pub struct Adjacencies {
    records: SlotWriter<Adjacency>,
    by_neighbor: BTreeMap<(u32, IpAddr), Entry>,
    counters: AdjacencyCounters,
    domain: Domain,
    /// Records that nobody uses any more, until no worker can hold their index.
    unused: VecDeque<(Mark, u32)>,
    /// Interfaces whose adjacencies are to follow, from which neighbour on.
    stale: VecDeque<(u32, IpAddr)>,
}

struct Entry {
    index: u32,
    users: u32,
    mac: Option<Mac>,
    /// Packets that had been sent over it at the last look.
    seen: u64,
}

impl Adjacencies {
    /// No adjacencies yet.
    pub fn new(domain: &Domain, records: SlotWriter<Adjacency>, counters: AdjacencyCounters) -> Adjacencies {
        let (by_neighbor, unused, stale) = (BTreeMap::new(), VecDeque::new(), VecDeque::new());
        Adjacencies { records, by_neighbor, counters, domain: domain.clone(), unused, stale }
    }

    /// The adjacency to a neighbour, made if there is none (incomplete without `mac`); the caller becomes one of its
    /// users.
    ///
    /// # Errors
    /// When there is no room for another one.
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

    /// One user less for the adjacency at `index`; the last one takes it away.
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

    /// Gives records back that no worker can look at any more: some of them, if there are very many. Returns whether there may be
    /// more. Called once a turn.
    pub fn collect(&mut self) -> bool {
        for _ in 0..AT_ONCE {
            let Some((_, index)) = self.unused.pop_front_if(|(mark, _)| self.domain.passed(*mark)) else {
                return false;
            };
            self.records.remove(index);
        }
        true
    }

    /// The neighbour's address is now known, has changed, or is lost. Does nothing for a neighbour that nobody uses.
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
        // The index is in use, so it lies within the capacity.
        let _ = self.records.set(e.index, Adjacency { rewrite, interface, mtu: via.mtu, next_hop });
    }

    /// Whether packets were sent to a neighbour since this was last asked, or since the adjacency is there.
    pub fn was_used(&mut self, interface: u32, next_hop: IpAddr) -> bool {
        let Some(e) = self.by_neighbor.get_mut(&(interface, next_hop)) else { return false };
        let [packets, _] = self.counters.total(e.index);
        std::mem::replace(&mut e.seen, packets) != packets
    }

    /// The interface's own address, MTU or tags changed: its adjacencies [follow](Self::follow). Those that are made from now on are as
    /// the interface is.
    pub fn refresh(&mut self, interface: u32) {
        self.stale.retain(|(other, _)| *other != interface);
        self.stale.push_back((interface, IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
    }

    /// Whether adjacencies are to follow their interface.
    pub fn is_stale(&self) -> bool {
        !self.stale.is_empty()
    }

    /// Lets the next adjacencies follow their interface, `most` of them; `of` says how that is now, unless it is gone. Returns
    /// whether there are more.
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

    /// The index of the adjacency to a neighbour, if somebody uses it.
    pub fn index_of(&self, interface: u32, next_hop: IpAddr) -> Option<u32> {
        self.by_neighbor.get(&(interface, next_hop)).map(|e| e.index)
    }

    /// The adjacency at `index`.
    pub fn get(&self, index: u32) -> Option<&Adjacency> {
        self.records.get(index)
    }

    /// Every adjacency with its index, and how many use it; in order of the indices.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Adjacency, u32)> {
        self.iter_from(0)
    }

    /// The adjacencies from index `first` on, in order: index, adjacency, and how many use it.
    pub fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, &Adjacency, u32)> {
        self.records.iter_from(first).filter_map(|(index, a)| {
            // Nobody uses those that wait for workers to pass.
            let e = self.by_neighbor.get(&(a.interface, a.next_hop)).filter(|e| e.index == index)?;
            Some((index, a, e.users))
        })
    }
}
