//! Neighbors: executes the actions of the neighbor protocols. The actions update adjacencies and host routes, and release the packets that
//! wait on workers. `arp.rs` and `nd.rs` send and handle the messages on the link.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use buf::Packet;
use model::reason::Reason;
use wire::{Mac, ipv4, ipv6};

use super::events::News;
use super::{Neighborhood, Routed, Router, RouterError};
use crate::Unused;
use crate::ip::{Address, Path, PathList, Prefix, Source};
use crate::neighbor::{
    self, Action, Config, Counters, Entry, Event, Key, NeighborView, Outcome, Release, State,
};
use crate::waiting;

/// Time in nanoseconds from a worker's last request for a next hop until the main thread tells all workers to drop packets that have waited
/// too long. Packets wait too long if their request was lost.
const SWEEP_AFTER: u64 = waiting::LIFE + 1_000_000_000;
/// Time in nanoseconds after which the main thread repeats the message to drop packets, if the message did not reach all workers.
const SWEEP_RETRY: u64 = 100_000_000;

impl Neighborhood {
    /// Returns the neighbor's Ethernet address, if it is known.
    pub(crate) fn mac_of<A: Routed>(&self, interface: u32, address: A) -> Option<Mac> {
        A::neighbors(self).mac_of((interface, address))
    }

    /// True if the neighbor has a static entry.
    pub(super) fn is_static<A: Routed>(&self, interface: u32, address: A) -> bool {
        let entry = A::neighbors(self).entries().get((interface, address));
        matches!(entry.map(|e| e.state), Some(State::Static(_)))
    }

    /// Returns the source address for requests to a neighbor: if possible, an address in the neighbor's network; otherwise, any
    /// address of the interface; otherwise, any address of the VRF.
    pub(super) fn source_for<A: Routed>(&self, interface: u32, target: A) -> Option<A> {
        let info = self.interfaces.get(interface)?;
        let own = self.speaks_from::<A>(info);
        let same_network = own.iter().find(|a| a.prefix().contains(target)).copied();
        let of_vrf = || self.interfaces.values().filter(|i| i.fib == info.fib).find_map(|i| A::own(i).next());
        Some(same_network.or(own.first().copied()).or_else(of_vrf)?.address)
    }

    /// Updates the adjacency of a neighbor by its entry in the neighbor table.
    fn complete<A: Routed>(&mut self, (interface, address): Key<A>) {
        let mac = self.mac_of(interface, address);
        let (Some(record), Some(info)) = (self.records.get(interface), self.interfaces.get(interface)) else {
            return;
        };
        self.adjacencies.set_mac(interface, address.into(), mac, record, info.tags);
    }

    fn name(&self, interface: u32) -> &str {
        self.interfaces.get(interface).map_or("?", |i| &i.name)
    }
}

/// Returns the prefix and the path of a neighbor's host route.
fn host_route<A: Routed>(interface: u32, address: A) -> (Prefix<A>, PathList) {
    let path = Path::Via { next_hop: address.into(), interface: Some(interface) };
    (Prefix::host(A::from_bits(A::scoped(address.to_bits(), interface))), path.into())
}

impl Router {
    /// Handles a worker's request to resolve a next hop.
    ///
    /// # Errors
    /// If the packet is not a valid request.
    pub(crate) fn punted_ask<A: Routed>(
        &mut self,
        now: u64,
        _worker: usize,
        p: &mut Packet<'_>,
    ) -> Result<(), Unused> {
        let key = neighbor::read_ask::<A>(p).ok_or(Unused::Unexpected)?;
        let (side, near) = A::side_mut(self);
        side.sweep_at = Some(now + SWEEP_AFTER);
        if near.usable(key.0) && near.source_for(key.0, key.1).is_some() {
            self.neighbor_event(now, Event::Resolve(key));
        } else {
            self.release(key, Outcome::Failed);
        }
        Ok(())
    }

    /// Passes an event to the neighbor table, and executes the resulting actions.
    pub(super) fn neighbor_event<A: Routed>(&mut self, now: u64, event: Event<A>) {
        // Events from stations use `neighbor_heard`. For all other events, the result does not matter.
        let _ = self.neighbor_heard(now, event);
    }

