//! `ip4-options` after `ip4-input`.

use std::net::Ipv4Addr;

use infra::lpm::{Dir24Writer, Lpm, dir24};
use infra::mem::Pages;
use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::options::kind;

use super::input::Ip4Input;
use super::options::Ip4Options;
use crate::adjacency::Adjacency;
use crate::ip::{Cause, Fibs, Object, Prefix4};
use crate::testing::{Bench, checksum};

const SRC: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
/// The router's address on the receive interface.
const NEAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The router's address on the transmit interface.
const OUT: Ipv4Addr = Ipv4Addr::new(10, 0, 9, 1);
/// A destination that is reached over an adjacency.
const FAR: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// A destination on a connected network.
const LINK: Ipv4Addr = Ipv4Addr::new(10, 0, 9, 77);
/// A destination without a route.
const NOWHERE: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 1);
/// A protocol number. In these tests, a node is registered for router alerts of this protocol.
const TAKEN: u8 = 46;

/// Creates the nodes and their tables, which exist as long as the first two returned values.
fn harness() -> (Bench, Dir24Writer, Harness) {
    let mut bench = Bench::new();
    bench.interface(0, Some(NEAR));
    let out = bench.interface(0, Some(OUT));
    bench.own(&[(0, NEAR), (0, OUT)]);
    let via = Adjacency { rewrite: None, interface: out, mtu: 1500, next_hop: LINK.into() };
    let adjacency = bench.writers.adjacencies.insert(via).unwrap();
    bench.writers.ip4.objects.set(0, 0).unwrap();
    let (mut table, reader) = dir24(&bench.domain, 1 << 10, Pages::Small).unwrap();
    for (prefix, object) in [
        ("198.51.100.0/24", Object::Adjacency(adjacency)),
        ("10.0.9.0/24", Object::Glean(out)),
        ("255.255.255.255/32", Object::Local),
    ] {
        let prefix: Prefix4 = prefix.parse().unwrap();
        let leaf = bench.writers.ip4.objects.insert(object.to_word()).unwrap();
        table.insert(prefix.bits(), prefix.len(), leaf).unwrap();
    }
    bench.writers.ip4.fibs.set(Fibs(vec![Some(reader)]));
    let h = bench.harness(|b, t, _| {
        let tables = t.clone();
        b.frame(move |_| Ok(Ip4Input::new(&tables)));
        let tables = t.clone();
        b.frame(move |_| Ok(Ip4Options::new(&tables)));
        t.ip4.router_alerts.register(b, u16::from(TAKEN), "rsvp").unwrap();
    });
    (bench, table, h)
}

fn packet(dst: Ipv4Addr, options: &[u8]) -> PacketBuilder {
    PacketBuilder::ipv4(SRC, dst).options(options).udp(1000, 2000).payload(b"data")
}

fn send(packet: &PacketBuilder) -> Out {
    let (_bench, _table, mut h) = harness();
    let mut out = h.send("ip4-input", &[packet.build()], |_, _| ());
    assert_eq!((out.len(), out[0].reason), (1, None));
    assert_eq!(checksum(&out[0].bytes[..usize::from(out[0].bytes[0] & 15) * 4]), 0, "header checksum");
    out.remove(0)
}

/// Sends a packet with these options. Returns its next node, and its options after the node.
fn through(dst: Ipv4Addr, options: &[u8]) -> (String, Vec<u8>) {
    let out = send(&packet(dst, options));
    let end = usize::from(out.bytes[0] & 15) * 4;
    (out.node, out.bytes[20..end].to_vec())
}

/// Returns the cause reported for a packet with these options.
fn reported(options: &[u8]) -> Cause {
    let out = send(&packet(FAR, options));
    assert_eq!(out.node, "ip4-icmp-error");
    Cause::from_raw(out.record.fwd)
}

