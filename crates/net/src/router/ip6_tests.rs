//! Tests of IPv6 in a whole router between two links. The test sends and receives the frames on the links.

use wire::builder::PacketBuilder;
use wire::nd::{self, Message, NdOption};
use wire::{EthernetHeader, Icmpv6Header, Ipv6Header, Mac, ethertype, icmpv6, ipv6, nd::NdOptions, protocol};

use super::lab::{Lab, MS, own_mac};
use super::*;
use crate::ip::{Address, Path, Prefix6, Source};
use crate::nd::Standing;

const A: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 2);
const B: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 2);
const A_MAC: Mac = Mac([2, 0, 0, 0, 0xa, 2]);
const B_MAC: Mac = Mac([2, 0, 0, 0, 0xb, 2]);

fn own(interface: u32) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, interface as u16 + 1, 0, 0, 0, 1)
}

fn link_local(interface: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(ipv6::link_local(own_mac(interface)))
}

fn lab() -> Lab {
    Lab::new(|index| Address::new(own(index), 64))
}

/// Returns a frame with an IPv6 packet.
fn frame(to: Mac, from: Mac, packet: &[u8]) -> Vec<u8> {
    [&EthernetHeader::new(to, from, ethertype::IPV6).0[..], packet].concat()
}

/// Returns the Ethernet header, the IPv6 header and the payload of a frame.
fn packet(frame: &[u8]) -> (EthernetHeader, Ipv6Header, &[u8]) {
    let (header, rest) = EthernetHeader::split(frame).unwrap();
    assert_eq!(header.ethertype(), ethertype::IPV6, "{frame:02x?}");
    let (ip, rest) = Ipv6Header::split(rest).unwrap();
    assert_eq!(usize::from(ip.payload_len()), rest.len());
    (*header, *ip, rest)
}

fn message(frame: &[u8]) -> (EthernetHeader, Ipv6Header, Message, NdOptions<'_>) {
    let (header, ip, rest) = packet(frame);
    let (message, options) = nd::parse(&ip, rest).unwrap();
    (header, ip, message, options)
}

