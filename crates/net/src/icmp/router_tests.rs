//! Tests of ICMP errors that a whole router sends to a neighboring host.

use std::net::Ipv4Addr;

use drivers::pktgen::{self, Generator, Sink, Stream, Template};
use graph::Worker;
use wire::builder::PacketBuilder;
use wire::{EthernetHeader, IcmpHeader, Ipv4Header, Mac};

use crate::ip::{Address, Path, Prefix4};
use crate::router::Router;
use crate::testing;

const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const HOST_MAC: Mac = Mac([2, 0, 0, 0, 1, 2]);
const ROUTER_MAC: Mac = Mac([2, 0, 0, 0, 1, 1]);

/// A router with two links: the host's, and one with a smaller MTU. The neighbors on both links are resolved.
struct Lab {
    router: Router,
    worker: Worker,
    generator: Generator,
    sink: Sink,
}

impl Lab {
    fn new() -> Lab {
        let (mut router, worker) = testing::router();
        let mut ends = Vec::new();
        for (i, mtu, mac, host_mac) in [(1, 1500, ROUTER_MAC, HOST_MAC), (2, 1000, Mac([2; 6]), Mac([4; 6]))]
        {
            let (device, generator, sink) =
                pktgen::open(&pktgen::Config { mac: mac.0, ..Default::default() });
            let index = router.add_device(&format!("pg{i}"), device).unwrap();
            router.set_mtu(index, mtu).unwrap();
            router.add_address(index, Address::new(Ipv4Addr::new(10, 0, i, 1), 24)).unwrap();
            router.set_admin(index, true).unwrap();
            router.add_neighbor(index, Ipv4Addr::new(10, 0, i, 2), host_mac, true).unwrap();
            ends.push((generator, sink));
        }
        let prohibited: Prefix4 = "192.0.2.0/24".parse().unwrap();
        router.add_route(0, prohibited, Path::Prohibit).unwrap();
        let (generator, sink) = ends.remove(0);
        let mut lab = Lab { router, worker, generator, sink };
        lab.turns();
        lab.sink.keep(8);
        lab
    }

    fn turns(&mut self) {
        for now in 1..4 {
            testing::turn(&self.router, &mut self.worker);
            self.router.poll(now);
        }
    }

    /// Sends a packet from the host to the router. Returns the packets that the router sends back to the
    /// host.
    fn send(&mut self, packet: &PacketBuilder) -> Vec<Vec<u8>> {
        let frame = packet.clone().ethernet(HOST_MAC, ROUTER_MAC).build();
        let templates = vec![Template::fixed(frame)];
        let stream = Stream { name: "s".into(), templates, limit: Some(1), ..Stream::default() };
        self.generator.add(stream).unwrap();
        self.generator.set_enabled(None, true);
        self.turns();
        self.generator.remove("s");
        let back = self.sink.take().into_iter().map(|captured| captured.bytes);
        let to_host = back.map(|frame| {
            let (ethernet, packet) = EthernetHeader::split(&frame).unwrap();
            assert_eq!((ethernet.dst(), ethernet.src()), (HOST_MAC, ROUTER_MAC));
            packet.to_vec()
        });
        to_host.collect()
    }
}

#[test]
fn a_host_gets_the_icmp_errors_of_rfc1812() {
    let mut lab = Lab::new();
    let to = |dst| PacketBuilder::ipv4(HOST, dst).udp(1000, 33434).payload(b"probe");
    let (nowhere, prohibited) = (Ipv4Addr::new(172, 16, 0, 1), Ipv4Addr::new(192, 0, 2, 1));
    let cases = [
        ("5.3.1, a hop of a traceroute", to(FAR).ttl(1), (11, 0, 0), ROUTER),
        ("its last hop", to(ROUTER).ttl(1), (3, 3, 0), ROUTER),
        (
            "its last hop, by another address",
            to(Ipv4Addr::new(10, 0, 2, 1)),
            (3, 3, 0),
            Ipv4Addr::new(10, 0, 2, 1),
        ),
        ("5.2.7.1, no route", to(nowhere), (3, 0, 0), ROUTER),
        ("5.2.7.1, a prohibiting route", to(prohibited), (3, 13, 0), ROUTER),
        ("an unknown protocol", to(ROUTER).protocol(200), (3, 2, 0), ROUTER),
        ("RFC 1191, too large", to(FAR).payload(&[0; 1200]).dont_fragment(), (3, 4, 1000), ROUTER),
    ];
    for (what, packet, message, from) in cases {
        let back = lab.send(&packet);
        assert_eq!(back.len(), 1, "{what}");
        let (ip, rest) = Ipv4Header::split(&back[0]).unwrap();
        let (icmp, quote) = IcmpHeader::split(rest).unwrap();
        assert_eq!((icmp.kind(), icmp.code(), icmp.rest()), message, "{what}");
        assert_eq!((ip.src(), ip.dst(), ip.ttl()), (from, HOST, 255), "{what}");
        let sent = packet.build();
        // The TTL may already be decremented (RFC 1812 section 4.3.2.3).
        assert_eq!((quote[0], &quote[12..]), (sent[0], &sent[12..sent.len().min(548)]), "{what}");
    }
}

#[test]
fn a_host_pings_the_router() {
    let mut lab = Lab::new();
    for own in [ROUTER, Ipv4Addr::new(10, 0, 2, 1)] {
        let request = PacketBuilder::ipv4(HOST, own).ttl(1).echo_request(7, 8).payload(&[1; 1000]);
        let back = lab.send(&request);
        let reply = PacketBuilder::ipv4(own, HOST).icmp(0, 0, 7 << 16 | 8).payload(&[1; 1000]);
        assert_eq!(back, [reply.build()]);
    }
}
