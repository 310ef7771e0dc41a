//! Tests of neighbors in a whole router between two links. The test sends and receives the frames on the
//! links.

use wire::arp::ArpPacket;
use wire::builder::PacketBuilder;
use wire::{EthernetHeader, Ipv4Header, VlanTag, ethertype, icmpv4};

use super::*;
use crate::ethernet::Tags;
use crate::ip::Prefix4;
use crate::router::lab::{Lab, MS, own_mac};

/// A host on the first link.
const A: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
/// A host on the second link.
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const A_MAC: Mac = Mac([2, 0, 0, 0, 0xa, 2]);
const B_MAC: Mac = Mac([2, 0, 0, 0, 0xb, 2]);
const C_MAC: Mac = Mac([2, 0, 0, 0, 0xc, 2]);

fn own(interface: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, interface as u8 + 1, 1)
}

/// Creates a router with the addresses 10.0.1.1/24 and 10.0.2.1/24.
fn lab() -> Lab {
    Lab::new(|index| Address::new(own(index), 24))
}

impl Lab {
    fn receive_arp(&mut self, interface: u32, to: Mac, arp: ArpPacket) {
        let header = EthernetHeader::new(to, arp.sender_mac(), ethertype::ARP);
        self.receive(interface, 0, [&header.0[..], &arp.0[..]].concat());
    }

    /// Answers the router's ARP request as the requested neighbor, with this Ethernet address. Returns the
    /// request.
    fn answer(&mut self, interface: u32, mac: Mac) -> ArpPacket {
        let sent = self.sent(interface);
        assert_eq!(sent.len(), 1, "{sent:02x?}");
        let (_, request) = arp(&sent[0]);
        self.receive_arp(interface, request.sender_mac(), request.reply(mac));
        request
    }

    fn host_route(&self, address: Ipv4Addr) -> bool {
        self.router.routes::<Ipv4Addr>().exact(0, Prefix4::host(address)).any(|r| r.0 == Source::NEIGHBOR)
    }

    fn states(&self) -> Vec<(String, &'static str)> {
        self.router.neighbors::<Ipv4Addr>().map(|n| (n.ip, n.state)).collect()
    }
}

fn arp(frame: &[u8]) -> (EthernetHeader, ArpPacket) {
    let (header, rest) = EthernetHeader::split(frame).unwrap();
    assert_eq!(header.ethertype(), ethertype::ARP, "{frame:02x?}");
    let (arp, _) = ArpPacket::split(rest).unwrap();
    assert!(arp.check().is_ok());
    (*header, *arp)
}

/// Returns a frame with a packet from A to `dst`.
fn packet(dst: Ipv4Addr, id: u16) -> Vec<u8> {
    let builder = PacketBuilder::ipv4(A, dst).ethernet(A_MAC, own_mac(0)).id(id).udp(1, 2);
    builder.payload(b"data").build()
}

/// Asserts that `frame` is A's packet with this identification, forwarded from the Ethernet address `src` to
/// `dst`.
fn assert_forwarded(frame: &[u8], id: u16, src: Mac, dst: Mac) {
    let (header, rest) = EthernetHeader::split(frame).unwrap();
    assert_eq!((header.dst(), header.src(), header.ethertype()), (dst, src, ethertype::IPV4));
    let (ip, _) = Ipv4Header::split(rest).unwrap();
    assert!(ip.checksum_ok());
    assert_eq!((ip.src(), ip.id(), ip.ttl()), (A, id, 63));
}

