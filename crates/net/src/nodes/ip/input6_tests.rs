//! `ip6-input` and `ip6-multicast`.

use std::net::Ipv6Addr;

use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::extension::option;
use wire::icmpv6::kind;
use wire::{Ipv6Header, protocol};

use super::{input6::Ip6Input, multicast6::Ip6Multicast};
use crate::testing::Bench;

/// The receive interface.
const RX: u32 = 3;
const HOST: &str = "2001:db8::9";
const FAR: &str = "2001:db8:1::1";
const OWN: &str = "2001:db8::1";
const OWN_LINK: &str = "fe80::1";

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// Creates the nodes of a router with the address `OWN` in VRF 2, and the link-local address `OWN_LINK`.
fn bench() -> (Bench, Harness) {
    let mut bench = Bench::new();
    bench.own6(&[(2, ip(OWN), RX), (2, ip(OWN_LINK), RX)]);
    let harness = bench.harness(|b, t, _| {
        let tables = t.clone();
        b.frame(move |_| Ok(Ip6Input::new(&tables)));
        b.packet(|_| Ok(Ip6Multicast));
        b.arc("ip6-unicast", "ip6-lookup", graph::ArcKey::Rx);
    });
    (bench, harness)
}

fn packet(src: &str, dst: &str) -> PacketBuilder {
    PacketBuilder::ipv6(ip(src), ip(dst)).udp(1000, 2000).payload(b"data")
}

fn send_by(h: &mut Harness, interface: u32, fib: u16, packet: &[u8]) -> Out {
    let mut out = h.send("ip6-input", &[packet], |_, p| {
        p.set_rx_if(interface);
        p.set_fib(fib);
    });
    assert_eq!(out.len(), 1);
    out.remove(0)
}

fn send(h: &mut Harness, packet: &[u8]) -> Out {
    send_by(h, RX, 2, packet)
}

/// Returns the packet's next node or its drop reason.
fn once(packet: &[u8]) -> String {
    let (_bench, mut h) = bench();
    let out = send(&mut h, packet);
    match out.reason {
        Some(reason) => {
            assert_eq!(h.dropped(&out.node, reason), 1, "counted");
            assert_eq!(out.bytes, packet, "a dropped packet is unchanged");
            reason.to_string()
        }
        None => out.node,
    }
}

fn between(src: &str, dst: &str) -> String {
    once(&packet(src, dst).build())
}

/// Returns a valid packet with some bytes replaced.
fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut p = packet(HOST, FAR).build();
    p[at..at + bytes.len()].copy_from_slice(bytes);
    p
}

#[test]
fn every_check_has_its_reason() {
    let good = packet(HOST, FAR).build();
    assert_eq!(once(&good), "ip6-lookup");
    for len in 0..Ipv6Header::LEN {
        assert_eq!(once(&good[..len]), "too-short", "{len}");
    }
    for first in (0..=255u8).filter(|f| f >> 4 != 6) {
        assert_eq!(once(&with(0, &[first])), "bad-version", "{first:#x}");
    }
    assert_eq!(once(&with(0, &[0x6f])), "ip6-lookup", "a traffic class");
    for said in [good.len() as u16 - 39, u16::MAX] {
        assert_eq!(once(&with(4, &said.to_be_bytes())), "bad-length", "{said}");
    }
    // An empty payload is valid, whatever the next header is.
    assert_eq!(send(&mut bench().1, &with(4, &[0, 0])).bytes.len(), 40);
}

#[test]
fn rfc2675_jumbograms_are_refused() {
    let jumbo = PacketBuilder::ipv6(ip(HOST), ip(FAR))
        .extension(protocol::HOP_BY_HOP, &[option::JUMBO, 4, 0, 1, 0, 0])
        .protocol(protocol::UDP)
        .payload(&[0; 100]);
    let mut bytes = jumbo.build();
    bytes[4..6].fill(0);
    assert_eq!(once(&bytes), "bad-length");
}

#[test]
fn rfc4291_2_which_sources_are_martians() {
    for martian in ["::1", "::ffff:10.0.0.1", "ff02::1", "ff0e::1", "ff00::", "fe80:0:0:1::1", "febf::1"] {
        assert_eq!(between(martian, FAR), "martian-source", "{martian}");
    }
    for good in
        ["::2", "::10.0.0.1", "64:ff9b::1", "fc00::1", "fe80::2", "fe7f::1", "fec0::1", "2001:db8::1:1"]
    {
        assert_eq!(between(good, FAR), "ip6-lookup", "{good}");
    }
}

#[test]
fn rfc4291_2_5_2_the_unspecified_source_reaches_only_its_link() {
    for group in ["ff02::1:ff00:1", "ff02::2", "ff02::16"] {
        assert_eq!(between("::", group), "ip6-local", "{group}");
    }
    for beyond in [FAR, OWN, "fe80::1", "ff05::2", "ff0e::1", "ff01::1"] {
        assert_eq!(between("::", beyond), "martian-source", "{beyond}");
    }
}

