//! Tests of `ip6-icmp-error`: what is reported, in which form, and what is never reported (RFC 4443 section
//! 2.4).

use std::net::Ipv6Addr;
use std::time::Duration;

use buf::Flags;
use graph::Reasons;
use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::icmpv6::kind;
use wire::protocol::{self, DESTINATION_OPTIONS, HOP_BY_HOP};
use wire::{Icmpv6Header, Ipv6Header, Mac, ipv6};

use super::error::Ip6IcmpError;
use crate::ip::{Address, Cause, CauseInfo, Limit};
use crate::testing::{Bench, checksum};

const HOST: &str = "2001:db8::9";
const FAR: &str = "2001:db8:1::1";
const NEAR: &str = "2001:db8::1";
const OTHER: &str = "2001:db8:2::1";
const HOST_LINK: &str = "fe80::9";
const GROUP: &str = "ff0e::1";

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

graph::reasons! {
    /// The drop reason of a cause that a feature registers.
    enum Late { Packet = "too-late", Warn, "the packet is too late"; }
}

fn node(bench: &Bench) -> Harness {
    bench.harness(|b, t, _| {
        let (causes, t) = (t.ip6.causes.clone(), t.clone());
        b.frame(move |_| Ok(Ip6IcmpError::new(&t)));
        b.more_reasons("ip6-icmp-error", &causes.reasons);
        let reason = &Late::INFO[0];
        let info = CauseInfo { kind: 3, code: 1, limit: Limit::Common, reason };
        assert_eq!(causes.register(info), Ok(Cause::Feature(0)));
        let why = causes.register(info).unwrap_err().0;
        assert!(why.contains("the name \"too-late\" is already registered"), "{why}");
    })
}

/// Returns a router with an interface (index 0) whose address is NEAR. The router also has the address OTHER, which is not an address of
/// this interface.
fn router() -> (Bench, Harness) {
    let mut bench = Bench::new();
    assert_eq!(bench.interface_with(0, vec![Address::new(ip(NEAR), 64)]), 0);
    bench.own6(&[(0, ip(NEAR), 0), (0, ip(OTHER), 1)]);
    let h = node(&bench);
    (bench, h)
}

fn from(src: &str, dst: &str) -> PacketBuilder {
    PacketBuilder::ipv6(ip(src), ip(dst)).udp(1000, 2000).payload(b"some data")
}

fn datagram() -> PacketBuilder {
    from(HOST, FAR)
}

/// Passes packets to the node as packets that interface 0 received. Returns the reports about them, and the results for the packets
/// themselves.
fn send(h: &mut Harness, cause: Cause, packets: &[Vec<u8>], flags: Flags) -> (Vec<Out>, Vec<Out>) {
    let out = h.send("ip6-icmp-error", packets, |_, p| {
        p.set_rx_if(0);
        p.set_fwd(cause.to_raw());
        p.set_flags(p.flags() | flags);
    });
    out.into_iter().partition(|o| o.reason.is_none())
}

/// Checks a report and returns its headers and its quote.
fn parse(report: &Out) -> (Ipv6Header, Icmpv6Header, &[u8]) {
    let (ip, rest) = Ipv6Header::split(&report.bytes).unwrap();
    let (icmp, quote) = Icmpv6Header::split(rest).unwrap();
    let pseudo = [&ip.0[8..40], &(rest.len() as u32).to_be_bytes(), &[0, 0, 0, protocol::ICMPV6]].concat();
    assert_eq!(checksum(&[&pseudo, rest].concat()), 0, "checksum");
    assert_eq!((ip.version(), ip.next_header(), ip.hop_limit()), (6, protocol::ICMPV6, 255));
    assert_eq!(ip.total_len(), report.bytes.len());
    assert_eq!((report.node.as_str(), report.record.tx_if), ("ip6-lookup", 0));
    assert!(report.record.flags.any(Flags::LOCAL_ORIGIN));
    (*ip, *icmp, quote)
}