const EMPTY: [u8; 12] = [kind::RECORD_ROUTE, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn rfc1812_5_3_13_5_the_route_is_recorded_as_the_packet_leaves() {
    for (dst, address) in [(FAR, OUT), (LINK, OUT), (NEAR, NEAR), (OUT, OUT), (Ipv4Addr::BROADCAST, OUT)] {
        let [a, b, c, d] = address.octets();
        let (node, options) = through(dst, &EMPTY);
        assert_eq!(
            (node.as_str(), &options[..]),
            ("ip4-unicast", &[7, 11, 8, a, b, c, d, 0, 0, 0, 0, 0][..]),
            "{dst}"
        );
    }
    let (node, options) = through(NOWHERE, &EMPTY);
    assert_eq!(
        (node.as_str(), &options[..]),
        ("ip4-unicast", &EMPTY[..]),
        "a packet without a route is unchanged"
    );
    let full = [7, 7, 8, 1, 2, 3, 4, 0];
    assert_eq!(through(FAR, &full).1, full);
}

#[test]
fn rfc1812_5_3_13_6_timestamps_are_filled_in() {
    // Virtual time began at midnight, one hour ago.
    let hour = 3_600_000u32.to_be_bytes();
    let (node, options) = through(FAR, &[68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        (node.as_str(), &options[..4], &options[4..8]),
        ("ip4-unicast", &[68, 12, 9, 0][..], &hour[..])
    );
    let (_, options) = through(FAR, &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!((&options[2..4], &options[4..8], &options[8..]), (&[13, 1][..], &OUT.octets()[..], &hour[..]));
    for (chosen, pointer) in [(NEAR, 13), (OUT, 13), (SRC, 5)] {
        let [a, b, c, d] = chosen.octets();
        let (_, options) = through(FAR, &[68, 12, 5, 3, a, b, c, d, 0, 0, 0, 0]);
        assert_eq!((options[2], options[8..] == hour), (pointer, pointer == 13), "{chosen}");
    }
    let (_, options) = through(FAR, &[68, 8, 9, 0x20, 1, 2, 3, 4]);
    assert_eq!(options, [68, 8, 9, 0x30, 1, 2, 3, 4], "the overflow is counted");
}

#[test]
fn route_and_timestamp_are_filled_in_beside_other_options() {
    let list = [1, 7, 7, 4, 0, 0, 0, 0, 130, 3, 9, 68, 8, 5, 0, 0, 0, 0, 0, 0];
    let (_, options) = through(FAR, &list);
    assert_eq!(options[..11], [1, 7, 7, 8, 10, 0, 9, 1, 130, 3, 9]);
    assert_eq!(options[11..15], [68, 8, 9, 0]);
}

#[test]
fn rfc7126_4_3_source_routes_are_not_followed() {
    for option in [kind::LOOSE_ROUTE, kind::STRICT_ROUTE] {
        assert_eq!(reported(&[option, 7, 4, 10, 0, 0, 1]), Cause::SourceRouteFailed);
        assert_eq!(reported(&[1, option, 3, 4]), Cause::SourceRouteFailed);
        assert_eq!(reported(&[148, 4, 0, 0, option, 3, 4]), Cause::SourceRouteFailed);
        // Also if this router is the end of the source route.
        let out = send(&packet(NEAR, &[option, 7, 8, 10, 0, 0, 1]));
        assert_eq!(Cause::from_raw(out.record.fwd), Cause::SourceRouteFailed);
        // The same byte in another option's data, and after the end of the list.
        assert_eq!(through(FAR, &[148, 4, option, 3]).0, "ip4-unicast");
        assert_eq!(through(FAR, &[0, option, 3, 4]).0, "ip4-unicast");
    }
}

#[test]
fn rfc1812_4_3_3_5_malformed_options_are_reported_by_offset() {
    for (options, at) in [
        (&[7, 0, 4, 0][..], 21),
        (&[1, 1, 1, 130], 23),
        (&[130, 99, 0, 0], 21),
        (&[7, 7, 3, 0, 0, 0, 0, 0], 22),
        (&[1, 7, 7, 6, 0, 0, 0, 0], 23),
        (&[68, 8, 5, 7, 0, 0, 0, 0], 23),
        (&[68, 8, 9, 0xf0, 0, 0, 0, 0], 23),
        (&[7, 3, 4, 7, 3, 4, 0, 0], 23),
    ] {
        assert_eq!(reported(options), Cause::ParameterProblem(at), "{options:?}");
    }
}

#[test]
fn rfc2113_router_alerts_go_to_the_registered_node() {
    let alert = [kind::ROUTER_ALERT, 4, 0, 0];
    let taken = PacketBuilder::ipv4(SRC, FAR).options(&alert).protocol(TAKEN);
    assert_eq!(send(&taken).node, "rsvp");
    assert_eq!(send(&taken.protocol(TAKEN + 1)).node, "ip4-unicast");
    let group = Ipv4Addr::new(224, 0, 0, 22);
    assert_eq!(send(&PacketBuilder::ipv4(SRC, group).options(&alert).protocol(2)).node, "ip4-multicast");
}

proptest! {
    /// For any options, a packet is forwarded with its length unchanged, or reported. A packet changes only if its options contain the type
    /// byte of a record route or timestamp option.
    #[test]
    fn any_options_are_handled(options in prop::collection::vec(any::<u8>(), 4..41), kind in 0usize..5) {
        let mut options = options;
        options[0] = [7, 68, 148, 131, options[0]][kind];
        let packet = packet(FAR, &options);
        let (before, out) = (packet.build(), send(&packet));
        prop_assert!(["ip4-unicast", "ip4-icmp-error"].contains(&out.node.as_str()));
        let changes = options.contains(&7) || options.contains(&68);
        prop_assert!(changes || before == out.bytes);
        prop_assert_eq!(before.len(), out.bytes.len());
    }
}
