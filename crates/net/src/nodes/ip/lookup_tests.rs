//! Tests of `ip4-lookup`: its results are compared with a search through a list of prefixes.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use infra::lpm::{Lpm, LpmLookup, NaiveLpm, dir24};
use infra::mem::Pages;
use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::flow::five_tuple;

use super::lookup::Lookup;
use crate::adjacency::GLEAN;
use crate::ip::{Cause, Fibs, ForwardingKind, Layout, Object, Path, Prefix4};
use crate::testing::Bench;

/// The routes of each VRF. A VRF that is not in the map has no table.
type Tables = BTreeMap<u16, Vec<(Prefix4, Object)>>;

/// Creates the node, with tables of these routes.
fn harness(tables: &Tables) -> (Bench, Harness) {
    let mut bench = Bench::new();
    bench.writers.ip4.objects.set(0, 0).unwrap();
    let mut fibs = vec![None; tables.keys().max().map_or(0, |f| usize::from(*f) + 1)];
    let mut writers = Vec::new();
    for (fib, routes) in tables {
        let (mut writer, reader) = dir24(&bench.domain, 1 << 10, Pages::Small).unwrap();
        for (prefix, object) in routes {
            let leaf = bench.writers.ip4.objects.insert(object.to_word()).unwrap();
            writer.insert(prefix.bits(), prefix.len(), leaf).unwrap();
        }
        fibs[usize::from(*fib)] = Some(reader);
        writers.push(writer);
    }
    bench.writers.ip4.fibs.set(Fibs(fibs));
    bench.writers.ip4.balances.insert(layout().buckets(&WAYS)).unwrap();
    let h = bench.harness(|b, t, _| {
        let tables = t.clone();
        b.frame(move |_| Ok(Lookup::<Ipv4Addr>::new(&tables)));
        for (kind, node) in KINDS {
            t.ip4.kinds.register(b, kind.into(), node).unwrap();
        }
    });
    (bench, h)
}

/// Forwarding kinds of features, with their nodes.
const KINDS: [(u8, &str); 2] = [(0, "tunnel"), (239, "translation")];

/// The forwarding objects of the paths of a route with several paths. It is the only such route in these tests.
const WAYS: [Object; 4] =
    [Object::Adjacency(9), Object::Glean(8), Object::Drop, Object::Report(Cause::Prohibited)];

/// The layout that assigns flows to the paths [`WAYS`].
fn layout() -> Layout {
    let way = |interface| (Path::Attached(interface), 1 + u64::from(interface));
    Layout::new(&[0, 1, 2, 3].map(way))
}

fn packet(dst: Ipv4Addr) -> Vec<u8> {
    PacketBuilder::ipv4([192, 0, 2, 9].into(), dst).udp(1, 2).build()
}

fn send(h: &mut Harness, to: &[(u16, Ipv4Addr)]) -> Vec<Out> {
    let packets: Vec<Vec<u8>> = to.iter().map(|t| packet(t.1)).collect();
    let mut out = h.send("ip4-lookup", &packets, |i, p| p.set_fib(to[i].0));
    assert_eq!(out.len(), to.len());
    out.sort_by_key(|o| o.from);
    out
}

/// Expected result for a packet: the node or the drop reason, then the forwarding index and the transmit
/// interface if they matter.
type Fate = (String, Option<u32>, Option<u32>);

fn fate(out: &Out) -> Fate {
    let node = out.reason.unwrap_or(&out.node).to_string();
    let r = &out.record;
    match node.as_str() {
        "ip4-rewrite" | "ip4-icmp-error" | "tunnel" | "translation" => (node, Some(r.fwd), None),
        "ip4-arp" => (node, Some(r.fwd), Some(r.tx_if)),
        _ => (node, None, None),
    }
}

/// Returns the expected result by a search through the prefixes.
fn plain(naive: &BTreeMap<u16, (NaiveLpm<u32>, Vec<Object>)>, fib: u16, dst: Ipv4Addr) -> Fate {
    let drop = |reason: &str| (reason.to_string(), None, None);
    let mut table = fib;
    for hop in 0..9 {
        let Some((lpm, objects)) = naive.get(&table) else {
            // The packet's own VRF may have no table. A VRF named by a route must exist.
            let raw = Cause::NoRoute.to_raw();
            return if hop == 0 { ("ip4-icmp-error".into(), Some(raw), None) } else { drop("no-table") };
        };
        let object = match lpm.lookup(dst.to_bits()) {
            0 => Object::Report(Cause::NoRoute),
            leaf => objects[leaf as usize - 1],
        };
        let object = match object {
            Object::Balance(0) => {
                let hash = five_tuple(&packet(dst)).unwrap().hash();
                Object::from_word(layout().buckets(&WAYS).word(hash))
            }
            Object::Balance(_) => Object::Unresolved,
            object => object,
        };
        return match object {
            Object::Adjacency(a) => ("ip4-rewrite".into(), Some(a), None),
            Object::Glean(i) => ("ip4-arp".into(), Some(GLEAN), Some(i)),
            Object::Local => drop("ip4-local"),
            Object::Drop => drop("blackhole"),
            Object::LinkLocal => unreachable!("IPv4 has no such routes"),
            Object::Unresolved | Object::Balance(_) => drop("unresolved"),
            Object::Feature(kind, index) => {
                match KINDS.iter().find(|(raw, _)| ForwardingKind::from_raw(*raw) == kind) {
                    Some((_, node)) => (node.to_string(), Some(index), None),
                    None => drop("unresolved"),
                }
            }
            Object::Report(cause) => ("ip4-icmp-error".into(), Some(cause.to_raw()), None),
            Object::Table(next) => {
                table = next;
                continue;
            }
        };
    }
    drop("table-loop")
}