#[test]
fn every_cause_has_its_message() {
    let cases = [
        (Cause::TtlExpired, "ttl-expired", (3, 0, 0)),
        (Cause::Feature(0), "too-late", (3, 1, 0)),
        (Cause::NoRoute, "no-route", (1, 0, 0)),
        (Cause::Prohibited, "prohibited", (1, 1, 0)),
        (Cause::BeyondScope, "beyond-scope", (1, 2, 0)),
        (Cause::HostUnreachable, "host-unreachable", (1, 3, 0)),
        (Cause::PortUnreachable, "port-unreachable", (1, 4, 0)),
        (Cause::SourceRouteFailed, "source-route", (1, 1, 0)),
        (Cause::FragmentationNeeded(1400), "fragmentation-needed", (2, 0, 1400)),
        (Cause::ParameterProblem(1066), "bad-options", (4, 0, 1066)),
        (Cause::ProtocolUnreachable, "protocol-unreachable", (4, 1, 6)),
        (Cause::UnknownOption(42), "unknown-option", (4, 2, 42)),
        (Cause::IncompleteHeaders, "incomplete-headers", (4, 3, 0)),
    ];
    for (cause, reason, message) in cases {
        assert_eq!(Cause::from_raw(cause.to_raw()), cause);
        let (_bench, mut h) = router();
        let sent = datagram().build();
        let (reports, dropped) = send(&mut h, cause, std::slice::from_ref(&sent), Flags::NONE);
        assert_eq!((reports.len(), dropped.len()), (1, 1), "{cause:?}");
        assert_eq!((dropped[0].reason, dropped[0].bytes == sent), (Some(reason), true));
        let (header, icmp, quote) = parse(&reports[0]);
        assert_eq!((icmp.kind(), icmp.code(), icmp.rest()), message, "{cause:?}");
        assert_eq!((header.src(), header.dst(), quote), (ip(NEAR), ip(HOST), &sent[..]));
        assert_eq!(h.dropped("ip6-icmp-error", reason), 1);
    }
}

#[test]
fn rfc4443_3_4_an_unknown_protocol_is_reported_by_its_offset() {
    let (_bench, mut h) = router();
    let to = || from(HOST, NEAR).protocol(89);
    for (packet, at) in [
        (to(), 6),
        (to().extension(DESTINATION_OPTIONS, &[]), 40),
        (to().extension(DESTINATION_OPTIONS, &[]).extension(protocol::ROUTING, &[]), 48),
        (to().extension(DESTINATION_OPTIONS, &[]).extension(HOP_BY_HOP, &[]), 40),
    ] {
        let (reports, _) = send(&mut h, Cause::ProtocolUnreachable, &[packet.build()], Flags::NONE);
        assert_eq!(parse(&reports[0]).1.rest(), at);
    }
}

#[test]
fn rfc4443_2_4_e_no_error_for_groups_errors_and_bad_sources() {
    let plain = datagram().build();
    let mut cases = vec![
        ("a group", from(HOST, GROUP).build(), Flags::NONE),
        ("a group of the link", from(HOST, "ff02::1").build(), Flags::NONE),
        ("a link-layer broadcast", plain.clone(), Flags::L2_BROADCAST),
        ("a link-layer multicast", plain.clone(), Flags::L2_MULTICAST),
        ("no source", from("::", FAR).build(), Flags::NONE),
        ("a loopback source", from("::1", FAR).build(), Flags::NONE),
        ("a multicast source", from(GROUP, FAR).build(), Flags::NONE),
        ("a source in disguise", from("::ffff:10.0.0.1", FAR).build(), Flags::NONE),
        ("a packet of the router's own", plain.clone(), Flags::LOCAL_ORIGIN),
        ("a header that is cut off", plain[..39].to_vec(), Flags::NONE),
    ];
    let message = |kind| PacketBuilder::ipv6(ip(HOST), ip(FAR)).icmp(kind, 0, 0).payload(&[0; 48]);
    for error in [1, 2, 3, 4, 0, 100, 127, kind::REDIRECT] {
        cases.push(("an ICMP error", message(error).build(), Flags::NONE));
        let hidden = message(error).extension(DESTINATION_OPTIONS, &[]);
        cases.push(("an ICMP error after a header", hidden.build(), Flags::NONE));
    }
    let later = message(kind::ECHO_REQUEST).fragment(10, false).build();
    cases.push(("a later fragment of a message", later, Flags::NONE));
    let endless = (0..20).fold(message(1), |b, _| b.extension(DESTINATION_OPTIONS, &[]));
    cases.push(("a chain that hides what it is", endless.build(), Flags::NONE));
    let (_bench, mut h) = router();
    for (n, (what, packet, flags)) in cases.into_iter().enumerate() {
        let (reports, dropped) = send(&mut h, Cause::TtlExpired, &[packet], flags);
        assert!(reports.is_empty(), "{what} was reported");
        assert_eq!(dropped[0].reason, Some("ttl-expired"), "{what}");
        assert_eq!(h.dropped("ip6-icmp-error", "unreported-forbidden"), n as u64 + 1, "{what}");
    }
}