impl Lab {
    /// Lets the router receive a Neighbor Discovery message from a station.
    fn hear(
        &mut self,
        interface: u32,
        from: (Mac, Ipv6Addr),
        to: Ipv6Addr,
        what: Message,
        options: &[NdOption<'_>],
    ) {
        let mac = if to.is_multicast() { ipv6::multicast_mac(to.to_bits()) } else { own_mac(interface) };
        self.receive(interface, 0, frame(mac, from.0, &nd::build(from.1, to, &what, options)));
    }

    fn advertises(&mut self, interface: u32, from: (Mac, Ipv6Addr), to: Ipv6Addr) {
        let what = Message::NeighborAdvertisement {
            target: from.1,
            router: false,
            solicited: true,
            overrides: true,
        };
        self.hear(interface, from, to, what, &[NdOption::TargetMac(from.0)]);
    }

    fn host_route6(&self, address: Ipv6Addr) -> bool {
        self.router.routes::<Ipv6Addr>().exact(0, Prefix6::host(address)).any(|r| r.0 == Source::NEIGHBOR)
    }

    fn stands(&self, interface: u32, address: Ipv6Addr) -> Option<Standing> {
        self.router.interface(interface).unwrap().standing(address)
    }
}

/// Returns a frame with a UDP packet from A to `dst`; `hops` is its hop limit.
fn datagram(dst: Ipv6Addr, hops: u8) -> Vec<u8> {
    PacketBuilder::ipv6(A, dst).ethernet(A_MAC, own_mac(0)).ttl(hops).udp(1, 2).payload(b"data").build()
}

#[test]
fn packets_wait_for_neighbor_discovery() {
    let mut lab = lab();
    lab.receive(0, 0, datagram(B, 64));
    let sent = lab.sent(1);
    assert_eq!(sent.len(), 1, "one solicitation: {sent:02x?}");
    let (header, ip, asked, options) = message(&sent[0]);
    let group = ipv6::solicited_node(B.to_bits());
    assert_eq!((header.dst(), header.src()), (ipv6::multicast_mac(group), own_mac(1)));
    assert_eq!((ip.src(), ip.dst().to_bits(), options.source_mac()), (own(1), group, Some(own_mac(1))));
    assert_eq!(asked, Message::NeighborSolicitation { target: B });

    lab.advertises(1, (B_MAC, B), own(1));
    let sent = lab.sent(1);
    let (header, ip, _) = packet(&sent[0]);
    assert_eq!((header.dst(), header.src(), ip.dst(), ip.hop_limit()), (B_MAC, own_mac(1), B, 63));
    assert!(lab.host_route6(B));
    lab.receive(0, 1, datagram(B, 9));
    assert_eq!(packet(&lab.sent(1)[0]).1.hop_limit(), 8);
}

#[test]
fn undeliverable_packets_are_reported() {
    let mut lab = lab();
    lab.router.add_neighbor(0, A, A_MAC, true).unwrap();
    lab.router.add_neighbor(1, B, B_MAC, true).unwrap();
    let far: Prefix6 = "2001:db8:9::/48".parse().unwrap();
    lab.router.add_route(0, far, Path::Prohibit).unwrap();
    let mut told = |frame: Vec<u8>, wait| {
        lab.receive(0, 0, frame);
        lab.pass(wait);
        let sent = lab.sent(0);
        assert_eq!(sent.len(), 1, "{sent:02x?}");
        let (header, ip, rest) = packet(&sent[0]);
        let (icmp, body) = Icmpv6Header::split(rest).unwrap();
        assert!(icmp.checksum_ok(&ip, body) && header.dst() == A_MAC);
        assert_eq!((ip.src(), ip.dst()), (own(0), A));
        (icmp.kind(), icmp.code(), icmp.rest())
    };
    use icmpv6::{kind, unreachable};
    assert_eq!(told(datagram(B, 1), 0), (kind::TIME_EXCEEDED, 0, 0));
    assert_eq!(told(datagram(far.address(), 64), 0), (kind::UNREACHABLE, unreachable::ADMIN_PROHIBITED, 0));
    let nowhere = Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 1);
    assert_eq!(told(datagram(nowhere, 64), 0), (kind::UNREACHABLE, unreachable::NO_ROUTE, 0));
    let other = Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 77);
    assert_eq!(told(datagram(other, 64), 4000), (kind::UNREACHABLE, unreachable::ADDRESS, 0));
    let large = PacketBuilder::ipv6(A, B).ethernet(A_MAC, own_mac(0)).udp(1, 2).payload(&[0; 1400]).build();
    lab.sent(1);
    lab.router.set_mtu(1, 1280).unwrap();
    lab.receive(0, 0, large);
    let sent = lab.sent(0);
    let (_, _, rest) = packet(&sent[0]);
    let icmp = Icmpv6Header::split(rest).unwrap().0;
    assert_eq!((icmp.kind(), icmp.rest()), (kind::PACKET_TOO_BIG, 1280));
}

/// Returns the source of the ICMPv6 error about a packet that the first link received and whose hop limit expires. The error leaves by
/// the second link.
fn expired(lab: &mut Lab) -> Ipv6Addr {
    let beside = Ipv6Addr::from_bits(B.to_bits() + 1);
    for host in [B, beside] {
        lab.router.add_neighbor(1, host, B_MAC, true).unwrap();
    }
    lab.run();
    lab.sent(1);
    lab.receive(0, 0, PacketBuilder::ipv6(B, beside).ethernet(A_MAC, own_mac(0)).ttl(1).udp(1, 2).build());
    let sent = lab.sent(1);
    packet(sent.iter().find(|f| packet(f).0.dst() == B_MAC).unwrap()).1.src()
}

