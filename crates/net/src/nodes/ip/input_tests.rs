//! `ip4-input` and `ip4-multicast`.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;

use super::{input::Ip4Input, multicast::Ip4Multicast};
use crate::testing::{Bench, TOY, checksum, install_toy};

const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const FAR: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Creates the nodes of a router with the address `OWN` in VRF 2.
fn bench() -> (Bench, Harness) {
    let mut bench = Bench::new();
    bench.own(&[(2, OWN)]);
    let harness = bench.harness(|b, t, _| {
        let tables = t.clone();
        b.frame(move |_| Ok(Ip4Input::new(&tables)));
        b.packet(|_| Ok(Ip4Multicast));
        b.arc("ip4-unicast", "ip4-lookup", graph::ArcKey::Rx);
        install_toy(b);
    });
    (bench, harness)
}

fn packet() -> PacketBuilder {
    PacketBuilder::ipv4(HOST, FAR).udp(1000, 2000).payload(b"data")
}

fn send(h: &mut Harness, fib: u16, packet: &[u8]) -> Out {
    let mut out = h.send("ip4-input", &[packet], |_, p| p.set_fib(fib));
    assert_eq!(out.len(), 1);
    out.remove(0)
}

/// Returns the packet's next node or its drop reason.
fn way(h: &mut Harness, packet: &[u8]) -> String {
    let out = send(h, 2, packet);
    match out.reason {
        Some(reason) => {
            assert_eq!(h.dropped(&out.node, reason), 1, "counted");
            assert_eq!(out.bytes, packet, "a dropped packet is unchanged");
            reason.to_string()
        }
        None => out.node,
    }
}

fn once(packet: &[u8]) -> String {
    way(&mut bench().1, packet)
}

/// Returns the packet with some bytes replaced and its checksum corrected.
fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut p = packet().build();
    p[at..at + bytes.len()].copy_from_slice(bytes);
    wire::ipv4::write_checksum(&mut p);
    p
}

#[test]
fn valid_packets_go_to_lookup_or_to_options() {
    let (_bench, mut h) = bench();
    for options in 0..=10 {
        let p = packet().options(&vec![1; 4 * options]).build();
        let out = send(&mut h, 2, &p);
        let node = if options == 0 { "ip4-lookup" } else { "ip4-options" };
        assert_eq!((out.node.as_str(), out.bytes), (node, p), "{options}");
    }
}

#[test]
fn rfc1812_5_2_2_every_check_has_its_reason() {
    let good = packet().build();
    for len in 0..20 {
        assert_eq!(once(&good[..len]), "too-short", "{len}");
    }
    for first in (0..=255u8).filter(|f| f >> 4 != 4 || f & 15 < 5) {
        let mut p = good.clone();
        p[0] = first;
        wire::ipv4::write_checksum(&mut p);
        assert_eq!(once(&p), "bad-version", "{first:#x}");
    }
    // Shorter than the header, longer than the received packet, and with missing options.
    for said in [0u16, 19, good.len() as u16 + 1, u16::MAX] {
        assert_eq!(once(&with(2, &said.to_be_bytes())), "bad-length", "{said}");
    }
    let p = packet().options(&[1; 40]).build();
    assert_eq!(once(&p[..40]), "bad-length");
    let mut header_longer = PacketBuilder::ipv4(HOST, FAR).options(&[1; 8]).build();
    header_longer[2..4].copy_from_slice(&24u16.to_be_bytes());
    wire::ipv4::write_checksum(&mut header_longer);
    assert_eq!(once(&header_longer), "bad-length");
}

#[test]
fn rfc1812_4_2_2_11_which_sources_are_martians() {
    let from = |a: [u8; 4]| with(12, &a);
    for martian in [[127, 0, 0, 1], [127, 255, 255, 255], [224, 0, 0, 1], [239, 255, 255, 255], [255; 4]] {
        assert_eq!(once(&from(martian)), "martian-source", "{martian:?}");
    }
    for good in [
        [198, 18, 0, 1],
        [198, 19, 255, 255],
        [1, 0, 0, 0],
        [240, 0, 0, 1],
        [255, 255, 255, 254],
        [126, 255, 255, 255],
        [128, 0, 0, 1],
        [223, 255, 255, 255],
        [10, 0, 0, 1],
        [169, 253, 255, 255],
        [169, 255, 0, 0],
    ] {
        assert_eq!(once(&from(good)), "ip4-lookup", "{good:?}");
    }
}

/// A host without an address may send to this router and to its link, but not beyond it.
#[test]
fn rfc1812_5_3_7_packets_from_network_0_are_not_forwarded() {
    for from in [[0, 0, 0, 0], [0, 1, 2, 3], [0, 255, 255, 255]] {
        for (to, expected) in [
            (FAR.octets(), "martian-source"),
            ([192, 0, 2, 255], "martian-source"),
            ([255; 4], "ip4-lookup"),
            (OWN.octets(), "ip4-lookup"),
            ([224, 0, 0, 1], "ip4-local"),
            ([239, 1, 2, 3], "no-multicast-route"),
        ] {
            let mut p = with(12, &from);
            p[16..20].copy_from_slice(&to);
            wire::ipv4::write_checksum(&mut p);
            assert_eq!(once(&p), expected, "{from:?} {to:?}");
        }
    }
}

