//! Tests of a router's accounting: all packets are accounted for, and the drops by reason and by input interface have the same sum.

use std::net::{Ipv4Addr, Ipv6Addr};

use graph::PuntReason;
use wire::arp::{ArpPacket, Operation};
use wire::builder::PacketBuilder;
use wire::nd::{self, Message, NdOption};
use wire::{EthernetHeader, Mac, ethertype, icmpv4, ipv6, mld};

use super::Accounts;
use super::lab::{Lab, MS, own_mac};
use crate::ip::Address;

const HOST: Mac = Mac([2, 0, 0, 0, 0xa, 2]);

/// Returns address `n` in the network of the first link.
fn at(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, n)
}

fn at4(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 1, n)
}

/// Creates a router with addresses of both families on both links.
fn lab() -> Lab {
    let mut lab =
        Lab::new(|index| Address::new(Ipv6Addr::new(0x2001, 0xdb8, 0, index as u16 + 1, 0, 0, 0, 1), 64));
    for index in 0..2 {
        let address = Address::new(Ipv4Addr::new(10, 0, index as u8 + 1, 1), 24);
        lab.router.add_address(index, address).unwrap();
    }
    lab.pass(5000);
    (0..2).for_each(|i| drop(lab.sent(i)));
    lab
}

fn frame(ethertype: u16, packet: &[u8]) -> Vec<u8> {
    [EthernetHeader::new(own_mac(0), HOST, ethertype).as_bytes(), packet].concat()
}

fn neighbor_discovery(from: Ipv6Addr, to: Ipv6Addr, message: Message, options: &[NdOption]) -> Vec<u8> {
    frame(ethertype::IPV6, &nd::build(from, to, &message, options))
}

fn arp(op: Operation, sender: (Mac, Ipv4Addr), target: Ipv4Addr) -> Vec<u8> {
    frame(ethertype::ARP, ArpPacket::new(op, sender, (Mac::ZERO, target)).as_bytes())
}

/// Returns the packet count of each drop reason, or of each reason that is no drop. Reasons are named `node reason`.
fn counted(lab: &Lab, drops: bool) -> Vec<(String, u64)> {
    let all = lab.router.graph().stats().dropped();
    let some = all.iter().filter(|d| d.packets > 0 && d.reason.drops == drops);
    some.map(|d| (format!("{} {}", d.node, d.reason.name), d.packets)).collect()
}

/// Checks that the sums of drops agree, that all packets are accounted for, and that the main thread has handled all
/// punted packets.
fn check(lab: &Lab) {
    let stats = lab.router.graph().stats();
    let by_reason: u64 = counted(lab, true).iter().map(|d| d.1).sum();
    let by_interface: u64 = [0, 1, buf::NO_INTERFACE].iter().map(|i| stats.drops_of(*i)).sum();
    assert_eq!(by_reason, by_interface, "{:?}", counted(lab, true));
    let accounts = lab.router.accounts();
    assert_eq!((accounts.unaccounted(), accounts.dropped), (0, by_reason_in_nodes(lab)), "{accounts:?}");
    for (number, reason) in (0..).zip(lab.router.graph().punt_reasons()) {
        let number = PuntReason(number);
        assert_eq!(stats.punted_totals(number)[0], stats.handled_total(number), "{}", reason.name);
    }
}

fn by_reason_in_nodes(lab: &Lab) -> u64 {
    let all = counted(lab, true);
    all.iter().filter(|d| !d.0.starts_with(graph::stats::MAIN_THREAD)).map(|d| d.1).sum()
}

#[test]
fn policed_packets_count_as_drops_of_their_rx_interface() {
    let mut lab = lab();
    // A neighbor solicitation from an address of the router.
    let solicits = Message::NeighborSolicitation { target: at(1) };
    for _ in 0..60 {
        lab.receive(0, 0, neighbor_discovery(at(1), at(1), solicits, &[NdOption::SourceMac(HOST)]));
    }
    assert_eq!(counted(&lab, true), [("punt punt-policed".into(), 58)]);
    assert_eq!(lab.router.graph().stats().drops_of(0), 58);
    check(&lab);
}

#[test]
fn drops_of_own_packets_count_for_no_interface() {
    let mut lab = lab();
    // Workers police their requests to the main thread, and no neighbor answers.
    let resolve = lab.router.graph().punt_reasons().iter().find(|r| r.name == "ip4-resolve").unwrap();
    resolve.set_rate(1);
    for n in 10..20 {
        let ping = PacketBuilder::ipv4(at4(2), Ipv4Addr::new(10, 0, 2, n));
        lab.receive(0, 0, ping.ethernet(HOST, own_mac(0)).echo_request(1, 1).build());
    }
    let own = lab.router.graph().stats().drops_of(buf::NO_INTERFACE);
    assert!(own > 0, "{:?}", counted(&lab, true));
    assert_eq!(lab.router.graph().stats().drops_of(0), 0);
    let waits = lab.router.accounts();
    assert_eq!((waits.waiting, waits.unaccounted()), (10, 0), "{waits:?}");
    check(&lab);
    // The packets then stop waiting.
    lab.pass(20_000);
    check(&lab);
    assert_eq!(lab.router.accounts().waiting, 0);
}

