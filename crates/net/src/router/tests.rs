//! Tests of the router's control methods: how interfaces, addresses and routes affect each other, and the resulting tables of the workers.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use drivers::pktgen::{self, Field, Mode, Sink, Stream, Template};
use infra::lpm::LpmLookup;
use wire::Mac;
use wire::builder::PacketBuilder;

use super::*;
use crate::ethernet::Tags;
use crate::ip::{Address, Object, Path, PathList, PathState, Prefix4, Source};
use crate::testing::router as build;

pub(super) const HOST: Mac = Mac([2, 0, 0, 0, 9, 9]);
pub(super) const HOST_2: Mac = Mac([2, 0, 0, 0, 9, 8]);

pub(super) fn prefix(text: &str) -> Prefix4 {
    text.parse().unwrap()
}

pub(super) fn address(text: &str) -> Address {
    let p: (&str, &str) = text.split_once('/').unwrap();
    Address::new(p.0.parse::<IpAddr>().unwrap(), p.1.parse().unwrap())
}

pub(super) fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

pub(super) fn device(n: u8) -> (drivers::Device, pktgen::Generator, Sink) {
    pktgen::open(&pktgen::Config { mac: [2, 0, 0, 0, 0, n], mtu: 1500, ..Default::default() })
}

/// Creates a router with `devices` interfaces. Interface `n` (from 0) is called `d<n>`, has the address 10.0.n.1/24, and is up.
pub(super) fn router(devices: u8) -> Router {
    let mut r = build().0;
    for n in 0..devices {
        let index = r.add_device(&format!("d{n}"), device(n).0).unwrap();
        assert_eq!(index, u32::from(n));
        r.set_admin(index, true).unwrap();
        r.add_address(index, address(&format!("10.0.{n}.1/24"))).unwrap();
    }
    r
}

pub(super) fn via(next_hop: &str, interface: Option<u32>) -> Path {
    Path::Via { next_hop: ip(next_hop).into(), interface }
}

/// Returns the only path of a list.
pub(super) fn one(list: PathList) -> Path {
    let PathList::One(path) = list else { panic!("{list:?}") };
    path
}

/// Returns the route to an address. It must have only one path, and workers must find the same route.
pub(super) fn route(r: &Router, to: &str) -> Option<(Prefix4, Source, Path)> {
    let said = r.ip4.routes.lookup(0, ip(to));
    let mut participant = r.participant();
    let section = participant.enter();
    let table = r.tables.ip4.fibs.get(section.guard()).0[0].clone().unwrap();
    let object = said.map(|(_, _, to)| to.object);
    assert_eq!(table.lookup(ip(to).to_bits()), object.unwrap_or(0), "{to}");
    said.map(|(prefix, source, to)| (prefix, source, one(to.list.clone())))
}

pub(super) fn length(r: &Router, to: &str) -> Option<u8> {
    route(r, to).map(|found| found.0.len())
}

/// Returns the object that workers find for routes with this path.
fn object(r: &Router, path: Path) -> Object {
    Object::from_word(r.tables.ip4.objects.get(r.ip4.routes.path(0, path).unwrap().object))
}

