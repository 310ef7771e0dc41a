//! The rules for sent packets.

use net::ethernet::Tags;
use net::router::InterfaceInfo;
use wire::nd::{self, Message};
use wire::{ArpPacket, EthernetHeader, IcmpHeader, Ipv4Header, Ipv6Header, VlanTag, ethertype, protocol};

use crate::link::Sent;
use crate::question::{ANSWERING, Asked, Question};
use crate::world::{CAPS, World, device_name};

/// Hop limits of packets that the router itself sends. A forwarded packet may also have a router's address as its source, if it is in a VRF
/// that does not use that address. Such a packet arrives with one of these hop limits, and leaves with one less.
const OWN_HOPS: [u8; 2] = [64, 255];
impl World {
    /// Checks that a sent packet is well-formed, and allowed on its interface.
    pub fn check_sent(&mut self, link: usize, sent: &Sent) {
        let Sent { bytes, gso, csum } = sent;
        let caps = CAPS[link];
        assert!(!gso || caps.gso, "link {link} has no segmentation, but got a packet to segment");
        assert!(!csum || caps.csum, "link {link} has no checksums, but got a partial checksum");
        // A switched frame has any header that a station sends.
        if self.router.interfaces().any(|i| i.mode.is_some()) {
            return;
        }
        let (ethernet, mut rest) =
            EthernetHeader::split(bytes).expect("a packet begins with an Ethernet header");
        let (mut kind, mut tags) = (ethernet.ethertype(), Vec::new());
        while ethertype::is_vlan(kind) {
            let (tag, behind) = VlanTag::split(rest).expect("a VLAN tag is whole");
            tags.push((kind, tag.vid()));
            (kind, rest) = (tag.ethertype(), behind);
        }
        if kind == ethertype::ARP {
            let (arp, _) = ArpPacket::split(rest).expect("an ARP packet is whole");
            let tags = bytes[12..bytes.len() - rest.len() - 2].to_vec();
            let question = Question::Arp(*arp);
            return self.ask(Asked { link, tags, question });
        }
        assert!(matches!(kind, ethertype::IPV4 | ethertype::IPV6), "nothing else is sent");
        if kind == ethertype::IPV6 && is_of_main_thread(rest) {
            // As for ARP: the packet's interface may have changed since the main thread sent the packet.
            check_ip6(rest, true);
            let (ip, icmp) = Ipv6Header::split(rest).expect("an IPv6 header is whole");
            if let Ok((Message::NeighborSolicitation { target }, options)) = nd::parse(ip, icmp)
                && let Some(station) = options.source_mac()
            {
                let tags = bytes[12..bytes.len() - rest.len() - 2].to_vec();
                let question = Question::Nd { station, from: ip.src(), target };
                self.ask(Asked { link, tags, question });
            }
            return;
        }
        let tags = match tags[..] {
            [] => None,
            [(tpid, outer)] => Some(Tags { outer_service: tpid == ethertype::QINQ, outer, inner: None }),
            [(tpid, outer), (ethertype::VLAN, inner)] => {
                Some(Tags { outer_service: tpid == ethertype::QINQ, outer, inner: Some(inner) })
            }
            _ => panic!("the router has no interface with the tags {tags:?}"),
        };
        let device =
            self.router.interface_named(&device_name(link)).expect("a sending link has an interface").index;
        // Without a tag, the device's interface and its sub-interface for untagged frames both send.
        let can_send = |i: &&InterfaceInfo| i.parent == device && i.tags == tags && i.sends();
        let mut by: Vec<&InterfaceInfo> = self.router.interfaces().filter(can_send).collect();
        assert!(!by.is_empty(), "link {link} has no interface with the tags {tags:?}");
        by.retain(|i| self.router.usable(i.index));
        assert!(!by.is_empty(), "sent by an interface that is down");
        by.retain(|i| ethernet.src() == i.mac);
        let by = by.iter().max_by_key(|i| i.mtu).expect("sent from the interface's own address");

        if kind == ethertype::IPV6 {
            self.reached6 += u64::from(ethernet.dst() == ANSWERING);
            let fits = rest.len() <= usize::from(by.mtu);
            assert!(*gso || self.lied || fits, "larger than the MTU {}", by.mtu);
            let ours = OWN_HOPS.contains(&rest[7])
                && self.router.interfaces().any(|i| i.own_ip6().any(|a| rest[8..24] == a.address.octets()));
            return check_ip6(rest, ours && !csum && !self.lied);
        }
        let (ip, _) = Ipv4Header::split(rest).expect("an IPv4 header is whole");
        let header = ip.header_len();
        assert!(rest[0] >> 4 == 4 && header >= 20 && header <= rest.len(), "a good IPv4 header");
        assert_eq!(plain_checksum(&rest[..header]), 0, "the IPv4 checksum is right");
        assert_eq!(usize::from(ip.total_len()), rest.len(), "as long as the header says");
        assert!(ip.ttl() > 0, "a packet without time to live");
        assert!(*gso || self.lied || rest.len() <= usize::from(by.mtu), "larger than the MTU {}", by.mtu);
        let ours = OWN_HOPS.contains(&ip.ttl())
            && self.router.interfaces().any(|i| i.addresses.iter().any(|a| a.address == ip.src()));
        if ours && ip.protocol() == protocol::ICMP && !ip.is_fragment() && !csum && !self.lied {
            assert!(rest.len() >= header + IcmpHeader::LEN, "an ICMP message is whole");
            assert_eq!(plain_checksum(&rest[header..]), 0, "the ICMP checksum is right");
        }
    }
}

/// True if the main thread sent the packet to a station or a group on the link. Forwarded packets have a lower hop limit, and no multicast
/// destination.
fn is_of_main_thread(packet: &[u8]) -> bool {
    let (ip, _) = Ipv6Header::split(packet).expect("an IPv6 header is whole");
    ip.dst().is_multicast() || ip.hop_limit() == wire::nd::HOP_LIMIT
}

/// Checks that a packet on the wire is well-formed. If it is the router's `own`, checks its ICMPv6 message, too.
fn check_ip6(packet: &[u8], own: bool) {
    let (ip, rest) = Ipv6Header::split(packet).expect("an IPv6 header is whole");
    assert_eq!((ip.version(), ip.total_len()), (6, packet.len()), "as long as the header says");
    assert!(ip.hop_limit() > 0, "a packet without hops left");
    assert!(!wire::ipv6::is_martian_destination(ip.dst_u128()), "to {}", ip.dst());
    if own && ip.next_header() == protocol::ICMPV6 {
        assert!(rest.len() >= 8, "an ICMPv6 message is whole");
        let pseudo = [&packet[8..40], &(rest.len() as u32).to_be_bytes(), &[0, 0, 0, protocol::ICMPV6]];
        assert_eq!(plain_checksum(&[&pseudo.concat(), rest].concat()), 0, "the ICMPv6 checksum is right");
    }
}

/// Returns the internet checksum in its plain form: 0 for data that includes its checksum.
fn plain_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
