//! Tests the router's own interface in a bridge domain, in a whole router.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use net::ip::Address;
use net::testing::checksum;
use wire::Mac;

use super::BridgePort;
use super::tests::{ALL, Bridged, DOMAINS, station};

pub(super) const BVI: Mac = Mac([2, 0, 0, 0, 0xc, 1]);
const OTHER: Mac = Mac([2, 0, 0, 0, 0xc, 2]);
pub(super) const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
pub(super) const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 5);
/// A host on the right link, which is routed.
pub(super) const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 9);
pub(super) const FAR_MAC: Mac = Mac([2, 0, 0, 0, 0xd, 9]);

/// An ARP message.
pub(super) fn arp(
    op: u8,
    (src, src_ip): (Mac, Ipv4Addr),
    dst: Mac,
    (target, target_ip): (Mac, Ipv4Addr),
) -> Vec<u8> {
    let head = [8, 6, 0, 1, 8, 0, 6, 4, 0, op];
    let ips = [src_ip.octets(), target_ip.octets()];
    [&dst.0[..], &src.0, &head, &src.0, &ips[0], &target.0, &ips[1]].concat()
}

/// An IPv4 packet in a frame, with this TTL.
pub(super) fn packet((src, from): (Mac, Ipv4Addr), (dst, to): (Mac, Ipv4Addr), ttl: u8) -> Vec<u8> {
    let mut header = [0x45, 0, 0, 40, 0, 0, 0, 0, ttl, 200, 0, 0].to_vec();
    header.extend([from.octets(), to.octets()].concat());
    let sum = checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    [&dst.0[..], &src.0, &[8, 0], &header, &[7; 20]].concat()
}

impl Bridged {
    /// A frame arrives at a port, with the port's tag.
    pub(super) fn hear(&mut self, port: usize, frame: &[u8]) {
        let tag = [0x81, 0, 0, 1 + port as u8];
        let tagged = [&frame[..12], &tag, &frame[12..]].concat();
        self.lab.receive(port as u32 % 2, 0, tagged);
    }

    /// Returns the sent frames with their ports, without the ports' tags. The port is `None` for frames of the right link without a tag.
    pub(super) fn told(&mut self) -> BTreeSet<(Option<usize>, Vec<u8>)> {
        let links = [self.lab.sent(0), self.lab.sent(1)];
        let all = links
            .into_iter()
            .enumerate()
            .flat_map(|(link, frames)| frames.into_iter().map(move |f| (link, f)));
        let named = all.filter_map(|(link, frame)| match frame[12..14] {
            [0x81, 0] => Some((Some(usize::from(frame[15]) - 1), [&frame[..12], &frame[16..]].concat())),
            _ => (link == 1).then_some((None, frame)),
        });
        named.filter(|(_, frame)| matches!(frame[12..14], [8, _] | [0x88, 0xb5] | [0x86, 0xdd])).collect()
    }

    /// Adds a loopback with this Ethernet address to the domain 7.
    pub(super) fn with_bvi(ports: usize) -> (Bridged, u32) {
        let mut router = Bridged::new();
        (0..ports).for_each(|port| router.join(port, 7, BridgePort::PLAIN));
        let r = &mut router.lab.router;
        let bvi = r.add_loopback("loop0", BVI).unwrap();
        r.set_admin(bvi, true).unwrap();
        r.add_address(bvi, Address::new(ROUTER, 24)).unwrap();
        super::attach(r, bvi, 7, 0).unwrap();
        r.add_neighbor(1, FAR, FAR_MAC, true).unwrap();
        router.lab.pass(5000);
        router.told();
        (router, bvi)
    }
}

#[test]
fn hosts_of_a_domain_reach_the_router_and_each_other() {
    let (mut router, bvi) = Bridged::with_bvi(3);
    let question = arp(1, (station(5), HOST), ALL, (Mac([0; 6]), ROUTER));
    router.hear(0, &question);
    let answer = arp(2, (BVI, ROUTER), station(5), (station(5), HOST));
    let expected = [(Some(0), answer), (Some(1), question.clone()), (Some(2), question)];
    assert_eq!(router.told(), expected.into());

    // From the domain to another link, and back: the station is known.
    router.hear(0, &packet((station(5), HOST), (BVI, FAR), 64));
    let sent = packet((net::testing::own_mac(1), HOST), (FAR_MAC, FAR), 63);
    assert_eq!(router.told(), [(None, sent)].into());
    router.lab.receive(1, 0, packet((FAR_MAC, FAR), (net::testing::own_mac(1), HOST), 9));
    assert_eq!(router.told(), [(Some(0), packet((BVI, FAR), (station(5), HOST), 8))].into());
    let totals = router.lab.router.tables().counters.totals(bvi, 0);
    assert!(totals.rx_packets == 2 && totals.tx_packets >= 2, "{totals:?}");

    // The router asks all ports for an unknown host.
    let unknown = Ipv4Addr::new(10, 9, 0, 77);
    router.lab.receive(1, 0, packet((FAR_MAC, FAR), (net::testing::own_mac(1), unknown), 9));
    let question = arp(1, (BVI, ROUTER), ALL, (Mac([0; 6]), unknown));
    assert_eq!(router.told(), (0..3).map(|port| (Some(port), question.clone())).collect());
    router.hear(2, &arp(2, (station(7), unknown), BVI, (BVI, ROUTER)));
    assert_eq!(router.told(), [(Some(2), packet((BVI, FAR), (station(7), unknown), 8))].into());
}