#[test]
fn which_destinations_are_martians() {
    for martian in
        ["::", "::1", "::ffff:1.2.3.4", "ff00::1", "ff01::1", "ff11::1", "fe80:0:0:3::1", "fe90::1"]
    {
        assert_eq!(between(HOST, martian), "martian-destination", "{martian}");
    }
    for good in ["::2", "fe80::77", "fec0::1", "fc00::1"] {
        assert_eq!(between(HOST, good), "ip6-lookup", "{good}");
    }
}

#[test]
fn own_addresses_are_martian_sources_in_their_vrf_and_link() {
    let (_bench, mut h) = bench();
    let global = packet(OWN, FAR).build();
    assert_eq!(send(&mut h, &global).reason, Some("own-source"));
    assert_eq!(send_by(&mut h, RX, 0, &global).node, "ip6-lookup", "another VRF");
    assert_eq!(send_by(&mut h, RX + 1, 2, &global).reason, Some("own-source"), "whatever the link");
    // Another address with the same bit in the filter.
    assert_eq!(send(&mut h, &packet("2001:db8:2::1", FAR).build()).node, "ip6-lookup");
    let link = packet(OWN_LINK, "ff02::1").build();
    assert_eq!(send(&mut h, &link).reason, Some("own-source"));
    assert_eq!(send_by(&mut h, RX + 1, 2, &link).node, "ip6-local", "another link may have it too");
}

#[test]
fn rfc4861_claims_of_own_addresses_are_delivered() {
    let claim = |src: &str, dst: &str, kind: u8, hops: u8| {
        let b = PacketBuilder::ipv6(ip(src), ip(dst)).ttl(hops).icmp(kind, 0, 0).payload(&[0; 16]);
        once(&b.build())
    };
    let (ns, na) = (kind::NEIGHBOR_SOLICITATION, kind::NEIGHBOR_ADVERTISEMENT);
    for own in [OWN, OWN_LINK] {
        for kind in [ns, na] {
            assert_eq!(claim(own, "ff02::1", kind, 255), "ip6-local", "{own} {kind}");
            assert_eq!(claim(own, "ff02::1:ff00:7", kind, 255), "ip6-local", "{own} {kind}");
            assert_eq!(claim(own, OWN, kind, 255), "ip6-lookup", "{own} {kind}");
            assert_eq!(claim(own, OWN_LINK, kind, 255), "ip6-lookup", "{own} {kind}");
            // The claim must be for the router or its link, and from the link itself.
            assert_eq!(claim(own, FAR, kind, 255), "own-source", "{own} {kind}");
            assert_eq!(claim(own, "ff02::1", kind, 254), "own-source", "{own} {kind}");
        }
        for kind in [kind::ECHO_REQUEST, kind::ROUTER_ADVERTISEMENT, kind::REDIRECT] {
            assert_eq!(claim(own, "ff02::1", kind, 255), "own-source", "{own} {kind}");
        }
        // Another message after the header, or none, is no claim.
        let mut udp = packet(own, "ff02::1").ttl(255).build();
        udp[40] = ns;
        assert_eq!(once(&udp), "own-source");
        let nothing = PacketBuilder::ipv6(ip(own), ip("ff02::1")).ttl(255).protocol(protocol::ICMPV6).build();
        assert_eq!(once(&nothing), "own-source");
        assert_eq!(once(&[&nothing[..], &[ns]].concat()), "own-source", "after its end");
    }
}

#[test]
fn group_packets_are_delivered_or_dropped_by_scope() {
    for (dst, expected) in [
        ("ff02::1", "ip6-local"),
        ("ff02::2", "ip6-local"),
        ("ff02::16", "ip6-local"),
        ("ff02::1:ff00:0", "ip6-local"),
        ("ff02::1:ffff:ffff", "ip6-local"),
        ("ff02::1:fe00:0", "group-not-joined"),
        ("ff02::5", "group-not-joined"),
        ("ff12::1", "group-not-joined"),
        ("ff03::1", "no-multicast-route"),
        ("ff05::2", "no-multicast-route"),
        ("ff0e::1", "no-multicast-route"),
        ("ff0f::1", "no-multicast-route"),
    ] {
        assert_eq!(between(HOST, dst), expected, "{dst}");
    }
}