    /// Like [`neighbor_event`](Self::neighbor_event), for an event that is another station's message.
    ///
    /// # Errors
    /// If the message is not used. The error is the reason.
    pub(super) fn neighbor_heard<A: Routed>(&mut self, now: u64, event: Event<A>) -> Result<(), Unused> {
        let mut actions = Vec::new();
        let used = A::neighbors_mut(&mut self.near).handle(now, event, &mut actions);
        self.act(actions);
        used
    }

    fn act<A: Routed>(&mut self, actions: Vec<Action<A>>) {
        self.note_staled::<A>();
        for action in actions {
            match action {
                Action::Request(..) | Action::Reply(..) | Action::Announce(_) => A::send(self, &action),
                Action::Defend((interface, own), mac) => {
                    let name = self.near.name(interface);
                    tracing::warn!(
                        event = "neighbor",
                        "{name}: address conflict: {mac} uses this router's address {own}"
                    );
                    A::send(self, &action);
                }
                Action::Resolved(key, mac) => {
                    self.near.complete(key);
                    self.sync_host_route(key);
                    self.release(key, Outcome::Resolved);
                    self.tell_of(key, mac, false);
                }
                Action::Changed(key, mac) => {
                    self.near.complete(key);
                    let name = self.near.name(key.0);
                    tracing::debug!(event = "neighbor", "{name}: {} is at {mac} now", key.1);
                    self.tell_of(key, mac, false);
                }
                Action::Lost(key, mac) => {
                    self.near.complete(key);
                    self.sync_host_route(key);
                    self.tell_of(key, mac, true);
                }
                Action::Failed(key) => self.release(key, Outcome::Failed),
            }
        }
    }

    /// Notifies features that a neighbor's Ethernet address is `mac` now or, if `gone`, is no longer known.
    fn tell_of<A: Routed>(&mut self, (interface, address): Key<A>, mac: Mac, gone: bool) {
        let fixed = self.near.is_static(interface, address);
        self.notify_of_neighbor(&News { interface, address: address.into(), mac, fixed, gone });
    }

    /// Tells every worker whether a next hop was resolved.
    fn release<A: Routed>(&mut self, (interface, address): Key<A>, outcome: Outcome) {
        let message = Release::Hop(address.into(), outcome).to_bytes();
        for worker in 0..self.workers() {
            self.send_to(worker, interface, A::NODES.release, &message);
        }
    }

    /// Sends a packet with the transmit interface `interface` into a worker's graph at `node`. Returns false if no buffer was free or the
    /// ring was full. The packet is then lost, which is handled like a loss on the link: the request or the release is repeated later.
    pub(super) fn send_to(&mut self, worker: usize, interface: u32, node: &str, bytes: &[u8]) -> bool {
        let Some(mut packet) = self.packet(bytes) else { return false };
        packet.packet().set_tx_if(interface);
        self.send(worker, node, packet)
    }

    /// Adds or removes a neighbor's host route. The route exists while the neighbor's Ethernet address is known and its IP address is
    /// link-local, in a connected network of the interface, or covered by a route that is attached to the interface.
    pub(super) fn sync_host_route<A: Routed>(&mut self, (interface, address): Key<A>) {
        A::side_mut(self).0.off_link.remove(&(address, interface));
        let Some(fib) = self.near.interfaces.get(interface).map(|i| i.fib) else { return };
        let known = self.near.mac_of(interface, address).is_some();
        let (prefix, path) = host_route(interface, address);
        let (side, near) = A::side_mut(self);
        let on_link = known && near.is_on_link(fib, interface, address);
        if known && !on_link {
            side.off_link.insert((address, interface));
        }
        let routes = &mut side.routes;
        let attached = || {
            let covering = routes.covering(fib, prefix.address());
            covering.is_some_and(|(_, to)| to.list == Path::Attached(interface).into())
        };
        let wanted = on_link || known && attached();
        let present =
            routes.exact(fib, prefix).any(|(source, to)| source == Source::NEIGHBOR && to.list == path);
        let done = match (present, wanted) {
            (false, true) => routes.add(fib, prefix, Source::NEIGHBOR, path, near),
            (true, false) => routes.remove(fib, prefix, Source::NEIGHBOR, near).map(|_| ()),
            _ => Ok(()),
        };
        if let Err(e) = done {
            tracing::warn!("cannot update the host route of neighbor {address}: {e}");
        }
        self.follow_first::<A>();
    }