#[test]
fn the_route_of_the_preferred_source_wins() {
    let mut r = router(2);
    let net = prefix("10.0.0.0/24");
    r.add_route(0, net, via("10.0.1.2", None)).unwrap();
    assert_eq!(route(&r, "10.0.0.9").unwrap(), (net, Source::INTERFACE, Path::Attached(0)));
    r.remove_address(0, address("10.0.0.1/24")).unwrap();
    assert_eq!(route(&r, "10.0.0.9").unwrap(), (net, Source::STATIC, via("10.0.1.2", None)));
    // The operator's route wins over a neighbor's, whichever was added first.
    let host = prefix("10.0.1.7/32");
    r.add_neighbor(1, ip("10.0.1.7"), HOST, true).unwrap();
    assert_eq!(route(&r, "10.0.1.7").unwrap(), (host, Source::NEIGHBOR, via("10.0.1.7", Some(1))));
    r.add_route(0, host, Path::Drop).unwrap();
    assert_eq!(route(&r, "10.0.1.7").unwrap(), (host, Source::STATIC, Path::Drop));
    r.remove_neighbor(1, ip("10.0.1.7")).unwrap();
    r.add_neighbor(1, ip("10.0.1.7"), HOST, true).unwrap();
    assert_eq!(route(&r, "10.0.1.7").unwrap(), (host, Source::STATIC, Path::Drop));
    r.remove_neighbor(1, ip("10.0.1.7")).unwrap();
    // A change by the operator replaces the former path.
    r.add_route(0, host, Path::Prohibit).unwrap();
    assert_eq!(route(&r, "10.0.1.7").unwrap().2, Path::Prohibit);
    assert_eq!(r.remove_route(0, host), Ok(Path::Prohibit.into()));
    assert_eq!(length(&r, "10.0.1.7"), Some(24));
}

#[test]
fn routes_of_a_down_interface_yield_to_shorter_ones() {
    let mut r = router(2);
    let tags = Tags { outer_service: false, outer: 100, inner: None };
    let sub = r.add_subinterface("d0.100", 0, tags).unwrap();
    r.set_admin(sub, true).unwrap();
    r.add_address(sub, address("10.0.7.1/24")).unwrap();
    r.add_route(0, prefix("10.1.0.0/16"), via("10.0.1.2", None)).unwrap();
    r.add_route(0, prefix("10.1.1.0/24"), via("10.0.0.2", None)).unwrap();
    r.add_route(0, prefix("10.1.2.0/24"), via("10.0.0.2", Some(0))).unwrap();
    r.add_route(0, prefix("10.1.3.0/24"), Path::Attached(0)).unwrap();
    r.add_route(0, prefix("10.1.4.0/24"), via("10.0.7.2", None)).unwrap();
    let far = ["10.1.1.9", "10.1.2.9", "10.1.3.9", "10.1.4.9"];
    let lengths = |r: &Router| far.map(|a| length(r, a));
    assert_eq!(lengths(&r), [Some(24); 4]);

    r.set_admin(sub, false).unwrap();
    assert_eq!(lengths(&r), [Some(24), Some(24), Some(24), Some(16)]);
    r.set_admin(sub, true).unwrap();
    r.set_admin(0, false).unwrap();
    assert_eq!(lengths(&r), [Some(16); 4], "a sub-interface is down with its device");
    assert_eq!([length(&r, "10.0.0.1"), length(&r, "10.0.0.9"), length(&r, "10.0.7.1")], [None; 3]);
    r.set_admin(0, true).unwrap();
    assert_eq!(lengths(&r), [Some(24); 4]);

    // The device vanishes and comes back.
    r.detach_device(0).unwrap();
    assert_eq!(lengths(&r), [Some(16); 4]);
    r.attach_device(0, device(0).0).unwrap();
    assert_eq!(lengths(&r), [Some(24); 4]);

    r.remove_interface(0).unwrap();
    assert_eq!(lengths(&r), [Some(16); 4]);
    assert!(r.interface(sub).is_err(), "sub-interfaces go with their device");
    r.remove_interface(1).unwrap();
    assert_eq!(lengths(&r), [None; 4]);
    assert_eq!(r.adjacencies().iter().count(), 0);
}

/// An interface can be added before its device is present.
#[test]
fn an_interface_waits_for_its_device() {
    let mut r = router(1);
    let index = r.add_absent_device("d9", HOST, 1400).unwrap();
    assert!(r.add_absent_device("d9", HOST, 1400).is_err(), "the name is taken");
    r.set_admin(index, true).unwrap();
    r.add_address(index, address("10.0.9.1/24")).unwrap();
    assert!(!r.usable(index));
    assert_eq!(length(&r, "10.0.9.7"), None);
    r.attach_device(index, device(9).0).unwrap();
    assert!(r.usable(index));
    assert_eq!(length(&r, "10.0.9.7"), Some(24));
    let i = r.interface(index).unwrap();
    assert_eq!((i.mac, i.mtu), (Mac([2, 0, 0, 0, 0, 9]), 1400));
}

