//! The router's questions (ARP requests and neighbor solicitations) to the hosts on its links, and the hosts' answers.

use std::net::Ipv6Addr;

use wire::builder::arp_frame;
use wire::nd::{self, Message, NdOption};
use wire::{ArpPacket, Mac, ethertype};

/// The Ethernet address of all hosts that answer without a step of the script.
pub const ANSWERING: Mac = Mac([2, 0, 0, 0, 2, 3]);

/// An ARP or Neighbor Discovery request of the router: which station has an address?
pub enum Question {
    Arp(ArpPacket),
    /// A neighbor solicitation for `target`. The router sent it from the Ethernet address `station` and the IPv6 address `from`.
    Nd {
        station: Mac,
        from: Ipv6Addr,
        target: Ipv6Addr,
    },
}

/// A question that the router sent, with its link and tags.
pub struct Asked {
    pub link: usize,
    pub tags: Vec<u8>,
    pub question: Question,
}

impl Asked {
    /// Returns the frame in which the station `mac` answers that it has the requested address.
    pub fn answer(&self, mac: Mac) -> Vec<u8> {
        let mut frame = match &self.question {
            Question::Arp(arp) => arp_frame(mac, arp.sender_mac(), &arp.reply(mac)),
            &Question::Nd { station, from, target } => {
                let flags = Message::NeighborAdvertisement {
                    target,
                    router: false,
                    solicited: true,
                    overrides: true,
                };
                let packet = nd::build(target, from, &flags, &[NdOption::TargetMac(mac)]);
                let header = [&station.0[..], &mac.0, &ethertype::IPV6.to_be_bytes()].concat();
                [header, packet].concat()
            }
        };
        frame.splice(12..12, self.tags.iter().copied());
        frame
    }

    /// True if the host answers at once, without a step of the script. These are the hosts whose address ends in 3. Other hosts answer in a
    /// step of the script.
    pub fn is_answered_at_once(&self) -> bool {
        match &self.question {
            Question::Arp(arp) => arp.target_ip().octets()[3] == 3,
            Question::Nd { target, .. } => target.octets()[15] == 3,
        }
    }
}
