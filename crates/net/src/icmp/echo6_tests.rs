//! Tests of `icmp6-input` and `icmp6-echo-request`, which follow `ip6-local`.

use std::net::Ipv6Addr;
use std::time::Duration;

use buf::{Flags, Frame};
use graph::{Builder, Cx, FrameNode, NoReason, Verdict};
use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::icmpv6::kind;
use wire::nd::{self, Message, NdOption, Preference, RouterAdvertisement};
use wire::protocol::{self, DESTINATION_OPTIONS, HOP_BY_HOP, ROUTING};
use wire::{EthernetHeader, Ipv6Header, Mac, ethertype};

use crate::Tables;
use crate::interface::Interface;
use crate::nodes::ip::local::Ip4Local;
use crate::nodes::ip::local6::Ip6Local;
use crate::router::Hooks;
use crate::testing::{Bench, checksum};

const HOST: &str = "2001:db8::9";
const OWN: &str = "2001:db8::1";
const HOST_LINK: &str = "fe80::9";
const OWN_LINK: &str = "fe80::1";
/// The router's address on another link.
const OTHER_LINK: &str = "fe80::2";
const ALL_NODES: &str = "ff02::1";
const HOST_MAC: Mac = Mac([2, 0, 0, 0, 9, 9]);

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// Returns a router with two interfaces, and a harness with the router's nodes for local packets. Packets are received on the first
/// interface.
fn harness() -> (Bench, Harness) {
    let mut bench = Bench::new();
    let (rx, other) = (bench.interface(0, None), bench.interface(0, None));
    assert_eq!(rx, 0);
    bench.own6(&[
        (0, ip(OWN), rx),
        (0, ip(OWN_LINK), rx),
        (0, ip(OTHER_LINK), other),
        (5, ip("2001:db8::5"), 9),
    ]);
    let h = bench.harness(nodes);
    (bench, h)
}

fn nodes(b: &mut Builder, t: &Tables, hooks: &mut Hooks) {
    let tables = t.clone();
    b.frame(move |_| Ok(Ip6Local::new(&tables)));
    let tables = t.clone();
    b.frame(move |_| Ok(Ip4Local::new(&tables)));
    b.arc("ip4-output", "interface-output", graph::ArcKey::Tx);
    super::install(b, t, hooks).unwrap();
}

fn ping(src: &str, dst: &str) -> PacketBuilder {
    PacketBuilder::ipv6(ip(src), ip(dst))
        .ttl(3)
        .tos(0xb8)
        .flow_label(0x12345)
        .echo_request(0x1234, 5)
        .payload(b"payload")
}

fn send(h: &mut Harness, packet: &[u8], flags: Flags) -> Out {
    let mut out = h.send("ip6-local", &[packet], |_, p| {
        p.set_rx_if(0);
        p.set_flags(p.flags() | flags);
    });
    assert_eq!(out.len(), 1);
    out.remove(0)
}

/// Returns the output for a packet that is received in a frame from `mac`.
fn arrive(h: &mut Harness, mac: Mac, packet: &[u8]) -> Out {
    let frame =
        [&EthernetHeader::new(Mac([0x33, 0x33, 0, 0, 0, 1]), mac, ethertype::IPV6).0[..], packet].concat();
    let mut out = h.send("ip6-local", &[frame], |_, p| {
        p.set_rx_if(0);
        assert!(p.advance(14));
        p.mark_l3(14);
    });
    assert_eq!(out[0].bytes, packet, "packets and their start are unchanged");
    out.remove(0)
}

/// True if the ICMPv6 checksum of a packet without extension headers is correct. It is computed directly as the RFC defines it.
fn checksum_ok(l3: &[u8]) -> bool {
    let length = (l3.len() as u32 - 40).to_be_bytes();
    checksum(&[&l3[8..40], &length, &[0, 0, 0, 58], &l3[40..]].concat()) == 0
}

/// Checks the reply to a request without extension headers.
fn check_reply(out: &Out, request: &[u8]) {
    assert_eq!((out.node.as_str(), out.reason), ("ip6-lookup", None));
    assert!(out.record.flags.any(Flags::LOCAL_ORIGIN));
    assert_eq!((out.record.tx_if, checksum_ok(&out.bytes)), (out.record.rx_if, true));
    let mut expected = request.to_vec();
    expected[7] = 64;
    expected[8..24].copy_from_slice(&request[24..40]);
    expected[24..40].copy_from_slice(&request[8..24]);
    expected[40] = kind::ECHO_REPLY;
    // The checksum is checked separately.
    expected[42..44].copy_from_slice(&out.bytes[42..44]);
    assert_eq!(out.bytes, expected);
}