#[test]
fn next_hops_resolve_when_their_network_appears() {
    let mut r = router(2);
    let far = "198.51.100.7";
    let path = via("10.5.0.2", None);
    r.add_route(0, prefix("198.51.100.0/24"), path).unwrap();
    assert_eq!(length(&r, far), None);
    r.add_address(0, address("10.5.0.1/24")).unwrap();
    assert_eq!(length(&r, far), Some(24));
    let Object::Adjacency(first) = object(&r, path) else { panic!("a next hop has an adjacency") };
    assert_eq!(r.adjacencies().get(first).map(|a| a.interface), Some(0));

    // The network moves to another interface: the path gets another adjacency, and the route's leaf stays.
    let leaf = r.ip4.routes.path(0, path).unwrap().object;
    r.remove_address(0, address("10.5.0.1/24")).unwrap();
    assert_eq!(length(&r, far), None);
    r.add_address(1, address("10.5.0.1/24")).unwrap();
    assert_eq!((length(&r, far), r.ip4.routes.path(0, path).unwrap().object), (Some(24), leaf));
    let Object::Adjacency(second) = object(&r, path) else { panic!("a next hop has an adjacency") };
    assert_eq!(r.adjacencies().get(second).map(|a| a.interface), Some(1));
    // Networks of another VRF do not count.
    let fib = r.add_table(3).unwrap();
    r.add_route(fib, prefix("198.51.100.0/24"), path).unwrap();
    assert!(r.ip4.routes.path(fib, path).unwrap().resolved.is_none());
}

#[test]
fn routes_with_one_next_hop_share_an_object() {
    let mut r = router(1);
    let path = via("10.0.0.2", None);
    for n in 0..1000u32 {
        let to = Prefix4::new(Ipv4Addr::from_bits(0xc000_0000 | n << 8), 24);
        r.add_route(0, to, path).unwrap();
    }
    let object_of = |r: &Router| (r.ip4.routes.path(0, path).unwrap().object, object(r, path));
    let before = object_of(&r);
    let (_, Object::Adjacency(index)) = before else { panic!("a next hop has an adjacency") };
    assert_eq!(r.adjacencies().iter().map(|(i, _, users)| (i, users)).collect::<Vec<_>>(), [(index, 1)]);
    assert_eq!(r.adjacencies().get(index).unwrap().rewrite, None);
    // All routes follow the neighbor, because they share its adjacency.
    for mac in [HOST, HOST_2] {
        r.add_neighbor(0, ip("10.0.0.2"), mac, false).unwrap();
        assert_eq!(object_of(&r), before);
        let header = r.adjacencies().get(index).unwrap().rewrite.unwrap();
        assert_eq!(header.bytes()[..6], mac.0);
    }
    // They also follow the interface's own address and MTU.
    r.set_mac(0, Some(Mac([2, 7, 7, 7, 7, 7]))).unwrap();
    r.set_mtu(0, 1400).unwrap();
    let record = r.adjacencies().get(index).unwrap();
    assert_eq!((&record.rewrite.unwrap().bytes()[6..12], record.mtu), (&[2, 7, 7, 7, 7, 7][..], 1400));
    for n in 0..1000u32 {
        r.remove_route(0, Prefix4::new(Ipv4Addr::from_bits(0xc000_0000 | n << 8), 24)).unwrap();
    }
    assert!(r.ip4.routes.path(0, path).is_none());
}

