//! Tests reverse-path checks against a simple search of a list of routes.

use std::net::Ipv4Addr;

use infra::lpm::{Lpm, dir24};
use infra::mem::Pages;
use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;

use net::adjacency::Adjacency;
use net::ip::Cause;
use net::ip::{Fibs, Object, Prefix4};
use net::testing::Bench;

use crate::node::{Mode, Urpf, install};

const FAR: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// Number of interfaces with routes.
const INTERFACES: u32 = 3;
const MODES: [Mode; 2] = [Mode::Strict, Mode::Loose];

/// A route: VRF, prefix and forwarding object. Here, `Object::Adjacency` has the number of an interface
/// instead of an adjacency.
type Route = (u16, Prefix4, Object);

/// Returns a graph with the strict and the loose node. `routes` are the routes of VRFs 0 and 2. Two adjacencies lead to each interface; the
/// routes use them alternately.
fn harness(routes: &[Route]) -> (Bench, Harness) {
    let mut bench = Bench::new();
    bench.writers.ip4.objects.set(0, 0).unwrap();
    for n in 0..2 * INTERFACES {
        let (interface, next_hop) = (n % INTERFACES, Ipv4Addr::from_bits(n));
        let record = Adjacency { rewrite: None, interface, mtu: 1500, next_hop: next_hop.into() };
        assert_eq!(bench.writers.adjacencies.insert(record).unwrap(), n);
    }
    let mut tables = [0, 2].map(|fib| (fib, dir24(&bench.domain, 1 << 10, Pages::Small).unwrap()));
    for (n, (fib, prefix, object)) in (0..).zip(routes) {
        let object = match object {
            Object::Adjacency(interface) => Object::Adjacency(interface + INTERFACES * (n % 2)),
            other => *other,
        };
        let leaf = bench.writers.ip4.objects.insert(object.to_word()).unwrap();
        let (_, (writer, _)) = tables.iter_mut().find(|(f, _)| f == fib).unwrap();
        writer.insert(prefix.bits(), prefix.len(), leaf).unwrap();
    }
    let [(_, zero), (_, two)] = tables;
    bench.writers.ip4.fibs.set(Fibs(vec![Some(zero.1), None, Some(two.1)]));
    let h = bench.harness(|b, t, hooks| {
        b.arc("ip4-unicast", "ip4-lookup", graph::ArcKey::Rx);
        install::<Ipv4Addr>(b, t, hooks).unwrap();
    });
    (bench, h)
}

/// A packet: VRF, receive interface and source address.
type From = (u16, u32, Ipv4Addr);

fn packet(src: Ipv4Addr, dst: Ipv4Addr) -> Vec<u8> {
    PacketBuilder::ipv4(src, dst).udp(1, 2).build()
}

fn send(h: &mut Harness, mode: Mode, from: &[From], dst: Ipv4Addr) -> Vec<Out> {
    let packets: Vec<Vec<u8>> = from.iter().map(|f| packet(f.2, dst)).collect();
    let mut out = h.send(mode.feature::<Ipv4Addr>().unwrap(), &packets, |i, p| {
        p.set_fib(from[i].0);
        p.set_rx_if(from[i].1);
    });
    assert_eq!(out.len(), from.len());
    out.sort_by_key(|o| o.from);
    out
}

/// Returns the drop reason of a packet, found by a simple search of the routes; `None` if the packet passes.
fn plain(routes: &[Route], mode: Mode, (mut fib, rx, src): From) -> Option<&'static str> {
    for _ in 0..9 {
        let covering = routes.iter().filter(|r| r.0 == fib && r.1.contains(src));
        let leaves_by = match covering.max_by_key(|r| r.1.len()).map(|r| r.2) {
            Some(Object::Table(next)) => {
                fib = next;
                continue;
            }
            Some(Object::Adjacency(interface) | Object::Glean(interface)) => interface,
            _ => return Some("no-route-to-source"),
        };
        return (mode == Mode::Strict && leaves_by != rx).then_some("source-elsewhere");
    }
    Some("no-route-to-source")
}

