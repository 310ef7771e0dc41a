//! IPv6 on an interface, except neighbor resolution: duplicate address detection and multicast listening. Executes the actions of the
//! protocols in [`crate::nd`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use wire::nd::Message;
use wire::{ethertype, ipv6, mld, nd};

use super::events::Change;
use super::{InterfaceInfo, Router};
use crate::adjacency::ethernet;
use crate::ip::Address;
use crate::nd::Standing;
use crate::nd::dad::{self, Dad};
use crate::nd::listener::{self, Listener, Report};
use crate::neighbor::Key;

/// The state of the IPv6 protocols on all interfaces.
#[derive(Default)]
pub(super) struct Ip6 {
    dad: Dad,
    listener: Listener,
    /// Tentative addresses that wait for their probes to be sent. This happens once the workers know that the addresses are
    /// tentative.
    probes: Vec<Key<Ipv6Addr>>,
    /// The progress of duplicate address detection, for a client that watches it.
    watched: Option<Watched>,
}

/// The progress of duplicate address detection.
#[derive(Default)]
struct Watched {
    /// The number of probes sent for each address that is being probed.
    sent: BTreeMap<Key<Ipv6Addr>, u8>,
    news: Vec<Probed>,
}

/// A step of duplicate address detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// Index of the interface.
    pub interface: u32,
    /// The address.
    pub address: Ipv6Addr,
    /// The state of the address after the step.
    pub standing: Standing,
    /// Number of probes sent so far.
    pub sent: u8,
}

impl Watched {
    /// Notes a step of an address that is being probed.
    fn note(&mut self, key: Key<Ipv6Addr>, standing: Standing, sent: u8) {
        let (interface, address) = key;
        self.news.push(Probed { interface, address, standing, sent });
        match standing {
            Standing::Tentative => drop(self.sent.insert(key, sent)),
            _ => drop(self.sent.remove(&key)),
        }
    }
}

impl Ip6 {
    fn next_timeout(&self) -> Option<u64> {
        let all = [self.dad.poll_timeout(), self.listener.poll_timeout()];
        all.into_iter().flatten().min()
    }

    /// Notes that an address begins to be probed.
    fn begins(&mut self, key: Key<Ipv6Addr>) {
        if let Some(watched) = self.watched.as_mut().filter(|_| self.dad.transmits > 0) {
            watched.note(key, Standing::Tentative, 0);
        }
    }

    /// Notes an action for an address whose probing began while steps were collected. Actions for other addresses are ignored.
    fn acts(&mut self, action: dad::Action) {
        let Some(watched) = &mut self.watched else { return };
        let (key, standing, more) = match action {
            dad::Action::Probe(key) => (key, Standing::Tentative, 1),
            dad::Action::Unique(key) => (key, Standing::Unique, 0),
            dad::Action::Duplicate(key) => (key, Standing::Duplicate, 0),
        };
        if let Some(sent) = watched.sent.get(&key).copied() {
            watched.note(key, standing, sent.saturating_add(more));
        }
    }
}

impl Router {
    /// Returns the time of the next IPv6 timer, in nanoseconds of the monotonic clock.
    pub(super) fn ip6_timeout(&self) -> Option<u64> {
        self.nd.next_timeout()
    }

    /// Handles timers that have expired by `now`.
    pub(super) fn handle_ip6_timeouts(&mut self, now: u64) {
        let (mut addresses, mut reports) = (Vec::new(), Vec::new());
        self.nd.dad.timeout(now, &mut addresses);
        self.nd.listener.timeout(now, &mut reports);
        self.act_on_addresses(addresses);
        self.report_groups(reports);
    }

    /// Sets the number of probes before an IPv6 address is used (DupAddrDetectTransmits, RFC 4862 section 5.1). With 0,
    /// addresses are used at once.
    pub fn set_dad_transmits(&mut self, transmits: u8) {
        self.nd.dad.transmits = transmits;
    }

    /// Starts or stops collecting the steps of duplicate address detection. Addresses that are being probed at the start are left out.
    pub fn watch_probes(&mut self, on: bool) {
        if on != self.nd.watched.is_some() {
            self.nd.watched = on.then(Watched::default);
        }
    }