#[test]
fn rfc4862_5_4_errors_are_not_sent_from_tentative_or_duplicate_addresses() {
    let mut lab = lab();
    assert_eq!(expired(&mut lab), own(0));
    let new = |n| Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, n);
    lab.router.remove_address(0, Address::new(own(0), 64)).unwrap();
    lab.router.add_address(0, Address::new(new(1), 64)).unwrap();
    lab.run();
    assert_eq!((lab.stands(0, new(1)), expired(&mut lab)), (Some(Standing::Tentative), own(1)));
    lab.pass(5000);
    assert_eq!((lab.stands(0, new(1)), expired(&mut lab)), (Some(Standing::Unique), new(1)));
    // Another station has the second address.
    lab.router.add_address(0, Address::new(new(2), 64)).unwrap();
    lab.run();
    let claim =
        Message::NeighborAdvertisement { target: new(2), router: false, solicited: false, overrides: true };
    let all = Ipv6Addr::from_bits(ipv6::ALL_NODES);
    lab.hear(0, (A_MAC, new(2)), all, claim, &[NdOption::TargetMac(A_MAC)]);
    lab.router.remove_address(0, Address::new(new(1), 64)).unwrap();
    lab.run();
    assert_eq!((lab.stands(0, new(2)), expired(&mut lab)), (Some(Standing::Duplicate), own(1)));
}

#[test]
fn rfc4291_2_5_6_link_local_packets_are_not_forwarded() {
    let mut lab = lab();
    lab.router.add_neighbor(1, B, B_MAC, true).unwrap();
    let neighbor = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    let ping =
        |src, dst| PacketBuilder::ipv6(src, dst).ethernet(A_MAC, own_mac(0)).echo_request(7, 1).build();
    lab.router.add_neighbor(0, neighbor, A_MAC, true).unwrap();
    // From a link-local address to another link.
    lab.receive(0, 0, ping(neighbor, B));
    assert_eq!(lab.sent(1).len(), 0);
    let sent = lab.sent(0);
    let icmp = *Icmpv6Header::split(packet(&sent[0]).2).unwrap().0.0.first_chunk::<2>().unwrap();
    assert_eq!(icmp, [icmpv6::kind::UNREACHABLE, icmpv6::unreachable::BEYOND_SCOPE]);
    // The router answers at its address on that link only.
    lab.receive(0, 0, ping(neighbor, link_local(0)));
    let sent = lab.sent(0);
    let (header, ip, rest) = packet(&sent[0]);
    assert_eq!((header.dst(), ip.src(), ip.dst(), rest[0]), (A_MAC, link_local(0), neighbor, 129));
    lab.receive(0, 0, ping(neighbor, link_local(1)));
    lab.receive(0, 0, ping(A, neighbor));
    // Internal table entries of a link's addresses must not be reachable by such an address.
    lab.receive(0, 0, ping(neighbor, Ipv6Addr::from_bits(link_local(1).to_bits() | 1 << 64)));
    assert_eq!((lab.sent(0).len(), lab.sent(1).len()), (0, 0));
    // Such an address can be neither a neighbor's nor the router's own.
    let of_another = Ipv6Addr::from_bits(neighbor.to_bits() | 2 << 64);
    assert!(lab.router.add_neighbor(0, of_another, A_MAC, true).is_err());
    assert!(lab.router.add_address(0, Address::new(of_another, 64)).is_err());
    // A next hop may be a link-local address; the route then names the interface.
    let far: Prefix6 = "2001:db8:5::/48".parse().unwrap();
    let via = |next_hop: Ipv6Addr, interface| Path::Via { next_hop: next_hop.into(), interface };
    lab.router.add_route(0, far, via(neighbor, Some(0))).unwrap();
    let back = PacketBuilder::ipv6(B, far.address()).ethernet(B_MAC, own_mac(1)).udp(1, 2).build();
    lab.receive(1, 0, back);
    assert_eq!(packet(&lab.sent(0)[0]).0.dst(), A_MAC);
}

#[test]
fn rfc4861_7_2_solicitations_are_answered() {
    let mut lab = lab();
    let asks = Message::NeighborSolicitation { target: own(0) };
    let group = Ipv6Addr::from_bits(ipv6::solicited_node(own(0).to_bits()));
    lab.hear(0, (A_MAC, A), group, asks, &[NdOption::SourceMac(A_MAC)]);
    let sent = lab.sent(0);
    let (header, ip, answer, options) = message(&sent[0]);
    assert_eq!(
        (header.dst(), ip.src(), ip.dst(), options.target_mac()),
        (A_MAC, own(0), A, Some(own_mac(0)))
    );
    let expected =
        Message::NeighborAdvertisement { target: own(0), router: true, solicited: true, overrides: true };
    assert_eq!(answer, expected);
    assert!(lab.host_route6(A), "the solicitation taught the sender's address");
    // Not for a host on another link.
    let group = Ipv6Addr::from_bits(ipv6::solicited_node(own(1).to_bits()));
    lab.hear(0, (A_MAC, A), group, Message::NeighborSolicitation { target: own(1) }, &[]);
    assert_eq!(lab.sent(0).len(), 0);
}