#[test]
fn packets_for_a_busy_worker_are_counted() {
    let mut lab = lab();
    let mut sent = 0;
    loop {
        let mut packet = lab.router.packet(&[0; 64]).expect("a buffer");
        packet.packet().set_tx_if(0);
        if !lab.router.send(0, "interface-output", packet) {
            break;
        }
        sent += 1;
    }
    assert_eq!(counted(&lab, true), [("main-thread worker-busy".into(), 1)]);
    lab.run();
    assert_eq!(lab.sent(0).len(), sent);
    check(&lab);
}

#[test]
fn counters_account_for_every_packet() {
    let mut lab = lab();
    lab.router.add_neighbor(1, Ipv4Addr::new(10, 0, 2, 9), HOST, true).unwrap();
    let there = PacketBuilder::ipv4(at4(2), Ipv4Addr::new(10, 0, 2, 9)).ethernet(HOST, own_mac(0));
    let here = PacketBuilder::ipv4(at4(2), at4(1)).ethernet(HOST, own_mac(0));
    let before = lab.router.accounts();
    for packet in [
        there.clone().udp(1, 2).payload(&[0; 100]).build(),
        there.clone().ttl(1).udp(1, 2).build(),
        there.clone().udp(1, 2).payload(&[0; 100]).build(),
        here.clone().udp(1, 2).build(),
        here.clone().echo_request(1, 1).build(),
        here.clone().icmp(icmpv4::kind::ECHO_REPLY, 0, 0).payload(&[0; 8]).build(),
        there.clone().id(1).fragment(0, true).udp(1, 2).payload(&[0; 1400]).build(),
        here.clone().id(1).fragment(0, true).udp(1, 2).payload(&[0; 32]).build(),
        arp(Operation::Request, (HOST, at4(2)), at4(1)),
    ] {
        lab.receive(0, 0, packet);
        check(&lab);
    }
    // Two forwarded whole, and one as a fragment.
    assert_eq!(lab.sent(1).len(), 3);
    lab.pass(60_000);
    check(&lab);
    let now = lab.router.accounts();
    assert_eq!((now.received - before.received, now.waiting), (9, 0), "{now:?}");
    assert!(now.made > before.made && now.consumed > before.consumed && now.handled > before.handled);
    assert_ne!(now, Accounts::default());
}

#[test]
fn punted_packets_without_use_are_counted() {
    let mut lab = lab();
    let other: Ipv6Addr = "2001:db8:99::2".parse().unwrap();
    let link: Ipv6Addr = "fe80::2".parse().unwrap();
    let all = |group: u128| Ipv6Addr::from_bits(group);
    let solicits = |target| Message::NeighborSolicitation { target };
    let advertises =
        |target| Message::NeighborAdvertisement { target, router: false, solicited: false, overrides: true };
    lab.router.add_neighbor(0, at(7), HOST, true).unwrap();
    lab.router.add_neighbor(0, at4(7), HOST, true).unwrap();
    let mut own_station = arp(Operation::Request, (own_mac(1), at4(2)), at4(1));
    own_station[6..12].copy_from_slice(&own_mac(1).0);
    // The checksum is valid, and the option's address belongs to no station.
    let zero = NdOption::SourceMac(Mac::ZERO);
    // For a group without members here: the router alert, then the query.
    let group = all(0xff02 << 112 | 0x99);
    let query = PacketBuilder::ipv6(link, all(ipv6::ALL_NODES)).ethernet(HOST, Mac([0x33, 0x33, 0, 0, 0, 1]));
    let query =
        query.ttl(1).extension(0, &[5, 2, 0, 0, 1, 0]).icmp(130, 0, 1000 << 16).payload(&group.octets());
    let pong = PacketBuilder::ipv6(at(2), at(1)).icmp(129, 0, 7 << 16).payload(&[0; 8]);
    for (packet, reason, drops) in [
        (neighbor_discovery(at(2), at(1), solicits(at(1)), &[zero]), "malformed", true),
        (neighbor_discovery(at(2), at(1), advertises(at(5)), &[]), "not-asked", false),
        (neighbor_discovery(at(2), at(1), advertises(at(7)), &[]), "static-neighbor", false),
        (
            neighbor_discovery(link, all(ipv6::ALL_ROUTERS), Message::RouterSolicitation, &[]),
            "not-advertising",
            false,
        ),
        (neighbor_discovery(link, all(ipv6::ALL_ROUTERS), router(), &[NdOption::SourceMac(HOST)]), "", false),
        (neighbor_discovery(link, all(ipv6::ALL_ROUTERS), router(), &[]), "no-link-address", false),
        (
            neighbor_discovery(other, at(1), advertises(other), &[NdOption::TargetMac(HOST)]),
            "not-asked",
            false,
        ),
        (
            arp(Operation::Request, (HOST, Ipv4Addr::new(10, 9, 9, 9)), Ipv4Addr::new(10, 0, 2, 1)),
            "off-link-sender",
            false,
        ),
        (arp(Operation::Request, (HOST, Ipv4Addr::new(10, 9, 9, 9)), at4(1)), "", false),
        (arp(Operation::Request, (HOST, at4(2)), Ipv4Addr::new(10, 0, 2, 1)), "not-for-us", false),
        (arp(Operation::Reply, (HOST, at4(3)), at4(200)), "not-asked", false),
        (arp(Operation::Reply, (HOST, at4(7)), at4(1)), "static-neighbor", false),
        (own_station, "own-station", false),
        (query.build(), "no-group", false),
        (pong.ethernet(HOST, own_mac(0)).build(), "", false),
    ] {
        let count = |lab: &Lab| {
            let all = lab.router.graph().stats().dropped();
            let main = all.into_iter().filter(|d| d.node == graph::stats::MAIN_THREAD && d.packets > 0);
            main.map(|d| (d.reason.name, d.reason.drops, d.packets)).collect::<Vec<_>>()
        };
        let before = count(&lab);
        lab.receive(0, 0, packet);
        let now = count(&lab);
        let new: Vec<_> = now.into_iter().filter(|n| !before.contains(n)).map(|n| (n.0, n.1)).collect();
        let expected: &[_] = if reason.is_empty() { &[] } else { &[(reason, drops)] };
        assert_eq!(new, expected);
        check(&lab);
    }
    // Packets of a removed interface.
    lab.now += 100 * MS;
    lab.put(0, 0, arp(Operation::Request, (HOST, at4(2)), at4(1)));
    lab.turn_workers();
    lab.turn_workers();
    lab.router.remove_interface(0).unwrap();
    lab.run();
    let gone = lab.router.graph().stats().dropped_for(graph::stats::MAIN_THREAD, "interface-gone");
    assert_eq!(gone, Some(1));
}