#[test]
fn the_routers_address_stays_its_own() {
    let (mut router, bvi) = Bridged::with_bvi(3);
    // Nobody else may use the address.
    router.hear(1, &packet((BVI, HOST), (ALL, FAR), 64));
    assert_eq!((router.told(), router.dropped("static-moved")), ([].into(), 1));
    // Frames to unknown stations are not for the router.
    router.hear(1, &packet((station(6), HOST), (station(99), ROUTER), 64));
    let ports: Vec<_> = router.told().into_iter().map(|(port, _)| port).collect();
    assert_eq!(ports, [Some(0), Some(2)]);
    assert_eq!(router.lab.router.tables().counters.totals(bvi, 0).rx_packets, 0);

    router.lab.router.set_mac(bvi, Some(OTHER)).unwrap();
    router.lab.run();
    router.told();
    let ping = |mac| packet((station(6), HOST), (mac, FAR), 64);
    router.hear(1, &ping(OTHER));
    assert_eq!(router.told().len(), 1, "routed");
    router.hear(1, &ping(BVI));
    assert_eq!(
        router.told(),
        [0, 2].map(|port| (Some(port), ping(BVI))).into(),
        "flooded: an unknown station"
    );
}

#[test]
fn a_domain_has_one_bvi_which_is_a_loopback_and_leaves() {
    let (mut router, bvi) = Bridged::with_bvi(2);
    let port = router.ports[0];
    let r = &mut router.lab.router;
    let second = r.add_loopback("loop1", OTHER).unwrap();
    assert!(super::attach(r, second, 7, 0).unwrap_err().to_string().contains("has a BVI already"));
    assert!(super::attach(r, bvi, DOMAINS[1], 0).unwrap_err().to_string().contains("domain 7 already"));
    assert!(super::attach(r, port, DOMAINS[1], 0).unwrap_err().to_string().contains("not a loopback"));
    assert!(
        super::attach(r, second, 12345, 0).is_err() && super::join(r, second, 7, BridgePort::PLAIN).is_err()
    );
    assert_eq!(super::bvi::of(r, second), None);
    assert!(!r.interface(second).unwrap().kind.has_neighbors());
    // In a split-horizon group, the router and the ports of the group do not reach each other.
    super::attach(r, bvi, 7, 3).unwrap();
    router.join(0, 7, BridgePort { group: 3, ..BridgePort::PLAIN });
    for port in [0, 1] {
        router.hear(port, &arp(1, (station(5), HOST), ALL, (Mac([0; 6]), ROUTER)));
        router.hear(port, &packet((station(5), HOST), (BVI, FAR), 64));
    }
    assert_eq!(router.told().iter().filter(|(port, _)| port.is_none()).count(), 1, "port 1 is in no group");
    assert_eq!(router.dropped("split-horizon"), 1);

    super::detach(&mut router.lab.router, bvi).unwrap();
    assert!(!router.lab.router.interface(bvi).unwrap().kind.has_neighbors());
    router.hear(1, &arp(1, (station(5), HOST), ALL, (Mac([0; 6]), ROUTER)));
    assert!(router.told().iter().all(|(port, _)| *port == Some(0)), "nobody answers");
    super::attach(&mut router.lab.router, second, 7, 0).unwrap();
    assert_eq!(super::bvi::of(&router.lab.router, second), Some((7, 0)));
    router.lab.router.remove_interface(second).unwrap();
    router.hear(1, &packet((station(5), HOST), (OTHER, FAR), 64));
}

/// What the main thread hears after the loopback has left its domain is forgotten.
#[test]
fn a_loopback_without_a_domain_has_no_neighbors() {
    let (mut router, bvi) = Bridged::with_bvi(2);
    let question = arp(1, (station(5), HOST), ALL, (Mac([0; 6]), ROUTER));
    let tagged = [&question[..12], &[0x81, 0, 0, 1], &question[12..]].concat();
    router.lab.put(0, 0, tagged);
    (0..3).for_each(|_| router.lab.turn_workers());
    super::detach(&mut router.lab.router, bvi).unwrap();
    router.lab.run();
    let gone = router.lab.router.graph().stats().dropped_for(graph::stats::MAIN_THREAD, "interface-gone");
    assert_eq!(gone, Some(1), "the question had come to the main thread");
    assert!(router.lab.router.remove_neighbor(bvi, HOST).is_err(), "no neighbor was learned");
    assert_eq!(router.told().iter().filter(|(port, _)| *port == Some(0)).count(), 0, "no answer");
    super::attach(&mut router.lab.router, bvi, 7, 0).unwrap();
    router.lab.pass(1000);
    router.told();
    router.hear(0, &question);
    assert_eq!(router.told().iter().filter(|(port, _)| *port == Some(0)).count(), 1);
    assert!(router.lab.router.remove_neighbor(bvi, HOST).is_ok());
}
