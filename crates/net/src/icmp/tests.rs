//! Tests of `icmp4-input` and `icmp4-echo-request`, which follow `ip4-local`.

use std::net::Ipv4Addr;
use std::time::Duration;

use buf::Flags;
use graph::Builder;
use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::icmpv4::{IcmpHeader, kind};
use wire::{Ipv4Header, protocol};

use crate::Tables;
use crate::nodes::ip::local::Ip4Local;
use crate::nodes::ip::local6::Ip6Local;
use crate::testing::{Bench, checksum};

const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

fn harness() -> Harness {
    harness_with(|_, _| ())
}

/// Returns a harness with the router's nodes for local packets, and with the nodes and registrations that `feature` adds.
fn harness_with(feature: impl FnOnce(&mut Builder, &Tables)) -> Harness {
    Bench::new().harness(|b, t, hooks| {
        let tables = t.clone();
        b.frame(move |_| Ok(Ip4Local::new(&tables)));
        let tables = t.clone();
        b.frame(move |_| Ok(Ip6Local::new(&tables)));
        b.arc("ip4-output", "interface-output", graph::ArcKey::Tx);
        super::install(b, t, hooks).unwrap();
        feature(b, t);
    })
}

fn ping() -> PacketBuilder {
    PacketBuilder::ipv4(HOST, OWN).ttl(3).tos(0xb8).id(77).echo_request(0x1234, 5).payload(b"payload")
}

fn send(h: &mut Harness, packet: Vec<u8>, flags: Flags) -> Out {
    let mut out = h.send("ip4-local", &[packet], |_, p| p.set_flags(p.flags() | flags));
    assert_eq!(out.len(), 1);
    out.remove(0)
}

/// Checks the reply to `request`, whose ICMP header is at offset `l4`.
fn check_reply(out: &Out, request: &[u8], l4: usize) {
    assert_eq!((out.node.as_str(), out.reason), ("ip4-lookup", None));
    assert!(out.record.flags.any(Flags::LOCAL_ORIGIN));
    let (ip, icmp) = (&out.bytes[..l4], &out.bytes[l4..]);
    assert_eq!((checksum(ip), checksum(icmp)), (0, 0), "checksums");
    assert_eq!(out.bytes.len(), request.len());
    let mut expected = request.to_vec();
    expected[8] = 64;
    expected[12..16].copy_from_slice(&request[16..20]);
    expected[16..20].copy_from_slice(&request[12..16]);
    expected[l4] = kind::ECHO_REPLY;
    // The checksums are checked separately.
    for sum in [10, l4 + 2] {
        expected[sum..sum + 2].copy_from_slice(&out.bytes[sum..sum + 2]);
    }
    assert_eq!(out.bytes, expected);
}

proptest! {
    /// RFC 1812 section 4.3.3.6: the reply contains all data, whatever its size, and its source is the pinged
    /// address.
    #[test]
    fn rfc1812_4_3_3_6_the_reply_contains_all_data(len in 0usize..9000, id: u16, seq: u16, fill: u8, options in 0usize..10) {
        let mut h = harness();
        let data: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(3) ^ fill).collect();
        // No-operation options, in whole words.
        let request = PacketBuilder::ipv4(HOST, OWN).options(&vec![1; options * 4]).echo_request(id, seq).payload(&data);
        let request = request.build();
        check_reply(&send(&mut h, request.clone(), Flags::NONE), &request, 20 + options * 4);
    }

    /// A wrong bit anywhere in the message is detected, whichever buffer contains it.
    #[test]
    fn requests_with_a_wrong_checksum_are_dropped(len in 0usize..6000, at: prop::sample::Index, bit in 0u8..8) {
        let mut h = harness();
        let mut request = ping().payload(&vec![0x5a; len]).build();
        let at = 20 + at.index(request.len() - 20);
        request[at] ^= 1 << bit;
        let out = send(&mut h, request, Flags::NONE);
        prop_assert_eq!((out.node.as_str(), out.reason), ("icmp4-input", Some("bad-checksum")));
    }
}

#[test]
fn the_reply_keeps_the_requests_tos_and_identification() {
    let mut h = harness();
    let request = ping().build();
    let out = send(&mut h, request.clone(), Flags::NONE);
    check_reply(&out, &request, 20);
    let (ip, _) = Ipv4Header::split(&out.bytes).unwrap();
    assert_eq!((ip.tos(), ip.id(), ip.ttl()), (0xb8, 77, 64));
}

#[test]
fn the_reply_contains_no_ethernet_padding() {
    let mut h = harness();
    let request = ping().payload(b"x").build();
    let padded = [request.clone(), vec![0xff; 46 - request.len()]].concat();
    check_reply(&send(&mut h, padded, Flags::NONE), &request, 20);
    let large = ping().payload(&[9; 4000]).build();
    let padded = [large.clone(), vec![0xff; 9]].concat();
    check_reply(&send(&mut h, padded, Flags::NONE), &large, 20);
}