#[test]
fn two_addresses_may_share_a_network() {
    let mut r = router(1);
    r.add_address(0, address("10.0.0.9/24")).unwrap();
    // With the shorter prefix, this address is the end of the other address's network.
    r.add_address(0, address("10.0.0.255/16")).unwrap();
    let paths = |r: &Router| {
        ["10.0.0.1", "10.0.0.9", "10.0.0.255", "10.0.0.77", "10.0.255.255"].map(|a| route(r, a).map(|f| f.2))
    };
    let all = [Path::Local, Path::Local, Path::Local, Path::Attached(0), Path::Drop].map(Some);
    assert_eq!(paths(&r), all);
    for _ in 0..2 {
        r.set_admin(0, false).unwrap();
        assert_eq!(paths(&r), [None; 5]);
        r.set_admin(0, true).unwrap();
        assert_eq!(paths(&r), all);
    }
    r.remove_address(0, address("10.0.0.1/24")).unwrap();
    assert_eq!(paths(&r)[1..], all[1..], "the network stays while an address is on it");
    r.remove_address(0, address("10.0.0.255/16")).unwrap();
    assert_eq!(
        paths(&r),
        [Path::Attached(0), Path::Local, Path::Drop, Path::Attached(0)]
            .map(Some)
            .into_iter()
            .chain([None])
            .collect::<Vec<_>>()[..]
    );
    r.remove_interface(0).unwrap();
    assert_eq!(paths(&r), [None; 5]);
}

/// RFC 3021 and RFC 6164: in a network of two addresses, on a link between two routers, both are host addresses. Neither is broadcast or
/// anycast.
#[test]
fn a_network_of_two_has_two_hosts() {
    let mut r = router(2);
    for (own, far) in [("192.0.2.0/31", "192.0.2.1"), ("2001:db8::1/127", "2001:db8::")] {
        r.add_address(0, address(own)).unwrap();
        let far: IpAddr = far.parse().unwrap();
        match far {
            IpAddr::V4(far) => r.add_neighbor(0, far, HOST, true).unwrap(),
            IpAddr::V6(far) => r.add_neighbor(0, far, HOST, true).unwrap(),
        };
        let own = address(own).address;
        let leads = |r: &Router, to: IpAddr| match to {
            IpAddr::V4(a) => r.routes().lookup(0, a).map(|(p, _, path)| (p.len(), path.resolved)),
            IpAddr::V6(a) => r.routes().lookup(0, a).map(|(p, _, path)| (p.len(), path.resolved)),
        };
        let host = if own.is_ipv4() { 32 } else { 128 };
        assert!(matches!(leads(&r, far), Some((len, Some(Object::Adjacency(_)))) if len == host), "{far}");
        // The router uses an IPv6 address after duplicate address detection.
        let expected = if own.is_ipv4() { Object::Local } else { Object::Drop };
        assert_eq!(leads(&r, own), Some((host, Some(expected))));
    }
}

#[test]
fn host_routes_of_neighbors_leave_a_vrf_with_their_interface() {
    let mut r = router(1);
    r.add_table(1).unwrap();
    r.remove_address(0, address("10.0.0.1/24")).unwrap();
    for fib in [0, 1] {
        r.add_route(fib, prefix("10.0.0.0/24"), Path::Attached(0)).unwrap();
    }
    r.add_neighbor(0, ip("10.0.0.2"), HOST, true).unwrap();
    let host = |r: &Router, fib| r.routes::<Ipv4Addr>().exact(fib, prefix("10.0.0.2/32")).count();
    assert_eq!([host(&r, 0), host(&r, 1)], [1, 0]);
    r.set_table(0, 1).unwrap();
    assert_eq!([host(&r, 0), host(&r, 1)], [0, 1]);
    r.remove_interface(0).unwrap();
    assert_eq!([host(&r, 0), host(&r, 1)], [0, 0]);
}