#[test]
fn rfc4862_5_4_a_duplicate_address_is_not_used() {
    let mut lab = lab();
    let new = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);
    lab.router.watch_probes(true);
    lab.router.add_address(0, Address::new(new, 64)).unwrap();
    lab.turn_workers();
    let asks = |f: &Vec<u8>| packet(f).1.next_header() == protocol::ICMPV6;
    assert!(
        !lab.sent(0).iter().any(asks),
        "not yet: workers do not know the address, and would not punt other stations' probes"
    );
    lab.run();
    let sent = lab.sent(0);
    let probe = sent.iter().find(|f| packet(f).1.next_header() == protocol::ICMPV6).unwrap();
    let (_, ip, asked, options) = message(probe);
    assert_eq!((ip.src(), asked), (Ipv6Addr::UNSPECIFIED, Message::NeighborSolicitation { target: new }));
    assert_eq!((options.source_mac(), lab.stands(0, new)), (None, Some(Standing::Tentative)));
    // The router does not send from the address yet, and knows why.
    let egress = lab.router.egress(0, B, None).unwrap();
    let why = lab.router.egress_source::<Ipv6Addr>(0, egress, Some(new.into())).unwrap_err();
    assert_eq!(why, NoSource::Tentative(new.into(), lab.router.interface(0).unwrap().name.clone()));
    // The address is not used as a source meanwhile, though it would be the first choice.
    assert_eq!(lab.router.ip6.own.get().first(0), Some(own(0)));
    assert!(lab.router.ip6.own.get().contains(0, new.to_bits()));
    // Another station has the address: the router does not use it, and forwards packets to that station.
    let what =
        Message::NeighborAdvertisement { target: new, router: false, solicited: false, overrides: true };
    lab.hear(0, (A_MAC, new), Ipv6Addr::from_bits(ipv6::ALL_NODES), what, &[NdOption::TargetMac(A_MAC)]);
    assert_eq!(lab.stands(0, new), Some(Standing::Duplicate));
    // A client that watches sees each step.
    let step = |standing, sent| Probed { interface: 0, address: new, standing, sent };
    let steps = [step(Standing::Tentative, 0), step(Standing::Tentative, 1), step(Standing::Duplicate, 1)];
    assert_eq!(lab.router.take_probed(), steps);
    lab.router.watch_probes(false);
    lab.pass(3000);
    lab.sent(0);
    lab.router.add_neighbor(0, new, A_MAC, true).unwrap_err();
    let to = PacketBuilder::ipv6(B, new).ethernet(B_MAC, own_mac(1)).udp(1, 2).build();
    lab.receive(1, 0, to);
    let sent = lab.sent(0);
    assert_eq!(message(&sent[0]).2, Message::NeighborSolicitation { target: new });
    lab.advertises(0, (A_MAC, new), own(0));
    assert_eq!(packet(&lab.sent(0)[0]).0.dst(), A_MAC);
    // A unique address is used after a second, and announced.
    let free = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 10);
    lab.router.add_address(0, Address::new(free, 64)).unwrap();
    lab.run();
    lab.sent(0);
    lab.pass(1500);
    assert_eq!(lab.stands(0, free), Some(Standing::Unique));
    let announced = lab.sent(0);
    let is_free = |f: &Vec<u8>| {
        packet(f).1.next_header() == protocol::ICMPV6
            && matches!(message(f).2, Message::NeighborAdvertisement { target, solicited: false, .. } if target == free)
    };
    assert!(announced.iter().any(is_free), "{announced:02x?}");
    lab.pass(5000);
    lab.sent(0);
}

