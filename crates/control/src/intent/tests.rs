//! Transactions on a real router with packet generators for devices.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use graph::{Builder, GraphError};
use net::Tables;
use net::ethernet::Tags;
use net::ip::{Prefix4, Source};
use net::router::{Address, Hooks, Router, Sizes};
use proptest::prelude::*;
use wire::Mac;

use super::*;
use crate::system::System;

pub(crate) fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    net::interface::install(b, t);
    net::ethernet::install(b, t);
    net::neighbor::install(b, t, hooks)?;
    net::ip::install(b, t, hooks)?;
    net::icmp::install(b, t, hooks)?;
    net::udp::install(b, t, hooks)?;
    net::gso::install(b, t, hooks)
}

fn system() -> System {
    let sizes = Sizes { buffers: 64, workers: 1 };
    System::new(Router::build(install, &sizes).unwrap().router)
}

fn interface(n: u16) -> Change {
    let mut i = Interface::new(Spec::Generator(n));
    i.up = true;
    Change::set(Key::Interface(format!("pg{n}")), Value::Interface(Box::new(i)))
}

fn address(n: u32, a: &str, len: u8) -> Change {
    let address = Address { address: a.parse().unwrap(), len };
    Change::set(Key::Address(format!("pg{n}"), address), Value::Address)
}

fn route(prefix: &str, via: Via) -> Change {
    Change::set(Key::Route(0, prefix.parse().unwrap()), Value::Route(Route { via }))
}

/// What the router shows of itself: enough to tell two states apart.
fn state(s: &System) -> Vec<String> {
    let r = &s.router;
    let mut lines: Vec<String> = r
        .interfaces()
        .map(|i| format!("{} {} {} {} {} {:?}", i.name, i.admin_up, i.mac, i.mtu, i.fib, i.addresses))
        .collect();
    for table in r.routes().tables() {
        // Every table has the special routes, and an empty one stays when it was made in vain.
        let asked =
            r.routes().iter(table).filter(|(_, sources)| sources.iter().any(|s| s.0 != Source::Special));
        lines.extend(asked.map(|(p, sources)| format!("{table} {p} {sources:?}")));
    }
    lines.extend(r.neighbors().map(|n| format!("{} {} {:?}", n.interface, n.ip, n.mac)));
    lines
}

#[test]
fn changes_are_made_in_the_order_of_their_dependencies() {
    let (mut s, mut store) = (system(), Store::default());
    // Given backwards: the route first, the interface last.
    let changes = vec![
        route("10.9.0.0/16", Via::NextHop(Ipv4Addr::new(10, 0, 0, 2), Some("pg0".into()))),
        Change::set(
            Key::Neighbor("pg0".into(), Ipv4Addr::new(10, 0, 0, 2)),
            Value::Neighbor(Neighbor { mac: Mac([2, 0, 0, 0, 0, 7]) }),
        ),
        address(0, "10.0.0.1", 24),
        interface(0),
    ];
    store.transact(&mut s, changes).unwrap();
    assert!(s.router.routes().lookup(0, Ipv4Addr::new(10, 9, 1, 1)).is_some());
    // And taken away at once, whatever the order.
    let all: Vec<Change> = store.iter().map(|(k, _)| Change::remove(k.clone())).collect();
    store.transact(&mut s, all).unwrap();
    assert_eq!(s.router.interfaces().count(), 0);
    assert_eq!(state(&s), [""; 0]);
}