fn router() -> Message {
    Message::RouterAdvertisement(nd::RouterAdvertisement {
        hop_limit: 64,
        managed: false,
        other: false,
        preference: nd::Preference::default(),
        lifetime: 0,
        reachable: 0,
        retransmit: 0,
    })
}

/// Valid packets that this router does not need are counted as events, not as drops.
#[test]
fn expected_control_traffic_is_no_drop() {
    let mut lab = lab();
    let link: Ipv6Addr = "fe80::2".parse().unwrap();
    let group = Ipv6Addr::from_bits(0xff02 << 112 | 0xfb);
    let of_group =
        |group: Ipv4Addr| PacketBuilder::ipv4(at4(2), group).ethernet(HOST, Mac([1, 0, 0x5e, 0, 0, 1]));
    let mut lldp = frame(0x88cc, &[0; 46]);
    lldp[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 0xe]);
    let dhcp = PacketBuilder::ipv4(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST)
        .ethernet(HOST, Mac::BROADCAST)
        .udp(68, 67)
        .payload(&[0; 300])
        .build();
    let report = mld::reports(link, &[(mld::Record::IsJoined, group)]).next().unwrap();
    for (packet, event) in [
        (frame(ethertype::IPV6, &report), "icmp6-input mld-received"),
        (
            of_group(Ipv4Addr::new(224, 0, 0, 22)).protocol(2).payload(&[0; 8]).build(),
            "ip4-local group-protocol",
        ),
        (of_group(Ipv4Addr::new(224, 0, 0, 251)).udp(5353, 5353).build(), "udp4-local group-port"),
        (dhcp, "udp4-local group-port"),
        (lldp, "ethernet-input group-ethertype"),
        (arp(Operation::Request, (HOST, at4(2)), at4(9)), "arp-input not-for-us"),
        (
            neighbor_discovery(at(2), at(1), Message::NeighborSolicitation { target: at(9) }, &[]),
            "icmp6-input not-for-us",
        ),
        (
            PacketBuilder::ipv6(link, group)
                .ethernet(HOST, Mac([0x33, 0x33, 0, 0, 0, 0xfb]))
                .udp(5353, 5353)
                .build(),
            "ip6-multicast group-not-joined",
        ),
        (
            PacketBuilder::ipv4(at4(2), at4(1))
                .ethernet(HOST, own_mac(0))
                .icmp(3, 1, 0)
                .payload(&[0; 28])
                .build(),
            "icmp4-input unreachable-received",
        ),
    ] {
        let count = |lab: &Lab| counted(lab, false).into_iter().find(|e| e.0 == event).map_or(0, |e| e.1);
        let before = count(&lab);
        lab.receive(0, 0, packet);
        assert_eq!(count(&lab), before + 1, "{event}: {:?} {:?}", counted(&lab, false), counted(&lab, true));
        check(&lab);
    }
    assert_eq!(counted(&lab, true), []);
    // To the router's own address, with an unsupported EtherType.
    lab.receive(0, 0, frame(0x88cc, &[0; 46]));
    assert_eq!(counted(&lab, true), [("ethernet-input unknown-ethertype".into(), 1)]);
}