fn address() -> impl Strategy<Value = Ipv4Addr> {
    prop_oneof![
        // Close to each other, so that prefixes overlap.
        (0u8..3, 0u8..3, 0u8..4, 0u8..4).prop_map(|(a, b, c, d)| Ipv4Addr::new(10 + a, b, c, d << 6)),
        any::<u32>().prop_map(Ipv4Addr::from_bits),
    ]
}

fn object() -> impl Strategy<Value = Object> {
    prop_oneof![
        4 => (0u32..1 << 20).prop_map(Object::Adjacency),
        1 => (0u32..9).prop_map(Object::Glean),
        1 => Just(Object::Local),
        1 => Just(Object::Drop),
        1 => Just(Object::Unresolved),
        2 => (0u32..2).prop_map(Object::Balance),
        2 => (prop_oneof![Just(0), Just(5), Just(239)], any::<u32>())
            .prop_map(|(kind, index)| Object::Feature(ForwardingKind::from_raw(kind), index)),
        1 => prop_oneof![Just(Cause::HostUnreachable), Just(Cause::Prohibited)].prop_map(Object::Report),
        // VRF 1 never has a table.
        2 => prop_oneof![Just(0u16), Just(1), Just(2), Just(700)].prop_map(Object::Table),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn the_longest_prefix_decides(
        routes in prop::collection::vec(
            (prop_oneof![Just(0u16), Just(2)], address(), prop_oneof![Just(0u8), 8u8..=32], object()), 0..60),
        to in prop::collection::vec((prop_oneof![8 => Just(0u16), 2 => Just(2), 1 => Just(1), 1 => Just(900)], address()), 1..300),
    ) {
        let mut tables: Tables = [(0, Vec::new()), (2, Vec::new())].into();
        let mut naive: BTreeMap<u16, (NaiveLpm<u32>, Vec<Object>)> = [(0, Default::default()), (2, Default::default())].into();
        for (fib, address, len, object) in routes {
            let prefix = Prefix4::new(address, len);
            tables.get_mut(&fib).unwrap().push((prefix, object));
            let (lpm, objects) = naive.get_mut(&fib).unwrap();
            objects.push(object);
            lpm.insert(prefix.bits(), prefix.len(), objects.len() as u32).unwrap();
        }
        let (_bench, mut h) = harness(&tables);
        // Destinations of all VRFs in one vector, then the destinations of each VRF in a separate vector.
        let by_fib: BTreeMap<u16, Vec<(u16, Ipv4Addr)>> =
            to.iter().fold(BTreeMap::new(), |mut m, t| { m.entry(t.0).or_insert_with(Vec::new).push(*t); m });
        for to in [to].iter().chain(by_fib.values()) {
            for ((fib, dst), out) in to.iter().zip(send(&mut h, to)) {
                prop_assert_eq!(fate(&out), plain(&naive, *fib, *dst), "{} in {}", dst, fib);
                prop_assert_eq!(out.bytes, packet(*dst));
            }
        }
    }
}

#[test]
fn lookups_follow_a_limited_number_of_tables() {
    let chain = |n: u16| -> Tables {
        (0..=n)
            .map(|f| (f, vec![(Prefix4::DEFAULT, if f == n { Object::Local } else { Object::Table(f + 1) })]))
            .collect()
    };
    let end = |n| fate(&send(&mut harness(&chain(n)).1, &[(0, [10, 0, 0, 1].into())])[0]).0;
    assert_eq!(end(1), "ip4-local");
    assert_eq!(end(8), "ip4-local");
    assert_eq!(end(9), "table-loop");
}

#[test]
fn a_trace_shows_the_flow_hash_if_there_is_one() {
    let (_bench, mut h) = harness(&Tables::new());
    let to = packet(Ipv4Addr::new(198, 51, 100, 1));
    h.send("ip4-lookup", &[&to], |_, p| p.set_fib(3));
    assert!(h.trace().contains("fib 3 fwd-idx") && !h.trace().contains("hash"), "{}", h.trace());
    h.send("ip4-lookup", &[&to], |_, p| p.set_hash(0xabc));
    assert!(h.trace().contains(" flow hash: 0x00000abc\n"), "{}", h.trace());
}
