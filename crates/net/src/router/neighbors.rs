//! Neighbours: carries out what the protocol asks for. ARP packets, adjacencies, the routes to neighbours, and the
//! packets that wait on the workers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use buf::Held;
use wire::Mac;
use wire::arp::{ArpPacket, Operation};
use wire::ethernet::ethertype;
use wire::ipv4;

use super::{Address, InterfaceInfo, Neighborhood, Router, RouterError};
use crate::adjacency::ethernet;
use crate::interface::Kind;
use crate::ip::{Path, PathList, Prefix4, Source};
use crate::neighbor::{
    self, Action, Config, Counters, Entry, Event, Key, NeighborView, Outcome, Release, State,
};

/// Time after the last question of a worker until the workers look for packets that nobody released, nanoseconds: such
/// whose question was lost on the way.
const SWEEP_AFTER: u64 = neighbor::HOLD_LIFE + 1_000_000_000;
/// Time until the workers are told to look if they could not be told, nanoseconds.
const SWEEP_RETRY: u64 = 100_000_000;

/// What the router keeps about neighbours beside the protocol's table.
#[derive(Default)]
pub(crate) struct Arp {
    /// Time of the last turn.
    now: u64,
    /// What was told of interfaces that are up.
    announced: BTreeMap<u32, (Mac, Vec<Address>)>,
    /// Neighbours with an address that is on no network of their interface. Whether they have a route depends on others.
    off_link: BTreeSet<(Ipv4Addr, u32)>,
    sweep_at: Option<u64>,
}

impl Neighborhood {
    /// The neighbour's Ethernet address, if it is known.
    pub(crate) fn mac_of(&self, interface: u32, address: Ipv4Addr) -> Option<Mac> {
        self.neighbors.mac_of((interface, address))
    }

    /// The address that this router asks for neighbours from: the one on the same network, or any.
    fn source_for(&self, interface: u32, target: Ipv4Addr) -> Option<Ipv4Addr> {
        let info = self.interfaces.get(interface)?;
        let same_network = info.addresses.iter().find(|a| a.network().contains(target));
        let of_vrf =
            || self.interfaces.values().filter(|i| i.fib == info.fib).find_map(|i| i.addresses.first());
        Some(same_network.or(info.addresses.first()).or_else(of_vrf)?.address)
    }

    /// Tells the adjacency to a neighbour what is known of it now.
    fn complete(&mut self, (interface, address): Key) {
        let mac = self.mac_of(interface, address);
        let (Some(record), Some(info)) = (self.records.get(interface), self.interfaces.get(interface)) else {
            return;
        };
        self.adjacencies.set_mac(interface, address, mac, record, info.tags);
    }
}

/// The route that a neighbour has for itself.
fn host_route(interface: u32, address: Ipv4Addr) -> (Prefix4, PathList) {
    let path = Path::Via { next_hop: address.into(), interface: Some(interface) };
    (Prefix4::host(address), path.into())
}

impl Router {
    /// A worker asks for the Ethernet address of a next hop.
    pub(crate) fn punted_ask(&mut self, now: u64, _worker: usize, mut packet: Held) {
        let key = neighbor::read_ask(&packet.packet());
        packet.free(&mut self.bufs);
        let Some(key) = key else { return };
        self.arp.sweep_at = Some(now + SWEEP_AFTER);
        if self.near.usable(key.0) && self.near.source_for(key.0, key.1).is_some() {
            self.arp_event(now, Event::Resolve(key));
        } else {
            self.release(key, Outcome::Failed);
        }
    }

    /// An ARP packet that concerns this router.
    pub(crate) fn punted_arp(&mut self, now: u64, _worker: usize, mut packet: Held) {
        let mut p = packet.packet();
        let (interface, arp) = (p.rx_if(), p.head::<ArpPacket>().map(|a| *a));
        packet.free(&mut self.bufs);
        let (Some(arp), Some(info)) = (arp, self.near.interfaces.get(interface)) else { return };
        let Ok(op) = arp.check() else { return };
        let sender = (arp.sender_mac(), arp.sender_ip());
        // Two interfaces of this router on one link hear each other: nothing to learn from that.
        if self.near.interfaces.values().any(|i| i.mac == sender.0) {
            return;
        }
        let has = |ip: Ipv4Addr| info.addresses.iter().any(|a| a.address == ip);
        let event = if has(sender.1) {
            Event::Conflict((interface, sender.1), sender.0)
        } else {
            let (target, for_us) = (arp.target_ip(), has(arp.target_ip()));
            Event::Arp { interface, op, sender, target, for_us, on_link: on_link(info, sender.1) }
        };
        self.arp_event(now, event);
    }

