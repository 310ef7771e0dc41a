//! Neighbor Discovery messages that the main thread handles and sends (RFC 4861).

use std::net::Ipv6Addr;

use buf::Packet;
use wire::nd::{self, Message, NdOption};
use wire::{EthernetHeader, Ipv6Header, Mac, ethertype, ipv6, mld};

use super::Router;
use super::events::Heard;
use crate::Unused;
use crate::adjacency::ethernet;
use crate::nd::{Standing, dad};
use crate::neighbor::{Action, Event, Key};

impl Router {
    /// Handles a Neighbor Discovery message that a worker punted.
    ///
    /// # Errors
    /// If the message is not used. The error is the reason.
    pub(crate) fn punted_nd(&mut self, now: u64, _worker: usize, p: &mut Packet<'_>) -> Result<(), Unused> {
        let (interface, l4) = (p.rx_if(), usize::from(p.l4_offset()));
        let l3 = p.bytes().to_vec();
        p.rewind_to_l2();
        let from = p.head::<EthernetHeader>().ok_or(Unused::Malformed)?.src();
        let (ip, _) = Ipv6Header::split(&l3).ok_or(Unused::Malformed)?;
        self.near.linked(interface).ok_or(Unused::Gone)?;
        let message = l3.get(l4..).and_then(|icmp| nd::parse(ip, icmp).ok());
        let (message, options) = message.ok_or(Unused::Malformed)?;
        // Two interfaces of this router on one link hear each other. There is nothing to learn from that.
        if self.near.interfaces.values().any(|i| i.mac == from) {
            return Err(Unused::OwnStation);
        }
        let heard = Heard { interface, src: ip.src(), from, message, options: &options };
        let used = self.discovered(&heard);
        match self.nd_message(now, &heard) {
            Err(_) if used => Ok(()),
            done => done,
        }
    }

    /// Passes a message to duplicate address detection if it concerns a tentative address, otherwise to the neighbor table.
    fn nd_message(&mut self, now: u64, heard: &Heard<'_>) -> Result<(), Unused> {
        let Heard { interface, src, from, message, options } = *heard;
        let info = self.near.linked(interface).ok_or(Unused::Gone)?;
        let has = |ip: Ipv6Addr| info.standing(ip) == Some(Standing::Unique);
        let target = match message {
            Message::NeighborSolicitation { target } | Message::NeighborAdvertisement { target, .. } => {
                Some(target)
            }
            _ => None,
        };
        if let Some(target) = target.filter(|t| info.standing(*t) == Some(Standing::Tentative)) {
            match message {
                // RFC 4862 section 5.4.3: another station probes the same address. A solicitation with a source address
                // is only a query.
                Message::NeighborSolicitation { .. } if src.is_unspecified() => {
                    self.claimed(dad::Event::Solicited((interface, target)));
                }
                Message::NeighborAdvertisement { .. } => {
                    self.claimed(dad::Event::Advertised((interface, target)));
                }
                _ => return Err(Unused::Tentative),
            }
            return Ok(());
        }
        let event = match message {
            Message::NeighborSolicitation { .. } if has(src) => Event::Conflict((interface, src), from),
            Message::NeighborSolicitation { target } => Event::Solicitation {
                interface,
                sender: (from, src),
                source_mac: options.source_mac(),
                target,
                for_us: self.answers_for(interface, target) && target != src,
                anycast: self.near.is_anycast(info, target),
                on_link: info.on_link(src),
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
            Message::RouterSolicitation | Message::RouterAdvertisement(_) => {
                let asks_for_routers = message == Message::RouterSolicitation;
                let learned = match options.source_mac() {
                    Some(mac) if info.on_link(src) => {
                        let router = !asks_for_routers;
                        self.neighbor_heard(now, Event::Mentioned { key: (interface, src), mac, router })
                    }
                    Some(_) => Err(Unused::OffLink),
                    None => Err(Unused::NoLinkAddress),
                };
                return match learned {
                    Err(_) if asks_for_routers => Err(Unused::NotAdvertising),
                    learned => learned,
                };
            }
            // A router ignores redirects (section 8.2), and workers punt none.
            Message::Redirect { .. } => return Err(Unused::Unexpected),
        };
        self.neighbor_heard(now, event)
    }

    /// Handles a Multicast Listener Discovery query that a worker punted.
    ///
    /// # Errors
    /// If the query is not used. The error is the reason.
    pub(crate) fn punted_mld(&mut self, _: u64, _: usize, p: &mut Packet<'_>) -> Result<(), Unused> {
        let query = mld::parse_query(p.bytes()).map_err(|_| Unused::Malformed)?;
        if self.listener_queried(p.rx_if(), query) { Ok(()) } else { Err(Unused::NoGroup) }
    }

    /// Sends the Neighbor Discovery message for an action of the neighbor table, if the action requires one.
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

    /// Sends a neighbor advertisement for an address that this router answers for. `mac` and `to` are the advertisement's destination.
    fn advertise_address(&mut self, (interface, own): Key<Ipv6Addr>, mac: Mac, to: Ipv6Addr) {
        let solicited = !to.is_multicast();
        // Set the override flag only for an own unicast address. A proxy leaves the flag to the owner of the address (RFC 4389 section
        // 4.1.3.3), and an anycast address never overrides (RFC 4861 section 7.2.7).
        let info = self.near.interfaces.get(interface);
        let overrides = info.is_some_and(|i| i.standing(own) == Some(Standing::Unique));
        let message = Message::NeighborAdvertisement { target: own, router: true, solicited, overrides };
        // Many routers share an anycast address, so none sends from it.
        let anycast = info.is_some_and(|i| self.near.is_anycast(i, own));
        let from = if anycast { self.near.source_for(interface, to) } else { Some(own) };
        if let Some(from) = from {
            self.send_nd(interface, mac, (from, to), &message);
        }
    }

    /// Sends a Neighbor Discovery message on an interface, with the interface's Ethernet address.
    fn send_nd(&mut self, interface: u32, to: Mac, (src, dst): (Ipv6Addr, Ipv6Addr), message: &Message) {
        let Some(info) = self.near.interfaces.get(interface) else { return };
        let header = ethernet(to, info.mac, info.tags, ethertype::IPV6);
        let option = match message {
            Message::NeighborAdvertisement { .. } => NdOption::TargetMac(info.mac),
            _ => NdOption::SourceMac(info.mac),
        };
        let bytes = [header, nd::build(src, dst, message, &[option])].concat();
        self.send_frame(interface, &bytes);
    }
}