#[test]
fn routes_that_name_an_interface_are_removed_with_it() {
    let mut r = router(2);
    r.add_table(1).unwrap();
    let (kept, by) = (via("10.0.0.9", None), via("10.9.9.9", Some(0)));
    for (fib, to, path) in [
        (0, "10.1.0.0/16", by),
        (0, "10.2.0.0/16", Path::Attached(0)),
        (1, "10.3.0.0/16", by),
        (0, "10.4.0.0/16", kept),
    ] {
        r.add_route(fib, prefix(to), path).unwrap();
    }
    r.add_neighbor(0, ip("10.2.0.5"), HOST, true).unwrap();
    r.remove_interface(0).unwrap();
    // Another interface has the index now, but has none of those routes.
    r.poll(0);
    let index = r.add_device("other", device(7).0).unwrap();
    assert_eq!(index, 0);
    r.set_admin(index, true).unwrap();
    let asked = |r: &Router, fib| -> Vec<Prefix4> {
        let by_hand = |s: (Source, &PathState)| s.0 == Source::STATIC;
        r.routes::<Ipv4Addr>().iter(fib).filter(|(_, s)| s.clone().any(by_hand)).map(|r| r.0).collect()
    };
    assert_eq!((asked(&r, 0), asked(&r, 1)), (vec![prefix("10.4.0.0/16")], vec![]));
    assert_eq!([length(&r, "10.1.0.1"), length(&r, "10.2.0.5")], [None; 2]);
    assert_eq!(r.adjacencies().iter().count(), 0);
}

#[test]
fn a_vrf_can_be_removed_only_when_unused() {
    let mut r = router(1);
    let why = |r: &mut Router, table| r.remove_table(table).unwrap_err().to_string();
    assert_eq!(why(&mut r, 0), "table 0 cannot be removed: it is the default table");
    assert_eq!(why(&mut r, 5), "there is no table 5");
    let [five, six] = [5, 4_000_000_006].map(|table| r.add_table(table).unwrap());
    assert_eq!((r.fib(5), r.vrfs().table(six)), (Ok(five), 4_000_000_006));
    let at = r.add_loopback("loop0", HOST).unwrap();
    r.set_table(at, 5).unwrap();
    assert_eq!(why(&mut r, 5), "table 5 cannot be removed: interface loop0 uses it");
    r.set_table(at, 0).unwrap();
    r.add_route(five, prefix("10.7.0.0/16"), Path::Drop).unwrap();
    assert_eq!(why(&mut r, 5), "table 5 cannot be removed: it contains the route 10.7.0.0/16");
    r.remove_route(five, prefix("10.7.0.0/16")).unwrap();
    r.add_route(six, prefix("10.7.0.0/16"), Path::Table(five)).unwrap();
    assert_eq!(why(&mut r, 5), "table 5 cannot be removed: a route of table 4000000006 uses it");
    r.remove_route(six, prefix("10.7.0.0/16")).unwrap();

    let there = |r: &Router| {
        let mut participant = r.participant();
        let section = participant.enter();
        r.tables.ip4.fibs.get(section.guard()).get(five).is_some()
    };
    r.poll(0);
    let objects = r.ip4.routes.objects_in_use();
    assert!(there(&r));
    r.remove_table(5).unwrap();
    assert!(!there(&r) && r.ip4.routes.tables().all(|fib| fib != five));
    assert_eq!(why(&mut r, 5), "there is no table 5");
    assert!(r.add_route(five, prefix("10.7.0.0/16"), Path::Drop).is_err());
    r.poll(0);
    assert!(r.ip4.routes.objects_in_use() < objects, "its special routes are gone");
    // A new table with the same number is empty. It gets the same index, because packets still in transit with this index can only be for
    // this table.
    assert_eq!(r.add_table(5), Ok(five));
    assert!(there(&r));
    assert_eq!(r.ip4.routes.objects_in_use(), objects);
    assert!(r.ip4.routes.lookup(five, ip("10.7.0.1")).is_none());
}

