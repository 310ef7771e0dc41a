//! IPv4, ICMP and IGMP.

use std::net::Ipv4Addr;

use wire::tcp::Flags;

use super::{Corpus, ETHERNET, ROUTER, ROUTER_BEHIND, THERE, patch, patch4};

pub(super) fn add(c: &mut Corpus) {
    header(c);
    addresses(c);
    options(c);
    of_router(c);
    unreportable(c);
}

fn header(c: &mut Corpus) {
    for first in 0..=255u8 {
        let frame = patch4(c.ip4(THERE.0).udp(1, 2).build(), 0, &[first]);
        c.add(
            match (first >> 4, first & 15) {
                (4, 5) => "IPv4 packet, good".to_string(),
                (4, 0..5) => "IPv4 header shorter than 20 bytes".to_string(),
                (4, _) => "IPv4 header with the packet's data as options".to_string(),
                _ => "packet of IPv4's Ethernet type and another version".to_string(),
            },
            frame,
        );
    }
    let good = c.ip4(THERE.0).udp(1, 2).build().len() - ETHERNET;
    for (said, name) in [
        (0, "0"),
        (1, "less than the header"),
        (19, "less than the header"),
        (20, "that of the header"),
        (27, "less than came"),
        (good as u16 - 1, "less than came"),
        (good as u16 + 1, "more than came"),
        (1500, "more than came"),
        (u16::MAX, "more than came"),
    ] {
        let frame = patch4(c.ip4(THERE.0).udp(1, 2).build(), 2, &said.to_be_bytes());
        c.add(format!("IPv4 total length {name}"), frame);
        let frame = patch4(c.ip4(ROUTER.1).echo_request(1, 1).build(), 2, &said.to_be_bytes());
        c.add(format!("IPv4 ping of the router, total length {name}"), frame);
    }
    for bit in 0..16 {
        let mut frame = c.ip4(THERE.0).udp(1, 2).build();
        frame[ETHERNET + 10 + bit / 8] ^= 1 << (bit % 8);
        c.add("IPv4 header with a wrong checksum", frame);
        let mut frame = c.ip4(ROUTER.1).echo_request(1, 1).build();
        frame[ETHERNET + 10 + bit / 8] ^= 1 << (bit % 8);
        c.add("IPv4 ping of the router with a wrong header checksum", frame);
    }
    for flags in 0..8u16 {
        for offset in [0u16, 1, 4, 185, 0x1ffe, 0x1fff] {
            let word = (flags << 13 | offset).to_be_bytes();
            let name = if offset == 0 {
                "IPv4 packet with any flags"
            } else {
                "IPv4 fragment with any flags and offset"
            };
            let frame = patch4(c.ip4(THERE.0).udp(1, 2).build(), 6, &word);
            c.add(name, frame);
        }
    }
    for ttl in [0, 1, 2, 255] {
        let frame = c.ip4(THERE.0).ttl(ttl).udp(1, 2).build();
        c.add(format!("IPv4 TTL {ttl}"), frame);
        let frame = c.ip4(ROUTER.1).ttl(ttl).echo_request(1, 1).build();
        c.add(format!("IPv4 ping of the router with TTL {ttl}"), frame);
    }
    for protocol in 0..=255u8 {
        let frame = c.ip4(THERE.0).protocol(protocol).build();
        c.add("IPv4 packet of any protocol", frame);
    }
    for tos in (0..=255u8).step_by(17) {
        let frame = c.ip4(THERE.0).tos(tos).udp(1, 2).build();
        c.add("IPv4 packet of any type of service", frame);
    }
    // Exactly the MTU, which is the same on both links.
    let frame = c.ip4(THERE.0).payload(&[0; 1472]).udp(1, 2).build();
    c.add("IPv4 packet as large as the MTU", frame);
}

/// Special addresses, with their names.
const SPECIAL: [(Ipv4Addr, &str); 18] = [
    (Ipv4Addr::UNSPECIFIED, "0.0.0.0"),
    (Ipv4Addr::new(0, 1, 2, 3), "another one in 0/8"),
    (Ipv4Addr::new(127, 0, 0, 1), "one in 127/8"),
    (Ipv4Addr::new(127, 255, 255, 254), "one in 127/8"),
    (Ipv4Addr::new(169, 254, 1, 1), "one in 169.254/16"),
    (Ipv4Addr::new(198, 18, 0, 1), "one in 198.18/15"),
    (Ipv4Addr::new(224, 0, 0, 1), "a group of the link"),
    (Ipv4Addr::new(224, 0, 0, 251), "a group of the link"),
    (Ipv4Addr::new(239, 1, 2, 3), "another group"),
    (Ipv4Addr::new(240, 0, 0, 1), "one in 240/4"),
    (Ipv4Addr::new(255, 255, 255, 254), "one in 240/4"),
    (Ipv4Addr::BROADCAST, "255.255.255.255"),
    (Ipv4Addr::new(10, 0, 0, 0), "the link's first address"),
    (Ipv4Addr::new(10, 0, 0, 255), "the link's broadcast address"),
    (Ipv4Addr::new(10, 0, 1, 0), "the other link's first address"),
    (Ipv4Addr::new(10, 0, 1, 255), "the other link's broadcast address"),
    (ROUTER.1, "the router's"),
    (ROUTER_BEHIND.1, "the router's on the other link"),
];