#[test]
fn what_validation_refuses_touches_nothing() {
    let (mut s, mut store) = (system(), Store::default());
    let hop = Via::NextHop(Ipv4Addr::new(10, 8, 0, 2), None);
    let first = vec![interface(0), interface(1), address(0, "10.0.0.1", 24), route("10.9.0.0/16", hop)];
    store.transact(&mut s, first).unwrap();
    let before = state(&s);
    let sub = |parent: &str, outer| {
        let tags = Tags { outer_service: false, outer, inner: None };
        Value::Interface(Box::new(Interface::new(Spec::Sub { parent: parent.into(), id: 1, tags })))
    };
    let refused = [
        vec![address(0, "10.0.0.9", 16), address(1, "10.0.1.1", 24)],
        vec![address(1, "10.0.0.5", 24)],
        vec![address(7, "10.7.0.1", 24)],
        vec![route("10.1.0.0/16", Via::Attached("pg7".into()))],
        vec![route("10.1.0.0/16", Via::Table(9))],
        vec![route("10.1.0.0/16", Via::Table(0))],
        vec![route("10.1.0.0/16", Via::NextHop(Ipv4Addr::BROADCAST, None))],
        vec![route("0.0.0.0/0", Via::NextHop(Ipv4Addr::new(10, 0, 0, 1), None))],
        vec![route("0.0.0.0/0", Via::NextHop(Ipv4Addr::new(10, 0, 0, 1), Some("pg0".into())))],
        // Both are new.
        vec![
            address(1, "10.1.0.1", 24),
            route("10.2.0.0/16", Via::NextHop(Ipv4Addr::new(10, 1, 0, 1), None)),
        ],
        vec![address(1, "10.8.0.2", 24)],
        vec![Change::set(Key::SubInterface("pg9.1".into()), sub("pg9", 1))],
        vec![Change::set(Key::SubInterface("pg0.1".into()), sub("pg0", 4095))],
        vec![Change::remove(Key::Interface("pg3".into()))],
        // The first change alone would be fine.
        vec![interface(2), address(2, "10.0.0.3", 24)],
    ];
    for changes in refused {
        let shown = format!("{changes:?}");
        assert!(store.transact(&mut s, changes).is_err(), "{shown}");
        assert_eq!(state(&s), before, "{shown}");
    }
}

#[test]
fn an_address_that_goes_may_be_a_next_hop_and_one_of_another_vrf_too() {
    let (mut s, mut store) = (system(), Store::default());
    let via = |prefix| route(prefix, Via::NextHop(Ipv4Addr::new(10, 0, 0, 1), None));
    let gone = Key::Address("pg0".into(), Address { address: Ipv4Addr::new(10, 0, 0, 1), len: 24 });
    store.transact(&mut s, vec![interface(0), address(0, "10.0.0.1", 24)]).unwrap();
    let swap = vec![Change::remove(gone), address(0, "10.0.0.2", 24), via("10.9.0.0/16")];
    store.transact(&mut s, swap).unwrap();
    let mut other = Interface::new(Spec::Generator(1));
    other.table = 5;
    let elsewhere = vec![
        Change::set(Key::Table(5), Value::Table),
        Change::set(Key::Interface("pg1".into()), Value::Interface(Box::new(other))),
        address(1, "10.0.0.1", 24),
        via("10.10.0.0/16"),
    ];
    store.transact(&mut s, elsewhere).unwrap();
}

#[test]
fn what_fails_half_way_is_taken_back() {
    let (mut s, mut store) = (system(), Store::default());
    store.transact(&mut s, vec![interface(0), address(0, "10.0.0.1", 24)]).unwrap();
    let before = state(&s);
    // No validation knows that 224.0.0.1 is no host's address: the router refuses it when the rest is done.
    let mut up = Interface::new(Spec::Generator(0));
    (up.up, up.mtu, up.mac) = (false, Some(1400), Some(Mac([2, 9, 9, 9, 9, 9])));
    let changes = vec![
        Change::set(Key::Table(5), Value::Table),
        interface(1),
        Change::set(Key::Interface("pg0".into()), Value::Interface(Box::new(up))),
        Change::remove(Key::Address("pg0".into(), Address { address: Ipv4Addr::new(10, 0, 0, 1), len: 24 })),
        address(1, "224.0.0.1", 24),
    ];
    assert!(store.transact(&mut s, changes).is_err());
    // A table cannot be taken away while the router runs; an empty one changes nothing else.
    assert_eq!(state(&s), before);
    assert!(store.get(&Key::Interface("pg1".into())).is_none());
}

