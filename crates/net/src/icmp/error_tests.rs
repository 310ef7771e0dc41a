//! Tests of `ip4-icmp-error`: what is reported, in which form, and what is never reported.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use buf::{Flags, Held};
use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::icmpv4::{IcmpHeader, kind};
use wire::{Ipv4Header, protocol};

use super::error::Ip4IcmpError;
use crate::ip::Cause;
use crate::testing::{Bench, checksum};

const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const FAR: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const NEAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Returns a router with an interface whose address is NEAR, and the index of the interface. The router also has the address OTHER, which
/// is not an address of this interface.
fn router() -> (Bench, u32, Harness) {
    let mut bench = Bench::new();
    let interface = bench.interface(0, Some(NEAR));
    bench.own(&[(0, NEAR), (0, OTHER)]);
    let h = bench.harness(|b, t, _| {
        let t = t.clone();
        b.frame(move |_| Ok(Ip4IcmpError::new(&t)));
    });
    (bench, interface, h)
}

fn datagram() -> PacketBuilder {
    PacketBuilder::ipv4(HOST, FAR).udp(1000, 2000).payload(b"some data")
}

/// Passes packets to the node as packets that `interface` received. Returns the reports about them, and the results for the packets
/// themselves.
fn send(
    h: &mut Harness,
    interface: u32,
    cause: Cause,
    packets: &[Vec<u8>],
    flags: Flags,
) -> (Vec<Out>, Vec<Out>) {
    let out = h.send("ip4-icmp-error", packets, |_, p| {
        p.set_rx_if(interface);
        p.set_fwd(cause.to_raw());
        p.set_flags(p.flags() | flags);
    });
    out.into_iter().partition(|o| o.reason.is_none())
}

/// Checks a report and returns its headers and its quote.
fn parse(report: &Out) -> (Ipv4Header, IcmpHeader, &[u8]) {
    let (ip, rest) = Ipv4Header::split(&report.bytes).unwrap();
    let (icmp, quote) = IcmpHeader::split(rest).unwrap();
    assert_eq!((checksum(&ip.0), checksum(rest)), (0, 0), "checksums");
    assert_eq!((ip.version_ihl(), ip.protocol(), ip.ttl()), (0x45, protocol::ICMP, 255));
    assert_eq!(usize::from(ip.total_len()), report.bytes.len());
    assert_eq!(report.node, "ip4-lookup");
    assert!(report.record.flags.any(Flags::LOCAL_ORIGIN));
    (*ip, *icmp, quote)
}

#[test]
fn every_cause_has_its_message() {
    let cases = [
        (Cause::TtlExpired, "ttl-expired", 11, 0),
        (Cause::NoRoute, "no-route", 3, 0),
        (Cause::HostUnreachable, "host-unreachable", 3, 1),
        (Cause::ProtocolUnreachable, "protocol-unreachable", 3, 2),
        (Cause::PortUnreachable, "port-unreachable", 3, 3),
        (Cause::FragmentationNeeded(1400), "fragmentation-needed", 3, 4),
        (Cause::Prohibited, "prohibited", 3, 13),
    ];
    for (cause, reason, kind, code) in cases {
        let (_bench, interface, mut h) = router();
        let sent = datagram().build();
        let (reports, dropped) = send(&mut h, interface, cause, std::slice::from_ref(&sent), Flags::NONE);
        assert_eq!((reports.len(), dropped.len()), (1, 1), "{cause:?}");
        assert_eq!((dropped[0].reason, dropped[0].bytes == sent), (Some(reason), true));
        let (ip, icmp, quote) = parse(&reports[0]);
        assert_eq!((icmp.kind(), icmp.code()), (kind, code), "{cause:?}");
        // RFC 1191 section 4: the MTU. Every other message has zero there.
        assert_eq!(icmp.rest(), if cause == Cause::FragmentationNeeded(1400) { 1400 } else { 0 });
        assert_eq!((ip.dst(), quote), (HOST, &sent[..]));
        assert_eq!(h.dropped("ip4-icmp-error", reason), 1);
    }
}