fn addresses(c: &mut Corpus) {
    for (address, name) in SPECIAL {
        let frame = patch4(c.ip4(THERE.0).protocol(253).build(), 12, &address.octets());
        c.add(format!("IPv4 source {name}"), frame);
        let frame = patch4(c.ip4(ROUTER.1).protocol(253).build(), 12, &address.octets());
        c.add(format!("IPv4 source {name}, to the router"), frame);
        if !name.contains("router") {
            let frame = c.ip4(address).protocol(253).build();
            c.add(format!("IPv4 destination {name}"), frame);
        }
    }
    let frame = c.ip4(Ipv4Addr::new(10, 9, 9, 9)).udp(1, 2).build();
    c.add("IPv4 destination without a route", frame);
    let frame = patch4(c.ip4(Ipv4Addr::new(10, 0, 0, 240)).udp(1, 2).build(), 12, &[10, 0, 0, 2]);
    c.add("IPv4 destination on the link that the packet came from", frame);
    let frame = patch4(c.ip4(THERE.0).udp(1, 2).build(), 12, &THERE.0.octets());
    c.add("IPv4 source that is the destination", frame);
}

fn options(c: &mut Corpus) {
    for kind in 0..=255u8 {
        let name = match kind {
            0 => continue,
            1 => "no operation",
            7 => "record route",
            68 => "timestamp",
            130 | 133 | 134 => "security",
            131 => "loose source route",
            137 => "strict source route",
            148 => "router alert",
            _ => "any other kind",
        };
        for (option, fault) in [
            (vec![kind, 4, 0, 0], "of 4 bytes"),
            (vec![kind, 7, 4, 0, 0, 0, 0, 1], "with room for an address"),
            (vec![kind, 0, 0, 0], "of length 0"),
            (vec![kind, 1, 0, 0], "of length 1"),
            (vec![kind, 41, 0, 0], "that ends behind the header"),
            (vec![1, 1, 1, kind], "without a length"),
        ] {
            let frame = c.ip4(THERE.0).options(&option).udp(1, 2).build();
            c.add(format!("IPv4 option {name} {fault}"), frame);
        }
    }
    for pointer in [0, 1, 3, 4, 5, 8, 9, 12, 40, 255] {
        for (kind, name) in [(7, "record route"), (131, "loose source route"), (137, "strict source route")] {
            let option = [kind, 11, pointer, 10, 0, 1, 2, 10, 0, 1, 3];
            let frame = c.ip4(THERE.0).options(&option).udp(1, 2).build();
            c.add(format!("IPv4 option {name}, pointer {pointer}"), frame);
            let frame = c.ip4(ROUTER.1).options(&option).echo_request(1, 1).build();
            c.add(format!("IPv4 ping of the router, option {name}, pointer {pointer}"), frame);
        }
        for flag in [0, 1, 2, 3, 15] {
            let option = [68, 12, pointer, flag, 10, 0, 0, 1, 0, 0, 0, 0];
            let frame = c.ip4(THERE.0).options(&option).udp(1, 2).build();
            c.add(format!("IPv4 option timestamp, pointer {pointer}, flag {flag}"), frame);
        }
    }
    for kind in [7, 68, 131, 137, 148] {
        let option = [kind, 8, if kind == 68 { 5 } else { 4 }, 0, 0, 0, 0, 0];
        let frame = c.ip4(THERE.0).options(&[option, option].concat()).udp(1, 2).build();
        c.add(format!("IPv4 option {kind} twice"), frame);
    }
}