    /// Updates the host routes of neighbors whose addresses are in a changed prefix, but in no connected network. Such a host route
    /// exists only while an attached route covers the address.
    pub(super) fn sync_off_link<A: Routed>(&mut self, within: Prefix<A>) {
        let range = (within.address(), 0)..=(within.last(), u32::MAX);
        let off_link = &A::side(self).off_link;
        let keys: Vec<Key<A>> = off_link.range(range).map(|(ip, interface)| (*interface, *ip)).collect();
        keys.into_iter().for_each(|key| self.sync_host_route(key));
    }

    /// Removes the host routes of an interface's neighbors, before the interface leaves its VRF.
    pub(super) fn forget_host_routes<A: Routed>(&mut self, interface: u32) {
        let Some(fib) = self.near.interfaces.get(interface).map(|i| i.fib) else { return };
        let keys: Vec<Key<A>> = A::neighbors(&self.near).entries().of(interface).map(|e| e.0).collect();
        let (side, near) = A::side_mut(self);
        for (_, address) in keys {
            let (prefix, path) = host_route(interface, address);
            let mut there = side.routes.exact(fib, prefix);
            if there.any(|(source, to)| source == Source::NEIGHBOR && to.list == path)
                && let Err(e) = side.routes.remove(fib, prefix, Source::NEIGHBOR, near)
            {
                tracing::warn!("cannot remove the host route of neighbor {address}: {e}");
            }
        }
    }

    /// Updates neighbors after a change of an interface: announces new addresses, and updates the neighbor table and the host routes.
    pub(super) fn neighbors_follow<A: Routed>(&mut self, index: u32) {
        let now = self.now;
        let before = A::side_mut(self).0.announced.remove(&index);
        let up = self.near.usable(index);
        let info = self.near.interfaces.get(index).filter(|i| up && i.kind.has_neighbors());
        let after = info.map(|i| (i.mac, A::own(i).collect::<Vec<Address<A>>>()));
        let mut events = Vec::new();
        match (&before, &after) {
            (Some(_), None) => events.push(Event::Down(index)),
            (before, Some((mac, addresses))) => {
                let told = before.as_ref().filter(|b| b.0 == *mac).map_or(&[][..], |b| &b.1);
                let new = addresses.iter().filter(|a| !told.contains(a));
                events.extend(new.map(|a| Event::Announce((index, a.address))));
                let networks: Vec<Prefix<A>> = addresses.iter().map(|a| a.prefix()).collect();
                let had = before.iter().flat_map(|b| &b.1).map(|a| a.prefix());
                let left = had.filter(|n| !networks.contains(n));
                events.extend(left.map(|n| Event::LeftNetwork(index, n)));
            }
            (None, None) => {}
        }
        A::side_mut(self).0.announced.extend(after.map(|a| (index, a)));
        events.into_iter().for_each(|event| self.neighbor_event(now, event));
        let keys: Vec<Key<A>> = A::neighbors(&self.near).entries().of(index).map(|e| e.0).collect();
        keys.into_iter().for_each(|key| self.sync_host_route(key));
    }

    /// Removes everything about the neighbors of an interface that is about to be removed.
    pub(super) fn neighbors_gone<A: Routed>(&mut self, index: u32) {
        A::side_mut(self).0.announced.remove(&index);
        self.neighbor_event(self.now, Event::<A>::Gone(index));
    }

    /// Handles timers that have expired by `now`.
    pub(crate) fn handle_timeouts(&mut self, now: u64) {
        self.now = now;
        self.neighbor_timeouts::<Ipv4Addr>(now);
        self.neighbor_timeouts::<Ipv6Addr>(now);
        self.handle_ip6_timeouts(now);
        self.watch_usage(now);
    }