    /// Takes the collected steps of duplicate address detection.
    pub fn take_probed(&mut self) -> Vec<Probed> {
        self.nd.watched.as_mut().map(|watched| std::mem::take(&mut watched.news)).unwrap_or_default()
    }

    /// Returns the multicast groups that an interface has joined.
    pub fn groups(&self, index: u32) -> impl Iterator<Item = Ipv6Addr> {
        self.nd.listener.groups(index)
    }

    /// Updates the IPv6 protocols after a change of an interface: for example, starts duplicate address detection for new addresses and
    /// stops it for removed ones. A detection takes a while; its result takes effect when it ends.
    pub(super) fn ip6_follows(&mut self, index: u32) {
        let usable = self.near.usable(index);
        let Some(info) = self.near.interfaces.get_mut(index) else { return };
        if !info.kind.has_neighbors() {
            self.ip6.own_changed = true;
            return;
        }
        let was_up = !info.standing.is_empty();
        let wanted: BTreeSet<Ipv6Addr> = match usable {
            true => info.all_ip6().iter().map(|a| a.address).collect(),
            false => BTreeSet::new(),
        };
        let gone: Vec<Ipv6Addr> = info.standing.keys().copied().filter(|a| !wanted.contains(a)).collect();
        let new: Vec<Ipv6Addr> = wanted.iter().copied().filter(|a| !info.standing.contains_key(a)).collect();
        info.standing.retain(|a, _| wanted.contains(a));
        info.standing.extend(new.iter().map(|a| (*a, Standing::Tentative)));
        self.ip6.own_changed |= !(gone.is_empty() && new.is_empty());
        if wanted.is_empty() && !was_up {
            return;
        }
        let (now, mut actions) = (self.now, Vec::new());
        for address in gone {
            self.nd.dad.handle(now, dad::Event::Stop((index, address)), &mut actions);
            if let Some(watched) = &mut self.nd.watched {
                watched.sent.remove(&(index, address));
            }
        }
        if wanted.is_empty() {
            self.nd.listener.handle(now, listener::Event::Down(index), &mut Vec::new());
            return;
        }
        self.join_groups(index);
        for address in new {
            // Many nodes may come up with the link, but few get an address at the same moment (RFC 4862 section 5.4.2).
            self.nd.begins((index, address));
            let event = dad::Event::Start { key: (index, address), delay: !was_up };
            self.nd.dad.handle(now, event, &mut actions);
        }
        self.act_on_addresses(actions);
    }

    /// Stops all IPv6 protocols of an interface that is about to be removed.
    pub(super) fn ip6_gone(&mut self, index: u32) {
        self.nd.dad.handle(self.now, dad::Event::Down(index), &mut Vec::new());
        if let Some(watched) = &mut self.nd.watched {
            watched.sent.retain(|(interface, _), _| *interface != index);
        }
        self.nd.listener.handle(self.now, listener::Event::Down(index), &mut Vec::new());
    }

    /// Handles a message in which another station uses or probes a tentative address of this router.
    pub(super) fn claimed(&mut self, event: dad::Event) {
        let mut actions = Vec::new();
        self.nd.dad.handle(self.now, event, &mut actions);
        self.act_on_addresses(actions);
    }

    /// Handles a multicast listener query. Returns true if the router will report at least one group.
    pub(super) fn listener_queried(&mut self, interface: u32, query: mld::Query) -> bool {
        self.nd.listener.handle(self.now, listener::Event::Query(interface, query), &mut Vec::new());
        self.nd.listener.groups(interface).any(|g| query.group.is_none_or(|asked| asked == g))
    }