#[test]
fn the_dump_names_everything_that_was_set() {
    let (mut s, mut store) = (system(), Store::default());
    let mut loopback = Interface::new(Spec::Loopback(3));
    (loopback.up, loopback.mtu, loopback.mac) = (true, Some(1300), Some(Mac([2, 0, 0, 0, 0, 1])));
    let tags = Tags { outer_service: true, outer: 20, inner: Some(30) };
    let sub = Interface::new(Spec::Sub { parent: "pg0".into(), id: 7, tags });
    let changes = vec![
        Change::set(Key::Interface("loop3".into()), Value::Interface(Box::new(loopback))),
        interface(0),
        Change::set(Key::SubInterface("pg0.7".into()), Value::Interface(Box::new(sub))),
        address(0, "10.0.0.1", 24),
        route("0.0.0.0/0", Via::Drop),
    ];
    store.transact(&mut s, changes).unwrap();
    let lines: Vec<String> = store.iter().flat_map(|(k, v)| dump(k, v)).collect();
    assert_eq!(
        lines,
        [
            "create loopback interface instance 3",
            "set interface mac address loop3 02:00:00:00:00:01",
            "set interface mtu 1300 loop3",
            "set interface state loop3 up",
            "create packet-generator interface pg0",
            "set interface state pg0 up",
            "create sub-interfaces pg0 7 dot1ad 20 inner-dot1q 30 exact-match",
            "set interface ip address pg0 10.0.0.1/24",
            "ip route add 0.0.0.0/0 via drop",
        ]
    );
}

/// An object of a small world, in which many clash.
fn object() -> impl Strategy<Value = (Key, Value)> {
    let pg = 0u16..3;
    prop_oneof![
        (pg.clone(), any::<bool>(), prop::option::of(500u16..2000)).prop_map(|(n, up, mtu)| {
            let i = Interface { up, mtu, ..Interface::new(Spec::Generator(n)) };
            (Key::Interface(format!("pg{n}")), Value::Interface(Box::new(i)))
        }),
        (pg.clone(), 0u8..4, 1u8..4, prop_oneof![Just(24u8), Just(32)]).prop_map(|(n, net, host, len)| {
            let address = Address { address: Ipv4Addr::new(10, 0, net, host), len };
            (Key::Address(format!("pg{n}"), address), Value::Address)
        }),
        (0u8..4, 0u8..4, prop::option::of(pg)).prop_map(|(net, hop, pg)| {
            let via = Via::NextHop(Ipv4Addr::new(10, 0, hop, 9), pg.map(|n| format!("pg{n}")));
            (Key::Route(0, Prefix4::new(Ipv4Addr::new(20, net, 0, 0), 16)), Value::Route(Route { via }))
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Transactions in any order, some of them refused, leave the router as one that was given the final tree at once.
    #[test]
    fn the_way_does_not_matter(steps in prop::collection::vec(
        prop::collection::vec((object(), prop::bool::weighted(0.7)), 1..5), 1..8
    )) {
        let (mut s, mut store) = (system(), Store::default());
        for step in steps {
            let mut changes: BTreeMap<Key, Change> = BTreeMap::new();
            for ((key, value), set) in step {
                let change = if set { Change::set(key.clone(), value) } else { Change::remove(key.clone()) };
                changes.insert(key, change);
            }
            let before = state(&s);
            if store.transact(&mut s, changes.into_values().collect()).is_err() {
                prop_assert_eq!(state(&s), before);
            }
        }
        let wanted: BTreeMap<Key, Value> = store.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        let (mut fresh, mut at_once) = (system(), Store::default());
        let all = at_once.diff(&wanted);
        at_once.transact(&mut fresh, all).unwrap();
        // Interfaces were made in another order, so their indexes, which routes show, may differ: compare names.
        let named = |s: &System| s.router.interfaces().map(|i| {
            let mut a = i.addresses.clone();
            a.sort();
            format!("{} {} {} {a:?}", i.name, i.admin_up, i.mtu)
        }).collect::<std::collections::BTreeSet<_>>();
        prop_assert_eq!(named(&s), named(&fresh));
        let prefixes = |s: &System| s.router.routes().iter(0).map(|(p, x)| (p, x.len())).collect::<Vec<_>>();
        prop_assert_eq!(prefixes(&s), prefixes(&fresh));
    }
}