fn of_router(c: &mut Corpus) {
    for protocol in 0..=255u8 {
        // ICMP, IGMP, TCP and UDP have their own cases.
        if !matches!(protocol, 1 | 2 | 6 | 17) {
            let frame = c.ip4(ROUTER.1).protocol(protocol).build();
            c.add("IPv4 packet to the router, of any other protocol", frame);
        }
    }
    for kind in 0..=255u8 {
        for code in [0, 1, 255] {
            let name = match (kind, code) {
                (8, 0) => "ICMP echo request",
                (8, _) => "ICMP echo request with a code",
                (13, _) => "ICMP timestamp request",
                (0, _) => "ICMP echo reply",
                (3 | 4 | 5 | 11 | 12, _) => "ICMP report",
                _ => "ICMP message of any other type",
            };
            let frame = c.ip4(ROUTER.1).icmp(kind, code, 0x1_0001).build();
            c.add(name, frame);
        }
    }
    for len in 0..8 {
        let frame = c.ip4(ROUTER.1).protocol(1).payload(&[8, 0, 0xf7, 0xff, 0, 0, 0, 0][..len]).build();
        c.add("ICMP message cut off", frame);
    }
    let frame = patch(c.ip4(ROUTER.1).echo_request(1, 1).build(), 22, &[0x12, 0x34]);
    c.add("ICMP echo request with a wrong checksum", frame);
    for len in 0..8 {
        let frame = c.ip4(ROUTER.1).protocol(17).payload(&[0, 1, 0, 2, 0, 8, 0, 0][..len]).build();
        c.add("UDP header cut off, to the router", frame);
        let frame = c.ip4(ROUTER.1).protocol(6).payload(&[0; 8][..len]).build();
        c.add("TCP header cut off, to the router", frame);
    }
    for (length, name) in [(0u16, "0"), (7, "less than the header"), (41, "more than came")] {
        let frame = patch(c.ip4(ROUTER.1).udp(1, 2).build(), 24, &length.to_be_bytes());
        c.add(format!("UDP length {name}, to the router"), frame);
    }
    let frame = c.ip4(ROUTER.1).udp(1, 2).build();
    c.add("UDP to a closed port of the router", frame);
    let frame = patch(c.ip4(ROUTER.1).udp(1, 2).build(), 26, &[0x12, 0x34]);
    c.add("UDP with a wrong checksum, to a closed port of the router", frame);
    let frame = c.ip4(ROUTER.1).tcp(1000, 9999, 1, 0, Flags::SYN).payload(&[]).build();
    c.add("TCP SYN to a closed port of the router", frame);
    let frame = c.ip4(ROUTER_BEHIND.1).echo_request(1, 1).build();
    c.add("IPv4 ping of the router's address on the other link", frame);
    for (group, kind) in [([224, 0, 0, 1], 0x11), ([224, 0, 0, 22], 0x22), ([224, 0, 0, 2], 0x17)] {
        let frame =
            c.ip4(group.into()).ttl(1).protocol(2).payload(&[kind, 0, !kind, 0xff, 0, 0, 0, 0]).build();
        c.add("IGMP message", frame);
    }
    let frame = c.ip4(Ipv4Addr::new(224, 0, 0, 1)).echo_request(1, 1).build();
    c.add("IPv4 ping of all systems on the link", frame);
    let frame = c.ip4(Ipv4Addr::new(224, 0, 0, 251)).udp(5353, 5353).build();
    c.add("UDP to a group of the link", frame);
    let dhcp = c.ip4(Ipv4Addr::BROADCAST).udp(68, 67).payload(&[0; 240]).build();
    c.add("DHCP DISCOVER", patch4(dhcp, 12, &[0; 4]));
}

/// Packets that must not be answered with an ICMP error, and similar ones that may be.
fn unreportable(c: &mut Corpus) {
    for (kind, name) in
        [(3, "an ICMP report"), (11, "an ICMP report"), (0, "an echo reply"), (8, "an echo request")]
    {
        let frame = c.ip4(THERE.0).ttl(1).icmp(kind, 0, 0).build();
        c.add(format!("IPv4 TTL 1 of {name}"), frame);
        let frame = c.ip4(Ipv4Addr::new(10, 9, 9, 9)).icmp(kind, 0, 0).build();
        c.add(format!("IPv4 destination without a route of {name}"), frame);
    }
    for offset in [0, 1, 100] {
        let name = if offset == 0 { "a first fragment" } else { "a later fragment" };
        let frame = c.ip4(THERE.0).ttl(1).fragment(offset, true).udp(1, 2).build();
        c.add(format!("IPv4 TTL 1 of {name}"), frame);
    }
    for (address, name) in SPECIAL {
        let frame = patch4(c.ip4(THERE.0).ttl(1).udp(1, 2).build(), 12, &address.octets());
        c.add(format!("IPv4 TTL 1 from {name}"), frame);
    }
}
