//! Tests `ip4-redirect` on its arc.

use std::net::Ipv4Addr;
use std::time::Duration;

use buf::Flags;
use graph::ArcKey;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::{IcmpHeader, Ipv4Header, Mac};

use net::adjacency::Adjacency;
use net::testing::{Bench, checksum};

use crate::{Redirects, install};

const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The better first hop, a neighbor on the link.
const BETTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// A destination behind the better first hop.
const FAR: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

/// A graph with the node and the interfaces `link` and `other`. The host and the better first hop are neighbors on `link`.
struct Lab {
    link: u32,
    other: u32,
    /// Adjacencies on `link`: to `BETTER`, to a neighbor on another network of the link, and to the host.
    via: [u32; 3],
    h: Harness,
    bench: Bench,
}

fn lab() -> Lab {
    let mut bench = Bench::new();
    let (link, other) = (bench.interface(0, Some(OWN)), bench.interface(0, None));
    let mut adjacency = |next_hop| {
        let record = Adjacency { rewrite: None, interface: link, mtu: 1500, next_hop };
        bench.writers.adjacencies.insert(record).unwrap()
    };
    let via = [adjacency(BETTER.into()), adjacency([10, 0, 0, 2].into()), adjacency(HOST.into())];
    let mut h = bench.harness(|b, t, hooks| {
        b.arc("ip4-output", "interface-output", ArcKey::Tx);
        install(b, t, hooks).unwrap();
    });
    h.arcs().enable("ip4-output", "ip4-redirect", link, true).unwrap();
    Lab { link, other, via, h, bench }
}

fn packet(src: Ipv4Addr) -> PacketBuilder {
    PacketBuilder::ipv4(src, FAR).ttl(9).udp(1, 2).payload(b"data").ethernet(Mac([2; 6]), Mac([4; 6]))
}

impl Lab {
    fn send(&mut self, packet: &[u8], rx: u32, via: u32, flags: Flags) -> Vec<Out> {
        let tx = self.link;
        self.h.send("ip4-redirect", &[packet], |_, p| {
            assert!(p.advance(14));
            p.mark_l3(14);
            p.rewind_to_l2();
            p.set_rx_if(rx);
            p.set_tx_if(tx);
            p.set_fwd(via);
            p.set_flags(p.flags() | flags);
        })
    }
}

/// Checks that the packet was forwarded unchanged, and returns the redirects.
fn check(out: Vec<Out>, packet: &[u8]) -> Vec<Out> {
    let (passed, redirects): (Vec<Out>, Vec<Out>) =
        out.into_iter().partition(|o| o.node == "interface-output");
    assert_eq!(passed.len(), 1, "the packet is forwarded nevertheless");
    assert_eq!(passed[0].bytes, packet);
    redirects
}

#[test]
fn rfc1812_5_2_7_2_a_host_is_redirected_to_a_better_first_hop() {
    let mut lab = lab();
    let packet = packet(HOST).build();
    let out = lab.send(&packet, lab.link, lab.via[0], Flags::NONE);
    let redirects = check(out, &packet);
    assert_eq!(redirects.len(), 1);
    assert_eq!((redirects[0].node.as_str(), redirects[0].reason), ("ip4-lookup", None));
    assert!(redirects[0].record.flags.any(Flags::LOCAL_ORIGIN));
    let (ip, rest) = Ipv4Header::split(&redirects[0].bytes).unwrap();
    let (icmp, quote) = IcmpHeader::split(rest).unwrap();
    assert_eq!((ip.src(), ip.dst(), checksum(rest)), (OWN, HOST, 0));
    assert_eq!((icmp.kind(), icmp.code(), icmp.rest()), (5, 1, BETTER.to_bits()));
    assert_eq!(quote, &packet[14..]);
    let sent = lab.bench.counts::<Redirects>();
    assert_eq!([lab.link, lab.other].map(|interface| sent.read(interface)), [[1], [0]]);
}

#[test]
fn hosts_without_a_better_first_hop_get_no_redirect() {
    let mut lab = lab();
    let cases = [
        ("from another link", packet(HOST), lab.other, lab.via[0], Flags::NONE),
        (
            "a source on another network",
            packet(Ipv4Addr::new(203, 0, 113, 1)),
            lab.link,
            lab.via[0],
            Flags::NONE,
        ),
        ("a next hop on another network of the link", packet(HOST), lab.link, lab.via[1], Flags::NONE),
        ("back to the sender", packet(HOST), lab.link, lab.via[2], Flags::NONE),
        ("the router's own packet", packet(OWN), lab.link, lab.via[0], Flags::LOCAL_ORIGIN),
        ("an ICMP error", packet(HOST).icmp(3, 0, 0), lab.link, lab.via[0], Flags::NONE),
        ("a later fragment", packet(HOST).fragment(5, true), lab.link, lab.via[0], Flags::NONE),
        ("a removed neighbor", packet(HOST), lab.link, 77, Flags::NONE),
    ];
    for (what, packet, rx, via, flags) in cases {
        let packet = packet.build();
        let out = lab.send(&packet, rx, via, flags);
        assert_eq!(check(out, &packet).len(), 0, "{what}");
    }
    assert_eq!(lab.bench.counts::<Redirects>().read(lab.link), [0]);
}

#[test]
fn rfc1812_4_3_2_8_redirects_are_rate_limited() {
    let mut lab = lab();
    let packet = packet(HOST).build();
    let told = |lab: &mut Lab, n: usize| {
        (0..n)
            .map(|_| check(lab.send(&packet, lab.link, lab.via[0], Flags::NONE), &packet).len())
            .sum::<usize>()
    };
    assert_eq!(told(&mut lab, 30), 10);
    assert_eq!(lab.h.dropped("ip4-redirect", "unredirected-limit"), 20);
    lab.h.advance(Duration::from_millis(50));
    assert_eq!(told(&mut lab, 30), 5);
    assert_eq!(lab.bench.counts::<Redirects>().read(lab.link), [15], "only sent redirects count");
}