    fn neighbor_timeouts<A: Routed>(&mut self, now: u64) {
        let mut actions = Vec::new();
        A::neighbors_mut(&mut self.near).timeout(now, &mut actions);
        self.act(actions);
        if A::side(self).sweep_at.is_some_and(|at| at <= now) {
            let message = Release::Sweep.to_bytes();
            let mut told = true;
            for worker in 0..self.workers() {
                // From the reserve: waiting packets may hold all other buffers.
                told &= self.last_packet(&message).is_some_and(|p| self.send(worker, A::NODES.release, p));
            }
            // Nothing else releases waiting packets, so workers that could not be told are told later.
            A::side_mut(self).0.sweep_at = (!told).then_some(now + SWEEP_RETRY);
        }
    }

    /// Returns the time at which [`poll`](Router::poll) must be called next because of a timer, in nanoseconds of the monotonic clock;
    /// `None` if there is no timer.
    pub fn next_timeout(&self) -> Option<u64> {
        let neighbors = [self.near.neighbors4.poll_timeout(), self.near.neighbors6.poll_timeout()];
        neighbors
            .into_iter()
            .chain([self.ip4.sweep_at, self.ip6.sweep_at, self.ip6_timeout(), self.features_timeout()])
            .flatten()
            .min()
    }

    /// Adds a neighbor: a static one if `fixed`, otherwise as if it had been learned.
    ///
    /// # Errors
    /// If the interface does not exist or has no neighbors, if a neighbor cannot have these addresses, or if static neighbors fill the
    /// table.
    pub fn add_neighbor(
        &mut self,
        interface: u32,
        address: impl Into<IpAddr>,
        mac: Mac,
        fixed: bool,
    ) -> Result<(), RouterError> {
        match address.into() {
            IpAddr::V4(address) => self.add_neighbor_of(interface, address, mac, fixed),
            IpAddr::V6(address) => self.add_neighbor_of(interface, address, mac, fixed),
        }
    }

    fn add_neighbor_of<A: Routed>(
        &mut self,
        interface: u32,
        address: A,
        mac: Mac,
        fixed: bool,
    ) -> Result<(), RouterError> {
        let info = self.interface(interface)?;
        if !info.kind.has_neighbors() {
            let what = info.kind.name().unwrap_or("point-to-point");
            let why = format!("{} is a {what} interface: it has no neighbors", info.name);
            return Err(RouterError::new(why).because(Reason::Unfit));
        }
        check_neighbor(address.into(), mac)?;
        if A::all(info).any(|a| a.address == address) {
            let why = format!("{address} is the router's own address on {}", info.name);
            return Err(RouterError::new(why).because(Reason::AddressTaken));
        }
        if let Some(a) = A::all(info).find(|a| a.is_end(address)) {
            let (network, name) = (a.prefix(), &info.name);
            return Err(RouterError::new(format!(
                "{address} is the first or last address of {network} on {name}, not a host address"
            )));
        }
        let neighbors = A::neighbors(&self.near);
        let (entries, most) = (neighbors.entries(), neighbors.config.max_entries);
        let stays = |e: Entry| !fixed || matches!(e.state, State::Static(_));
        if !entries.get((interface, address)).is_some_and(stays) && entries.fixed() >= most {
            return Err(RouterError::new(format!(
                "the limit of {most} static neighbors is reached: raise it first (set ip neighbor-config)"
            )));
        }
        self.neighbor_event(self.now, Event::Set { key: (interface, address), mac, fixed });
        Ok(())
    }

    /// Removes a neighbor, whether static or learned.
    ///
    /// # Errors
    /// If there is no such neighbor.
    pub fn remove_neighbor(&mut self, interface: u32, address: impl Into<IpAddr>) -> Result<(), RouterError> {
        match address.into() {
            IpAddr::V4(address) => self.remove_neighbor_of(interface, address),
            IpAddr::V6(address) => self.remove_neighbor_of(interface, address),
        }
    }