#[test]
fn rfc4443_2_4_e_mtu_and_unknown_options_are_reported_for_groups() {
    let to_group = from(HOST, GROUP).build();
    for (cause, reported) in [
        (Cause::FragmentationNeeded(1300), true),
        (Cause::UnknownOption(42), true),
        (Cause::ParameterProblem(42), false),
        (Cause::NoRoute, false),
    ] {
        let (_bench, mut h) = router();
        let (reports, _) = send(&mut h, cause, std::slice::from_ref(&to_group), Flags::L2_MULTICAST);
        assert_eq!(reports.len(), usize::from(reported), "{cause:?}");
        assert!(reports.iter().all(|r| parse(r).0.src() == ip(NEAR)));
    }
}

#[test]
fn fragments_and_echo_requests_are_reported() {
    let (_bench, mut h) = router();
    let echo = PacketBuilder::ipv6(ip(HOST), ip(FAR)).echo_request(1, 1).build();
    let packets = [datagram().fragment(0, true).build(), datagram().fragment(9, false).build(), echo];
    assert_eq!(send(&mut h, Cause::TtlExpired, &packets, Flags::NONE).0.len(), 3);
}

proptest! {
    /// RFC 4443 section 2.4 (c): a report quotes, unchanged, as much of the packet as fits into 1,280 bytes.
    #[test]
    fn rfc4443_2_4_c_the_error_quotes_as_much_as_fits(len in 0usize..6000, padding in 0usize..40, options in 0usize..40) {
        let (_bench, mut h) = router();
        let data: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        let packet = datagram().extension(DESTINATION_OPTIONS, &vec![0; options]).payload(&data).build();
        let padded = [packet.clone(), vec![0xee; padding]].concat();
        let (reports, _) = send(&mut h, Cause::TtlExpired, &[padded], Flags::NONE);
        prop_assert!(reports[0].bytes.len() <= 1280);
        let (_, _, quote) = parse(&reports[0]);
        prop_assert_eq!(quote, &packet[..packet.len().min(1280 - 48)]);
    }
}

