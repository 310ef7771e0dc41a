//! Tests of transactions on a real router, with packet generators as devices.

use std::net::{IpAddr, Ipv4Addr};

use drivers::{af_packet, tap};
use net::ethernet::Tags;
use net::ip::Address;
use net::router::Sizes;
use wire::Mac;

use super::random_tests::state;
use super::*;
use crate::neighbors::NeighborBounds;
use crate::ports::Generator;
use crate::system::{Loopback, Spec, System};
use crate::testing;

pub(crate) fn system() -> System {
    testing::system(testing::FEATURES, &Sizes { buffers: 64, workers: 1 }, false)
}

/// Returns a router as `system` does, but with its worker running on a thread.
pub(crate) fn running() -> System {
    testing::system(testing::FEATURES, &Sizes { buffers: 64, workers: 1 }, true)
}

fn interface(n: u16) -> Change {
    let mut i = Interface::new(Spec::by(Generator::default()));
    i.up = true;
    Change::set(Interface::key(&format!("pg{n}")), i)
}

fn address(n: u32, a: &str, len: u8) -> Change {
    let address = Address { address: a.parse().unwrap(), len };
    Change::set(Addresses::key(&format!("pg{n}")), Addresses(vec![address]))
}

fn route(prefix: &str, via: Via) -> Change {
    Change::set(Route::key(0, prefix.parse().unwrap()), Route::from(via))
}

#[test]
fn changes_are_applied_in_order_of_dependencies() {
    let (mut s, mut store) = (system(), Store::default());
    // In reverse order: the route first, the interface last.
    let changes = vec![
        route("10.9.0.0/16", Via::NextHop(IpAddr::from([10, 0, 0, 2]), Some("pg0".into()))),
        Change::set(
            Neighbor::key("pg0", IpAddr::from([10, 0, 0, 2])),
            Neighbor { mac: Mac([2, 0, 0, 0, 0, 7]) },
        ),
        address(0, "10.0.0.1", 24),
        interface(0),
    ];
    store.transact(&mut s, changes).unwrap();
    assert!(s.router.routes().lookup(0, Ipv4Addr::new(10, 9, 1, 1)).is_some());
    // All are removed in one transaction.
    let all: Vec<Change> = store.iter().map(|(k, _)| Change::remove(k.clone())).collect();
    store.transact(&mut s, all).unwrap();
    assert_eq!(s.router.interfaces().count(), 0);
    assert_eq!(state(&mut s), state(&mut system()));
}

#[test]
fn invalid_transaction_changes_nothing() {
    let (mut s, mut store) = (system(), Store::default());
    let hop = Via::NextHop(IpAddr::from([10, 8, 0, 2]), None);
    let first = vec![interface(0), interface(1), address(0, "10.0.0.1", 24), route("10.9.0.0/16", hop)];
    store.transact(&mut s, first).unwrap();
    let before = state(&mut s);
    let sub = |parent: &str, outer| {
        let tags = Tags { outer_service: false, outer, inner: None };
        Interface::new(Spec::Sub { parent: parent.into(), id: 1, takes: tags.into() })
    };
    let tap = Interface::new(Spec::by(tap::Config::new("far-end")));
    let its_end = Interface::new(Spec::by(af_packet::Config::new("far-end")));
    let refused = [
        vec![Change::set(Interface::key("tap0"), tap), Change::set(Interface::key("host-far-end"), its_end)],
        vec![address(0, "10.0.0.9", 16), address(1, "10.0.1.1", 24)],
        vec![address(1, "10.0.0.5", 24)],
        vec![address(7, "10.7.0.1", 24)],
        vec![route("10.1.0.0/16", Via::Attached("pg7".into()))],
        vec![route("10.1.0.0/16", Via::Table(Family::V4, 9))],
        vec![route("10.1.0.0/16", Via::Table(Family::V4, 0))],
        vec![route("10.1.0.0/16", Via::NextHop(Ipv4Addr::BROADCAST.into(), None))],
        vec![route("0.0.0.0/0", Via::NextHop(IpAddr::from([10, 0, 0, 1]), None))],
        vec![route("0.0.0.0/0", Via::NextHop(IpAddr::from([10, 0, 0, 1]), Some("pg0".into())))],
        // The own address and the route to it are both new.
        vec![
            address(1, "10.1.0.1", 24),
            route("10.2.0.0/16", Via::NextHop(IpAddr::from([10, 1, 0, 1]), None)),
        ],
        vec![address(1, "10.8.0.2", 24)],
        vec![Change::set(Interface::sub_key("pg9.1"), sub("pg9", 1))],
        vec![Change::set(Interface::sub_key("pg0.1"), sub("pg0", 4095))],
        vec![Change::remove(Interface::key("pg3"))],
        // The first change alone would be valid.
        vec![interface(2), address(2, "10.0.0.3", 24)],
    ];
    for changes in refused {
        let shown = format!("{changes:?}");
        let Err(why) = store.transact(&mut s, changes) else { panic!("{shown}") };
        // Nothing was applied, so the kernel was not called.
        assert!(!why.why.contains("os error"), "{why}");
        assert_eq!(state(&mut s), before, "{shown}");
    }
}