#[test]
fn rfc1812_4_3_2_7_no_error_for_groups_errors_and_bad_sources() {
    let plain = datagram().build();
    let from = |src: [u8; 4]| PacketBuilder::ipv4(src.into(), FAR).udp(1, 2).build();
    let to = |dst: [u8; 4]| PacketBuilder::ipv4(HOST, dst.into()).udp(1, 2).build();
    let mut cases = vec![
        ("an IP broadcast", to([255, 255, 255, 255]), Flags::NONE),
        ("an IP multicast", to([224, 0, 0, 5]), Flags::NONE),
        ("a link-layer broadcast", plain.clone(), Flags::L2_BROADCAST),
        ("a link-layer multicast", plain.clone(), Flags::L2_MULTICAST),
        ("a later fragment", datagram().fragment(10, false).build(), Flags::NONE),
        ("source 0.0.0.0", from([0, 0, 0, 0]), Flags::NONE),
        ("a source with network number 0", from([0, 1, 2, 3]), Flags::NONE),
        ("a loopback source", from([127, 0, 0, 1]), Flags::NONE),
        ("a multicast source", from([224, 0, 0, 1]), Flags::NONE),
        ("a broadcast source", from([255, 255, 255, 255]), Flags::NONE),
        ("a packet of the router's own", plain, Flags::LOCAL_ORIGIN),
    ];
    for error in
        [kind::UNREACHABLE, kind::SOURCE_QUENCH, kind::REDIRECT, kind::TIME_EXCEEDED, kind::PARAMETER_PROBLEM]
    {
        let message = PacketBuilder::ipv4(HOST, FAR).icmp(error, 0, 0).payload(&[0; 28]).build();
        cases.push(("an ICMP error", message, Flags::NONE));
    }
    let (_bench, interface, mut h) = router();
    for (n, (what, packet, flags)) in cases.into_iter().enumerate() {
        let (reports, dropped) = send(&mut h, interface, Cause::TtlExpired, &[packet], flags);
        assert!(reports.is_empty(), "{what} was reported");
        assert_eq!(dropped[0].reason, Some("ttl-expired"), "{what}");
        assert_eq!(h.dropped("ip4-icmp-error", "unreported-forbidden"), n as u64 + 1, "{what}");
    }
}

#[test]
fn first_fragments_and_echo_requests_are_reported() {
    let (_bench, interface, mut h) = router();
    let first_fragment = datagram().fragment(0, true).build();
    let echo = PacketBuilder::ipv4(HOST, FAR).echo_request(1, 1).build();
    let (reports, _) = send(&mut h, interface, Cause::TtlExpired, &[first_fragment, echo], Flags::NONE);
    assert_eq!(reports.len(), 2);
}

#[test]
fn rfc1812_4_3_2_5_errors_have_precedence_internetwork_control() {
    let (_bench, interface, mut h) = router();
    let sent = datagram().tos(0x1c).build();
    let (reports, _) = send(&mut h, interface, Cause::NoRoute, &[sent], Flags::NONE);
    let (ip, ..) = parse(&reports[0]);
    // The default type of service (RFC 1349 section 5.1) as well.
    assert_eq!(ip.tos(), 6 << 5);
}

proptest! {
    /// RFC 1812 section 4.3.2.3: a report quotes, unchanged, as much of the packet as fits into 576 bytes.
    #[test]
    fn rfc1812_4_3_2_3_the_error_quotes_as_much_as_fits(len in 0usize..6000, padding in 0usize..40, options in 0usize..40) {
        let (_bench, interface, mut h) = router();
        let data: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        let packet = PacketBuilder::ipv4(HOST, FAR).options(&vec![1; options]).udp(5, 6).payload(&data).build();
        let padded = [packet.clone(), vec![0xee; padding]].concat();
        let (reports, _) = send(&mut h, interface, Cause::TtlExpired, &[padded], Flags::NONE);
        let (_, _, quote) = parse(&reports[0]);
        prop_assert_eq!(quote, &packet[..packet.len().min(576 - 28)]);
    }
}

#[test]
fn the_error_has_the_source_that_the_sender_knows() {
    let mut bench = Bench::new();
    let with = bench.interface(0, Some(NEAR));
    let without = bench.interface(0, None);
    let elsewhere = bench.interface(7, Some(Ipv4Addr::new(203, 0, 113, 1)));
    bench.own(&[(0, NEAR), (0, OTHER), (7, Ipv4Addr::new(203, 0, 113, 1))]);
    let mut h = bench.harness(|b, t, _| {
        let t = t.clone();
        b.frame(move |_| Ok(Ip4IcmpError::new(&t)));
    });
    let mut from = |interface: u32, fib: u16, dst: Ipv4Addr| {
        let packet = PacketBuilder::ipv4(HOST, dst).udp(1, 2).build();
        let out = h.send("ip4-icmp-error", &[packet], |_, p| {
            p.set_rx_if(interface);
            p.set_fib(fib);
            p.set_fwd(Cause::PortUnreachable.to_raw());
        });
        out.iter().find(|o| o.reason.is_none()).map(|o| (parse(o).0.src(), o.record.fib))
    };
    assert_eq!(from(with, 0, FAR), Some((NEAR, 0)), "the address of the interface");
    assert_eq!(from(with, 0, OTHER), Some((OTHER, 0)), "the address that the packet was sent to");
    assert_eq!(from(without, 0, FAR), Some((OTHER, 0)), "any address of the VRF");
    assert_eq!(from(with, 7, FAR), Some((Ipv4Addr::new(203, 0, 113, 1), 7)), "no address of another VRF");
    assert_eq!(from(elsewhere, 3, FAR), None);
    assert_eq!(h.dropped("ip4-icmp-error", "unreported-no-address"), 1);
}