proptest! {
    /// RFC 4443 section 4.2: the reply contains all data, whatever its size, and its source is the pinged
    /// address. Extension headers are not returned.
    #[test]
    fn rfc4443_4_2_the_reply_contains_all_data(len in 0usize..9000, id: u16, seq: u16, fill: u8, extensions in prop::collection::vec(0usize..40, 0..5)) {
        let (_bench, mut h) = harness();
        let data: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(3) ^ fill).collect();
        let request = ping(HOST, OWN).echo_request(id, seq).payload(&data);
        let with = extensions.iter().fold(request.clone(), |b, n| {
            b.extension(DESTINATION_OPTIONS, &[]).extension(ROUTING, &[0; 40][..*n])
        });
        check_reply(&send(&mut h, &with.build(), Flags::NONE), &request.build());
    }

    /// A wrong bit anywhere in the message is detected, whichever buffer contains it.
    #[test]
    fn requests_with_a_wrong_checksum_are_dropped(len in 0usize..6000, at: prop::sample::Index, bit in 0u8..8, extension: bool) {
        let (_bench, mut h) = harness();
        let mut request = ping(HOST, OWN).payload(&vec![0x5a; len]);
        if extension {
            request = request.extension(DESTINATION_OPTIONS, &[]);
        }
        let mut bytes = request.build();
        let l4 = if extension { 48 } else { 40 };
        let at = l4 + at.index(bytes.len() - l4);
        bytes[at] ^= 1 << bit;
        let out = send(&mut h, &bytes, Flags::NONE);
        prop_assert_eq!((out.node.as_str(), out.reason), ("icmp6-input", Some("bad-checksum")));
    }

    /// Of all messages, only echo requests are answered, and no message with a valid checksum is dropped for its checksum.
    #[test]
    fn any_message(kind: u8, code: u8, rest: u32, body in prop::collection::vec(any::<u8>(), 0..100), hops in prop::sample::select(vec![1u8, 64, 255])) {
        let (_bench, mut h) = harness();
        let packet = PacketBuilder::ipv6(ip(HOST_LINK), ip(OWN_LINK)).ttl(hops).icmp(kind, code, rest).payload(&body).build();
        let out = send(&mut h, &packet, Flags::NONE);
        prop_assert_eq!(out.reason.is_none(), out.node == "ip6-lookup" && kind == kind::ECHO_REQUEST);
        prop_assert_ne!(out.reason, Some("bad-checksum"));
    }
}

graph::edges! { enum Next { Seen = "seen" } }

/// Replaces the lookup node. Outputs packets with their link header.
struct FromLink;

impl FrameNode for FromLink {
    const NAME: &'static str = "ip6-lookup";
    type Next = Next;
    type Drop = NoReason;

    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut graph::Out<'_, Next, NoReason>) {
        frame.packets().for_each(|mut p| p.rewind_to_l2());
        out.all(Verdict::Next(Next::Seen));
    }
}

#[test]
fn the_link_header_stays_in_front_of_a_reply() {
    let mut bench = Bench::new();
    bench.own6(&[(0, ip(OWN), 0)]);
    let mut h = bench.harness(|b, t, hooks| {
        nodes(b, t, hooks);
        b.frame(|_| Ok(FromLink));
    });
    let link = EthernetHeader::new(Mac::ZERO, HOST_MAC, ethertype::IPV6).0;
    let without = ping(HOST, OWN);
    for request in [without.clone(), without.clone().extension(ROUTING, &[0; 30])] {
        let out = h.send("ip6-local", &[[&link[..], &request.build()].concat()], |_, p| {
            assert!(p.advance(14));
            p.mark_l3(14);
        });
        let (front, reply) = out[0].bytes.split_at(14);
        assert_eq!((out[0].node.as_str(), front), ("seen", &link[..]));
        assert_eq!(
            (reply.len(), reply[40], checksum_ok(reply)),
            (without.build().len(), kind::ECHO_REPLY, true)
        );
    }
}

#[test]
fn rfc4007_9_a_link_local_request_is_answered_on_its_link() {
    let (_bench, mut h) = harness();
    let request = ping(HOST_LINK, OWN_LINK).build();
    let out = send(&mut h, &request, Flags::NONE);
    check_reply(&out, &request);
    assert_eq!(out.record.tx_if, 0);
}