#[test]
fn next_hop_may_be_a_removed_address_or_one_of_another_vrf() {
    let (mut s, mut store) = (system(), Store::default());
    let via = |prefix| route(prefix, Via::NextHop(IpAddr::from([10, 0, 0, 1]), None));
    store.transact(&mut s, vec![interface(0), address(0, "10.0.0.1", 24)]).unwrap();
    let swap = vec![address(0, "10.0.0.2", 24), via("10.9.0.0/16")];
    store.transact(&mut s, swap).unwrap();
    let mut other = Interface::new(Spec::by(Generator::default()));
    other.table = 5;
    let elsewhere = vec![
        Change::set(Table::key(5), Table::default()),
        Change::set(Interface::key("pg1"), other),
        address(1, "10.0.0.1", 24),
        via("10.10.0.0/16"),
    ];
    store.transact(&mut s, elsewhere).unwrap();
}

#[test]
fn failed_transaction_is_rolled_back() {
    let (mut s, mut store) = (system(), Store::default());
    let sub = |parent: &str| {
        let tags = Tags { outer_service: false, outer: 5, inner: None };
        let spec = Spec::Sub { parent: parent.into(), id: 5, takes: tags.into() };
        Change::set(Interface::sub_key("pg0.5"), Interface::new(spec))
    };
    let count = FeatureOn::key("pg0", "ip4-unicast", "ip4-count");
    let start = vec![
        interface(0),
        sub("pg0"),
        address(0, "10.0.0.1", 24),
        Change::set(count.clone(), FeatureOn),
        route("10.1.0.0/16", Via::Attached("pg0.5".into())),
    ];
    store.transact(&mut s, start).unwrap();
    let before = state(&mut s);
    let host = |name: &str| Spec::by(drivers::af_packet::Config::new(name));
    // Validation does not know the existing devices, so this fails when other changes have been applied.
    let absent = || Change::set(Interface::key("pg2"), Interface::new(host("no-such-device")));
    let mut other = Interface::new(Spec::by(Generator::default()));
    (other.up, other.mtu, other.mac, other.table) = (false, Some(1400), Some(Mac([2, 9, 9, 9, 9, 9])), 5);
    let changes = vec![
        Change::set(Table::key(5), Table::default()),
        Change::set(
            NeighborBounds::key(Family::V4),
            NeighborBounds { limit: Some(7), ..NeighborBounds::default() },
        ),
        interface(1),
        Change::set(Interface::key("pg0"), other),
        Change::remove(Addresses::key("pg0")),
        Change::remove(count),
        absent(),
    ];
    let refused = store.transact(&mut s, changes).unwrap_err().why;
    assert!(refused.contains("no-such-device") && !refused.contains("taken back"), "{refused}");
    assert_eq!(state(&mut s), before);
    assert!(store.get(&Interface::key("pg1")).is_none());
    // A change of an interface's type, which would create it again, is refused together with the removal of an interface that a route
    // needs.
    let kind = Change::set(Interface::key("pg0"), Interface::new(Spec::Loopback(Loopback::Loop(9))));
    let changes = vec![Change::remove(Interface::sub_key("pg0.5")), kind, absent()];
    assert!(store.transact(&mut s, changes).is_err(), "a route needs the removed interface");
    assert_eq!(state(&mut s), before);
    let bad = Change::set(Interface::key("pg0"), Interface::new(host("x")));
    let refused = store.transact(&mut s, vec![bad]).unwrap_err().why;
    assert!(!refused.contains("taken back"), "{refused}");
    assert_eq!(state(&mut s), before);
}

/// If a device refuses one setting after other settings have been applied, those settings are rolled back.
#[test]
fn interface_settings_are_applied_all_or_none() {
    let (mut s, mut store) = (system(), Store::default());
    store.transact(&mut s, vec![interface(0)]).unwrap();
    let before = state(&mut s);
    let old = store.interface("pg0").unwrap();
    let name = |name: &str| (false, name.to_string());
    let new = Interface { up: false, mtu: Some(1400), mac: Some(Mac::BROADCAST), ..old.clone() };
    assert!(new.apply(&name("pg0"), Some(old), &mut s).is_err(), "the device accepts a broadcast address");
    assert_eq!(state(&mut s), before);
    assert!(new.apply(&name("pg1"), None, &mut s).is_err());
    assert_eq!(state(&mut s).len() - before.len(), 0);
}