/// In each of several orders of events, a neighbor outside its interface's networks has a host route while the best route to it is attached
/// to this interface.
#[test]
fn neighbors_behind_attached_routes_get_a_host_route_in_any_order() {
    let changes: [fn(&mut Router); 4] = [
        |r| r.add_neighbor(0, ip("20.1.1.5"), HOST, true).unwrap(),
        |r| r.add_route(0, prefix("20.1.0.0/16"), Path::Attached(0)).unwrap(),
        |r| r.add_route(0, prefix("20.1.1.0/24"), via("10.0.1.2", None)).unwrap(),
        |r| r.add_route(0, prefix("20.1.1.0/28"), Path::Attached(0)).unwrap(),
    ];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
        let mut r = router(2);
        order.iter().for_each(|i| changes[*i](&mut r));
        let has = |r: &Router| r.routes::<Ipv4Addr>().exact(0, prefix("20.1.1.5/32")).next().is_some();
        assert!(has(&r), "{order:?}");
        // The /24 takes over from the /28, becomes unresolved and resolved, changes its path, and is removed. At last the /16 is removed,
        // too.
        r.remove_route(0, prefix("20.1.1.0/28")).unwrap();
        assert!(!has(&r), "{order:?}");
        r.set_admin(1, false).unwrap();
        while r.settle_routes() {}
        assert!(has(&r), "{order:?}");
        r.set_admin(1, true).unwrap();
        while r.settle_routes() {}
        assert!(!has(&r), "{order:?}");
        r.add_route(0, prefix("20.1.1.0/24"), Path::Attached(0)).unwrap();
        assert!(has(&r), "{order:?}");
        r.add_route(0, prefix("20.1.1.0/24"), Path::Drop).unwrap();
        assert!(!has(&r), "{order:?}");
        r.remove_route(0, prefix("20.1.1.0/24")).unwrap();
        assert!(has(&r), "{order:?}");
        r.remove_route(0, prefix("20.1.0.0/16")).unwrap();
        assert!(!has(&r), "{order:?}");
    }
}

/// A sub-interface keeps the Ethernet address that the operator sets. A sub-interface without one has the address of its device.
#[test]
fn ethernet_addresses_of_sub_interfaces() {
    let mut r = router(1);
    let tags = |outer| Tags { outer_service: false, outer, inner: None };
    let subs = [5, 6].map(|vid| r.add_subinterface(&format!("d0.{vid}"), 0, tags(vid)).unwrap());
    r.set_mac(subs[0], Some(HOST)).unwrap();
    r.set_mac(0, Some(HOST_2)).unwrap();
    let macs = |r: &Router| [0, subs[0], subs[1]].map(|i| r.interface(i).unwrap().mac);
    assert_eq!(macs(&r), [HOST_2, HOST, HOST_2]);
    r.detach_device(0).unwrap();
    r.attach_device(0, device(9).0).unwrap();
    assert_eq!(macs(&r), [HOST_2, HOST, HOST_2]);
    r.set_mac(0, None).unwrap();
    r.set_mac(subs[0], None).unwrap();
    assert_eq!(macs(&r), [Mac([2, 0, 0, 0, 0, 9]); 3]);
}

/// Returns the router's interfaces, IPv4 routes, IPv4 neighbors and adjacencies as text, for comparisons.
fn state(r: &Router) -> String {
    let mut text = String::new();
    for i in r.interfaces() {
        let set = (i.index, &i.name, i.kind, i.admin_up, i.mac, i.mtu, i.fib, &i.addresses, i.parent, i.tags);
        text += &format!("{set:?} {} {:?}\n", i.device.is_some(), i.initial);
    }
    for fib in r.routes::<Ipv4Addr>().tables() {
        for (prefix, sources) in r.routes::<Ipv4Addr>().iter(fib) {
            let resolved = sources.clone().map(|s| s.1.resolved);
            text += &format!(
                "{fib} {prefix} {:?} {:?}\n",
                sources.collect::<Vec<_>>(),
                resolved.collect::<Vec<_>>()
            );
        }
    }
    for n in r.neighbors::<Ipv4Addr>() {
        text += &format!("{} {:?} {}\n", n.ip, n.mac, n.flags);
    }
    let mut adjacencies: Vec<_> = r.adjacencies().iter().collect();
    adjacencies.sort_by_key(|a| a.0);
    text + &format!("{adjacencies:?}")
}