    fn remove_neighbor_of<A: Routed>(&mut self, interface: u32, address: A) -> Result<(), RouterError> {
        let name = &self.interface(interface)?.name;
        if A::neighbors(&self.near).entries().get((interface, address)).is_none() {
            let why = format!("no such neighbor: {address} on {name}");
            return Err(RouterError::new(why).because(Reason::NotThere));
        }
        self.neighbor_event(self.now, Event::Remove((interface, address)));
        Ok(())
    }

    /// Removes an interface's learned neighbors of one family.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn flush_neighbors<A: Routed>(&mut self, interface: u32) -> Result<(), RouterError> {
        self.interface(interface)?;
        self.neighbor_event(self.now, Event::<A>::Flush(interface));
        Ok(())
    }

    /// Returns the limits of a family's neighbor table.
    pub fn neighbor_config<A: Routed>(&self) -> Config {
        A::neighbors(&self.near).config
    }

    /// Sets the limits of a family's neighbor table. They apply from the next new entry on.
    pub fn set_neighbor_config<A: Routed>(&mut self, config: Config) {
        A::neighbors_mut(&mut self.near).config = config;
    }

    /// Returns the event counters of a family's neighbor table.
    pub fn neighbor_counters<A: Routed>(&self) -> &Counters {
        A::neighbors(&self.near).counters()
    }

    /// Returns the number of a family's neighbors in each state.
    pub fn neighbors_by_state<A: Routed>(&self) -> impl Iterator<Item = (&'static str, usize)> {
        A::neighbors(&self.near).entries().by_state()
    }

    /// Returns all neighbors of a family, in order of interface and address, for `show ip neighbors`.
    pub fn neighbors<A: Routed>(&self) -> impl Iterator<Item = NeighborView> {
        self.neighbors_behind::<A>(None).map(|(_, view)| view)
    }

    /// Returns a neighbor's entry.
    pub fn neighbor<A: Routed>(&self, key: Key<A>) -> Option<Entry> {
        A::neighbors(&self.near).entries().get(key)
    }

    /// Returns the entries after `key`, in order of interface and address; `key` need not exist. `None`: all entries.
    pub fn neighbor_entries<A: Routed>(&self, key: Option<Key<A>>) -> impl Iterator<Item = (Key<A>, Entry)> {
        A::neighbors(&self.near).entries().behind(key)
    }

    /// Returns the neighbors after `key`, in order of interface and address; `key` need not exist. `None`: all neighbors.
    pub fn neighbors_behind<A: Routed>(
        &self,
        key: Option<Key<A>>,
    ) -> impl Iterator<Item = (Key<A>, NeighborView)> {
        A::neighbors(&self.near).entries().behind(key).map(|(key, entry)| {
            let name = self.near.interfaces.get(key.0).map_or("", |i| &i.name);
            (key, NeighborView::new(key, entry, name, self.now))
        })
    }
}

impl Neighborhood {
    /// True if the address is link-local or in a connected network of this interface.
    fn is_on_link<A: Routed>(&self, fib: u16, interface: u32, address: A) -> bool {
        let link_local = A::scoped(address.to_bits(), u32::MAX) != address.to_bits();
        link_local || self.connected(fib, address.into()) == Some(interface)
    }
}

/// Checks that a neighbor can have these addresses.
///
/// # Errors
/// If a neighbor cannot have one of the addresses.
pub fn check_neighbor(address: IpAddr, mac: Mac) -> Result<(), RouterError> {
    if !mac.is_unicast() {
        let why = format!("{mac} cannot be a neighbor's address: it is a group address or zero");
        return Err(RouterError::new(why).because(Reason::Value));
    }
    let no_host = match address {
        IpAddr::V4(a) => a.is_unspecified() || ipv4::is_martian_source(a.to_bits()),
        IpAddr::V6(a) => {
            let a = a.to_bits();
            ipv6::is_unspecified(a) || ipv6::is_martian_source(a) || ipv6::is_bad_link_local(a)
        }
    };
    if no_host {
        let why = format!("{address} cannot be a neighbor's address: it is not a host address");
        return Err(RouterError::new(why).because(Reason::Value));
    }
    Ok(())
}

#[cfg(test)]
#[path = "neighbors_tests.rs"]
mod tests;