#[test]
fn packets_wait_for_arp() {
    let mut lab = lab();
    // Each worker holds one packet.
    lab.receive(0, 0, packet(B, 1));
    lab.receive(0, 1, packet(B, 2));
    assert!(!lab.host_route(B));
    let sent = lab.sent(1);
    assert_eq!(sent.len(), 1, "one request: {sent:02x?}");
    let (header, request) = arp(&sent[0]);
    assert_eq!((header.dst(), header.src()), (Mac::BROADCAST, own_mac(1)));
    assert_eq!(request, ArpPacket::request(own_mac(1), own(1), B));

    lab.receive_arp(1, own_mac(1), request.reply(B_MAC));
    let mut sent = lab.sent(1);
    sent.sort_by_key(|f| f[14 + 5]);
    assert_eq!(sent.len(), 2);
    assert_forwarded(&sent[0], 1, own_mac(1), B_MAC);
    assert_forwarded(&sent[1], 2, own_mac(1), B_MAC);
    assert!(lab.host_route(B));

    lab.receive(0, 1, packet(B, 3));
    let sent = lab.sent(1);
    assert_eq!(sent.len(), 1);
    assert_forwarded(&sent[0], 3, own_mac(1), B_MAC);
    assert_eq!(lab.states(), [("10.0.2.2".into(), "reachable")]);
}

#[test]
fn an_unanswered_next_hop_is_reported_to_the_sender() {
    let mut lab = lab();
    lab.receive_arp(0, Mac::BROADCAST, ArpPacket::request(A_MAC, A, own(0)));
    let (header, reply) = arp(&lab.sent(0)[0]);
    assert_eq!((header.dst(), reply.op(), reply.sender_mac()), (A_MAC, 2, own_mac(0)));
    assert_eq!((reply.sender_ip(), reply.target_mac(), reply.target_ip()), (own(0), A_MAC, A));

    lab.receive(0, 1, packet(B, 1));
    lab.pass(2900);
    assert_eq!(lab.sent(1).len(), 3, "one request a second");
    assert_eq!(lab.sent(0).len(), 0);
    lab.pass(200);
    let sent = lab.sent(0);
    assert_eq!(sent.len(), 1, "one report");
    let (ip, rest) = Ipv4Header::split(&sent[0][14..]).unwrap();
    assert_eq!((ip.src(), ip.dst()), (own(0), A));
    assert_eq!((rest[0], rest[1]), (icmpv4::kind::UNREACHABLE, icmpv4::unreachable::HOST));
    assert_eq!(&rest[8..][..28], &packet(B, 1)[14..][..28], "the packet as it came");

    // Later packets are reported at once, without a request.
    lab.receive(0, 1, packet(B, 2));
    assert_eq!((lab.sent(0).len(), lab.sent(1).len()), (1, 0));
}

#[test]
fn a_route_completes_when_its_next_hop_answers() {
    let mut lab = lab();
    let far = Ipv4Addr::new(198, 51, 100, 7);
    let path = Path::Via { next_hop: B.into(), interface: None };
    lab.router.add_route(0, Prefix4::new(far, 24), path).unwrap();
    lab.receive(0, 0, packet(far, 1));
    assert_eq!(lab.answer(1, B_MAC).target_ip(), B);
    let sent = lab.sent(1);
    assert_eq!(sent.len(), 1);
    assert_forwarded(&sent[0], 1, own_mac(1), B_MAC);
    // The neighbor moves and announces its new Ethernet address; packets follow.
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::gratuitous(C_MAC, B));
    lab.receive(0, 0, packet(far, 2));
    assert_forwarded(&lab.sent(1)[0], 2, own_mac(1), C_MAC);
    // After removal, the neighbor is resolved again.
    lab.router.remove_neighbor(1, B).unwrap();
    assert!(!lab.host_route(B) && lab.router.remove_neighbor(1, B).is_err());
    lab.pass(1000);
    lab.receive(0, 0, packet(far, 3));
    lab.answer(1, B_MAC);
    assert_forwarded(&lab.sent(1)[0], 3, own_mac(1), B_MAC);
}