#[test]
fn a_refused_change_changes_nothing() {
    type Change = fn(&mut Router) -> Result<(), RouterError>;
    let mut r = router(2);
    let loopback = r.add_loopback("loop0", HOST).unwrap();
    assert_eq!(loopback, 2);
    let tags = Tags { outer_service: false, outer: 100, inner: None };
    assert_eq!(r.add_subinterface("d0.100", 0, tags), Ok(3));
    r.add_neighbor(0, ip("10.0.0.2"), HOST, true).unwrap();
    r.add_route(0, prefix("10.1.0.0/16"), via("10.0.0.2", None)).unwrap();
    let changes: [(&str, Change); 31] = [
        ("no VRF with FIB index 9", |r| r.add_route(9, prefix("10.0.0.0/8"), Path::Drop)),
        ("no VRF with FIB index 9", |r| r.remove_route(9, prefix("10.0.0.0/8")).map(drop)),
        ("no such route", |r| r.remove_route(0, prefix("10.0.0.0/8")).map(drop)),
        ("no such route", |r| r.remove_route(0, prefix("10.0.0.0/24")).map(drop)),
        ("MTU 67 is", |r| r.set_mtu(0, 67)),
        ("more than 1500", |r| r.set_mtu(3, 1501)),
        ("cannot be an interface's address", |r| r.set_mac(0, Some(Mac::BROADCAST))),
        ("cannot be an interface's address", |r| r.set_mac(0, Some(Mac::ZERO))),
        ("no table 7", |r| r.set_table(2, 7)),
        ("overlaps", |r| r.add_address(1, address("10.0.0.77/25"))),
        ("overlaps", |r| r.add_address(1, address("10.0.0.77/8"))),
        ("has the address 10.0.0.1 already", |r| r.add_address(1, address("10.0.0.1/32"))),
        ("has the address 10.0.0.1 already", |r| r.add_address(0, address("10.0.0.1/24"))),
        ("not a host address", |r| r.add_address(0, address("10.9.0.0/24"))),
        ("not a host address", |r| r.add_address(0, address("10.9.0.255/24"))),
        ("must be 1 to 32", |r| r.add_address(0, address("10.9.0.1/0"))),
        ("must be 1 to 32", |r| r.add_address(0, address("10.9.0.1/33"))),
        ("cannot be an interface's address", |r| r.add_address(0, address("127.0.0.1/8"))),
        ("cannot be an interface's address", |r| r.add_address(0, address("224.0.0.5/24"))),
        ("a static neighbor on d0", |r| r.add_address(0, address("10.0.0.2/24"))),
        ("has no address", |r| r.remove_address(0, address("10.0.0.1/25"))),
        ("not an Ethernet device", |r| {
            r.add_subinterface("x", 2, Tags { outer_service: false, outer: 5, inner: None }).map(drop)
        }),
        ("already receives packets with these tags", |r| {
            r.add_subinterface("x", 0, Tags { outer_service: false, outer: 100, inner: None }).map(drop)
        }),
        ("d0 already", |r| r.add_device("d0", device(9).0).map(drop)),
        ("d1 already", |r| r.add_loopback("d1", HOST).map(drop)),
        ("no neighbors", |r| r.add_neighbor(2, ip("10.0.0.3"), HOST, true)),
        ("cannot be a neighbor's", |r| r.add_neighbor(0, ip("10.0.0.3"), Mac::BROADCAST, true)),
        ("cannot be a neighbor's", |r| r.add_neighbor(0, ip("224.0.0.3"), HOST, true)),
        ("router's own", |r| r.add_neighbor(0, ip("10.0.0.1"), HOST, true)),
        ("no such neighbor", |r| r.remove_neighbor(0, ip("10.0.0.3"))),
        ("no transmit queue", |r| {
            let mut device = device(9).0;
            device.tx.clear();
            r.add_device("new", device).map(drop)
        }),
    ];
    let before = state(&r);
    for (n, (why, change)) in changes.into_iter().enumerate() {
        let refused = change(&mut r).expect_err("refused").to_string();
        assert!(refused.contains(why), "change {n}: {refused}");
        assert_eq!(state(&r), before, "change {n}: {refused}");
    }
    let to_none: [Change; 12] = [
        |r| r.set_admin(77, true),
        |r| r.set_mtu(77, 1000),
        |r| r.set_mac(77, Some(HOST)),
        |r| r.set_table(77, 0),
        |r| r.add_address(77, address("10.9.0.1/24")),
        |r| r.remove_address(77, address("10.0.0.1/24")),
        |r| r.remove_interface(77),
        |r| r.detach_device(77),
        |r| r.attach_device(77, device(9).0),
        |r| r.add_neighbor(77, ip("10.0.0.3"), HOST, true),
        |r| r.remove_neighbor(77, ip("10.0.0.2")),
        |r| r.flush_neighbors::<Ipv4Addr>(77),
    ];
    for (n, change) in to_none.into_iter().enumerate() {
        assert_eq!(change(&mut r).unwrap_err().to_string(), "there is no interface 77", "change {n}");
        assert_eq!(state(&r), before, "change {n}");
    }
}