#[test]
fn pings_to_groups_are_not_answered() {
    let cases = [
        (ping(HOST_LINK, ALL_NODES).build(), Flags::L2_MULTICAST),
        (ping(HOST_LINK, ALL_NODES).build(), Flags::NONE),
        (ping(HOST, OWN).build(), Flags::L2_BROADCAST),
        (ping(HOST, OWN).build(), Flags::L2_MULTICAST),
    ];
    for (packet, flags) in cases {
        let out = send(&mut harness().1, &packet, flags);
        assert_eq!((out.node.as_str(), out.reason), ("icmp6-echo-request", Some("echo-to-group")));
    }
}

#[test]
fn pings_above_the_rate_limit_are_dropped() {
    let (_bench, mut h) = harness();
    let storm = vec![ping(HOST, OWN).build(); 2100];
    let answered = |h: &mut Harness| {
        let out = h.send("ip6-local", &storm, |_, p| p.set_rx_if(0));
        out.iter().filter(|o| o.reason.is_none()).count()
    };
    assert_eq!(answered(&mut h), 2001);
    h.advance(Duration::from_millis(50));
    assert_eq!(answered(&mut h), 1000);
    assert_eq!(h.dropped("icmp6-echo-request", "echo-limit"), 99 + 1100);
}

#[test]
fn a_partial_checksum_stays_partial() {
    let (_bench, mut h) = harness();
    let mut request = ping(HOST, OWN).extension(DESTINATION_OPTIONS, &[]).build();
    request[50..52].copy_from_slice(&[0xab, 0xcd]);
    let mut out = h.send("ip6-local", &[request], |_, p| {
        p.set_rx_if(0);
        p.set_flags(p.flags() | Flags::CSUM_PARTIAL);
        p.cold_mut().csum_start = 14 + 48;
    });
    let out = out.remove(0);
    assert_eq!((out.bytes[40], &out.bytes[42..44]), (kind::ECHO_REPLY, &[0xab, 0xcd][..]));
    assert!(out.record.flags.any(Flags::CSUM_PARTIAL));
    assert_eq!(out.cold.csum_start, 14 + 40);
}

#[test]
fn unused_messages_are_dropped_by_type() {
    let cases = [
        (kind::UNREACHABLE, "unreachable-received"),
        (kind::PACKET_TOO_BIG, "packet-too-big-received"),
        (kind::TIME_EXCEEDED, "time-exceeded-received"),
        (kind::PARAMETER_PROBLEM, "parameter-problem-received"),
        (kind::MLD_REPORT, "mld-received"),
        (kind::MLD_DONE, "mld-received"),
        (kind::MLDV2_REPORT, "mld-received"),
        (kind::REDIRECT, "redirect-received"),
        (0, "unknown-type"),
        (5, "unknown-type"),
        (127, "unknown-type"),
        (138, "unknown-type"),
        (255, "unknown-type"),
    ];
    let (_bench, mut h) = harness();
    for (kind, reason) in cases {
        let message =
            PacketBuilder::ipv6(ip(HOST_LINK), ip(OWN_LINK)).ttl(255).icmp(kind, 0, 0).payload(&[0; 40]);
        for message in [message.clone(), message.extension(HOP_BY_HOP, &[5, 2, 0, 0])] {
            let out = send(&mut h, &message.build(), Flags::NONE);
            assert_eq!((out.node.as_str(), out.reason), ("icmp6-input", Some(reason)), "{kind}");
        }
    }
}

#[test]
fn a_message_shorter_than_its_header_is_dropped() {
    let (_bench, mut h) = harness();
    for len in 0..8 {
        let packet =
            PacketBuilder::ipv6(ip(HOST), ip(OWN)).protocol(protocol::ICMPV6).payload(&[0; 8][..len]);
        for packet in [packet.clone(), packet.extension(ROUTING, &[0; 100])] {
            let out = send(&mut h, &packet.build(), Flags::NONE);
            assert_eq!((out.node.as_str(), out.reason), ("icmp6-input", Some("too-short")), "{len}");
        }
    }
}