#[test]
fn rfc1812_4_3_3_6_the_reply_contains_the_recorded_route() {
    let mut h = harness();
    let record_route = [7, 11, 8, 10, 0, 0, 1, 0, 0, 0, 0, 0];
    let request = PacketBuilder::ipv4(HOST, OWN).options(&record_route).echo_request(1, 2).build();
    check_reply(&send(&mut h, request.clone(), Flags::NONE), &request, 32);
}

#[test]
fn rfc1122_3_2_2_6_pings_to_groups_are_silently_dropped() {
    let to = |dst: [u8; 4]| PacketBuilder::ipv4(HOST, dst.into()).echo_request(1, 2).build();
    let cases = [
        (to([224, 0, 0, 1]), Flags::L2_MULTICAST),
        (to([255, 255, 255, 255]), Flags::L2_BROADCAST),
        (to([255, 255, 255, 255]), Flags::NONE),
        (to([224, 0, 0, 1]), Flags::NONE),
        (ping().build(), Flags::L2_BROADCAST),
        (ping().build(), Flags::L2_MULTICAST),
    ];
    for (packet, flags) in cases {
        let out = send(&mut harness(), packet, flags);
        assert_eq!((out.node.as_str(), out.reason), ("icmp4-echo-request", Some("echo-to-group")));
    }
}

#[test]
fn echo_replies_are_punted_to_a_feature() {
    let reply = PacketBuilder::ipv4(HOST, OWN).icmp(kind::ECHO_REPLY, 0, 9).build();
    let out = send(&mut harness(), reply.clone(), Flags::NONE);
    assert_eq!((out.node.as_str(), out.reason), ("icmp4-input", Some("echo-reply-received")));
    let mut h = harness_with(|b, t| {
        let reason = b.punt_reason("replies", 1000);
        t.ip4.icmp_types.register(kind::ECHO_REPLY, reason).unwrap();
    });
    let out = send(&mut h, reply.clone(), Flags::NONE);
    assert_eq!((out.node.as_str(), out.reason), ("punt", Some("replies")));
    assert_eq!(out.bytes, reply);
}

#[test]
fn rfc1812_4_3_2_1_unused_messages_are_dropped_by_type() {
    let cases = [
        (kind::UNREACHABLE, "unreachable-received"),
        (kind::TIME_EXCEEDED, "time-exceeded-received"),
        (kind::PARAMETER_PROBLEM, "parameter-problem-received"),
        (kind::SOURCE_QUENCH, "source-quench-received"),
        (kind::REDIRECT, "redirect-received"),
        (kind::TIMESTAMP_REQUEST, "unknown-type"),
        (kind::TIMESTAMP_REPLY, "unknown-type"),
        (15, "unknown-type"),
        (255, "unknown-type"),
    ];
    let mut h = harness();
    for (kind, reason) in cases {
        let message = PacketBuilder::ipv4(HOST, OWN).icmp(kind, 1, 0).payload(&[0; 28]).build();
        let out = send(&mut h, message, Flags::NONE);
        assert_eq!((out.node.as_str(), out.reason), ("icmp4-input", Some(reason)));
    }
}

#[test]
fn a_message_shorter_than_its_header_is_dropped() {
    let mut h = harness();
    for len in 0..IcmpHeader::LEN {
        let packet = PacketBuilder::ipv4(HOST, OWN).protocol(protocol::ICMP).payload(&[0; 8][..len]).build();
        let out = send(&mut h, packet, Flags::NONE);
        assert_eq!((out.node.as_str(), out.reason), ("icmp4-input", Some("too-short")));
    }
}

#[test]
fn a_partial_checksum_stays_partial() {
    let mut h = harness();
    let mut request = ping().build();
    // The sum without a pseudo header.
    request[22..24].fill(0);
    let out = send(&mut h, request.clone(), Flags::CSUM_PARTIAL);
    assert_eq!((out.node.as_str(), out.bytes[20], &out.bytes[22..24]), ("ip4-lookup", 0, &[0, 0][..]));
    assert!(out.record.flags.any(Flags::CSUM_PARTIAL));
}

#[test]
fn pings_above_the_rate_limit_are_dropped() {
    let mut h = harness();
    let storm = vec![ping().build(); 2100];
    let answered = |out: Vec<Out>| out.iter().filter(|o| o.reason.is_none()).count();
    assert_eq!(answered(h.send("ip4-local", &storm, |_, p| p.set_rx_if(1))), 2001);
    assert_eq!(
        answered(h.send("ip4-local", &storm[..9], |_, p| p.set_rx_if(2))),
        9,
        "the share of another interface"
    );
    h.advance(Duration::from_millis(50));
    assert_eq!(answered(h.send("ip4-local", &storm, |_, p| p.set_rx_if(1))), 991);
    assert_eq!(h.dropped("icmp4-echo-request", "echo-limit"), 99 + 1109);
}