#[test]
fn a_static_neighbor_survives_a_down_interface() {
    let mut lab = lab();
    lab.router.add_neighbor(1, B, B_MAC, true).unwrap();
    let learned = Ipv4Addr::new(10, 0, 2, 9);
    lab.router.add_neighbor(1, learned, C_MAC, false).unwrap();
    assert!(lab.host_route(B) && lab.host_route(learned));
    let view: Vec<_> =
        lab.router.neighbors::<Ipv4Addr>().map(|n| (n.ip, n.flags, n.mac, n.interface)).collect();
    let line =
        |ip: &str, flags, mac: Mac| (ip.to_string(), flags, Some(mac.to_string()), "right".to_string());
    assert_eq!(view, [line("10.0.2.2", "S", B_MAC), line("10.0.2.9", "D", C_MAC)]);

    lab.router.set_admin(1, false).unwrap();
    assert_eq!(lab.states(), [("10.0.2.2".into(), "static")]);
    assert!(!lab.host_route(learned));
    lab.router.set_admin(1, true).unwrap();
    lab.run();
    lab.sent(1);
    lab.receive(0, 0, packet(B, 1));
    let sent = lab.sent(1);
    assert_eq!(sent.len(), 1);
    assert_forwarded(&sent[0], 1, own_mac(1), B_MAC);
    lab.router.flush_neighbors::<Ipv4Addr>(1).unwrap();
    assert_eq!(lab.states(), [("10.0.2.2".into(), "static")]);

    lab.router.remove_interface(1).unwrap();
    assert!(lab.states().is_empty());
    assert!(!lab.host_route(B));
}

#[test]
fn invalid_neighbors_are_refused() {
    let mut lab = lab();
    let loopback = lab.router.add_loopback("loop0", own_mac(9)).unwrap();
    for (interface, address, mac) in [
        (77, B, B_MAC),
        (loopback, B, B_MAC),
        (1, B, Mac::BROADCAST),
        (1, B, Mac::ZERO),
        (1, own(1), B_MAC),
        (1, Ipv4Addr::new(10, 0, 2, 0), B_MAC),
        (1, Ipv4Addr::new(10, 0, 2, 255), B_MAC),
        (1, Ipv4Addr::new(224, 0, 0, 1), B_MAC),
        (1, Ipv4Addr::UNSPECIFIED, B_MAC),
    ] {
        assert!(
            lab.router.add_neighbor(interface, address, mac, true).is_err(),
            "{interface} {address} {mac}"
        );
    }
    lab.router.set_neighbor_config::<Ipv4Addr>(neighbor::Config { max_entries: 1, ..Default::default() });
    lab.router.add_neighbor(1, B, B_MAC, true).unwrap();
    assert!(lab.router.add_neighbor(0, A, A_MAC, true).is_err());
    lab.router.add_neighbor(1, B, C_MAC, true).unwrap();
    assert_eq!(lab.states().len(), 1);
    // An entry learned before the limit was set does not count as a static neighbor either.
    lab.router.set_neighbor_config::<Ipv4Addr>(neighbor::Config::default());
    lab.router.add_neighbor(0, A, A_MAC, false).unwrap();
    lab.router.set_neighbor_config::<Ipv4Addr>(neighbor::Config { max_entries: 1, ..Default::default() });
    assert!(lab.router.add_neighbor(0, A, A_MAC, true).is_err());
}

#[test]
fn an_address_is_announced_when_it_can_be_used() {
    let mut lab = lab();
    let announced = |lab: &mut Lab| -> Vec<Ipv4Addr> {
        let sent = lab.sent(1);
        sent.iter().map(|f| arp(f)).for_each(|(h, a)| {
            assert!(h.dst().is_broadcast() && a.is_gratuitous() && a.op() == 1);
            assert_eq!((h.src(), a.sender_mac()), (own_mac(1), own_mac(1)));
        });
        sent.iter().map(|f| arp(f).1.sender_ip()).collect()
    };
    let second = Address::new(Ipv4Addr::new(10, 0, 3, 1), 24);
    lab.router.set_admin(1, false).unwrap();
    lab.router.add_address(1, second).unwrap();
    lab.pass(3000);
    assert!(announced(&mut lab).is_empty(), "not while it is down");
    lab.router.set_admin(1, true).unwrap();
    lab.run();
    assert_eq!(announced(&mut lab), [own(1), Ipv4Addr::new(10, 0, 3, 1)]);
    lab.pass(1900);
    assert!(announced(&mut lab).is_empty());
    lab.pass(200);
    assert_eq!(announced(&mut lab), [own(1), Ipv4Addr::new(10, 0, 3, 1)]);
    lab.router.remove_address(1, second).unwrap();
    lab.pass(5000);
    assert!(announced(&mut lab).is_empty());
    lab.router.add_address(1, second).unwrap();
    lab.run();
    assert_eq!(announced(&mut lab), [second.address], "only what is new");
    assert_eq!(lab.router.next_timeout(), Some(lab.now + 2000 * MS));
}