#[test]
fn queries_and_echo_replies_for_a_feature_are_punted() {
    let mut bench = Bench::new();
    let rx = bench.interface(0, None);
    bench.own6(&[(0, ip(OWN_LINK), rx)]);
    let mut h = bench.harness(|b, t, hooks| {
        nodes(b, t, hooks);
        let reason = b.punt_reason("replies", 1000);
        t.ip6.icmp_types.register(kind::ECHO_REPLY, reason).unwrap();
    });
    for (kind, reason) in [(kind::ECHO_REPLY, "replies"), (kind::MLD_QUERY, "mld-query")] {
        let message =
            PacketBuilder::ipv6(ip(HOST_LINK), ip(OWN_LINK)).icmp(kind, 0, 9).payload(&[0; 20]).build();
        let out = send(&mut h, &message, Flags::NONE);
        assert_eq!((out.node.as_str(), out.reason, out.bytes), ("punt", Some(reason), message));
    }
}

#[test]
fn rfc4389_4_1_proxy_interfaces_punt_foreign_solicitations() {
    let (mut bench, mut h) = harness();
    let asks = Message::NeighborSolicitation { target: ip("2001:db8:77::1") };
    let packet = nd::build(ip(HOST), ip("ff02::1:ff00:1"), &asks, &[]);
    assert_eq!(arrive(&mut h, HOST_MAC, &packet).reason, Some("not-for-us"));
    let mut participant = bench.domain.register();
    let old = bench.tables.interfaces.get(participant.enter().guard(), 0).cloned().unwrap();
    drop(participant);
    bench.writers.interfaces.set(0, Interface { proxy: true, ..old }).unwrap();
    assert_eq!(arrive(&mut h, HOST_MAC, &packet).reason, Some("nd-solicitation"));
}

/// Returns the name of the reason for which a Neighbor Discovery message is punted, dropped or ignored.
fn fate(src: &str, dst: &str, message: &Message) -> &'static str {
    let option = [NdOption::SourceMac(HOST_MAC)];
    let options = if src == "::" { &option[..0] } else { &option };
    let (_bench, mut h) = harness();
    let out = arrive(&mut h, HOST_MAC, &nd::build(ip(src), ip(dst), message, options));
    assert!(["punt", "icmp6-input"].contains(&out.node.as_str()), "{}", out.node);
    out.reason.unwrap()
}

fn solicitation(src: &str, dst: &str, target: &str) -> &'static str {
    fate(src, dst, &Message::NeighborSolicitation { target: ip(target) })
}

fn advertisement(src: &str, target: &str) -> &'static str {
    let (router, solicited, overrides) = (false, false, true);
    fate(src, ALL_NODES, &Message::NeighborAdvertisement { target: ip(target), router, solicited, overrides })
}

#[test]
fn rfc4861_7_2_3_solicitations_of_own_addresses_are_punted() {
    for (src, dst, target) in [
        (HOST_LINK, "ff02::1:ff00:1", OWN),
        (HOST, OWN, OWN),
        (HOST, "ff02::1:ff00:1", OWN_LINK),
        ("::", "ff02::1:ff00:1", OWN),
        ("::", "ff02::1:ff00:1", OWN_LINK),
    ] {
        assert_eq!(solicitation(src, dst, target), "nd-solicitation", "{src} {target}");
    }
    // The address of a host, of another link or VRF, of groups, and addresses that resemble another link's.
    for target in [HOST, HOST_LINK, OTHER_LINK, "2001:db8::5"] {
        assert_eq!(solicitation(HOST_LINK, "ff02::1:ff00:1", target), "not-for-us", "{target}");
    }
    for target in [ALL_NODES, "::", "::1", "fe80:0:0:1::2", "fe80:0:0:1::1"] {
        assert_eq!(solicitation(HOST_LINK, "ff02::1:ff00:1", target), "bad-target", "{target}");
    }
}

#[test]
fn rfc4861_7_2_5_advertisements_of_possible_neighbors_are_punted() {
    for target in [HOST, HOST_LINK, OTHER_LINK, "2001:db8:5::5"] {
        assert_eq!(advertisement(HOST_LINK, target), "nd-advertisement", "{target}");
    }
    for target in [ALL_NODES, "::", "::1", "::ffff:1.2.3.4", "fe80:0:0:1::2"] {
        assert_eq!(advertisement(HOST_LINK, target), "bad-target", "{target}");
    }
}