#[test]
fn mld_queries_are_answered() {
    let mut lab = lab();
    let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    // A general version 2 query gets an answer within a second.
    let mut ip = Ipv6Header::new(router, ipv6::ALL_NODES.into(), protocol::HOP_BY_HOP, 8 + 8 + 20);
    ip.set_hop_limit(1);
    let body = [&[0; 16][..], &[2, 125, 0, 0]].concat();
    let icmp = Icmpv6Header::new(&ip, icmpv6::kind::MLD_QUERY, 0, 1000 << 16, &body);
    let query = [&ip.0[..], &[protocol::ICMPV6, 0, 5, 2, 0, 0, 1, 0], &icmp.0, &body].concat();
    lab.receive(0, 0, frame(ipv6::multicast_mac(ipv6::ALL_NODES), A_MAC, &query));
    lab.pass(1500);
    let sent = lab.sent(0);
    assert_eq!(sent.len(), 1, "{sent:02x?}");
    let (_, ip, rest) = packet(&sent[0]);
    assert_eq!(
        (ip.dst().to_bits(), ip.hop_limit(), rest[8]),
        (ipv6::ALL_MLDV2_ROUTERS, 1, icmpv6::kind::MLDV2_REPORT)
    );
    let groups: Vec<Ipv6Addr> = lab.router.groups(0).collect();
    let expected = [own(0), link_local(0)].map(|a| Ipv6Addr::from_bits(ipv6::solicited_node(a.to_bits())));
    assert!(expected.iter().all(|g| groups.contains(g)), "{groups:?}");
}

#[test]
fn rfc4861_7_3_3_a_used_neighbor_is_probed_and_removed_if_silent() {
    let mut lab = lab();
    lab.receive(0, 0, datagram(B, 64));
    lab.advertises(1, (B_MAC, B), own(1));
    assert!(lab.host_route6(B));
    let state =
        |lab: &Lab| lab.router.neighbors::<Ipv6Addr>().find(|n| n.ip == B.to_string()).map(|n| n.state);
    lab.pass(60_000);
    lab.sent(1);
    assert_eq!(state(&lab), Some("stale"));
    lab.pass(60_000);
    assert_eq!((state(&lab), lab.sent(1).len()), (Some("stale"), 0), "an unused neighbor is not probed");
    lab.receive(0, 0, datagram(B, 64));
    assert_eq!(packet(&lab.sent(1)[0]).0.dst(), B_MAC, "it is used all the same");
    lab.pass(1000);
    assert_eq!(state(&lab), Some("delay"));
    lab.pass(6000);
    let asked = lab.sent(1);
    let (header, _, what, _) = message(&asked[0]);
    assert_eq!((header.dst(), what), (B_MAC, Message::NeighborSolicitation { target: B }));
    lab.pass(4000);
    assert_eq!(state(&lab), None);
    assert!(!lab.host_route6(B));
    lab.sent(1);
}

/// A single packet counts as use of the neighbor, even if it is sent right after the entry became stale, long
/// before the next check.
#[test]
fn rfc4861_7_3_3_one_packet_counts_as_use() {
    let mut lab = lab();
    lab.receive(0, 0, datagram(B, 64));
    lab.advertises(1, (B_MAC, B), own(1));
    // With this many neighbors before this one, the checks take several turns.
    for n in 0..2000u16 {
        let other = Ipv6Addr::from_bits(own(0).to_bits() + 0x1_0000 + u128::from(n));
        lab.router.add_neighbor(0, other, A_MAC, true).unwrap();
    }
    let name = B.to_string();
    let state = |lab: &Lab| lab.router.neighbors::<Ipv6Addr>().find(|n| n.ip == name).map(|n| n.state);
    let mut turns = 0;
    while state(&lab) == Some("reachable") {
        // Seldom, because a listing visits all entries.
        for _ in 0..100 {
            lab.now += MS;
            lab.router.poll(lab.now);
            turns += 1;
        }
    }
    assert_eq!(state(&lab), Some("stale"), "after {turns} ms");
    lab.sent(1);
    lab.put(0, 0, datagram(B, 64));
    lab.turn_workers();
    assert_eq!(packet(&lab.sent(1)[0]).0.dst(), B_MAC);
    lab.pass(1000);
    assert_eq!(state(&lab), Some("delay"));
    lab.pass(6000);
    let (header, _, what, _) = message(&lab.sent(1)[0]);
    assert_eq!((header.dst(), what), (B_MAC, Message::NeighborSolicitation { target: B }));
}