    fn arp_event(&mut self, now: u64, event: Event) {
        let mut actions = Vec::new();
        self.near.neighbors.handle(now, event, &mut actions);
        self.act(actions);
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Request((interface, target), to) => {
                    let Some(source) = self.near.source_for(interface, target) else { continue };
                    self.send_arp(interface, to, |mac| ArpPacket::request(mac, source, target));
                }
                Action::Reply((interface, own), asker) => self.send_arp(interface, Some(asker.0), |mac| {
                    ArpPacket::new(Operation::Reply, (mac, own), asker)
                }),
                Action::Announce((interface, own)) => {
                    self.send_arp(interface, None, |mac| ArpPacket::gratuitous(mac, own));
                }
                Action::Defend((interface, own), mac) => {
                    let name = self.near.interfaces.get(interface).map_or("?", |i| &i.name);
                    tracing::warn!(event = "neighbor", "{name}: {mac} claims this router's address {own}");
                    self.send_arp(interface, None, |mac| ArpPacket::gratuitous(mac, own));
                }
                Action::Resolved(key, _) => {
                    self.near.complete(key);
                    self.sync_host_route(key);
                    self.release(key, Outcome::Resolved);
                }
                Action::Changed(key, mac) => {
                    self.near.complete(key);
                    let name = self.near.interfaces.get(key.0).map_or("?", |i| &i.name);
                    tracing::debug!(event = "neighbor", "{name}: {} is at {mac} now", key.1);
                }
                Action::Lost(key) => {
                    self.near.complete(key);
                    self.sync_host_route(key);
                }
                Action::Failed(key) => self.release(key, Outcome::Failed),
            }
        }
    }

    /// Sends an ARP packet out of an interface: to one station, or to all.
    fn send_arp(&mut self, interface: u32, to: Option<Mac>, packet: impl FnOnce(Mac) -> ArpPacket) {
        let Some(info) = self.near.interfaces.get(interface) else { return };
        let header = ethernet(to.unwrap_or(Mac::BROADCAST), info.mac, info.tags, ethertype::ARP);
        let bytes = [&header, packet(info.mac).as_bytes().as_slice()].concat();
        self.send_to(0, interface, "interface-output", &bytes);
    }

    /// Tells every worker what became of a next hop.
    fn release(&mut self, (interface, address): Key, outcome: Outcome) {
        let message = Release::Hop(address.to_bits(), outcome).to_bytes();
        for worker in 0..self.workers() {
            self.send_to(worker, interface, "arp-release", &message);
        }
    }

    /// Sends a packet for `interface` into a worker's graph. One for that there is no buffer or no room in the ring is
    /// lost (`false`), as it might be on the link: it is asked for, or released, again.
    fn send_to(&mut self, worker: usize, interface: u32, node: &str, bytes: &[u8]) -> bool {
        let Some(mut packet) = self.packet(bytes) else { return false };
        packet.packet().set_tx_if(interface);
        self.send(worker, node, packet)
    }

    /// A neighbour on a connected network, or where an attached route says that hosts are on the link, has a route of
    /// its own while its address is known.
    pub(super) fn sync_host_route(&mut self, (interface, address): Key) {
        self.arp.off_link.remove(&(address, interface));
        let Some(fib) = self.near.interfaces.get(interface).map(|i| i.fib) else { return };
        let known = self.near.mac_of(interface, address).is_some();
        let on_link = known && self.near.connected(fib, address) == Some(interface);
        if known && !on_link {
            self.arp.off_link.insert((address, interface));
        }
        let attached = || {
            self.routes
                .covering(fib, address)
                .is_some_and(|(_, to)| to.list == Path::Attached(interface).into())
        };
        let wanted = on_link || known && attached();
        let (prefix, path) = host_route(interface, address);
        let present =
            self.routes.exact(fib, prefix).any(|(source, to)| source == Source::Neighbor && to.list == path);
        let done = match (present, wanted) {
            (false, true) => self.routes.add(fib, prefix, Source::Neighbor, path, &mut self.near),
            (true, false) => self.routes.remove(fib, prefix, Source::Neighbor, &mut self.near).map(|_| ()),
            _ => Ok(()),
        };
        if let Err(e) = done {
            tracing::warn!("the route to neighbour {address}: {e}");
        }
        self.follow_first();
    }

    /// Routes within a prefix changed: neighbours that only an attached route gives a route of their own get or lose it.
    pub(super) fn sync_off_link(&mut self, within: Prefix4) {
        let range = (within.address(), 0)..=(within.last(), u32::MAX);
        let keys: Vec<Key> =
            self.arp.off_link.range(range).map(|(ip, interface)| (*interface, *ip)).collect();
        keys.into_iter().for_each(|key| self.sync_host_route(key));
    }

    /// An interface is about to leave its VRF: the routes to its neighbours do not stay behind.
    pub(super) fn forget_host_routes(&mut self, interface: u32) {
        let Some(fib) = self.near.interfaces.get(interface).map(|i| i.fib) else { return };
        let keys: Vec<Key> = self.near.neighbors.entries().of(interface).map(|e| e.0).collect();
        for (_, address) in keys {
            let (prefix, path) = host_route(interface, address);
            if self
                .routes
                .exact(fib, prefix)
                .any(|(source, to)| source == Source::Neighbor && to.list == path)
                && let Err(e) = self.routes.remove(fib, prefix, Source::Neighbor, &mut self.near)
            {
                tracing::warn!("the route to neighbour {address}: {e}");
            }
        }
    }

    /// Follows a change of an interface: what is told to others, and what is known of them.
    pub(super) fn neighbors_follow(&mut self, index: u32) {
        let now = self.arp.now;
        let before = self.arp.announced.remove(&index);
        let up = self.near.usable(index);
        let info = self.near.interfaces.get(index).filter(|i| up && i.kind != Kind::Loopback);
        let after = info.map(|i| (i.mac, i.addresses.clone()));
        let mut events = Vec::new();
        match (&before, &after) {
            (Some(_), None) => events.push(Event::Down(index)),
            (before, Some((mac, addresses))) => {
                let told = before.as_ref().filter(|b| b.0 == *mac).map_or(&[][..], |b| &b.1);
                let new = addresses.iter().filter(|a| !told.contains(a));
                events.extend(new.map(|a| Event::Announce((index, a.address))));
                let networks: Vec<Prefix4> = addresses.iter().map(|a| a.network()).collect();
                let had = before.iter().flat_map(|b| &b.1).map(|a| a.network());
                let left = had.filter(|n| !networks.contains(n));
                events.extend(left.map(|n| Event::LeftNetwork(index, n)));
            }
            (None, None) => {}
        }
        self.arp.announced.extend(after.map(|a| (index, a)));
        events.into_iter().for_each(|event| self.arp_event(now, event));
        let keys: Vec<Key> = self.near.neighbors.entries().of(index).map(|e| e.0).collect();
        keys.into_iter().for_each(|key| self.sync_host_route(key));
    }

    /// An interface is about to be removed: everything about its neighbours goes.
    pub(super) fn neighbors_gone(&mut self, index: u32) {
        self.arp.announced.remove(&index);
        self.arp_event(self.arp.now, Event::Gone(index));
    }

    /// Does what is due at `now`.
    pub(crate) fn handle_timeouts(&mut self, now: u64) {
        self.arp.now = now;
        let mut actions = Vec::new();
        self.near.neighbors.timeout(now, &mut actions);
        self.act(actions);
        if self.arp.sweep_at.is_some_and(|at| at <= now) {
            let message = Release::Sweep.to_bytes();
            let mut told = true;
            for worker in 0..self.workers() {
                // From the reserve: it may be the waiting packets that have all buffers.
                told &= self.last_packet(&message).is_some_and(|p| self.send(worker, "arp-release", p));
            }
            // Nothing else would release what waits, so a worker that was not told is told later.
            self.arp.sweep_at = (!told).then_some(now + SWEEP_RETRY);
        }
    }

    /// When [`poll`](Router::poll) has something to do at the latest: nanoseconds of the monotonic clock.
    pub fn next_timeout(&self) -> Option<u64> {
        self.near.neighbors.poll_timeout().into_iter().chain(self.arp.sweep_at).min()
    }

    /// Says which Ethernet address a neighbour has: for good (`fixed`), or as if it had been learned now.
    ///
    /// # Errors
    /// When there is no such interface, no neighbour can have these addresses, or the table is full.
    pub fn add_neighbor(
        &mut self,
        interface: u32,
        address: Ipv4Addr,
        mac: Mac,
        fixed: bool,
    ) -> Result<(), RouterError> {
        let info = self.interface(interface)?;
        if info.kind == Kind::Loopback {
            return Err(RouterError(format!("{} is a loopback interface: it has no neighbours", info.name)));
        }
        check_neighbor(address, mac)?;
        if info.addresses.iter().any(|a| a.address == address) {
            return Err(RouterError(format!("{address} is the router's own address on {}", info.name)));
        }
        if let Some(a) = info.addresses.iter().find(|a| a.is_end(address)) {
            let (network, name) = (a.network(), &info.name);
            return Err(RouterError(format!(
                "{address} is the first or last address of {network} on {name}, not a host's"
            )));
        }
        let (entries, most) = (self.near.neighbors.entries(), self.near.neighbors.config.max_entries);
        let stays = |e: Entry| !fixed || matches!(e.state, State::Static(_));
        if !entries.get((interface, address)).is_some_and(stays) && entries.fixed() >= most {
            return Err(RouterError(format!(
                "there are {most} static neighbours already: raise the limit first"
            )));
        }
        self.arp_event(self.arp.now, Event::Set { key: (interface, address), mac, fixed });
        Ok(())
    }

    /// Forgets a neighbour, static or not.
    ///
    /// # Errors
    /// When it is not known.
    pub fn remove_neighbor(&mut self, interface: u32, address: Ipv4Addr) -> Result<(), RouterError> {
        let name = &self.interface(interface)?.name;
        if self.near.neighbors.entries().get((interface, address)).is_none() {
            return Err(RouterError(format!("{address} is no neighbour on {name}")));
        }
        self.arp_event(self.arp.now, Event::Remove((interface, address)));
        Ok(())
    }

    /// Forgets every neighbour on an interface that is not static.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn flush_neighbors(&mut self, interface: u32) -> Result<(), RouterError> {
        self.interface(interface)?;
        self.arp_event(self.arp.now, Event::Flush(interface));
        Ok(())
    }

    /// Bounds of the table of neighbours.
    pub fn neighbor_config(&self) -> Config {
        self.near.neighbors.config
    }

    /// Sets the bounds of the table of neighbours; they take effect with the next new entry.
    pub fn set_neighbor_config(&mut self, config: Config) {
        self.near.neighbors.config = config;
    }

    /// What neighbours made the router do.
    pub fn neighbor_counters(&self) -> &Counters {
        self.near.neighbors.counters()
    }

    /// How many neighbours are in each state.
    pub fn neighbors_by_state(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.near.neighbors.entries().by_state()
    }

    /// Every neighbour in order of interface and address, for `show ip neighbors`.
    pub fn neighbors(&self) -> impl Iterator<Item = NeighborView> {
        self.neighbors_behind(None).map(|(_, view)| view)
    }

    /// Those behind one (interface, address), which need not be there any more; `None`: all.
    pub fn neighbors_behind(
        &self,
        key: Option<(u32, Ipv4Addr)>,
    ) -> impl Iterator<Item = ((u32, Ipv4Addr), NeighborView)> {
        self.near.neighbors.entries().behind(key).map(|(key, entry)| {
            let name = self.near.interfaces.get(key.0).map_or("", |i| &i.name);
            (key, NeighborView::new(key, entry, name, self.arp.now))
        })
    }
}

/// Whether a neighbour can have these addresses.
///
/// # Errors
/// Why it cannot.
pub fn check_neighbor(address: Ipv4Addr, mac: Mac) -> Result<(), RouterError> {
    if !mac.is_unicast() {
        return Err(RouterError(format!("{mac} cannot be a neighbour's address: it is a group's, or zero")));
    }
    let bits = address.to_bits();
    if ipv4::is_unspecified(bits) || ipv4::is_martian_source(bits) {
        return Err(RouterError(format!("{address} cannot be a neighbour's address")));
    }
    Ok(())
}

/// Whether a host on one of the interface's networks can have this address.
fn on_link(info: &InterfaceInfo, address: Ipv4Addr) -> bool {
    info.addresses.iter().any(|a| a.network().contains(address) && !a.is_end(address))
}

#[cfg(test)]
#[path = "neighbors_tests.rs"]
mod tests;
