//! IPv6 on an interface, except neighbor resolution: duplicate address detection, multicast listening and router advertisements. Executes
//! the actions of the protocols in [`crate::nd`].

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use buf::Frame;
use wire::nd::Message;
use wire::{ethertype, ipv6, mld, nd};

use super::{InterfaceInfo, Router, RouterError};
use crate::adjacency::ethernet;
use crate::ip::{Address, Prefix6};
use crate::nd::advertiser::{self, Advertiser};
use crate::nd::dad::{self, Dad};
use crate::nd::listener::{self, Listener, Report};
use crate::nd::{Advertisement, PrefixInformation, Standing};
use crate::neighbor::Key;

/// The state of the IPv6 protocols on all interfaces.
#[derive(Default)]
pub(super) struct Ip6 {
    dad: Dad,
    advertiser: Advertiser,
    listener: Listener,
    /// Tentative addresses to probe once workers have been told that they are tentative.
    probes: Vec<Key<Ipv6Addr>>,
}

impl Ip6 {
    fn next_timeout(&self) -> Option<u64> {
        let all = [self.dad.poll_timeout(), self.advertiser.poll_timeout(), self.listener.poll_timeout()];
        all.into_iter().flatten().min()
    }
}

impl Router {
    /// Returns the time of the next IPv6 timer, in nanoseconds of the monotonic clock.
    pub(super) fn ip6_timeout(&self) -> Option<u64> {
        self.nd.next_timeout()
    }

    /// Handles timers that have expired by `now`.
    pub(super) fn handle_ip6_timeouts(&mut self, now: u64) {
        let (mut addresses, mut routers, mut reports) = (Vec::new(), Vec::new(), Vec::new());
        self.nd.dad.timeout(now, &mut addresses);
        self.nd.advertiser.timeout(now, &mut routers);
        self.nd.listener.timeout(now, &mut reports);
        self.act_on_addresses(addresses);
        routers.into_iter().for_each(|action| self.advertise(action));
        self.report_groups(reports);
    }

    /// Sets the number of probes before an IPv6 address is used (DupAddrDetectTransmits, RFC 4862 section 5.1). With 0,
    /// addresses are used at once.
    pub fn set_dad_transmits(&mut self, transmits: u8) {
        self.nd.dad.transmits = transmits;
    }