fn address() -> impl Strategy<Value = Ipv4Addr> {
    // Close together, so that prefixes overlap.
    (0u8..3, 0u8..3, 0u8..4, 0u8..4).prop_map(|(a, b, c, d)| Ipv4Addr::new(10 + a, b, c, d << 6))
}

fn object() -> impl Strategy<Value = Object> {
    prop_oneof![
        6 => (0..INTERFACES).prop_map(Object::Adjacency),
        3 => (0..INTERFACES).prop_map(Object::Glean),
        1 => prop::sample::select(vec![
            Object::Local,
            Object::Drop,
            Object::Unresolved,
            Object::Report(Cause::HostUnreachable),
            Object::Report(Cause::Prohibited),
        ]),
        // VRF 1 does not exist; two VRFs that lead to each other make a loop.
        1 => prop::sample::select(vec![Object::Table(0), Object::Table(1), Object::Table(2)]),
    ]
}

fn fib() -> impl Strategy<Value = u16> {
    prop::sample::select(vec![0u16, 0, 0, 2])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_packet_passes_if_its_reverse_path_is_valid(
        routes in prop::collection::btree_map(
            (fib(), (address(), prop_oneof![Just(0u8), 8u8..=32]).prop_map(|(a, len)| Prefix4::new(a, len))), object(), 0..60),
        from in prop::collection::vec((fib(), 0..INTERFACES, address()), 1..300),
        one_fib in any::<bool>(),
    ) {
        let routes: Vec<Route> = routes.into_iter().map(|((fib, prefix), object)| (fib, prefix, object)).collect();
        let from: Vec<From> = from.into_iter().map(|f| if one_fib { (0, f.1, f.2) } else { f }).collect();
        let (bench, mut h) = harness(&routes);
        for mode in MODES {
            let mut failed = [0; INTERFACES as usize];
            (0..INTERFACES).for_each(|i| bench.counts::<Urpf>().clear(i));
            for (from, out) in from.iter().zip(send(&mut h, mode, &from, FAR)) {
                let reason = plain(&routes, mode, *from);
                failed[from.1 as usize] += u64::from(reason.is_some());
                let node = if reason.is_some() { mode.feature::<Ipv4Addr>().unwrap() } else { "ip4-lookup" };
                prop_assert_eq!((out.node.as_str(), out.reason), (node, reason), "{:?} {:?}", mode, from);
                prop_assert_eq!(out.bytes, packet(from.2, FAR), "as it came");
            }
            for (interface, failed) in (0..).zip(failed) {
                prop_assert_eq!(bench.counts::<Urpf>().read(interface), [failed]);
            }
        }
    }
}

#[test]
fn the_default_route_counts_as_a_route() {
    let (_bench, mut h) = harness(&[(0, Prefix4::DEFAULT, Object::Adjacency(1))]);
    for (mode, rx, reason) in [
        (Mode::Strict, 1, None),
        (Mode::Strict, 2, Some("source-elsewhere")),
        (Mode::Loose, 1, None),
        (Mode::Loose, 2, None),
    ] {
        assert_eq!(send(&mut h, mode, &[(0, rx, FAR)], FAR)[0].reason, reason, "{mode:?} {rx}");
    }
}

#[test]
fn unspecified_sources_may_send_to_broadcast() {
    let routes = [
        (0, "0.0.0.0/8".parse().unwrap(), Object::Drop),
        (0, "255.255.255.255/32".parse().unwrap(), Object::Local),
    ];
    let (_bench, mut h) = harness(&routes);
    for mode in MODES {
        let mut end = |src, dst| send(&mut h, mode, &[(0, 1, src)], dst)[0].reason;
        assert_eq!(end(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST), None);
        assert_eq!(end(Ipv4Addr::UNSPECIFIED, FAR), Some("no-route-to-source"));
        assert_eq!(end(Ipv4Addr::new(0, 0, 0, 1), Ipv4Addr::BROADCAST), Some("no-route-to-source"));
    }
}
