//! ARP packets that the main thread handles and sends (RFC 826, RFC 5227).

use std::net::Ipv4Addr;

use buf::Packet;
use wire::Mac;
use wire::arp::{ArpPacket, Operation};
use wire::ethernet::ethertype;

use super::Router;
use crate::Unused;
use crate::adjacency::ethernet;
use crate::neighbor::{Action, Event};

impl Router {
    /// Handles an ARP packet that a worker punted.
    ///
    /// # Errors
    /// If the packet is not used. The error is the reason.
    pub(crate) fn punted_arp(&mut self, now: u64, _worker: usize, p: &mut Packet<'_>) -> Result<(), Unused> {
        let interface = p.rx_if();
        let arp = *p.head::<ArpPacket>().ok_or(Unused::Malformed)?;
        let info = self.near.linked(interface).ok_or(Unused::Gone)?;
        let op = arp.check().map_err(|_| Unused::Malformed)?;
        let sender = (arp.sender_mac(), arp.sender_ip());
        // Two interfaces of this router on one link hear each other. There is nothing to learn from that.
        if self.near.interfaces.values().any(|i| i.mac == sender.0) {
            return Err(Unused::OwnStation);
        }
        let is_own = |ip: Ipv4Addr| self.near.speaks_from::<Ipv4Addr>(info).iter().any(|a| a.address == ip);
        let event = if is_own(sender.1) {
            Event::Conflict((interface, sender.1), sender.0)
        } else {
            let target = arp.target_ip();
            let for_us = self.answers_for(interface, target) && target != sender.1;
            Event::Arp { interface, op, sender, target, for_us, on_link: info.on_link(sender.1) }
        };
        self.neighbor_heard(now, event)
    }

    /// Sends the ARP packet for an action of the neighbor table, if the action requires one.
    pub(super) fn send_arp_for(&mut self, action: &Action<Ipv4Addr>) {
        match *action {
            Action::Request((interface, target), to) => {
                let Some(source) = self.near.source_for(interface, target) else { return };
                self.send_arp(interface, to, |mac| ArpPacket::request(mac, source, target));
            }
            Action::Reply((interface, own), asker) => self.send_arp(interface, Some(asker.0), |mac| {
                ArpPacket::new(Operation::Reply, (mac, own), asker)
            }),
            Action::Announce((interface, own)) | Action::Defend((interface, own), _) => {
                self.send_arp(interface, None, |mac| ArpPacket::gratuitous(mac, own));
            }
            _ => {}
        }
    }

    /// Sends an ARP packet on an interface: to one station, or by broadcast if `to` is `None`.
    fn send_arp(&mut self, interface: u32, to: Option<Mac>, packet: impl FnOnce(Mac) -> ArpPacket) {
        let Some(info) = self.near.interfaces.get(interface) else { return };
        let header = ethernet(to.unwrap_or(Mac::BROADCAST), info.mac, info.tags, ethertype::ARP);
        let bytes = [&header, packet(info.mac).as_bytes().as_slice()].concat();
        self.send_frame(interface, &bytes);
    }
}