#[test]
fn rfc4443_2_2_the_error_has_the_source_that_the_sender_knows() {
    let mut bench = Bench::new();
    let given = ip("fe80::77");
    let both = vec![Address::new(given, 64), Address::new(ip(NEAR), 64)];
    let with = bench.interface_with(0, both);
    let implied = Ipv6Addr::from_bits(ipv6::link_local(Mac([2, 0, 0, 0, 0, 1])));
    let (without, tentative) =
        (bench.interface_with(0, vec![Address::new(implied, 64)]), bench.interface(0, None));
    let elsewhere = bench.interface_with(7, vec![Address::new(ip("2001:db8:7::1"), 64)]);
    let own =
        [(0, ip(NEAR), with), (0, ip(OTHER), with), (0, given, with), (7, ip("2001:db8:7::1"), elsewhere)];
    bench.own6(&own);
    let mut h = node(&bench);
    let mut from = |interface: u32, fib: u16, src: &str, dst: &str| {
        let packet = PacketBuilder::ipv6(ip(src), ip(dst)).udp(1, 2).build();
        let out = h.send("ip6-icmp-error", &[packet], |_, p| {
            p.set_rx_if(interface);
            p.set_fib(fib);
            p.set_fwd(Cause::PortUnreachable.to_raw());
        });
        let report = out.iter().find(|o| o.reason.is_none())?;
        assert_eq!((report.record.tx_if, report.record.fib), (interface, fib));
        Some(Ipv6Header::split(&report.bytes).unwrap().0.src())
    };
    assert_eq!(from(with, 0, HOST, FAR), Some(ip(NEAR)), "the address of the interface");
    assert_eq!(from(with, 0, HOST, OTHER), Some(ip(OTHER)), "the address that the packet was sent to");
    assert_eq!(from(without, 0, HOST, FAR), Some(ip(NEAR)), "any address of the VRF");
    assert_eq!(from(with, 7, HOST, FAR), Some(ip("2001:db8:7::1")), "no address of another VRF");
    assert_eq!(from(elsewhere, 3, HOST, FAR), None);
    // To a link-local host, from an address of the link.
    assert_eq!(from(with, 0, HOST_LINK, FAR), Some(given), "the interface's address");
    assert_eq!(from(without, 0, HOST_LINK, FAR), Some(implied), "the interface's implied address");
    assert_eq!(from(tentative, 0, HOST_LINK, FAR), Some(ip(NEAR)), "the interface has no address yet");
    assert_eq!(from(with, 0, HOST_LINK, "fe80::77"), Some(given), "the address that the packet was sent to");
    assert_eq!(from(without, 0, HOST_LINK, "fe80::77"), Some(implied), "not an address of another link");
    assert_eq!(h.dropped("ip6-icmp-error", "unreported-no-address"), 1);
}

#[test]
fn rfc4443_2_4_f_reports_are_limited_per_source_and_in_total() {
    let (_bench, mut h) = router();
    let storm = vec![datagram().build(); 256];
    let mut total = 0;
    for _ in 0..10 {
        total += send(&mut h, Cause::TtlExpired, &storm, Flags::NONE).0.len();
        h.advance(Duration::from_millis(100));
    }
    // A burst of 10, then 100 a second for 0.9 seconds.
    assert_eq!(total, 100);
    h.advance(Duration::from_secs(1));
    // Sources that differ in any bit have separate limits.
    let scan: Vec<Vec<u8>> =
        (0..1000u32).map(|i| from(&format!("2001:db8:{:x}::{:x}", i / 100, i % 100), FAR).build()).collect();
    assert_eq!(send(&mut h, Cause::NoRoute, &scan, Flags::NONE).0.len(), 100);
    assert!(h.dropped("ip6-icmp-error", "unreported-limit") > 800);
}

#[test]
fn other_errors_do_not_use_up_the_limit_of_packet_too_big() {
    let (_bench, mut h) = router();
    let of_one = vec![datagram().build(); 256];
    send(&mut h, Cause::TtlExpired, &of_one, Flags::NONE);
    let mtu = Cause::FragmentationNeeded(1400);
    assert_eq!(send(&mut h, mtu, &[datagram().build()], Flags::NONE).0.len(), 1);
    // "Packet too big" reports have a limit of their own, and one report of the burst has been sent.
    assert_eq!(send(&mut h, mtu, &of_one, Flags::NONE).0.len(), 9);
}

#[test]
fn the_trace_continues_with_the_error_and_shows_the_packet() {
    let (_bench, mut h) = router();
    let (reports, _) = send(&mut h, Cause::NoRoute, &[datagram().build(), datagram().build()], Flags::NONE);
    assert_eq!(reports.iter().map(|r| r.from).collect::<Vec<_>>(), [Some(0), Some(1)]);
    assert!(h.trace().contains(FAR), "{}", h.trace());
}
