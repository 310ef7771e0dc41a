//! Routes that change while a worker forwards by them.

use std::net::Ipv4Addr;

use drivers::pktgen::{self, Stream, Template};
use infra::lpm::LpmLookup;
use wire::Mac;
use wire::builder::PacketBuilder;

use super::*;
use crate::ip::{Object, Path, Prefix4};
use crate::testing::install;

const PEER: Mac = Mac([2, 0, 0, 0, 0, 9]);

/// A router with a generator on pg0 that sends to 10.9.0.1 and .2, and sinks on pg1 and pg2.
fn router() -> (Router, Vec<graph::Worker>, Vec<pktgen::Sink>) {
    let Parts { mut router, workers } = Router::build(install, &Sizes { buffers: 2048, workers: 1 }).unwrap();
    let mut sinks = Vec::new();
    for n in 0..3u8 {
        let mac = Mac([2, 0xfe, 0, 0, 0, n]);
        let (device, generator, sink) = pktgen::open(&pktgen::Config { mac: mac.0, ..Default::default() });
        let index = router.add_device(&format!("pg{n}"), device).unwrap();
        router.set_admin(index, true).unwrap();
        router.add_address(index, Address { address: Ipv4Addr::new(10, n, 0, 1), len: 16 }).unwrap();
        router.add_neighbor(index, Ipv4Addr::new(10, n, 0, 2), PEER, true).unwrap();
        if n == 0 {
            let packet = |last| {
                let to = Ipv4Addr::new(10, 9, 0, last);
                PacketBuilder::ipv4(Ipv4Addr::new(198, 18, 0, 1), to).ethernet(PEER, mac).udp(1, 2).build()
            };
            let templates = vec![Template::fixed(packet(1)), Template::fixed(packet(2))];
            generator.add(Stream { name: "x".into(), templates, ..Stream::default() }).unwrap();
            generator.set_enabled(None, true);
        }
        sinks.push(sink);
    }
    (router, workers, sinks)
}

fn via(n: u8) -> Path {
    Path::Via { next_hop: Ipv4Addr::new(10, n, 0, 2), interface: None }
}

#[test]
fn a_route_that_changes_loses_no_packet() {
    let (mut router, workers, sinks) = router();
    let prefix: Prefix4 = "10.9.0.1/32".parse().unwrap();
    router.add_route(0, "10.9.0.0/16".parse().unwrap(), via(1)).unwrap();
    router.start(workers, &[]).unwrap();
    let clock = infra::clock::Clock::new();
    // Next hops in turn, and the route itself gone in between: the shorter one takes over. Each change frees the objects
    // and adjacencies of the one before.
    for change in 0..30_000u32 {
        match change % 3 {
            0 => router.add_route(0, prefix, via(2)).unwrap(),
            1 => router.add_route(0, prefix, via(1)).unwrap(),
            _ => router.remove_route(0, prefix).map(|_| ()).unwrap(),
        }
        router.poll(clock.now_ns());
    }
    let dropped: Vec<_> = router.graph().stats().dropped().into_iter().filter(|d| d.packets > 0).collect();
    assert_eq!(dropped, []);
    assert!(sinks[1].packets() > 0 && sinks[2].packets() > 0, "both ways were taken");
}

#[test]
fn special_destinations_are_forwarded_by_no_default_route() {
    let (mut router, _workers, _) = router();
    router.add_route(0, Prefix4::DEFAULT, via(1)).unwrap();
    for (address, path) in [
        ("0.1.2.3", Path::Drop),
        ("127.0.0.1", Path::Drop),
        ("240.0.0.1", Path::Drop),
        ("255.255.255.255", Path::Local),
        ("198.18.0.1", via(1)),
    ] {
        let found = router.routes().lookup(0, address.parse().unwrap()).unwrap();
        assert_eq!(found.2, path, "{address}");
    }
    // The operator's word goes before.
    router.add_route(0, "240.0.0.0/4".parse().unwrap(), via(2)).unwrap();
    assert_eq!(router.routes().lookup(0, Ipv4Addr::new(240, 0, 0, 1)).unwrap().2, via(2));
}

#[test]
fn a_host_behind_an_attached_route_gets_a_route_of_its_own() {
    let (mut router, _workers, _) = router();
    let host = Ipv4Addr::new(77, 0, 0, 1);
    let attached = Path::Attached(1);
    router.add_route(0, "77.0.0.0/8".parse().unwrap(), attached).unwrap();
    router.add_neighbor(1, host, PEER, false).unwrap();
    let own = Path::Via { next_hop: host, interface: Some(1) };
    assert_eq!(router.routes().lookup(0, host).unwrap().2, own);
    router.remove_route(0, "77.0.0.0/8".parse().unwrap()).unwrap();
    assert!(router.routes().lookup(0, host).is_none(), "it goes with the route that it is behind");
}

/// Many routes follow their interface in slices. A packet meanwhile goes where it may, or is dropped with a reason.
#[test]
fn many_routes_follow_an_interface_turn_by_turn() {
    const ROUTES: u32 = 5000;
    let (mut router, _workers, _) = router();
    let all = || (0..ROUTES).map(|n| 0x1400_0000 + (n << 8));
    router.add_route(0, "20.0.0.0/8".parse().unwrap(), via(2)).unwrap();
    for bits in all() {
        router.add_route(0, Prefix4::new(Ipv4Addr::from_bits(bits), 24), via(1)).unwrap();
    }
    let words = |router: &Router| {
        let (tables, mut participant) = (router.tables(), router.participant());
        let section = participant.enter();
        let table = tables.fibs.get(section.guard()).get(0).unwrap();
        let of = |path| router.routes().path(0, path).unwrap().object;
        let leaves = all().map(|a| table.lookup(a + 1));
        let count = leaves.fold([0; 2], |[one, two], leaf| {
            assert!(leaf == of(via(1)) || leaf == of(via(2)));
            [one + u32::from(leaf == of(via(1))), two + u32::from(leaf == of(via(2)))]
        });
        (count, Object::from_word(tables.objects.get(of(via(1)))))
    };
    let Object::Adjacency(_) = words(&router).1 else { panic!("there is no adjacency") };
    for up in [false, true] {
        router.wake.clear();
        router.set_admin(1, up).unwrap();
        let ([one, two], object) = words(&router);
        assert!(one > 1000 && two > 1000, "{one} go by the first, {two} by the second");
        assert_eq!(object == Object::Unresolved, !up);
        assert!(router.wake.clear(), "the main thread knows that there is more to do");
        while router.poll(0) {}
        assert_eq!(words(&router).0, if up { [ROUTES, 0] } else { [0, ROUTES] });
    }
}
