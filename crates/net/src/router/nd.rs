//! Neighbor Discovery from and to the main thread (RFC 4861).

use std::net::Ipv6Addr;

use buf::Held;
use wire::nd::{self, Message, NdOption};
use wire::{EthernetHeader, Ipv6Header, Mac, ethertype, ipv6, mld};

use super::Router;
use crate::adjacency::ethernet;
use crate::nd::{Standing, dad};
use crate::neighbor::{Action, Event, Key};

impl Router {
    /// A message of Neighbor Discovery that came in by an interface.
    pub(crate) fn punted_nd(&mut self, now: u64, _worker: usize, mut packet: Held) {
        let mut p = packet.packet();
        let (interface, l4) = (p.rx_if(), usize::from(p.l4_offset()));
        let l3 = p.bytes().to_vec();
        p.rewind_to_l2();
        let from = p.head::<EthernetHeader>().map(|h| h.src());
        packet.free(&mut self.bufs);
        if let Some(from) = from {
            self.nd_message(now, interface, from, &l3, l4);
        }
    }

    /// The message at `l4` of the packet `l3`, from the station `from`.
    fn nd_message(&mut self, now: u64, interface: u32, from: Mac, l3: &[u8], l4: usize) -> Option<()> {
        let (ip, _) = Ipv6Header::split(l3)?;
        let (message, options) = nd::parse(ip, l3.get(l4..)?).ok()?;
        // Two interfaces of this router on one link hear each other: nothing to learn from that.
        if self.near.interfaces.values().any(|i| i.mac == from) {
            return None;
        }
        if message == Message::RouterSolicitation {
            self.router_solicited(interface);
        }
        let info = self.near.interfaces.get(interface)?;
        let has = |ip: Ipv6Addr| info.standing(ip) == Some(Standing::Unique);
        let target = match message {
            Message::NeighborSolicitation { target } | Message::NeighborAdvertisement { target, .. } => {
                Some(target)
            }
            _ => None,
        };
        if let Some(target) = target.filter(|t| info.standing(*t) == Some(Standing::Tentative)) {
            match message {
                // RFC 4862 section 5.4.3: another one is about to use it; who asks from an address only wants to know.
                Message::NeighborSolicitation { .. } if ip.src().is_unspecified() => {
                    self.claimed(dad::Event::Solicited((interface, target)));
                }
                Message::NeighborAdvertisement { .. } => {
                    self.claimed(dad::Event::Advertised((interface, target)));
                }
                _ => {}
            }
            return None;
        }
        let event = match message {
            Message::NeighborSolicitation { .. } if has(ip.src()) => {
                Event::Conflict((interface, ip.src()), from)
            }
            Message::NeighborSolicitation { target } => Event::Solicitation {
                interface,
                sender: (from, ip.src()),
                source_mac: options.source_mac(),
                target,
                for_us: self.answers_for(interface, target) && target != ip.src(),
                on_link: info.on_link(ip.src()),
            },
            Message::NeighborAdvertisement { target, .. } if has(target) => {
                Event::Conflict((interface, target), options.target_mac().unwrap_or(from))
            }
            Message::NeighborAdvertisement { target, router, solicited, overrides } => Event::Advertisement {
                key: (interface, target),
                mac: options.target_mac(),
                router,
                solicited,
                overrides,
            },
            Message::RouterSolicitation | Message::RouterAdvertisement(_) => Event::Mentioned {
                key: (interface, ip.src()),
                mac: options.source_mac().filter(|_| info.on_link(ip.src()))?,
                router: matches!(message, Message::RouterAdvertisement(_)),
            },
            // A router follows no redirects (section 8.2).
            Message::Redirect { .. } => return None,
        };
        self.neighbor_event(now, event);
        Some(())
    }

    /// A query of Multicast Listener Discovery that came in by an interface.
    pub(crate) fn punted_mld(&mut self, _now: u64, _worker: usize, mut packet: Held) {
        let p = packet.packet();
        let (interface, query) = (p.rx_if(), mld::parse_query(p.bytes()));
        packet.free(&mut self.bufs);
        if let Ok(query) = query {
            self.listener_queried(interface, query);
        }
    }

    /// Sends what the protocol asks for.
    pub(super) fn send_nd_for(&mut self, action: &Action<Ipv6Addr>) {
        match *action {
            Action::Request((interface, target), to) => {
                let Some(source) = self.near.source_for(interface, target) else { return };
                let group = ipv6::solicited_node(target.to_bits());
                let (mac, dst) = match to {
                    Some(mac) => (mac, target),
                    None => (ipv6::multicast_mac(group), Ipv6Addr::from_bits(group)),
                };
                self.send_nd(interface, mac, (source, dst), &Message::NeighborSolicitation { target });
            }
            Action::Reply(own, (mac, asker)) => self.advertise_address(own, mac, asker),
            Action::Announce(own) | Action::Defend(own, _) => {
                let all = ipv6::ALL_NODES;
                self.advertise_address(own, ipv6::multicast_mac(all), Ipv6Addr::from_bits(all));
            }
            _ => {}
        }
    }

    /// Says that an address is this router's.
    fn advertise_address(&mut self, (interface, own): Key<Ipv6Addr>, mac: Mac, to: Ipv6Addr) {
        let solicited = !to.is_multicast();
        // For another's address only as long as nobody else says that it is his (RFC 4389 section 4.1.3.3).
        let info = self.near.interfaces.get(interface);
        let overrides = info.is_some_and(|i| i.standing(own) == Some(Standing::Unique));
        let message = Message::NeighborAdvertisement { target: own, router: true, solicited, overrides };
        self.send_nd(interface, mac, (own, to), &message);
    }

    /// Sends a message out of an interface, with the router's Ethernet address.
    fn send_nd(&mut self, interface: u32, to: Mac, (src, dst): (Ipv6Addr, Ipv6Addr), message: &Message) {
        let Some(info) = self.near.interfaces.get(interface) else { return };
        let header = ethernet(to, info.mac, info.tags, ethertype::IPV6);
        let option = match message {
            Message::NeighborAdvertisement { .. } => NdOption::TargetMac(info.mac),
            _ => NdOption::SourceMac(info.mac),
        };
        let bytes = [header, nd::build(src, dst, message, &[option])].concat();
        self.send_to(0, interface, "interface-output", &bytes);
    }
}