#[test]
fn hop_by_hop_options_are_handled_first() {
    for dst in [FAR, "ff02::16", "ff0e::1", "fe80::5"] {
        let p = packet(HOST, dst).extension(protocol::HOP_BY_HOP, &[]).build();
        assert_eq!(once(&p), "ip6-hop-by-hop", "{dst}");
    }
    // Elsewhere in the packet these bytes are no claim.
    let p =
        packet(HOST, FAR).extension(protocol::DESTINATION_OPTIONS, &[]).extension(protocol::HOP_BY_HOP, &[]);
    assert_eq!(once(&p.build()), "ip6-lookup");
    // Other errors in the packet are still found.
    let p = packet(OWN, FAR).extension(protocol::HOP_BY_HOP, &[]).build();
    assert_eq!(once(&p), "own-source");
}

/// A simple implementation of the checks, one by one, with the methods of [`Ipv6Addr`].
fn plain(p: &[u8]) -> &'static str {
    if p.len() < 40 {
        return "too-short";
    }
    if p[0] >> 4 != 6 {
        return "bad-version";
    }
    let payload = usize::from(u16::from_be_bytes([p[4], p[5]]));
    if payload + 40 > p.len() || (payload == 0 && p[6] == 0) {
        return "bad-length";
    }
    let address = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&p[at..at + 16]).unwrap());
    let (src, dst) = (address(8), address(24));
    let link = |a: Ipv6Addr| a.segments()[0] & 0xffc0 == 0xfe80;
    let bad_link = |a: Ipv6Addr| link(a) && (a.segments()[0] != 0xfe80 || a.segments()[1..4] != [0, 0, 0]);
    let scope = dst.segments()[0] & 0xf;
    let no_source =
        src.is_multicast() || src.is_loopback() || src.to_ipv4_mapped().is_some() || bad_link(src);
    if no_source || (src.is_unspecified() && !(dst.is_multicast() && scope == 2)) {
        return "martian-source";
    }
    let no_host =
        dst.is_unspecified() || dst.is_loopback() || dst.to_ipv4_mapped().is_some() || bad_link(dst);
    if no_host || (dst.is_multicast() && scope < 2) {
        return "martian-destination";
    }
    if src == ip(OWN) || src == ip(OWN_LINK) {
        return "own-source";
    }
    if p[6] == 0 {
        return "ip6-hop-by-hop";
    }
    let joined = ["ff02::1", "ff02::2", "ff02::16"].iter().any(|g| dst == ip(g));
    match dst.is_multicast() {
        false => "ip6-lookup",
        _ if joined || dst.octets()[..13] == ip("ff02::1:ff00:0").octets()[..13] => "ip6-local",
        _ if scope == 2 => "group-not-joined",
        _ => "no-multicast-route",
    }
}

fn address() -> impl Strategy<Value = Ipv6Addr> {
    let edges = [
        "::",
        "::1",
        "::2",
        "::ffff:1.2.3.4",
        "::fffe:0:0",
        "0:0:0:1::",
        HOST,
        FAR,
        OWN,
        OWN_LINK,
        "fe7f:ffff::",
        "fe80::",
        "fe80::2",
        "fe80:0:0:3::1",
        "fe80:1::",
        "fec0::",
        "febf::",
        "feff::",
        "ff00::1",
        "ff01::1",
        "ff02::1",
        "ff02::2",
        "ff02::16",
        "ff02::5",
        "ff02::1:ff00:9",
        "ff0e::1",
    ];
    prop_oneof![
        4 => prop::sample::select(edges.map(ip).to_vec()),
        1 => any::<u128>().prop_map(Ipv6Addr::from_bits),
        1 => any::<u128>().prop_map(|a| Ipv6Addr::from_bits(a >> 70 | 0xff << 120)),
    ]
}

proptest! {
    /// The node agrees with the simple implementation for every header.
    #[test]
    fn a_simple_implementation_agrees(
        src in address(),
        dst in address(),
        for_routers in any::<bool>(),
        changes in prop::collection::vec((0usize..8, any::<u8>()), 0..2),
        cut in prop::option::of(0usize..100),
    ) {
        let mut b = PacketBuilder::ipv6(src, dst).udp(1, 2).payload(b"data");
        if for_routers {
            b = b.extension(protocol::HOP_BY_HOP, &[]);
        }
        let mut p = b.build();
        changes.into_iter().for_each(|(at, value)| p[at] = value);
        p.truncate(cut.unwrap_or(usize::MAX));
        let out = send(&mut bench().1, &p);
        prop_assert_eq!(out.reason.unwrap_or(&out.node), plain(&p));
    }

    /// After this node, a packet has the length that its header says, whatever its padding and number of buffers were.
    #[test]
    fn padding_is_trimmed(len in 0usize..6000, padding in 0usize..3000) {
        let p = packet(HOST, FAR).payload(&vec![7; len]).build();
        let out = send(&mut bench().1, &[p.clone(), vec![0xff; padding]].concat());
        prop_assert_eq!((out.node.as_str(), out.bytes), ("ip6-lookup", p));
    }
}