#[test]
fn arp_requests_have_a_source_in_the_neighbors_network() {
    let mut lab = lab();
    let second = Ipv4Addr::new(10, 0, 3, 1);
    lab.router.add_address(1, Address::new(second, 24)).unwrap();
    lab.pass(3000);
    lab.sent(1);
    lab.receive(0, 0, packet(Ipv4Addr::new(10, 0, 3, 7), 1));
    assert_eq!(arp(&lab.sent(1)[0]).1.sender_ip(), second);
    // A next hop outside the interface's networks is requested from the interface's first address.
    let (far, hop) = (Ipv4Addr::new(198, 51, 100, 7), Ipv4Addr::new(172, 16, 0, 1));
    let path = Path::Via { next_hop: hop.into(), interface: Some(1) };
    lab.router.add_route(0, Prefix4::host(far), path).unwrap();
    lab.receive(0, 0, packet(far, 2));
    let request = lab.answer(1, C_MAC);
    assert_eq!((request.sender_ip(), request.target_ip()), (own(1), hop));
    assert_forwarded(&lab.sent(1)[0], 2, own_mac(1), C_MAC);
    assert!(!lab.host_route(hop), "it is on no connected network");
}

#[test]
fn rfc826_any_arp_request_updates_its_senders_entry() {
    let mut lab = lab();
    lab.receive(0, 0, packet(B, 1));
    lab.answer(1, B_MAC);
    lab.sent(1);
    let other = Ipv4Addr::new(10, 0, 2, 77);
    // A repetition of the known address changes nothing, and stays on the worker.
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::request(B_MAC, B, other));
    lab.receive(0, 0, packet(B, 2));
    assert_forwarded(&lab.sent(1)[0], 2, own_mac(1), B_MAC);
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::request(C_MAC, B, other));
    lab.receive(0, 0, packet(B, 3));
    assert_forwarded(&lab.sent(1)[0], 3, own_mac(1), C_MAC);
    // A station is not learned from its requests to others.
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::request(A_MAC, other, B));
    assert!(!lab.host_route(other));
}

#[test]
fn own_addresses_are_defended() {
    let mut lab = lab();
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::gratuitous(C_MAC, own(1)));
    let sent = lab.sent(1);
    assert_eq!(sent.len(), 1);
    assert_eq!(arp(&sent[0]).1, ArpPacket::gratuitous(own_mac(1), own(1)));
    assert_eq!((lab.states(), lab.router.neighbor_counters::<Ipv4Addr>().conflicts), (vec![], 1));
    // The router's other interface on the same link is not a neighbor.
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::gratuitous(own_mac(0), own(1)));
    assert_eq!(lab.router.neighbor_counters::<Ipv4Addr>().conflicts, 1);
}

#[test]
fn only_senders_in_the_interfaces_network_are_learned() {
    let mut lab = lab();
    for (address, learned) in [
        (Ipv4Addr::new(10, 0, 2, 77), true),
        (Ipv4Addr::new(10, 0, 1, 77), false),
        (Ipv4Addr::new(10, 0, 2, 0), false),
        (Ipv4Addr::new(10, 0, 2, 255), false),
        (Ipv4Addr::UNSPECIFIED, false),
    ] {
        lab.receive_arp(1, Mac::BROADCAST, ArpPacket::request(C_MAC, address, own(1)));
        assert_eq!(lab.sent(1).len(), 1, "{address} is answered");
        assert_eq!(lab.states().iter().any(|s| s.0 == address.to_string()), learned, "{address}");
    }
    // An address of the other interface is not on this link.
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::request(C_MAC, B, own(0)));
    assert_eq!(lab.sent(1).len(), 0);
}