#[test]
fn unreachables_are_sent_unless_they_are_off() {
    let (bench, interface, mut h) = router();
    let unreachables = &bench.tables.ip4.unreachables;
    let mut told = |on: bool, cause: Cause| {
        unreachables.send(on);
        let (reports, dropped) = send(&mut h, interface, cause, &[datagram().build()], Flags::NONE);
        assert_eq!(dropped.len(), 1);
        h.advance(Duration::from_secs(1));
        reports.len()
    };
    for cause in [Cause::NoRoute, Cause::Prohibited, Cause::PortUnreachable] {
        assert_eq!((told(true, cause), told(false, cause)), (1, 0));
    }
    // Path MTU discovery and traceroute still work.
    for cause in [Cause::FragmentationNeeded(1280), Cause::TtlExpired] {
        assert_eq!(told(false, cause), 1);
    }
    assert_eq!(h.dropped("ip4-icmp-error", "unreported-off"), 3);
    assert_eq!(h.dropped("ip4-icmp-error", "no-route"), 2);
}

#[test]
fn rfc1812_4_3_2_8_reports_are_limited_per_source() {
    let (_bench, interface, mut h) = router();
    let storm = vec![datagram().build(); 256];
    let mut total = 0;
    for _ in 0..100 {
        let (reports, dropped) = send(&mut h, interface, Cause::TtlExpired, &storm, Flags::NONE);
        total += reports.len();
        assert_eq!(dropped.len(), 256);
        h.advance(Duration::from_millis(100));
    }
    // A burst of 10, then 100 a second for 9.9 seconds.
    assert_eq!(total, 1000);
    assert_eq!(h.dropped("ip4-icmp-error", "unreported-source-limit"), 25_600 - 1000);
    assert_eq!(h.dropped("ip4-icmp-error", "ttl-expired"), 25_600);
}

#[test]
fn reports_are_limited_in_total() {
    let (_bench, interface, mut h) = router();
    let scan: Vec<Vec<u8>> =
        (0..1000u32).map(|i| PacketBuilder::ipv4((0x0a00_0100 + i).into(), FAR).udp(1, 2).build()).collect();
    let (reports, _) = send(&mut h, interface, Cause::NoRoute, &scan, Flags::NONE);
    assert_eq!(reports.len(), 100);
    assert!(h.dropped("ip4-icmp-error", "unreported-limit") > 800);
}

#[test]
fn other_errors_do_not_use_up_the_limit_of_mtu_errors() {
    let (_bench, interface, mut h) = router();
    let mtu = Cause::FragmentationNeeded(1400);
    let of_many: Vec<Vec<u8>> =
        (0..1000u32).map(|i| PacketBuilder::ipv4((0x0a00_0100 + i).into(), FAR).udp(1, 2).build()).collect();
    let of_one = vec![datagram().build(); 256];
    for flood in [&of_many, &of_one] {
        send(&mut h, interface, Cause::TtlExpired, flood, Flags::NONE);
        let (reports, _) = send(&mut h, interface, mtu, &[datagram().build()], Flags::NONE);
        assert_eq!(reports.len(), 1);
    }
    // MTU reports have a limit of their own, and two reports of the burst have been sent.
    assert_eq!(send(&mut h, interface, mtu, &of_one, Flags::NONE).0.len(), 8);
}

#[test]
fn the_rate_limit_allows_traceroutes() {
    let (_bench, interface, mut h) = router();
    // Nine reports in 100 ms, for a whole minute: a few traceroutes and path MTU discoveries of one host need no more.
    for _ in 0..60 {
        let (reports, _) =
            send(&mut h, interface, Cause::TtlExpired, &vec![datagram().build(); 9], Flags::NONE);
        assert_eq!(reports.len(), 9);
        h.advance(Duration::from_millis(100));
    }
}

#[test]
fn the_trace_continues_with_the_error() {
    let (_bench, interface, mut h) = router();
    let (reports, _) =
        send(&mut h, interface, Cause::NoRoute, &[datagram().build(), datagram().build()], Flags::NONE);
    assert_eq!(reports.iter().map(|r| r.from).collect::<Vec<_>>(), [Some(0), Some(1)]);
}

#[test]
fn rfc6864_4_2_errors_to_one_host_have_distinct_identifications() {
    let (_bench, interface, mut h) = router();
    let (reports, _) = send(&mut h, interface, Cause::NoRoute, &vec![datagram().build(); 8], Flags::NONE);
    let ids: HashSet<u16> = reports.iter().map(|r| parse(r).0.id()).collect();
    assert_eq!(ids.len(), 8);
}

#[test]
fn without_a_free_buffer_the_packet_is_only_dropped() {
    let (_bench, interface, mut h) = router();
    let packet = h.held(&datagram().build());
    let mut cache = h.pool().cache();
    let taken: Vec<Held> = std::iter::from_fn(|| Held::alloc(&mut cache)).collect();
    // The harness holds some buffers; none is free for the worker.
    let (reports, dropped) = send(&mut h, interface, Cause::NoRoute, &[datagram().build()], Flags::NONE);
    taken.into_iter().for_each(|held| held.free(&mut cache));
    drop(cache);
    packet.discard();
    assert_eq!((reports.len(), dropped.len()), (0, 1));
    assert_eq!(h.dropped("ip4-icmp-error", "unreported-no-buffer"), 1);
}