    fn act_on_addresses(&mut self, actions: Vec<dad::Action>) {
        let (mut known, mut unique) = (BTreeSet::new(), Vec::new());
        for action in actions {
            self.nd.acts(action);
            match action {
                dad::Action::Probe(key) => self.nd.probes.push(key),
                dad::Action::Unique(key) => {
                    known.extend(self.stands(key, Standing::Unique));
                    unique.push(key);
                }
                dad::Action::Duplicate(key) => {
                    let name = self.near.interfaces.get(key.0).map_or("?", |i| &i.name);
                    tracing::warn!(
                        event = "neighbor",
                        "{name}: another station has the address {}: the router does not use this address; remove it or configure another \
                          address",
                        key.1
                    );
                    known.extend(self.stands(key, Standing::Duplicate));
                }
            }
        }
        for interface in known {
            self.join_groups(interface);
            let done = self.sync_connected(interface);
            self.neighbors_follow::<Ipv6Addr>(interface);
            let published = self.publish_sources(interface);
            let name = self.near.interfaces.get(interface).map_or("?", |i| &i.name);
            if let Err(e) = done {
                tracing::error!("{name}: connected routes could not be updated: {e}");
            }
            if let Err(e) = published {
                tracing::error!("{name}: the workers do not know all of its addresses yet: {e}");
            }
        }
        unique.into_iter().for_each(|(index, address)| self.notify_of(index, Change::Unique(address)));
    }

    /// Sends probes for tentative addresses. It is called once the workers know these addresses: from then on, they punt other stations'
    /// probes for the same addresses (RFC 4862 section 5.4.3).
    pub(super) fn send_probes(&mut self) {
        for (interface, target) in std::mem::take(&mut self.nd.probes) {
            let info = self.near.interfaces.get(interface);
            if info.and_then(|i| i.standing(target)) != Some(Standing::Tentative) {
                continue;
            }
            let group = ipv6::solicited_node(target.to_bits());
            let message = nd::build(
                Ipv6Addr::UNSPECIFIED,
                Ipv6Addr::from_bits(group),
                &Message::NeighborSolicitation { target },
                &[],
            );
            self.send_to_group(interface, group, &message);
        }
    }

    /// Stores the duplicate address detection state of an address. Returns the interface, so that the caller can update its routes;
    /// `None` if there is no such interface.
    fn stands(&mut self, (interface, address): Key<Ipv6Addr>, standing: Standing) -> Option<u32> {
        self.near.interfaces.get_mut(interface)?.standing.insert(address, standing);
        self.ip6.own_changed = true;
        Some(interface)
    }

    /// Joins the multicast groups that the interface's addresses need, and leaves groups that are no longer needed.
    fn join_groups(&mut self, interface: u32) {
        let Some(info) = self.near.interfaces.get(interface) else { return };
        let asked = info.standing.iter().filter(|(_, s)| **s != Standing::Duplicate);
        let nodes = asked.map(|(a, _)| ipv6::solicited_node(a.to_bits()));
        // The groups of anycast addresses are joined, too (RFC 4291 section 2.8).
        let anycast = info.own_ip6().filter_map(Address::anycast);
        let anycast = anycast.map(|a| ipv6::solicited_node(a.to_bits()));
        let groups = nodes.chain(anycast).chain([ipv6::ALL_ROUTERS]).map(Ipv6Addr::from_bits).collect();
        let mut reports = Vec::new();
        self.nd.listener.handle(self.now, listener::Event::Groups(interface, groups), &mut reports);
        self.report_groups(reports);
    }

    fn report_groups(&mut self, reports: Vec<Report>) {
        for Report(interface, records) in reports {
            // RFC 3810 section 5.2.13: the source is unspecified until a link-local address is usable.
            let from = self.near.interfaces.get(interface).and_then(|i| i.usable_link_local());
            for packet in mld::reports(from.unwrap_or(Ipv6Addr::UNSPECIFIED), &records) {
                self.send_to_group(interface, ipv6::ALL_MLDV2_ROUTERS, &packet);
            }
        }
    }

    /// Sends a packet to a multicast group on an interface.
    fn send_to_group(&mut self, interface: u32, group: u128, packet: &[u8]) {
        let Some(info) = self.near.interfaces.get(interface) else { return };
        let frame = info.frame_to_group(group, packet);
        self.send_frame(interface, &frame);
    }
}

impl InterfaceInfo {
    /// Returns the frame with an IPv6 packet to a multicast group.
    pub fn frame_to_group(&self, group: u128, packet: &[u8]) -> Vec<u8> {
        let mut frame = ethernet(ipv6::multicast_mac(group), self.mac, self.tags, ethertype::IPV6);
        frame.extend_from_slice(packet);
        frame
    }
}