#[test]
fn rfc4862_5_4_claims_of_own_addresses_are_conflicts() {
    for own in [OWN, OWN_LINK] {
        assert_eq!(advertisement(HOST_LINK, own), "nd-conflict");
        assert_eq!(advertisement(own, HOST), "nd-conflict");
        assert_eq!(solicitation(own, "ff02::1:ff00:9", HOST), "nd-conflict");
        assert_eq!(solicitation(own, "ff02::1:ff00:1", own), "nd-conflict");
    }
}

#[test]
fn looped_own_packets_are_no_conflict() {
    let (bench, mut h) = harness();
    let own_mac =
        bench.tables.interfaces.get(bench.domain.register().enter().guard(), 0).map(|i| i.mac).unwrap();
    let message = Message::NeighborSolicitation { target: ip(HOST) };
    let packet = nd::build(ip(OWN), ip("ff02::1:ff00:9"), &message, &[NdOption::SourceMac(own_mac)]);
    assert_eq!(arrive(&mut h, own_mac, &packet).reason, Some("own-packet"));
    assert_eq!(arrive(&mut h, HOST_MAC, &packet).reason, Some("nd-conflict"));
}

#[test]
fn router_solicitations_and_advertisements_are_punted() {
    assert_eq!(fate(HOST_LINK, "ff02::2", &Message::RouterSolicitation), "nd-router");
    assert_eq!(fate("::", "ff02::2", &Message::RouterSolicitation), "nd-router");
    let advertisement = RouterAdvertisement {
        hop_limit: 64,
        managed: false,
        other: false,
        preference: Preference::Medium,
        lifetime: 1800,
        reachable: 0,
        retransmit: 0,
    };
    assert_eq!(fate(HOST_LINK, ALL_NODES, &Message::RouterAdvertisement(advertisement)), "nd-router");
}

#[test]
fn rfc4861_7_1_messages_from_another_link_are_dropped() {
    for kind in kind::ROUTER_SOLICITATION..=kind::NEIGHBOR_ADVERTISEMENT {
        for hops in [0, 1, 64, 254] {
            let packet =
                PacketBuilder::ipv6(ip(HOST), ip(OWN)).ttl(hops).icmp(kind, 0, 0).payload(&ip(OWN).octets());
            let out = send(&mut harness().1, &packet.build(), Flags::NONE);
            assert_eq!(out.reason, Some("bad-hop-limit"), "{kind} {hops}");
        }
    }
}

#[test]
fn a_message_with_a_truncated_target_is_dropped() {
    let (_bench, mut h) = harness();
    for kind in [kind::NEIGHBOR_SOLICITATION, kind::NEIGHBOR_ADVERTISEMENT] {
        for len in 0..16 {
            let packet = PacketBuilder::ipv6(ip(HOST), ip(OWN))
                .ttl(255)
                .icmp(kind, 0, 0)
                .payload(&ip(OWN).octets()[..len]);
            assert_eq!(send(&mut h, &packet.build(), Flags::NONE).reason, Some("too-short"), "{kind} {len}");
        }
    }
}

#[test]
fn each_punt_reason_has_its_own_limit() {
    let (_bench, mut h) = harness();
    let message =
        |target| Message::NeighborAdvertisement { target, router: false, solicited: false, overrides: true };
    let flood = nd::build(ip(HOST_LINK), ip(ALL_NODES), &message(ip(HOST)), &[]);
    let out = h.send("ip6-local", &vec![flood; 1000], |_, p| p.set_rx_if(0));
    assert!(out.iter().any(|o| o.reason == Some("punt-policed")));
    let asked = nd::build(ip(HOST), ip(OWN), &Message::NeighborSolicitation { target: ip(OWN) }, &[]);
    assert_eq!(arrive(&mut h, HOST_MAC, &asked).reason, Some("nd-solicitation"));
    let claim = nd::build(ip(HOST_LINK), ip(ALL_NODES), &message(ip(OWN)), &[]);
    assert_eq!(arrive(&mut h, HOST_MAC, &claim).reason, Some("nd-conflict"));
}

#[test]
fn the_punted_packet_has_the_length_of_its_header() {
    let (_bench, mut h) = harness();
    let asked = nd::build(ip(HOST), ip(OWN), &Message::NeighborSolicitation { target: ip(OWN) }, &[]);
    let (header, _) = Ipv6Header::split(&asked).unwrap();
    assert_eq!(header.total_len(), asked.len());
    let out = send(&mut h, &[&asked[..], &[0xee; 9]].concat(), Flags::NONE);
    assert_eq!((out.reason, out.bytes), (Some("nd-solicitation"), asked));
}
