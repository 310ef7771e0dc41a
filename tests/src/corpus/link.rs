//! Frames and ARP.

use std::net::Ipv4Addr;

use wire::arp::{ArpPacket, Operation};
use wire::{EthernetHeader, Mac, ethertype};

use super::{Corpus, ETHERNET, ROUTER, ROUTER_BEHIND, SENDER, THERE, patch};

/// Broadcast, and multicast destinations of protocols whose frames no bridge forwards, with their names.
const GROUPS: [(Mac, &str); 3] = [
    (Mac([1, 0x80, 0xc2, 0, 0, 0]), "spanning tree's group"),
    (Mac([1, 0x80, 0xc2, 0, 0, 0xe]), "LLDP's group"),
    (Mac::BROADCAST, "all stations"),
];

pub(super) fn add(c: &mut Corpus) {
    frames(c);
    tags(c);
    arp(c);
}

fn frames(c: &mut Corpus) {
    for kind in
        [0, 4, 46, 0x5ff, 0x600, 0x0801, 0x22f3, 0x8847, 0x8863, 0x8864, 0x88cc, 0x88e5, 0x9000, 0xffff]
    {
        let frame = |to| [EthernetHeader::new(to, SENDER, kind).as_bytes(), &[0; 46][..]].concat();
        c.add("frame of an unknown Ethernet type to the router", frame(ROUTER.0));
        for (group, name) in GROUPS {
            c.add(format!("frame of an unknown Ethernet type to {name}"), frame(group));
        }
    }
    for len in 0..46 {
        let frame = c.ip4(THERE.0).udp(1, 2).build();
        c.add("IPv4 packet cut off", frame[..ETHERNET + len].to_vec());
        let frame = c.ip6(THERE.1).udp(1, 2).build();
        c.add("IPv6 packet cut off", frame[..ETHERNET + len].to_vec());
    }
    for (to, name) in [
        (Mac([2, 0, 0, 0, 0, 0x99]), "another station"),
        (Mac::BROADCAST, "all stations"),
        (Mac([1, 0, 0x5e, 0, 0, 1]), "a group of stations"),
        (Mac([0x33, 0x33, 0, 0, 0, 1]), "a group of stations"),
    ] {
        let frame = c.ip4(THERE.0).ethernet(SENDER, to).udp(1, 2).build();
        c.add(format!("IPv4 packet to a host in a frame to {name}"), frame);
        let frame = c.ip4(ROUTER.1).ethernet(SENDER, to).echo_request(1, 1).build();
        c.add(format!("IPv4 ping of the router in a frame to {name}"), frame);
        let frame = c.ip4(ROUTER.1).ethernet(SENDER, to).udp(1, 2).build();
        c.add(format!("UDP over IPv4 to a closed port of the router in a frame to {name}"), frame);
        let frame = c.ip6(THERE.1).ethernet(SENDER, to).udp(1, 2).build();
        c.add(format!("IPv6 packet to a host in a frame to {name}"), frame);
        let frame = c.ip6(ROUTER.2).ethernet(SENDER, to).echo_request(1, 1).build();
        c.add(format!("IPv6 ping of the router in a frame to {name}"), frame);
    }
    for (kind, name) in [(ethertype::IPV4, "IPv6 packet of IPv4's Ethernet type"), (ethertype::IPV6, "")] {
        let mut frame = match kind {
            ethertype::IPV4 => c.ip6(THERE.1).udp(1, 2).build(),
            _ => c.ip4(THERE.0).udp(1, 2).build(),
        };
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
        c.add(if name.is_empty() { "IPv4 packet of IPv6's Ethernet type" } else { name }, frame);
    }
    // Source addresses that no station can have.
    for from in [Mac::ZERO, Mac::BROADCAST, ROUTER.0] {
        let frame = c.ip4(THERE.0).ethernet(from, ROUTER.0).udp(1, 2).build();
        c.add("IPv4 packet from an impossible station", frame);
    }
}