    /// Sets the router advertisement of an interface. `None` stops advertising.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn set_advertisement(
        &mut self,
        index: u32,
        wanted: Option<Advertisement>,
    ) -> Result<(), RouterError> {
        let before = std::mem::replace(&mut self.info_mut(index)?.advertisement, wanted);
        let info = self.interface(index)?;
        if before != info.advertisement && self.near.usable(index) {
            let event = match &info.advertisement {
                Some(wanted) => advertiser::Event::Start(index, wanted.interval),
                None => advertiser::Event::Stop(index),
            };
            // The final advertisements repeat the previous content.
            if info.advertisement.is_none() {
                self.info_mut(index)?.last_advertisement = before;
            }
            self.nd.advertiser.handle(self.now, event);
        }
        Ok(())
    }

    /// Announces on these interfaces that the router is no longer a default router (RFC 4861 section 6.2.5), because they are about to go
    /// down. It does so only on interfaces on which the router advertises itself, and only once: hosts that miss the announcement find out
    /// by themselves. The main thread gives the packets to the devices directly, because workers may be busy and the interfaces go down at
    /// once.
    pub fn cease_advertising(&mut self, interfaces: &[u32]) {
        let (mut frame, mut device, mut all_sent) = (Frame::new(), None, true);
        for &index in interfaces {
            if !self.nd.advertiser.has_more_to_say(index) {
                continue;
            }
            for bytes in self.advertisements(index, true) {
                let by = self.near.interfaces.get(index).map(|i| i.parent);
                if by != device || frame.room() == 0 {
                    all_sent &= self.hand_over(device, &mut frame);
                    device = by;
                }
                let packet = self.packet(&bytes);
                all_sent &= packet.is_some_and(|packet| match frame.push(packet) {
                    Ok(()) => true,
                    Err(packet) => {
                        packet.free(&mut self.bufs);
                        false
                    }
                });
            }
            self.nd.advertiser.handle(self.now, advertiser::Event::Down(index));
        }
        all_sent &= self.hand_over(device, &mut frame);
        if !all_sent {
            tracing::warn!("a device is busy: hosts may have missed the final router advertisement");
        }
    }

    /// Gives packets to a device directly, outside the graph. Returns true if the device accepted all of them. Frees the others.
    fn hand_over(&mut self, device: Option<u32>, frame: &mut Frame) -> bool {
        if frame.is_empty() {
            return true;
        }
        let port = device.and_then(|device| self.tx_ports.get(device));
        let taken = port.is_some_and(|port| port.queue(0).send(frame, &mut self.bufs).is_ok());
        let all = taken && frame.is_empty();
        frame.free(&mut self.bufs);
        all
    }

    /// Starts to advertise again on interfaces that did not go down because the change failed.
    pub(super) fn resume_advertising(&mut self, interfaces: &[u32]) {
        for &index in interfaces {
            let info = self.near.interfaces.get(index).filter(|i| !i.standing.is_empty());
            if let Some(wanted) = info.and_then(|i| i.advertisement.as_ref()) {
                self.nd.advertiser.handle(self.now, advertiser::Event::Start(index, wanted.interval));
            }
        }
    }

    /// Returns the prefixes advertised on an interface; empty if the router does not advertise itself there.
    pub fn advertised_prefixes(&self, index: u32) -> Vec<PrefixInformation> {
        let info = self.near.interfaces.get(index);
        let says = info.and_then(|i| Some((i, i.advertisement.as_ref()?)));
        says.map_or_else(Vec::new, |(info, says)| says.prefixes(networks(info)))
    }

    /// Returns the multicast groups that an interface has joined.
    pub fn groups(&self, index: u32) -> impl Iterator<Item = Ipv6Addr> {
        self.nd.listener.groups(index)
    }

    /// Updates the IPv6 protocols after a change of an interface: for example, starts duplicate address detection for new addresses and
    /// stops it for removed ones. Detection takes effect later, when it has ended.
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
        let advertises = info.advertisement.as_ref().map(|a| a.interval).filter(|_| !wanted.is_empty());
        self.ip6.own_changed |= !(gone.is_empty() && new.is_empty());
        if wanted.is_empty() && !was_up {
            return;
        }
        let (now, mut actions) = (self.now, Vec::new());
        for address in gone {
            self.nd.dad.handle(now, dad::Event::Stop((index, address)), &mut actions);
        }
        if wanted.is_empty() {
            self.nd.advertiser.handle(now, advertiser::Event::Down(index));
            self.nd.listener.handle(now, listener::Event::Down(index), &mut Vec::new());
            return;
        }
        self.join_groups(index);
        for address in new {
            // Many nodes may come up with the link, but few get an address at the same moment (RFC 4862 section 5.4.2).
            let event = dad::Event::Start { key: (index, address), delay: !was_up };
            self.nd.dad.handle(now, event, &mut actions);
        }
        match advertises {
            Some(interval) if !was_up => {
                self.nd.advertiser.handle(now, advertiser::Event::Start(index, interval));
            }
            _ => self.nd.advertiser.handle(now, advertiser::Event::Changed(index)),
        }
        self.act_on_addresses(actions);
    }

    /// Stops all IPv6 protocols of an interface that is about to be removed.
    pub(super) fn ip6_gone(&mut self, index: u32) {
        self.nd.dad.handle(self.now, dad::Event::Down(index), &mut Vec::new());
        self.nd.advertiser.handle(self.now, advertiser::Event::Down(index));
        self.nd.listener.handle(self.now, listener::Event::Down(index), &mut Vec::new());
    }

    /// Handles a message by which another station uses or probes a tentative address.
    pub(super) fn claimed(&mut self, event: dad::Event) {
        let mut actions = Vec::new();
        self.nd.dad.handle(self.now, event, &mut actions);
        self.act_on_addresses(actions);
    }

    /// Handles a router solicitation. Returns true if the router will answer it.
    pub(super) fn router_solicited(&mut self, interface: u32) -> bool {
        self.nd.advertiser.handle(self.now, advertiser::Event::Solicited(interface));
        self.nd.advertiser.serves(interface)
    }

    /// Handles a multicast listener query. Returns true if the router will report at least one group.
    pub(super) fn listener_queried(&mut self, interface: u32, query: mld::Query) -> bool {
        self.nd.listener.handle(self.now, listener::Event::Query(interface, query), &mut Vec::new());
        self.nd.listener.groups(interface).any(|g| query.group.is_none_or(|asked| asked == g))
    }

    fn act_on_addresses(&mut self, actions: Vec<dad::Action>) {
        let mut known = BTreeSet::new();
        for action in actions {
            match action {
                dad::Action::Probe(key) => self.nd.probes.push(key),
                dad::Action::Unique(key) => {
                    known.extend(self.stands(key, Standing::Unique));
                    if ipv6::is_link_local(key.1.to_bits()) {
                        // Advertisements due before had no source address.
                        self.nd.advertiser.handle(self.now, advertiser::Event::Changed(key.0));
                    }
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
            if let Err(e) = done {
                let name = self.near.interfaces.get(interface).map_or("?", |i| &i.name);
                tracing::error!("{name}: connected routes could not be updated: {e}");
            }
        }
    }

    /// Sends probes for tentative addresses. It is called once workers know these addresses, so that they punt other stations' probes for
    /// them (RFC 4862 section 5.4.3).
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

    /// Stores the duplicate address detection state of an address. Returns the interface, whose routes must then be updated.
    fn stands(&mut self, (interface, address): Key<Ipv6Addr>, standing: Standing) -> Option<u32> {
        self.near.interfaces.get_mut(interface)?.standing.insert(address, standing);
        self.ip6.own_changed = true;
        Some(interface)
    }

    /// Sets the multicast groups of an interface to those that its addresses need: joins new groups, and leaves others.
    fn join_groups(&mut self, interface: u32) {
        let Some(info) = self.near.interfaces.get(interface) else { return };
        let asked = info.standing.iter().filter(|(_, s)| **s != Standing::Duplicate);
        let nodes = asked.map(|(a, _)| ipv6::solicited_node(a.to_bits()));
        // Also the groups of anycast addresses (RFC 4291 section 2.8).
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

    fn advertise(&mut self, action: advertiser::Action) {
        let (index, last) = match action {
            advertiser::Action::Advertise(index) => (index, false),
            advertiser::Action::Withdraw(index) => (index, true),
        };
        for bytes in self.advertisements(index, last) {
            self.send_to(0, index, "interface-output", &bytes);
        }
    }

    /// Returns the frames of a router advertisement; if `last`, of a final one. There are none if the interface has no usable link-local
    /// address.
    fn advertisements(&self, index: u32, last: bool) -> Vec<Vec<u8>> {
        let Some(info) = self.near.interfaces.get(index) else { return Vec::new() };
        let says = info.advertisement.as_ref().or(info.last_advertisement.as_ref());
        // Routers are known by their link-local addresses (RFC 4861 section 6.1.2).
        let (Some(says), Some(from)) = (says, info.usable_link_local()) else { return Vec::new() };
        let all = Ipv6Addr::from_bits(ipv6::ALL_NODES);
        let header = ethernet(ipv6::multicast_mac(ipv6::ALL_NODES), info.mac, info.tags, ethertype::IPV6);
        let packets = says.packets((from, all), info.mac, info.mtu, networks(info), last);
        packets.iter().map(|packet| [&header[..], packet].concat()).collect()
    }

    /// Sends a packet to a multicast group on an interface.
    fn send_to_group(&mut self, interface: u32, group: u128, packet: &[u8]) {
        let Some(info) = self.near.interfaces.get(interface) else { return };
        let header = ethernet(ipv6::multicast_mac(group), info.mac, info.tags, ethertype::IPV6);
        self.send_to(0, interface, "interface-output", &[&header, packet].concat());
    }
}

/// Returns the networks of an interface that can be advertised to hosts.
fn networks(info: &InterfaceInfo) -> impl Iterator<Item = Prefix6> {
    let given = info.addresses_of::<Ipv6Addr>().filter(|a| !Address::from(*a).is_link_local());
    given.map(|a| a.prefix())
}