/// The rules of RFC 4291 section 2.6.1 and RFC 4861 section 7.2.7.
#[test]
fn the_subnet_router_anycast_is_answered_but_never_a_source() {
    let mut lab = lab();
    let anycast = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0);
    let group = Ipv6Addr::from_bits(ipv6::solicited_node(anycast.to_bits()));
    let fe80 = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);
    assert!(lab.router.groups(0).any(|g| g == group));
    for (target, from) in [(anycast, own(0)), (fe80, link_local(0))] {
        let host = if target == fe80 { Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2) } else { A };
        let to = Ipv6Addr::from_bits(ipv6::solicited_node(target.to_bits()));
        let what = Message::NeighborSolicitation { target };
        // Two requests, answered once, within a second.
        for _ in 0..2 {
            lab.hear(0, (A_MAC, host), to, what, &[NdOption::SourceMac(A_MAC)]);
        }
        lab.pass(1000);
        let sent = lab.sent(0);
        let [answer] = &sent[..] else { panic!("{sent:02x?}") };
        let (header, ip, said, options) = message(answer);
        assert_eq!((header.dst(), ip.src(), ip.dst()), (A_MAC, from, host));
        let answer =
            Message::NeighborAdvertisement { target, router: true, solicited: true, overrides: false };
        assert_eq!((said, options.target_mac()), (answer, Some(own_mac(0))));
    }
    // A ping is answered only from an address unique to this router.
    lab.advertises(0, (A_MAC, A), own(0));
    let ping = PacketBuilder::ipv6(A, anycast).ethernet(A_MAC, own_mac(0)).echo_request(1, 2);
    for ping in [ping.clone().payload(b"data").build(), ping.extension(60, &[]).build()] {
        lab.receive(0, 0, ping);
        let sent = lab.sent(0);
        let (_, ip, rest) = packet(sent.last().expect("a reply"));
        assert_eq!((ip.src(), ip.dst(), rest[0]), (own(0), A, icmpv6::kind::ECHO_REPLY));
        let (icmp, body) = Icmpv6Header::split(rest).unwrap();
        assert!(icmp.checksum_ok(&ip, body), "the checksum is right");
    }
    // The source of an ICMP error is such an address, too, here for a port without a listener.
    lab.receive(0, 0, datagram(anycast, 64));
    let sent = lab.sent(0);
    assert_eq!(packet(&sent[0]).1.src(), own(0));
    // Another router on the link has the anycast address, too, and announces it.
    let what =
        Message::NeighborAdvertisement { target: anycast, router: true, solicited: true, overrides: false };
    lab.hear(0, (B_MAC, A), own(0), what, &[NdOption::TargetMac(B_MAC)]);
    assert_eq!(lab.router.neighbor_counters::<Ipv6Addr>().conflicts, 0);
    assert_eq!(lab.sent(0).len(), 0);
    // Without an address in the network, the router has no anycast address in it either.
    lab.router.remove_address(0, Address::new(own(0), 64)).unwrap();
    lab.run();
    lab.sent(0);
    lab.hear(0, (A_MAC, A), group, Message::NeighborSolicitation { target: anycast }, &[]);
    lab.pass(1000);
    assert_eq!(lab.sent(0).len(), 0);
    assert!(!lab.router.groups(0).any(|g| g == group));
    let route = lab.router.routes::<Ipv6Addr>().exact(0, Prefix6::host(anycast)).count();
    assert_eq!(route, 0);
}

#[test]
fn networks_of_127_and_128_bits_have_no_anycast_address() {
    let mut lab = lab();
    for (address, len) in [("2001:db8:5::1", 127), ("2001:db8:6::1", 128)] {
        let address: Ipv6Addr = address.parse().unwrap();
        lab.router.add_address(0, Address::new(address, len)).unwrap();
        lab.pass(3000);
        lab.sent(0);
        let first = Ipv6Addr::from_bits(address.to_bits() - 1);
        let group = Ipv6Addr::from_bits(ipv6::solicited_node(first.to_bits()));
        lab.hear(0, (A_MAC, A), group, Message::NeighborSolicitation { target: first }, &[]);
        lab.pass(1000);
        assert_eq!(lab.sent(0).len(), 0, "{first}");
    }
}