fn tags(c: &mut Corpus) {
    for (tpid, name) in [(0x8100, "VLAN"), (0x88a8, "service VLAN")] {
        for vid in [1, 5, 4095] {
            let frame = c.ip4(THERE.0).tag(tpid, vid).udp(1, 2).build();
            c.add(format!("IPv4 packet with the tag of an unknown {name}"), frame);
            let frame = c.ip4(THERE.0).tag(tpid, vid).tag(0x8100, 7).udp(1, 2).build();
            c.add(format!("IPv4 packet with two tags, the outer one of an unknown {name}"), frame);
        }
        for tci in [0, 0x2000, 0xe000] {
            let frame = c.ip4(THERE.0).tag(tpid, tci).udp(1, 2).build();
            c.add(format!("IPv4 packet with a {name} tag that is a priority only"), frame);
            let frame = c.ip4(THERE.0).tag(tpid, tci).tag(tpid, tci).udp(1, 2).build();
            c.add(format!("IPv4 packet with two {name} tags that are priorities only"), frame);
        }
        for len in 0..8 {
            let frame = c.ip4(THERE.0).tag(tpid, 5).tag(0x8100, 7).udp(1, 2).build();
            c.add("frame cut off within its tags", frame[..ETHERNET + len].to_vec());
        }
    }
}

fn arp(c: &mut Corpus) {
    let request = |c: &Corpus, target: Ipv4Addr| ArpPacket::request(SENDER, c.src4(), target);
    let frame = |to: Mac, arp: &ArpPacket| {
        [EthernetHeader::new(to, SENDER, ethertype::ARP).as_bytes(), &arp.as_bytes()[..], &[0; 18]].concat()
    };
    for to in [Mac::BROADCAST, ROUTER.0] {
        for (target, name) in [
            (ROUTER.1, "the router"),
            (THERE.0, "a host behind it"),
            (Ipv4Addr::new(10, 0, 0, 250), "another host on the link"),
            (Ipv4Addr::new(10, 0, 0, 255), "the broadcast address"),
            (Ipv4Addr::UNSPECIFIED, "0.0.0.0"),
            (Ipv4Addr::BROADCAST, "255.255.255.255"),
            (Ipv4Addr::new(224, 0, 0, 1), "a group"),
        ] {
            let arp = request(c, target);
            c.add(format!("ARP request for {name}"), frame(to, &arp));
        }
        let arp = request(c, ROUTER_BEHIND.1);
        c.add("ARP request for an address of the router's other interface", frame(to, &arp));
        for (sender, name) in [
            (Ipv4Addr::UNSPECIFIED, "0.0.0.0 (a probe)"),
            (Ipv4Addr::new(10, 9, 9, 9), "an address of no network of the link"),
            (THERE.0, "an address of the other link"),
            (Ipv4Addr::new(127, 0, 0, 1), "127.0.0.1"),
            (Ipv4Addr::new(224, 0, 0, 5), "a group"),
            (Ipv4Addr::BROADCAST, "255.255.255.255"),
            (Ipv4Addr::new(10, 0, 0, 255), "the broadcast address"),
            (ROUTER.1, "the router's own address"),
        ] {
            let arp = ArpPacket::request(SENDER, sender, ROUTER.1);
            c.add(format!("ARP request from {name}"), frame(to, &arp));
        }
        for op in [Operation::Request, Operation::Reply] {
            let arp = ArpPacket::new(op, (SENDER, c.src4()), (Mac::ZERO, c.src4()));
            c.add("ARP announcement", frame(to, &arp));
        }
        let arp = ArpPacket::new(Operation::Reply, (SENDER, c.src4()), (ROUTER.0, ROUTER.1));
        c.add("ARP reply that nobody asked for", frame(to, &arp));
    }
    for len in 0..28 {
        let arp = request(c, ROUTER.1);
        c.add("ARP packet cut off", frame(ROUTER.0, &arp)[..ETHERNET + len].to_vec());
    }
    for (at, values, name) in [
        (0, &[1, 0xff][..], "hardware"),
        (1, &[0, 2, 6, 15, 0xff], "hardware"),
        (2, &[0, 9, 0x86], "protocol"),
        (3, &[1, 0xdd], "protocol"),
        (4, &[0, 5, 7, 8, 0xff], "hardware address length"),
        (5, &[0, 3, 5, 16, 0xff], "protocol address length"),
        (6, &[1, 0xff], "operation"),
        (7, &[0, 3, 4, 8, 9, 10, 0xff], "operation"),
    ] {
        for value in values {
            let arp = request(c, ROUTER.1);
            c.add(format!("ARP request with a wrong {name}"), patch(frame(ROUTER.0, &arp), at, &[*value]));
        }
    }
    for mac in [Mac::ZERO, Mac::BROADCAST, Mac([1, 0, 0x5e, 0, 0, 1]), ROUTER.0] {
        let arp = ArpPacket::request(mac, c.src4(), ROUTER.1);
        c.add(format!("ARP request of the impossible station {mac}"), frame(Mac::BROADCAST, &arp));
    }
}
