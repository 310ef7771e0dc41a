//! IPv6, ICMPv6 and Neighbor Discovery.

use std::net::Ipv6Addr;

use wire::Mac;
use wire::nd::{self, Message, NdOption};
use wire::tcp::Flags;
use wire::{EthernetHeader, ethertype, ipv6};

use super::{Corpus, ETHERNET, ROUTER, ROUTER_BEHIND, SENDER, THERE, patch};

/// Protocol number of the header with hop-by-hop options.
const HOP_BY_HOP: u8 = 0;
/// Protocol number of the routing header.
const ROUTING: u8 = 43;
/// Protocol number of the fragment header.
const FRAGMENT: u8 = 44;
/// Protocol number of the header with destination options.
const OPTIONS: u8 = 60;

pub(super) fn add(c: &mut Corpus) {
    header(c);
    addresses(c);
    extensions(c);
    of_router(c);
    neighbor_discovery(c);
}

fn ip(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

fn header(c: &mut Corpus) {
    for version in 0..16u8 {
        let frame = patch(c.ip6(THERE.1).udp(1, 2).build(), 0, &[version << 4]);
        let name = if version == 6 {
            "IPv6 packet, good"
        } else {
            "packet of IPv6's Ethernet type and another version"
        };
        c.add(name, frame);
    }
    for (said, name) in [
        (0u16, "0"),
        (1, "less than came"),
        (39, "less than came"),
        (41, "more than came"),
        (u16::MAX, "more than came"),
    ] {
        let frame = patch(c.ip6(THERE.1).udp(1, 2).build(), 4, &said.to_be_bytes());
        c.add(format!("IPv6 payload length {name}"), frame);
        let frame = patch(c.ip6(ROUTER.2).udp(1, 2).build(), 4, &said.to_be_bytes());
        c.add(format!("UDP over IPv6 to the router, payload length {name}"), frame);
    }
    for hops in [0, 1, 2, 255] {
        let frame = c.ip6(THERE.1).ttl(hops).udp(1, 2).build();
        c.add(format!("IPv6 hop limit {hops}"), frame);
        let frame = c.ip6(ROUTER.2).ttl(hops).echo_request(1, 1).build();
        c.add(format!("IPv6 ping of the router with hop limit {hops}"), frame);
    }
    for next in 0..=255u8 {
        if next != HOP_BY_HOP {
            let frame = c.ip6(THERE.1).protocol(next).build();
            c.add("IPv6 packet of any protocol", frame);
        }
    }
    let frame = c.ip6(THERE.1).payload(&[0; 1452]).udp(1, 2).build();
    c.add("IPv6 packet as large as the MTU", frame);
}

fn addresses(c: &mut Corpus) {
    for (address, name) in [
        ("::", "::"),
        ("::1", "::1"),
        ("::ffff:10.0.1.2", "a mapped one"),
        ("::10.0.1.2", "a compatible one"),
        ("ff02::1", "a group of the link"),
        ("ff02::5", "a group of the link"),
        ("ff01::1", "a group within a node"),
        ("ff05::2", "a group of the site"),
        ("ff0e::1234", "a global group"),
        ("ff00::1", "a group of scope 0"),
        ("fe80::9", "a link-local one"),
        ("fe80:0:0:1::9", "a link-local one with bits in the middle"),
        ("fec0::1", "a site-local one"),
        ("fc00::1", "a unique local one"),
        ("2001:db8::1", "the router's"),
        ("2001:db8:1::1", "the router's on the other link"),
        ("100::1", "one in the discard prefix"),
    ] {
        let frame = patch(c.ip6(THERE.1).protocol(253).build(), 8, &ip(address).octets());
        c.add(format!("IPv6 source {name}"), frame);
        let frame = patch(c.ip6(ROUTER.2).protocol(253).build(), 8, &ip(address).octets());
        c.add(format!("IPv6 source {name}, to the router"), frame);
        if !name.contains("router") {
            let frame = c.ip6(ip(address)).protocol(253).build();
            c.add(format!("IPv6 destination {name}"), frame);
        }
    }
    let frame = c.ip6(ip("2001:db8:9::9")).udp(1, 2).build();
    c.add("IPv6 destination without a route", frame);
    let frame = c.ip6(ip("2001:db8:1::")).udp(1, 2).build();
    c.add("UDP over IPv6 to a closed port of the other link's routers (anycast)", frame);
    let frame = c.ip6(ip("2001:db8::")).echo_request(1, 1).build();
    c.add("IPv6 ping of the link's routers (anycast)", frame);
}

fn extensions(c: &mut Corpus) {
    for (to, where_to) in [(THERE.1, "through"), (ROUTER.2, "to the router")] {
        for kind in 0..=255u8 {
            let action = match kind {
                0 | 1 => "padding",
                5 => "router alert",
                0xc2 => "jumbo payload",
                _ => [
                    "to be passed over",
                    "to be dropped",
                    "to be reported",
                    "to be reported unless to a group",
                ][usize::from(kind >> 6)],
            };
            for (header, name) in [(HOP_BY_HOP, "hop-by-hop"), (OPTIONS, "destination")] {
                let frame = c.ip6(to).extension(header, &[kind, 4, 0, 0, 0, 0]).udp(1, 2).build();
                c.add(format!("IPv6 {name} option {action}, {where_to}"), frame);
            }
        }
        for (header, name) in [(HOP_BY_HOP, "hop-by-hop"), (OPTIONS, "destination")] {
            let frame = c.ip6(to).extension(header, &[0x1e, 9, 0, 0, 0, 0]).udp(1, 2).build();
            c.add(format!("IPv6 {name} option that ends behind its header, {where_to}"), frame);
            let frame = c.ip6(to).extension(header, &[1, 0, 1, 0, 1]).udp(1, 2).build();
            c.add(format!("IPv6 {name} padding at the end of its header, {where_to}"), frame);
            let frame = c.ip6(to).extension(header, &[0; 6]).udp(1, 2).build();
            c.add(
                format!("IPv6 {name} header that is longer than the packet, {where_to}"),
                patch(frame, 41, &[200]),
            );
            let frame = c.ip6(to).extension(header, &[5, 2, 0, 0, 5, 2, 0, 0]).udp(1, 2).build();
            c.add(format!("IPv6 {name} router alert twice, {where_to}"), frame);
        }
        for kind in 0..6u8 {
            for left in [0, 1, 255] {
                let frame = c.ip6(to).extension(ROUTING, &[kind, left, 0, 0, 0, 0]).udp(1, 2).build();
                let left = if left == 0 { "without segments left" } else { "with segments left" };
                c.add(format!("IPv6 routing header of type {kind} {left}, {where_to}"), frame);
            }
        }
        for (first, second) in [(OPTIONS, HOP_BY_HOP), (ROUTING, HOP_BY_HOP), (HOP_BY_HOP, HOP_BY_HOP)] {
            let frame =
                c.ip6(to).extension(first, &[1, 4, 0, 0, 0, 0]).extension(second, &[1, 4, 0, 0, 0, 0]);
            let frame = patch(frame.udp(1, 2).build(), 42, if first == ROUTING { &[0, 0] } else { &[1, 4] });
            c.add(format!("IPv6 hop-by-hop options that do not come first, {where_to}"), frame);
        }
        for n in [2, 8, 9, 20] {
            let mut b = c.ip6(to);
            for _ in 0..n {
                b = b.extension(OPTIONS, &[1, 4, 0, 0, 0, 0]);
            }
            c.add(format!("IPv6 packet with {n} extension headers, {where_to}"), b.udp(1, 2).build());
        }
        let frame = c.ip6(to).protocol(59).build();
        c.add(format!("IPv6 no next header, {where_to}"), frame);
        for len in 0..8 {
            for header in [HOP_BY_HOP, ROUTING, FRAGMENT, OPTIONS] {
                let frame = c.ip6(to).extension(header, &[0; 6]).protocol(59).payload(&[]).build();
                let mut frame = frame[..ETHERNET + 40 + len].to_vec();
                frame[ETHERNET + 4..][..2].copy_from_slice(&(len as u16).to_be_bytes());
                let name = if header == HOP_BY_HOP { "hop-by-hop" } else { "extension" };
                c.add(format!("IPv6 {name} header cut off, {where_to}"), frame);
            }
        }
    }
    // Only fragments that the router forwards: those addressed to it wait for reassembly.
    for (word, name) in [
        (1u16, "a first fragment"),
        (8, "a last fragment"),
        (0, "an atomic fragment"),
        (0xfff9, "the last possible fragment"),
    ] {
        let [a, b] = word.to_be_bytes();
        let frame = c.ip6(THERE.1).extension(FRAGMENT, &[a, b, 0, 0, 0, 9]).udp(1, 2).build();
        c.add(format!("IPv6 {name}"), patch(frame, 41, &[0]));
    }
    let frame = c.ip6(ROUTER.2).extension(FRAGMENT, &[0, 0, 0, 0, 0, 9]).echo_request(1, 1).build();
    c.add("IPv6 ping of the router in an atomic fragment", patch(frame, 41, &[0]));
}

fn of_router(c: &mut Corpus) {
    for next in 0..=255u8 {
        // The other protocols have their own cases.
        if !matches!(next, HOP_BY_HOP | 6 | 17 | ROUTING | FRAGMENT | 58 | 59 | OPTIONS) {
            let frame = c.ip6(ROUTER.2).protocol(next).build();
            c.add("IPv6 packet to the router, of any other protocol", frame);
        }
    }
    for kind in 0..=255u8 {
        // Neighbor Discovery has its own cases. The answer to a listener query takes too long.
        if matches!(kind, 130 | 133..=137) {
            continue;
        }
        for code in [0, 1, 255] {
            let name = match (kind, code) {
                (128, 0) => "ICMPv6 echo request",
                (128, _) => "ICMPv6 echo request with a code",
                (129, _) => "ICMPv6 echo reply",
                (131 | 132 | 143, _) => "MLD report",
                (1..=4, _) => "ICMPv6 report",
                _ => "ICMPv6 message of any other type",
            };
            let frame = c.ip6(ROUTER.2).icmp(kind, code, 0x1_0001).build();
            c.add(name, frame);
        }
    }
    let frame = patch(c.ip6(ROUTER.2).echo_request(1, 1).build(), 42, &[0x12, 0x34]);
    c.add("ICMPv6 echo request with a wrong checksum", frame);
    let frame = c.ip6(ROUTER.2).udp(1, 2).build();
    c.add("UDP over IPv6 to a closed port of the router", frame);
    let frame = patch(c.ip6(ROUTER.2).udp(1, 2).build(), 46, &[0, 0]);
    c.add("UDP over IPv6 without a checksum, to a closed port of the router", frame);
    let frame = patch(c.ip6(ROUTER.2).udp(1, 2).build(), 46, &[0x12, 0x34]);
    c.add("UDP over IPv6 with a wrong checksum, to a closed port of the router", frame);
    let frame = c.ip6(ROUTER.2).tcp(1000, 9999, 1, 0, Flags::SYN).payload(&[]).build();
    c.add("TCP SYN over IPv6 to a closed port of the router", frame);
    let frame = c.ip6(ROUTER_BEHIND.2).echo_request(1, 1).build();
    c.add("IPv6 ping of the router's address on the other link", frame);
    for kind in [1, 3, 128, 129] {
        let name = if kind < 128 { "an ICMPv6 report" } else { "an echo message" };
        let frame = c.ip6(THERE.1).ttl(1).icmp(kind, 0, 0).build();
        c.add(format!("IPv6 hop limit 1 of {name}"), frame);
        let frame = c.ip6(ip("2001:db8:9::9")).icmp(kind, 0, 0).build();
        c.add(format!("IPv6 destination without a route of {name}"), frame);
    }
    for group in ["ff02::1", "ff02::2"] {
        let frame = c.ip6(ip(group)).ethernet(SENDER, ipv6::multicast_mac(ip(group).to_bits()));
        c.add("IPv6 ping of all nodes or routers on the link", frame.echo_request(1, 1).build());
    }
}

#[expect(clippy::too_many_lines, reason = "a list of packets")]
fn neighbor_discovery(c: &mut Corpus) {
    let group = |target: Ipv6Addr| Ipv6Addr::from_bits(ipv6::solicited_node(target.to_bits()));
    let frame = |to: Ipv6Addr, packet: &[u8]| {
        let mac = if to.is_multicast() { ipv6::multicast_mac(to.to_bits()) } else { ROUTER.0 };
        [EthernetHeader::new(mac, SENDER, ethertype::IPV6).as_bytes(), packet].concat()
    };
    let mine = [NdOption::SourceMac(SENDER)];
    let solicits = |target| Message::NeighborSolicitation { target };
    for (target, name) in [
        (ROUTER.2, "the router"),
        (THERE.1, "a host behind it"),
        (ip("2001:db8::fe"), "another host on the link"),
        (ip("ff02::1"), "a group"),
        (ip("::"), "::"),
        (ip("::1"), "::1"),
    ] {
        for to in [group(ROUTER.2), ROUTER.2] {
            let packet = nd::build(c.src6(), to, &solicits(target), &mine);
            c.add(format!("neighbor solicitation of {name}"), frame(to, &packet));
        }
    }
    let packet = nd::build(c.src6(), group(ROUTER_BEHIND.2), &solicits(ROUTER_BEHIND.2), &mine);
    c.add("neighbor solicitation of the router's address on the other link", frame(group(ROUTER.2), &packet));
    for (source, name) in [
        (ip("2001:db8:99::9"), "an address of no network of the link"),
        (THERE.1, "an address of the other link"),
        (ip("ff02::1"), "a group"),
        (ip("::1"), "::1"),
    ] {
        let packet = nd::build(source, group(ROUTER.2), &solicits(ROUTER.2), &mine);
        c.add(format!("neighbor solicitation from {name}"), frame(group(ROUTER.2), &packet));
    }
    for options in [&mine[..], &[]] {
        let packet = nd::build(ip("::"), group(ROUTER.2), &solicits(ROUTER.2), options);
        let name = if options.is_empty() { "without an option" } else { "with an Ethernet address" };
        c.add(format!("neighbor solicitation from :: {name}"), frame(group(ROUTER.2), &packet));
    }
    for (mac, name) in [(Mac::ZERO, "of zeros"), (Mac::BROADCAST, "of all stations")] {
        let packet = nd::build(c.src6(), ROUTER.2, &solicits(ROUTER.2), &[NdOption::SourceMac(mac)]);
        c.add(format!("neighbor solicitation with the Ethernet address {name}"), frame(ROUTER.2, &packet));
    }
    // Each of these messages has a right checksum.
    let altered = |c: &Corpus, at: usize, value: u8, hops: u8| {
        let packet = nd::build(c.src6(), ROUTER.2, &solicits(ROUTER.2), &mine);
        let mut message = packet[40..].to_vec();
        message[at] = value;
        let header = [message[4], message[5], message[6], message[7]];
        let b = c.ip6(ROUTER.2).ttl(hops).icmp(message[0], message[1], u32::from_be_bytes(header));
        b.payload(&message[8..]).build()
    };
    let packet = altered(c, 0, 135, 254);
    c.add("neighbor solicitation with hop limit 254", packet);
    let packet = altered(c, 1, 1, 255);
    c.add("neighbor solicitation with a code", packet);
    for length in [0, 2, 255] {
        let packet = altered(c, 25, length, 255);
        c.add("neighbor solicitation with an option of a wrong length", packet);
    }
    let packet = altered(c, 24, 99, 255);
    c.add("neighbor solicitation with an unknown option", packet);
    for len in 0..24 {
        let b = c.ip6(ROUTER.2).ttl(255).icmp(135, 0, 0).payload(&[0x20; 24][..len]);
        c.add("neighbor solicitation that is no whole one", b.build());
    }
    for to in [ROUTER.2, ip("ff02::1")] {
        for (router, solicited, overrides) in
            [(false, true, true), (true, false, true), (false, false, false)]
        {
            let target = c.src6();
            let said = Message::NeighborAdvertisement { target, router, solicited, overrides };
            let packet = nd::build(target, to, &said, &[NdOption::TargetMac(SENDER)]);
            c.add("neighbor advertisement that nobody asked for", frame(to, &packet));
        }
    }
    let all_routers = Ipv6Addr::from_bits(ipv6::ALL_ROUTERS);
    for source in [ip("fe80::9"), ip("::"), c.src6()] {
        let packet = nd::build(source, all_routers, &Message::RouterSolicitation, &[]);
        c.add("router solicitation", frame(all_routers, &packet));
    }
    let packet = nd::build(
        ip("fe80::9"),
        ROUTER.2,
        &Message::Redirect { target: ip("fe80::8"), destination: ip("2001:db8:77::1") },
        &[],
    );
    c.add("ICMPv6 redirect", frame(ROUTER.2, &packet));
}
