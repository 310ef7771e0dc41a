//! Simulated hosts behind a port. They answer ARP (RFC 826) and Neighbor Discovery (RFC 4861 section 7.2.4), so that a router under test
//! resolves them like real hosts.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use wire::arp::{ArpPacket, Operation};
use wire::ethernet::ethertype;
use wire::ipv4::protocol;
use wire::nd::{self, Message, NdOption};
use wire::{Ipv6Header, Mac};

/// All hosts of some networks, behind one Ethernet address.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// Ethernet address of all these hosts.
    pub mac: Mac,
    /// The networks on the port's link.
    pub networks: Vec<IpNet>,
    /// Addresses in these networks that belong to the router.
    pub except: Vec<IpAddr>,
}

impl Hosts {
    /// Returns the reply to a frame that asks for one of the hosts; `None` for other frames.
    pub fn answer(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let word = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        let asker = Mac(*frame.get(6..)?.first_chunk()?);
        let (mut kind, mut at) = (word(12)?, 14);
        while ethertype::is_vlan(kind) {
            (kind, at) = (word(at + 2)?, at + 4);
        }
        let answer = match kind {
            ethertype::ARP => self.arp(frame.get(at..)?)?,
            ethertype::IPV6 => self.solicitation(frame.get(at..)?)?,
            _ => return None,
        };
        // The reply keeps the request's VLAN tags.
        Some([&asker.0[..], &self.mac.0, frame.get(12..at)?, &answer].concat())
    }

    fn has(&self, ip: IpAddr) -> bool {
        self.networks.iter().any(|n| n.contains(&ip)) && !self.except.contains(&ip)
    }

    fn arp(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let (arp, _) = ArpPacket::split(packet)?;
        let asks = arp.check() == Ok(Operation::Request) && self.has(arp.target_ip().into());
        asks.then(|| arp.reply(self.mac).as_bytes().to_vec())
    }

    fn solicitation(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let (ip, rest) = Ipv6Header::split(packet)?;
        if ip.next_header() != protocol::ICMPV6 {
            return None;
        }
        let message = rest.get(..usize::from(ip.payload_len()))?;
        let Ok((Message::NeighborSolicitation { target }, _)) = nd::parse(ip, message) else { return None };
        let asker = ip.src();
        // A sender without an address runs duplicate address detection: the address is taken if it belongs to one of these hosts.
        let to = if asker.is_unspecified() { Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1) } else { asker };
        let solicited = !asker.is_unspecified();
        let answer = Message::NeighborAdvertisement { target, router: false, solicited, overrides: true };
        self.has(target.into()).then(|| nd::build(target, to, &answer, &[NdOption::TargetMac(self.mac)]))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use wire::builder::arp_frame;

    use super::*;

    const ROUTER: Mac = Mac([2, 0, 0, 0, 0, 0x99]);

    fn hosts() -> Result<Hosts, ipnet::AddrParseError> {
        Ok(Hosts {
            mac: Mac([2, 0, 0, 0, 0, 1]),
            networks: vec!["198.18.0.0/16".parse()?, "2001:2::/64".parse()?],
            except: vec![
                Ipv4Addr::new(198, 18, 0, 1).into(),
                Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1).into(),
            ],
        })
    }

    #[test]
    fn arp_is_answered_only_for_own_hosts() -> Result<(), Box<dyn std::error::Error>> {
        let hosts = hosts()?;
        let ask = |ip: [u8; 4]| {
            let arp = ArpPacket::request(ROUTER, Ipv4Addr::new(198, 18, 0, 1), ip.into());
            arp_frame(ROUTER, Mac::BROADCAST, &arp)
        };
        let answer = hosts.answer(&ask([198, 18, 7, 9])).ok_or("no answer")?;
        assert_eq!((&answer[..6], &answer[6..12]), (&ROUTER.0[..], &hosts.mac.0[..]));
        let (arp, _) = ArpPacket::split(&answer[14..]).ok_or("short")?;
        assert_eq!(arp.check(), Ok(Operation::Reply));
        assert_eq!((arp.sender_mac(), arp.sender_ip()), (hosts.mac, Ipv4Addr::new(198, 18, 7, 9)));
        assert_eq!(hosts.answer(&ask([198, 18, 0, 1])), None);
        assert_eq!(hosts.answer(&ask([198, 19, 0, 2])), None);
        // A reply is not answered.
        assert_eq!(hosts.answer(&answer), None);
        // The reply to a tagged request is tagged, too.
        let mut tagged = ask([198, 18, 0, 2]);
        tagged.splice(12..12, [0x81, 0, 0, 100]);
        let answer = hosts.answer(&tagged).ok_or("no answer")?;
        assert_eq!(answer[12..18], [0x81, 0, 0, 100, 8, 6]);
        Ok(())
    }

    #[test]
    fn solicitations_are_answered_only_for_own_hosts() -> Result<(), Box<dyn std::error::Error>> {
        let hosts = hosts()?;
        let ask = |src: Ipv6Addr, target: Ipv6Addr| {
            let options = [NdOption::SourceMac(ROUTER)];
            let options = if src.is_unspecified() { &[][..] } else { &options[..] };
            let group = Ipv6Addr::from_bits(0xff02 << 112 | 0x1_ff00_0000 | target.to_bits() & 0xff_ffff);
            let packet = nd::build(src, group, &Message::NeighborSolicitation { target }, options);
            [&[0x33, 0x33, 0xff, 0, 0, 2][..], &ROUTER.0, &[0x86, 0xdd], &packet].concat()
        };
        let (router, host) = ("2001:2::1".parse()?, "2001:2::2".parse()?);
        let answer = hosts.answer(&ask(router, host)).ok_or("no answer")?;
        let (ip, icmp) = Ipv6Header::split(&answer[14..]).ok_or("short")?;
        let (message, options) = nd::parse(ip, icmp).map_err(|e| format!("{e:?}"))?;
        let expected =
            Message::NeighborAdvertisement { target: host, router: false, solicited: true, overrides: true };
        assert_eq!((message, options.target_mac(), ip.dst()), (expected, Some(hosts.mac), router));
        assert_eq!(hosts.answer(&ask(Ipv6Addr::UNSPECIFIED, router)), None);
        assert!(hosts.answer(&ask(Ipv6Addr::UNSPECIFIED, host)).is_some());
        assert_eq!(hosts.answer(&ask(router, "2001:2:1::2".parse()?)), None);
        Ok(())
    }
}