#[test]
fn neighbors_are_removed_with_their_network() {
    let mut lab = lab();
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::request(B_MAC, B, own(1)));
    lab.router.add_neighbor(1, Ipv4Addr::new(10, 0, 2, 9), C_MAC, true).unwrap();
    assert!(lab.host_route(B));
    let address = Address::new(own(1), 24);
    lab.router.remove_address(1, address).unwrap();
    assert_eq!(lab.states(), [("10.0.2.9".into(), "static")]);
    assert!(!lab.host_route(B) && !lab.host_route(Ipv4Addr::new(10, 0, 2, 9)));
    lab.router.add_address(1, address).unwrap();
    assert!(lab.host_route(Ipv4Addr::new(10, 0, 2, 9)), "the static one has its route again");
}

#[test]
fn sub_interfaces_have_their_own_neighbors() {
    let mut lab = lab();
    let tags = Tags { outer_service: false, outer: 100, inner: None };
    let sub = lab.router.add_subinterface("right.100", 1, tags).unwrap();
    lab.router.set_admin(sub, true).unwrap();
    let address = Ipv4Addr::new(10, 0, 100, 1);
    lab.router.add_address(sub, Address::new(address, 24)).unwrap();
    lab.pass(3000);
    let tagged = |frame: &[u8]| {
        let (header, rest) = EthernetHeader::split(frame).unwrap();
        let (tag, rest) = VlanTag::split(rest).unwrap();
        assert_eq!((header.ethertype(), tag.vid()), (ethertype::VLAN, 100));
        (tag.ethertype(), rest.to_vec())
    };
    for frame in lab.sent(1) {
        let (kind, arp) = tagged(&frame);
        assert_eq!((kind, &arp[..]), (ethertype::ARP, &ArpPacket::gratuitous(own_mac(1), address).0[..]));
    }
    let c = Ipv4Addr::new(10, 0, 100, 2);
    lab.receive(0, 0, packet(c, 1));
    let (_, request) = tagged(&lab.sent(1)[0]);
    let reply = ArpPacket::split(&request).unwrap().0.reply(C_MAC);
    let mut frame = EthernetHeader::new(own_mac(1), C_MAC, ethertype::VLAN).0.to_vec();
    frame.extend(VlanTag::new(100, ethertype::ARP).0);
    frame.extend(reply.0);
    lab.receive(1, 0, frame);
    let (kind, ip) = tagged(&lab.sent(1)[0]);
    assert_eq!((kind, Ipv4Header::split(&ip).unwrap().0.dst()), (ethertype::IPV4, c));
    // The device goes down, and so does its sub-interface.
    lab.router.set_admin(1, false).unwrap();
    assert!(lab.states().is_empty());
}

#[test]
fn packets_to_interfaces_without_arp_are_reported_at_once() {
    let mut lab = lab();
    lab.receive_arp(0, Mac::BROADCAST, ArpPacket::request(A_MAC, A, own(0)));
    lab.sent(0);
    // The interface goes down while the request is pending.
    lab.put(0, 0, packet(B, 1));
    lab.turn_workers();
    lab.router.set_admin(1, false).unwrap();
    lab.run();
    assert_eq!((lab.sent(0).len(), lab.router.neighbor_counters::<Ipv4Addr>().requests), (1, 0));
    assert_eq!(lab.states(), [("10.0.1.2".into(), "reachable")]);
}

#[test]
fn waiting_packets_expire_after_the_last_request() {
    let mut lab = lab();
    lab.receive(0, 0, packet(B, 1));
    // The main thread drops the neighbor's entry, as if the request had been lost.
    lab.router.near.neighbors4 = Default::default();
    lab.pass(5900);
    let expired = |lab: &Lab| lab.router.graph().stats().dropped_for("arp-release", "hold-expired").unwrap();
    assert_eq!(expired(&lab), 0);
    lab.pass(200);
    assert_eq!(expired(&lab), 1);
    assert_eq!(lab.router.next_timeout(), None);
}