#[test]
fn address_order_is_kept() {
    let (mut s, mut store) = (system(), Store::default());
    let list = |last: &[u8]| last.iter().map(|n| Address::new(Ipv4Addr::new(10, 0, 0, *n), 24)).collect();
    let key = || Addresses::key("pg0");
    store.transact(&mut s, vec![interface(0)]).unwrap();
    for last in [&[9, 1, 5][..], &[1, 5], &[1, 5, 9], &[9, 5, 1], &[7, 9, 5, 1], &[7], &[7, 1]] {
        store.transact(&mut s, vec![Change::set(key(), Addresses(list(last)))]).unwrap();
        let has: Vec<Address> = s.router.interface_named("pg0").unwrap().addresses.clone();
        assert_eq!(has, list(last));
    }
    // If an address in the list is refused, the old list is restored.
    let bad = Address::new(Ipv4Addr::BROADCAST, 24);
    let (old, mut new): (Vec<Address>, Vec<Address>) = (list(&[7, 1]), list(&[1, 4]));
    new.push(bad);
    assert!(address::apply("pg0", &old, &new, &mut s).is_err());
    assert_eq!(s.router.interface_named("pg0").unwrap().addresses, old);
}

#[test]
fn dump_has_all_settings() {
    let (mut s, mut store) = (system(), Store::default());
    let mut loopback = Interface::new(Spec::Loopback(Loopback::Loop(3)));
    (loopback.up, loopback.mtu, loopback.mac) = (true, Some(1300), Some(Mac([2, 0, 0, 0, 0, 1])));
    let tags = Tags { outer_service: true, outer: 20, inner: Some(30) };
    let sub = Interface::new(Spec::Sub { parent: "pg0".into(), id: 7, takes: tags.into() });
    let changes = vec![
        Change::set(Interface::key("loop3"), loopback),
        interface(0),
        Change::set(Interface::sub_key("pg0.7"), sub),
        address(0, "10.0.0.1", 24),
        route("0.0.0.0/0", Via::Drop),
    ];
    store.transact(&mut s, changes).unwrap();
    let lines: Vec<String> = store.iter().flat_map(|(k, v)| v.dump(k, false)).collect();
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

/// A new router with the same tree has the same names and indices, even if interfaces were removed and added before.
#[test]
fn indices_are_kept() {
    let (mut s, mut store) = (system(), Store::default());
    for n in 0..3 {
        store.transact(&mut s, vec![interface(n)]).unwrap();
    }
    assert!(in_order(store.tree()));
    store.transact(&mut s, vec![Change::remove(Interface::key("pg0"))]).unwrap();
    assert!(!in_order(store.tree()));
    // The new interface gets the lowest free index, although its name is the last.
    store.transact(&mut s, vec![interface(7)]).unwrap();
    let indices = |s: &System| s.router.interfaces().map(|i| (i.index, i.name.clone())).collect::<Vec<_>>();
    let as_it_is = indices(&s);
    let expected = [(1, "pg7"), (2, "pg1"), (3, "pg2")].map(|(n, name)| (n, name.to_string()));
    assert_eq!(as_it_is, expected);
    let mut again = system();
    let all = Store::default().diff(store.tree());
    Store::default().transact(&mut again, all).unwrap();
    assert_eq!(indices(&again), as_it_is);
    // An interface that is created again keeps its index. Two interfaces can swap theirs.
    let kind = Interface::new(Spec::Loopback(Loopback::Loop(9)));
    store.transact(&mut s, vec![Change::set(Interface::key("pg1"), kind)]).unwrap();
    assert_eq!(indices(&s), as_it_is);
    let moved = |name: &str, index| {
        let interface = Interface { index: Some(index), ..store.interface(name).unwrap().clone() };
        Change::set(Interface::key(name), interface)
    };
    let (swap, clash) = (vec![moved("pg7", 3), moved("pg2", 1)], vec![moved("pg7", 2)]);
    store.transact(&mut s, swap).unwrap();
    assert_eq!(indices(&s), [(1, "pg2"), (2, "pg1"), (3, "pg7")].map(|(n, name)| (n, name.to_string())));
    assert!(store.transact(&mut s, clash).unwrap_err().why.contains("pg1 has the index 2"));
}