/// While a worker forwards packets, devices are added and removed, and their indexes are reused. Each device must send only packets meant
/// for it.
#[test]
fn indexes_are_reused_safely_under_traffic() {
    let (mut r, worker) = build();
    let (source, generator, _) = device(0);
    let rx = r.add_device("source", source).unwrap();
    r.set_admin(rx, true).unwrap();
    let packet = PacketBuilder::ipv4(ip("192.0.2.9"), ip("10.0.0.2"))
        .ethernet(HOST, Mac([2, 0, 0, 0, 0, 0]))
        .udp(1, 2)
        .frame_len(60)
        .build();
    // The second byte of the destination varies.
    let field = Field { offset: 31, width: 1, mode: Mode::Random { min: 0, max: 15 }, ip4_checksum: true };
    let stream = Stream {
        name: "all".into(),
        templates: vec![Template { fields: vec![field], ..Template::fixed(packet) }],
        vector: 64,
        ..Stream::default()
    };
    generator.add(stream).unwrap();
    assert!(generator.set_enabled(None, true));
    r.start(vec![worker], &[]).unwrap();
    r.wake_workers();

    let end = Instant::now() + Duration::from_millis(1500);
    let mut indexes = std::collections::BTreeSet::new();
    let mut checked = 0;
    for n in (1..=15u8).cycle() {
        if Instant::now() > end {
            break;
        }
        let (device, _, sink) = device(n);
        sink.keep(1000);
        let index = r.add_device("out", device).unwrap();
        indexes.insert(index);
        r.set_admin(index, true).unwrap();
        r.add_address(index, address(&format!("172.16.{n}.1/24"))).unwrap();
        let next_hop = ip(&format!("172.16.{n}.2"));
        r.add_neighbor(index, next_hop, Mac([2, 0, 0, 0, 8, n]), true).unwrap();
        let path = Path::Via { next_hop: next_hop.into(), interface: Some(index) };
        r.add_route(0, prefix(&format!("10.{n}.0.0/16")), path).unwrap();
        let limit = Instant::now() + Duration::from_secs(5);
        while sink.packets() < 10 && Instant::now() < limit {
            r.poll(0);
            std::thread::yield_now();
        }
        assert!(sink.packets() >= 10, "{n}: no packet was forwarded");
        r.remove_route(0, prefix(&format!("10.{n}.0.0/16"))).unwrap();
        r.remove_interface(index).unwrap();
        for packet in sink.take() {
            let b = packet.bytes;
            if b[12..14] == [8, 0] {
                assert_eq!((&b[..6], &b[6..12]), (&[2, 0, 0, 0, 8, n][..], &[2, 0, 0, 0, 0, n][..]));
                assert_eq!(b[30..32], [10, n]);
                checked += 1;
            }
        }
    }
    assert!(checked > 100 && indexes.len() < 8, "{checked} packets by {indexes:?}");
    generator.set_enabled(None, false);
    r.runners.clear();
    r.remove_interface(rx).unwrap();
    r.poll(0);
    let stats = r.pool.stats();
    assert_eq!((stats.lost, stats.used), (0, 0));
}