/// The router has no route to the sources in this test.
#[test]
fn rfc3927_7_packets_from_link_local_sources_are_not_forwarded() {
    for from in [[169, 254, 0, 0], [169, 254, 1, 1], [169, 254, 255, 255]] {
        for (to, expected) in [
            (FAR.octets(), "link-local-source"),
            ([255; 4], "ip4-lookup"),
            (OWN.octets(), "ip4-lookup"),
            ([224, 0, 0, 1], "ip4-local"),
        ] {
            let mut p = with(12, &from);
            p[16..20].copy_from_slice(&to);
            wire::ipv4::write_checksum(&mut p);
            assert_eq!(once(&p), expected, "{from:?} {to:?}");
        }
    }
}

#[test]
fn own_addresses_are_invalid_sources_in_their_vrf() {
    let (_bench, mut h) = bench();
    let p = with(12, &OWN.octets());
    assert_eq!(send(&mut h, 2, &p).reason, Some("own-source"));
    assert_eq!(send(&mut h, 0, &p).node, "ip4-lookup", "another VRF");
    // Another address with the same bit in the filter.
    assert_eq!(send(&mut h, 2, &with(12, &[193, 0, 2, 1])).node, "ip4-lookup");
}

#[test]
fn group_packets_are_delivered_or_dropped_by_scope() {
    let to = |a: [u8; 4]| with(16, &a);
    for (dst, expected) in [
        ([224, 0, 0, 5], "ip4-local"),
        ([224, 0, 0, 255], "ip4-local"),
        ([224, 0, 1, 0], "no-multicast-route"),
        ([239, 1, 2, 3], "no-multicast-route"),
        ([240, 0, 0, 1], "ip4-lookup"),
        ([255; 4], "ip4-lookup"),
        ([223, 255, 255, 255], "ip4-lookup"),
    ] {
        assert_eq!(once(&to(dst)), expected, "{dst:?}");
    }
}

#[test]
fn a_feature_gets_only_packets_of_its_interface() {
    let (_bench, mut h) = bench();
    let sent = vec![packet().build(); 600];
    let mut ends = |on| {
        h.arcs().enable("ip4-unicast", TOY, 3, on).unwrap();
        let out = h.send("ip4-input", &sent, |i, p| p.set_rx_if(2 + i as u32 % 3));
        assert_eq!(out.len(), 600);
        out
    };
    for out in ends(true) {
        let end = if out.from.unwrap() % 3 == 1 { TOY } else { "ip4-lookup" };
        assert_eq!(out.node, end, "{:?}", out.from);
    }
    assert!(ends(false).iter().all(|out| out.node == "ip4-lookup"));
}

/// A simple implementation of the checks of RFC 1812 section 5.2.2, one by one.
fn plain(p: &[u8]) -> &'static str {
    if p.len() < 20 {
        return "too-short";
    }
    let header = usize::from(p[0] & 15) * 4;
    if p[0] >> 4 != 4 || header < 20 {
        return "bad-version";
    }
    let said = usize::from(u16::from_be_bytes([p[2], p[3]]));
    if header > p.len() || said < header {
        return "bad-length";
    }
    if checksum(&p[..header]) != 0 {
        return "bad-checksum";
    }
    if said > p.len() {
        return "bad-length";
    }
    match p[12] {
        127 | 224..240 => return "martian-source",
        _ if p[12..16] == [255; 4] => return "martian-source",
        169 if p[13] == 254 && p[16] >> 4 != 14 && p[16..20] != [255; 4] && p[16..20] != OWN.octets() => {
            return "link-local-source";
        }
        _ if p[12..16] == OWN.octets() => return "own-source",
        _ => {}
    }
    match p[16] {
        _ if p[0] != 0x45 => "ip4-options",
        224 if p[16..19] == [224, 0, 0] => "ip4-local",
        224..240 => "no-multicast-route",
        _ => "ip4-lookup",
    }
}

proptest! {
    /// The node agrees with the simple implementation for every header.
    #[test]
    fn a_simple_implementation_agrees(
        options in 0usize..11,
        changes in prop::collection::vec((0usize..60, any::<u8>()), 0..4),
        fixed in any::<bool>(),
        cut in prop::option::of(0usize..100),
    ) {
        let mut p = packet().options(&vec![1; 4 * options]).build();
        for (at, value) in changes {
            if let Some(byte) = p.get_mut(at) {
                *byte = value;
            }
        }
        if fixed {
            wire::ipv4::write_checksum(&mut p);
        }
        p.truncate(cut.unwrap_or(usize::MAX));
        let out = send(&mut bench().1, 2, &p);
        prop_assert_eq!(out.reason.unwrap_or(&out.node), plain(&p));
    }

    /// After this node, a packet has the length that its header says, whatever its padding and number of buffers were.
    #[test]
    fn padding_is_trimmed(len in 0usize..6000, padding in 0usize..3000) {
        let p = packet().payload(&vec![7; len]).build();
        let out = send(&mut bench().1, 2, &[p.clone(), vec![0xff; padding]].concat());
        prop_assert_eq!((out.node.as_str(), out.bytes), ("ip4-lookup", p));
    }
}