#[test]
fn rfc1027_proxy_arp_answers_for_hosts_behind_other_interfaces() {
    let mut lab = lab();
    // A takes B, on the other link, for a host on its own link.
    let asks = |target| ArpPacket::request(A_MAC, A, target);
    lab.receive_arp(0, Mac::BROADCAST, asks(B));
    assert_eq!(lab.sent(0).len(), 0, "proxy ARP is off by default");
    lab.router.set_proxy(0, true).unwrap();
    lab.receive_arp(0, Mac::BROADCAST, asks(B));
    let (header, reply) = arp(&lab.sent(0)[0]);
    assert_eq!((header.dst(), reply.sender_mac(), reply.sender_ip()), (A_MAC, own_mac(0), B));
    // The proxy does not answer for a host on the same link, for an address without a route, or for the sender's own address.
    lab.receive_arp(0, Mac::BROADCAST, asks(Ipv4Addr::new(10, 0, 1, 77)));
    lab.receive_arp(0, Mac::BROADCAST, asks(Ipv4Addr::new(198, 51, 100, 1)));
    lab.receive_arp(0, Mac::BROADCAST, ArpPacket::request(A_MAC, B, B));
    assert_eq!(lab.sent(0).len(), 0);
    // A default route covers addresses that no host has.
    let (path, far) = (Path::Via { next_hop: B.into(), interface: None }, Ipv4Addr::new(198, 51, 100, 1));
    lab.router.add_route(0, Prefix4::new(Ipv4Addr::UNSPECIFIED, 0), path).unwrap();
    lab.receive(0, 0, packet(far, 1));
    lab.answer(1, B_MAC);
    lab.sent(1);
    for target in ["224.0.0.1", "239.255.255.250", "255.255.255.255", "127.0.0.1", "0.0.0.0"] {
        lab.receive_arp(0, Mac::BROADCAST, asks(target.parse().unwrap()));
        assert_eq!(lab.sent(0).len(), 0, "{target}");
    }
    lab.receive_arp(0, Mac::BROADCAST, asks(far));
    assert_eq!(lab.sent(0).len(), 1);
    lab.router.set_proxy(0, false).unwrap();
    lab.receive_arp(0, Mac::BROADCAST, asks(B));
    assert_eq!(lab.sent(0).len(), 0);
}

#[test]
fn an_unnumbered_interface_uses_the_lent_address_as_source() {
    let mut lab = lab();
    lab.router.remove_address(1, Address::new(own(1), 24)).unwrap();
    let loop0 = lab.router.add_loopback("loop0", Mac([2, 0, 0, 0, 9, 9])).unwrap();
    let lent = Ipv4Addr::new(192, 0, 2, 1);
    lab.router.set_admin(loop0, true).unwrap();
    lab.router.add_address(loop0, Address::new(lent, 32)).unwrap();
    lab.router.set_unnumbered(1, Some(loop0)).unwrap();
    lab.router.add_route(0, Prefix4::host(B), Path::Attached(1)).unwrap();
    lab.pass(5000);
    lab.sent(1);
    // Hosts on the unnumbered interface's link are requested from the borrowed address, and the router answers requests for that address.
    lab.receive(0, 0, packet(B, 1));
    assert_eq!(lab.answer(1, B_MAC), ArpPacket::request(own_mac(1), lent, B));
    assert_forwarded(&lab.sent(1)[0], 1, own_mac(1), B_MAC);
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::request(B_MAC, B, lent));
    assert_eq!(arp(&lab.sent(1)[0]).1.sender_mac(), own_mac(1));

    let why = |done: Result<(), RouterError>| done.unwrap_err().why;
    let address = Address::new(own(1), 24);
    assert!(why(lab.router.add_address(1, address)).contains("right uses the addresses of loop0"));
    assert!(why(lab.router.set_unnumbered(0, Some(loop0))).contains("left has addresses of its own"));
    assert!(why(lab.router.set_unnumbered(loop0, Some(loop0))).contains("unnumbered to itself"));
    // The interface is no longer unnumbered after the lending interface is removed.
    lab.router.remove_interface(loop0).unwrap();
    lab.router.add_address(1, address).unwrap();
    lab.pass(5000);
    lab.sent(1);
}
