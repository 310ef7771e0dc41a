//! Tests of routes that change while a worker uses them.

use std::net::Ipv4Addr;

use drivers::pktgen::{self, Stream, Template};
use infra::lpm::LpmLookup;
use proptest::prelude::*;
use wire::Mac;
use wire::builder::PacketBuilder;

use super::*;
use crate::Tables;
use crate::ip::{
    Address, ForwardingKind, Ip, IpPrefix, Lost, Object, Path, PathList, Prefix4, Source, Weighted,
};
use crate::testing::install;

const PEER: Mac = Mac([2, 0, 0, 0, 0, 9]);

/// Creates a router with a generator on pg0 that sends to 10.9.0.1 and 10.9.0.2, and with sinks on pg1 and pg2.
fn router() -> (Router, Vec<graph::Worker>, Vec<pktgen::Sink>) {
    router_of(install)
}

fn router_of(
    install: impl FnOnce(&mut graph::Builder, &Tables, &mut Hooks) -> Result<(), graph::GraphError>,
) -> (Router, Vec<graph::Worker>, Vec<pktgen::Sink>) {
    let Parts { mut router, workers } = Router::build(install, &Sizes { buffers: 2048, workers: 1 }).unwrap();
    let mut sinks = Vec::new();
    for n in 0..3u8 {
        let mac = Mac([2, 0xfe, 0, 0, 0, n]);
        let (device, generator, sink) = pktgen::open(&pktgen::Config { mac: mac.0, ..Default::default() });
        let index = router.add_device(&format!("pg{n}"), device).unwrap();
        router.set_admin(index, true).unwrap();
        router.add_address(index, Address::new(Ipv4Addr::new(10, n, 0, 1), 16)).unwrap();
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
    Path::Via { next_hop: Ipv4Addr::new(10, n, 0, 2).into(), interface: None }
}

#[test]
fn a_route_that_changes_loses_no_packet() {
    let (mut router, workers, sinks) = router();
    let prefix: Prefix4 = "10.9.0.1/32".parse().unwrap();
    router.add_route(0, "10.9.0.0/16".parse::<IpPrefix>().unwrap(), via(1)).unwrap();
    router.start(workers, &[]).unwrap();
    let clock = infra::clock::Clock::new();
    // Next hops change in turn, and the route is removed in between, so that the shorter one takes over. Each change
    // frees the objects and adjacencies of the previous one.
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

/// The route sources of two routing protocols, as a feature would declare them.
struct Protocols {
    bgp: Source,
    ospf: Source,
}

/// Creates a router with a loopback interface that has the address 10.1.0.1/16. Returns it with its sources: static routes, and those of
/// the feature.
fn with_protocols() -> (Router, [Source; 3]) {
    let install = |b: &mut graph::Builder, t: &Tables, hooks: &mut Hooks| {
        install(b, t, hooks)?;
        let protocols = Protocols { ospf: hooks.source("ospf", 110)?, bgp: hooks.source("bgp", 20)? };
        hooks.state(|_| Ok(protocols)).map(|_| ())
    };
    let Parts { mut router, .. } = Router::build(install, &Sizes { buffers: 256, workers: 1 }).unwrap();
    let loopback = router.add_loopback("loop0", PEER).unwrap();
    router.set_admin(loopback, true).unwrap();
    router.add_address(loopback, Address::new(Ipv4Addr::new(10, 1, 0, 1), 16)).unwrap();
    let Protocols { bgp, ospf } = *router.state::<Protocols>().unwrap();
    (router, [Source::STATIC, bgp, ospf])
}

#[test]
fn routes_of_a_feature_have_a_name_and_the_memory_limit() {
    let (mut router, [_, bgp, _]) = with_protocols();
    assert_eq!((router.source_name(bgp), bgp.distance()), ("bgp", 20));
    let prefix: Prefix4 = "10.9.0.0/16".parse().unwrap();
    assert!(router.remove_route_from(bgp, 0, prefix).is_err());
    router.set_route_memory(1);
    assert!(router.add_route_from(bgp, 0, prefix, Path::Drop).is_err(), "there is a limit");
    router.set_route_memory(u64::MAX);
    router.add_route_from(bgp, 0, prefix, Path::Drop).unwrap();
    assert!(router.remove_route(0, prefix).is_err(), "it is not the operator's");
    assert_eq!(router.remove_route_from(bgp, 0, prefix), Ok(Path::Drop.into()));
    let other: IpPrefix = "2001:db8::/32".parse().unwrap();
    assert!(router.add_route_from(bgp, 0, other, via(1)).is_err(), "of the other family");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// In any order of additions and removals, the source with the lowest distance among those with a resolved path wins.
    #[test]
    fn the_resolved_source_with_the_lowest_distance_wins(
        changes in prop::collection::vec((0..3usize, 0..2u8, prop::option::of(0..3u8)), 1..60),
    ) {
        let (mut router, sources) = with_protocols();
        let mut said = std::collections::BTreeMap::new();
        for (source, prefix, path) in changes {
            let source = sources[source];
            let of = Prefix4::new(Ipv4Addr::new(10, 9, prefix, 0), 24);
            match path {
                Some(path) => {
                    // The last one does not resolve: its next hop is in no network.
                    let path = [Path::Drop, via(1), via(7)][usize::from(path)];
                    router.add_route_from(source, 0, of, path).unwrap();
                    said.insert((of, source), path);
                }
                None => {
                    let removed = router.remove_route_from(source, 0, of).ok();
                    prop_assert_eq!(removed, said.remove(&(of, source)).map(PathList::from));
                }
            }
            let found = router.routes::<Ipv4Addr>().lookup(0, of.address());
            let found = found.filter(|(prefix, ..)| *prefix == of).map(|(_, source, to)| (source, to.list.clone()));
            let leads = said.iter().filter(|((prefix, _), path)| *prefix == of && **path != via(7));
            let nearest = leads.min_by_key(|((_, source), _)| source.distance());
            prop_assert_eq!(found, nearest.map(|((_, source), path)| (*source, PathList::from(*path))));
        }
    }
}

/// A feature's node that counts packets by forwarding entry.
struct Tunnel;

graph::reasons! {
    enum Came {
        First = "first-tunnel", Info, "the packet came for entry 0";
        Second = "second-tunnel", Info, "the packet came for entry 1";
    }
}

impl graph::PacketNode for Tunnel {
    const NAME: &'static str = "tunnel";
    type Next = graph::NoNext;
    type Drop = Came;

    fn one(&mut self, _: &graph::Cx<'_>, p: &mut buf::Packet<'_>) -> graph::Verdict<graph::NoNext, Came> {
        graph::Verdict::Drop(if p.fwd() == 0 { Came::First } else { Came::Second })
    }
}

struct Tunnels(ForwardingKind);

fn tunnels(b: &mut graph::Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), graph::GraphError> {
    install(b, t, hooks)?;
    b.packet(|_| Ok(Tunnel));
    let info =
        |name| KindInfo { name, ip4: Some("tunnel"), ip6: None, show: |_, index| format!("tunnel {index}") };
    let kind = hooks.forwarding_kind(b, t, info("tunnel"))?;
    let second = hooks.forwarding_kind(b, t, info("tunnel")).unwrap_err().0;
    assert!(second.contains("\"tunnel\": another forwarding kind"), "{second}");
    hooks.state(|_| Ok(Tunnels(kind))).map(|_| ())
}

#[test]
fn routes_can_mix_feature_nodes_and_next_hops() {
    let (mut router, mut workers, sinks) = router_of(tunnels);
    let Tunnels(kind) = *router.state().unwrap();
    let [first, second] = ["10.9.0.1/32", "10.9.0.2/32"].map(|prefix| prefix.parse::<Prefix4>().unwrap());
    router.add_route(0, first, Path::Feature(kind, 0)).unwrap();
    let ways = [Weighted { path: via(1), weight: 1 }, Weighted { path: Path::Feature(kind, 1), weight: 1 }];
    router.add_route(0, second, PathList::new(ways.to_vec()).unwrap()).unwrap();
    assert_eq!(router.forwarding_text(kind, 7), "tunnel 7");
    let other = router.add_route(0, "2001:db8::/32".parse::<IpPrefix>().unwrap(), Path::Feature(kind, 0));
    let other = other.unwrap_err().why;
    assert!(other.contains("cannot lead to tunnel 0, which does not forward IPv6"), "{other}");
    for _ in 0..20 {
        crate::testing::turn(&router, &mut workers[0]);
    }
    let dropped = |reason| router.graph().stats().dropped_for("tunnel", reason).unwrap_or(0);
    assert!(dropped("first-tunnel") > 0);
    // Flows to the other address take one of the two paths.
    assert!((dropped("second-tunnel") > 0) != (sinks[1].packets() > 0));
    router.remove_route(0, second).unwrap();
    router.add_route(0, second, Path::Feature(kind, 1)).unwrap();
    for _ in 0..20 {
        crate::testing::turn(&router, &mut workers[0]);
    }
    assert!(router.graph().stats().dropped_for("tunnel", "second-tunnel").unwrap_or(0) > 0);
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
        let found = router.routes::<Ipv4Addr>().lookup(0, address.parse().unwrap()).unwrap();
        assert_eq!(found.2.list, path.into(), "{address}");
    }
    // The operator's route takes precedence.
    router.add_route(0, "240.0.0.0/4".parse::<IpPrefix>().unwrap(), via(2)).unwrap();
    assert_eq!(
        router.routes::<Ipv4Addr>().lookup(0, Ipv4Addr::new(240, 0, 0, 1)).unwrap().2.list,
        via(2).into()
    );
}

#[test]
fn a_neighbor_behind_an_attached_route_gets_a_host_route() {
    let (mut router, _workers, _) = router();
    let host = Ipv4Addr::new(77, 0, 0, 1);
    let attached = Path::Attached(1);
    router.add_route(0, "77.0.0.0/8".parse::<IpPrefix>().unwrap(), attached).unwrap();
    router.add_neighbor(1, host, PEER, false).unwrap();
    let own = Path::Via { next_hop: host.into(), interface: Some(1) };
    assert_eq!(router.routes::<Ipv4Addr>().lookup(0, host).unwrap().2.list, own.into());
    router.remove_route(0, "77.0.0.0/8".parse::<IpPrefix>().unwrap()).unwrap();
    assert!(router.routes::<Ipv4Addr>().lookup(0, host).is_none(), "it goes with the route that resolves it");
}

/// When an interface changes, many routes are updated in several steps. Meanwhile, every packet takes a valid path or is dropped with a
/// reason.
#[test]
fn many_routes_follow_an_interface_in_slices() {
    const ROUTES: u32 = 5000;
    let (mut router, _workers, _) = router();
    let all = || (0..ROUTES).map(|n| 0x1400_0000 + (n << 8));
    router.add_route(0, "20.0.0.0/8".parse::<IpPrefix>().unwrap(), via(2)).unwrap();
    for bits in all() {
        router.add_route(0, Prefix4::new(Ipv4Addr::from_bits(bits), 24), via(1)).unwrap();
    }
    let words = |router: &Router| {
        let (tables, mut participant) = (router.tables(), router.participant());
        let section = participant.enter();
        let table = tables.ip4.fibs.get(section.guard()).get(0).unwrap();
        let of = |path| router.routes::<Ipv4Addr>().path(0, path).unwrap().object;
        let leaves = all().map(|a| table.lookup(a + 1));
        let count = leaves.fold([0; 2], |[one, two], leaf| {
            assert!(leaf == of(via(1)) || leaf == of(via(2)));
            [one + u32::from(leaf == of(via(1))), two + u32::from(leaf == of(via(2)))]
        });
        (count, Object::from_word(tables.ip4.objects.get(of(via(1)))))
    };
    let Object::Adjacency(_) = words(&router).1 else { panic!("there is no adjacency") };
    for up in [false, true] {
        router.wake.clear();
        router.set_admin(1, up).unwrap();
        let ([one, two], object) = words(&router);
        assert!(one > 1000 && two > 1000, "{one} go by the first, {two} by the second");
        assert_eq!(object == Object::Unresolved, !up);
        assert!(router.wake.clear(), "the main thread is woken for the rest");
        while router.poll(0) {}
        assert_eq!(words(&router).0, if up { [ROUTES, 0] } else { [0, ROUTES] });
    }
}

/// Returns the next hop and the interface of the adjacency of the route to `to`, if it has one.
fn leads_to(router: &Router, to: &str) -> Option<(Ipv4Addr, u32)> {
    let (_, _, found) = router.routes::<Ipv4Addr>().lookup(0, to.parse().unwrap())?;
    let Some(Object::Adjacency(index)) = found.resolved else { return None };
    router.adjacencies().get(index).and_then(|a| Some((Ipv4Addr::of(a.next_hop)?, a.interface)))
}

fn prefix(text: &str) -> Prefix4 {
    text.parse().unwrap()
}

fn by(text: &str) -> Path {
    Path::Via { next_hop: text.parse().unwrap(), interface: None }
}

/// Returns the reason why a recursive path with this next hop is unresolved.
fn lost(router: &Router, text: &str) -> Option<Lost> {
    let state = router.routes::<Ipv4Addr>().path(0, by(text)).unwrap();
    assert!(state.resolved.is_none());
    state.trail.as_ref().and_then(|t| t.lost.first().copied())
}

#[test]
fn an_unconnected_next_hop_is_resolved_by_a_route() {
    let (mut router, _workers, _) = router();
    let hop = |n: u8| Some((Ipv4Addr::new(10, n, 0, 2), u32::from(n)));
    let far: Ipv4Addr = "203.0.113.1".parse().unwrap();
    router.add_route(0, prefix("192.0.2.0/24"), by("203.0.113.1")).unwrap();
    assert_eq!(leads_to(&router, "192.0.2.1"), None);
    assert_eq!(lost(&router, "203.0.113.1"), Some(Lost::NoRoute(far.into())));
    // The recursive route follows the route to its next hop when the latter is added or changed, or when a better one is added.
    for (route, path, expected) in [
        ("0.0.0.0/0", via(2), hop(2)),
        ("203.0.113.0/24", via(1), hop(1)),
        ("203.0.113.0/24", via(2), hop(2)),
        ("203.0.113.1/32", via(1), hop(1)),
        // Behind an attached route, the next hop is resolved on that link.
        ("203.0.113.1/32", Path::Attached(2), Some((far, 2))),
        // Over one more route.
        ("203.0.113.1/32", by("198.51.100.1"), hop(2)),
        ("198.51.100.0/24", via(1), hop(1)),
    ] {
        router.add_route(0, prefix(route), path).unwrap();
        assert_eq!(leads_to(&router, "192.0.2.1"), expected, "{route} by {path:?}");
    }
    assert!(router.egress(0, "192.0.2.1".parse::<Ipv4Addr>().unwrap(), None).is_ok());
    // The recursive route also follows when the interface goes down and comes up again.
    router.set_admin(1, false).unwrap();
    assert_eq!(leads_to(&router, "192.0.2.1"), hop(2), "by the default route");
    router.set_admin(1, true).unwrap();
    assert_eq!(leads_to(&router, "192.0.2.1"), hop(1));
    router.remove_route(0, prefix("203.0.113.1/32")).unwrap();
    assert_eq!(leads_to(&router, "192.0.2.1"), hop(2));
    // If the route to the next hop drops or rejects packets, so does the recursive route.
    for path in [Path::Drop, Path::Unreachable, Path::Prohibit] {
        router.add_route(0, prefix("203.0.113.1/32"), path).unwrap();
        let state = router.routes::<Ipv4Addr>().path(0, by("203.0.113.1")).unwrap();
        assert_eq!(state.resolved, router.routes::<Ipv4Addr>().path(0, path).unwrap().resolved);
    }
    let fib = router.add_table(7).unwrap();
    for path in [Path::Local, Path::Table(fib)] {
        router.add_route(0, prefix("203.0.113.1/32"), path).unwrap();
        assert_eq!(lost(&router, "203.0.113.1"), Some(Lost::NoNeighbor(far.into(), 32)));
    }
    router.remove_route(0, prefix("203.0.113.1/32")).unwrap();
    // A next hop in an interface's network resolves there, whether the interface is up or down. Once the network moves
    // to another interface, the routes decide.
    router.add_route(0, prefix("192.0.2.0/24"), by("10.1.0.9")).unwrap();
    router.set_admin(1, false).unwrap();
    assert_eq!(lost(&router, "10.1.0.9"), None);
    assert_eq!(leads_to(&router, "192.0.2.1"), hop(2), "by the default route");
    router.remove_route(0, Prefix4::DEFAULT).unwrap();
    assert_eq!(leads_to(&router, "192.0.2.1"), None);
    router.add_route(0, Prefix4::DEFAULT, via(2)).unwrap();
    router.remove_interface(1).unwrap();
    assert_eq!(
        router.routes::<Ipv4Addr>().lookup(0, "192.0.2.1".parse().unwrap()).unwrap().0,
        prefix("192.0.2.0/24")
    );
    assert_eq!(leads_to(&router, "192.0.2.1"), hop(2));
}

#[test]
fn circular_and_too_deep_recursive_routes_are_unresolved() {
    let (mut router, _workers, _) = router();
    for (route, next_hop) in
        [("50.0.0.0/8", "60.0.0.1"), ("60.0.0.0/8", "50.0.0.1"), ("70.0.0.0/8", "70.0.0.1")]
    {
        router.add_route(0, prefix(route), by(next_hop)).unwrap();
    }
    for to in ["50.0.0.1", "60.0.0.1", "70.0.0.1"] {
        assert!(router.routes::<Ipv4Addr>().lookup(0, to.parse().unwrap()).is_none(), "{to}");
        assert!(router.egress(0, to.parse::<Ipv4Addr>().unwrap(), None).is_err());
        assert_eq!(lost(&router, to), Some(Lost::Circle(to.parse().unwrap())));
    }
    // A route that breaks the loop resolves both.
    router.add_route(0, prefix("60.0.0.1/32"), via(1)).unwrap();
    for to in ["50.0.0.1", "60.0.0.1", "60.0.0.9"] {
        assert_eq!(leads_to(&router, to), Some((Ipv4Addr::new(10, 1, 0, 2), 1)), "{to}");
    }
    router.remove_route(0, prefix("60.0.0.1/32")).unwrap();
    assert_eq!(leads_to(&router, "60.0.0.9"), None);
    // A chain of eight next hops resolves; the ninth does not.
    for n in 1..=8 {
        router.add_route(0, prefix(&format!("100.0.{n}.0/24")), by(&format!("100.0.{}.1", n + 1))).unwrap();
    }
    router.add_route(0, prefix("100.0.9.0/24"), via(1)).unwrap();
    assert_eq!(leads_to(&router, "100.0.2.9"), Some((Ipv4Addr::new(10, 1, 0, 2), 1)));
    router.add_route(0, prefix("100.0.0.0/24"), by("100.0.1.1")).unwrap();
    assert_eq!(lost(&router, "100.0.1.1"), Some(Lost::TooFar));
}

/// Each recursive route has eight paths, which all lead to the next route. So there are few next hops, but eight times as many paths with
/// each route. Visiting all of them would take minutes.
#[test]
fn branching_recursive_routes_resolve_in_bounded_time() {
    let (mut router, _workers, _) = router();
    for step in (1..8u8).rev() {
        let branch = |n| Weighted { path: by(&format!("100.{}.0.{n}", step + 1)), weight: 1 };
        let list = PathList::new((1..=8).map(branch).collect()).unwrap();
        router.add_route(0, prefix(&format!("100.{step}.0.0/16")), list).unwrap();
    }
    router.add_route(0, prefix("100.8.0.0/16"), via(1)).unwrap();
    while router.poll(0) {}
    let (_, _, first) = router.routes::<Ipv4Addr>().lookup(0, Ipv4Addr::new(100, 1, 0, 1)).unwrap();
    assert!(first.resolved.is_some());
    assert!(first.trail.as_ref().unwrap().lost.contains(&Lost::TooMany));
}

#[test]
fn changes_of_recursive_routes_lose_no_packet() {
    let (mut router, workers, sinks) = router();
    router.add_route(0, prefix("10.9.0.0/16"), via(1)).unwrap();
    router.add_route(0, prefix("10.9.0.1/32"), by("203.0.113.1")).unwrap();
    router.add_route(0, prefix("10.9.0.2/32"), by("10.9.0.1")).unwrap();
    router.start(workers, &[]).unwrap();
    let clock = infra::clock::Clock::new();
    // The route to the next hop is added, changes, is replaced by a longer one, and is removed.
    for change in 0..20_000u32 {
        match change % 5 {
            0 => router.add_route(0, prefix("203.0.113.0/24"), via(1)).unwrap(),
            1 => router.add_route(0, prefix("203.0.113.0/24"), via(2)).unwrap(),
            2 => router.add_route(0, prefix("203.0.113.1/32"), via(1)).unwrap(),
            3 => router.remove_route(0, prefix("203.0.113.0/24")).map(|_| ()).unwrap(),
            _ => router.remove_route(0, prefix("203.0.113.1/32")).map(|_| ()).unwrap(),
        }
        router.poll(clock.now_ns());
    }
    let dropped: Vec<_> = router.graph().stats().dropped().into_iter().filter(|d| d.packets > 0).collect();
    assert_eq!(dropped, []);
    assert!(sinks[1].packets() > 0 && sinks[2].packets() > 0, "both ways were taken");
}

#[test]
fn the_memory_limit_refuses_only_new_routes() {
    let (mut router, _worker) = crate::testing::router();
    let to = |n: u32| Prefix4::new(Ipv4Addr::from_bits(0x0b00_0000 | n << 8 | 1), 32);
    let before = router.route_memory();
    assert!(before.limit > before.used && before.refused == 0);
    router.set_route_memory(before.used + (32 << 20));
    let refused = (0..).find_map(|n| Some((n, router.add_route(0, to(n), Path::Drop).err()?))).unwrap();
    assert!(refused.1.why.contains("no room for another route: the routes take"), "{}", refused.1);
    let full = router.route_memory();
    assert!(full.used <= full.limit + (4 << 20) && full.refused == 1, "{full:?}");
    // Existing routes may change and go, and routes derived from interfaces are never refused.
    router.add_route(0, to(0), Path::Unreachable).unwrap();
    let loop0 = router.add_loopback("loop0", Mac([2, 0, 0, 0, 0, 1])).unwrap();
    router.set_admin(loop0, true).unwrap();
    router.add_address(loop0, Address::new(Ipv4Addr::new(10, 0, 0, 1), 24)).unwrap();
    assert!(router.routes::<Ipv4Addr>().lookup(0, Ipv4Addr::new(10, 0, 0, 1)).is_some());
    assert!(router.add_route(0, to(refused.0), Path::Drop).is_err());
    // After removing some routes, as many fit again.
    (0..refused.0).for_each(|n| drop(router.remove_route(0, to(n)).unwrap()));
    let again = (0..).find(|n| router.add_route(0, to(*n), Path::Drop).is_err()).unwrap();
    assert!(again.abs_diff(refused.0) <= 2, "{again} of {}", refused.0);
    let again = router.route_memory();
    assert!(again.used <= full.used + (2 << 20), "{full:?}, then {again:?}");
    router.set_route_memory(u64::MAX);
    router.add_route(0, to(refused.0), Path::Drop).unwrap();
}

/// Removes an interface with very many next hops; its paths are resolved again in several steps. While paths lead to the removed interface,
/// a new interface gets another index. If a new interface must have the same index, it stays down for the workers until no such path is
/// left.
#[test]
fn an_index_is_reused_only_after_its_last_path() {
    const HOPS: u32 = 2000;
    let (mut router, ..) = router();
    for round in 0..2 {
        let index = router.add_loopback("loop0", PEER).unwrap();
        router.set_admin(index, true).unwrap();
        router.add_address(index, Address::new(Ipv4Addr::new(10, 50, 0, 1), 16)).unwrap();
        for n in 0..HOPS {
            let next_hop = Ipv4Addr::from_bits(0x0a32_0002 + n).into();
            let to = Prefix4::new(Ipv4Addr::from_bits(0x1400_0000 + (n << 8)), 24);
            router.add_route(0, to, Path::Via { next_hop, interface: None }).unwrap();
        }
        while router.poll(0) {}
        let left = |r: &Router| r.adjacencies().iter().filter(|(_, a, _)| a.interface == index).count();
        assert_eq!(left(&router), HOPS as usize);
        router.remove_interface(index).unwrap();
        assert!(left(&router) > 1000, "not all are resolved at once: {}", left(&router));
        let at = router.tables.interfaces.clone();
        let mut participant = router.participant();
        assert!(at.get(participant.enter().guard(), index).is_some_and(|record| !record.up));
        router.prefer_index((round == 1).then_some(index));
        let next = router.add_loopback("loop1", PEER).unwrap();
        assert!(left(&router) > 1000, "no step resolves all: {}", left(&router));
        router.set_admin(next, true).unwrap();
        let up = |p: &mut infra::quiesce::Participant| at.get(p.enter().guard(), next).is_some_and(|r| r.up);
        let heir = round == 1;
        assert_eq!((next == index, up(&mut participant)), (heir, !heir));
        // This reader stands for a worker that may still use such a path until it leaves its section.
        let mut on_its_way = router.participant();
        let section = on_its_way.enter();
        for _ in 0..1000 {
            router.poll(0);
        }
        assert_eq!((left(&router), router.leaving.len(), up(&mut participant)), (0, 0, !heir));
        drop(section);
        while router.poll(0) {}
        assert!(up(&mut participant) && router.heirs.is_empty());
        router.remove_interface(next).unwrap();
        router.poll(0);
        assert!(at.get(participant.enter().guard(), index).is_none());
    }
}

/// The MTU and the Ethernet address of an interface with very many next hops change. No single iteration of the main thread's loop updates
/// all adjacencies.
#[test]
fn adjacencies_follow_their_interface_in_slices() {
    const HOPS: u32 = 4000;
    let (mut router, ..) = router();
    for n in 0..HOPS {
        let next_hop = Ipv4Addr::from_bits(0x0a01_0100 + n).into();
        let to = Prefix4::new(Ipv4Addr::from_bits(0x1400_0000 + (n << 8)), 24);
        router.add_route(0, to, Path::Via { next_hop, interface: None }).unwrap();
    }
    let mac = Mac([2, 0, 0, 0, 0, 77]);
    let old = |r: &Router, mtu: u16, mac: Mac| {
        // The source follows the destination in the header.
        let is_new = |a: &crate::adjacency::Adjacency| {
            a.mtu == mtu && a.rewrite.is_none_or(|header| header.bytes()[6..12] == mac.0)
        };
        r.adjacencies().iter().filter(|(_, a, _)| a.interface == 1 && !is_new(a)).count()
    };
    let before = router.interface(1).unwrap().mac;
    router.set_mtu(1, 1400).unwrap();
    assert!(old(&router, 1400, before) > 3000, "not at once");
    // Another change before the end restarts the update. An adjacency added before the end has the interface's new values.
    router.poll(0);
    router.set_mac(1, Some(mac)).unwrap();
    let fresh = Ipv4Addr::new(10, 1, 200, 200);
    let path = Path::Via { next_hop: fresh.into(), interface: Some(1) };
    router.add_route(0, "30.0.0.0/8".parse::<IpPrefix>().unwrap(), path).unwrap();
    let index = router.adjacencies().index_of(1, fresh.into()).unwrap();
    assert_eq!(router.adjacencies().get(index).unwrap().mtu, 1400);
    while router.poll(0) {}
    assert_eq!(old(&router, 1400, mac), 0);
    assert!(!router.adjacencies().is_stale());
}

/// Very many next hops are removed. Their forwarding objects are freed in several steps, and in the end all of them are freed.
#[test]
fn adjacencies_of_removed_routes_are_freed_in_slices() {
    const HOPS: u32 = 8000;
    let (mut router, ..) = router();
    while router.poll(0) {}
    let objects = |r: &Router| r.routes::<Ipv4Addr>().objects_in_use();
    let before = objects(&router);
    let to = |n: u32| Prefix4::new(Ipv4Addr::from_bits(0x1400_0000 + (n << 8)), 24);
    for n in 0..HOPS {
        let next_hop = Ipv4Addr::from_bits(0x0a01_0100 + n).into();
        router.add_route(0, to(n), Path::Via { next_hop, interface: None }).unwrap();
    }
    // Adjacencies that wait for an update can be freed, too; the next adjacency in the same slot waits for its own update.
    router.set_admin(1, false).unwrap();
    for n in 0..HOPS {
        router.remove_route(0, to(n)).unwrap();
    }
    router.add_route(0, to(0), via(1)).unwrap();
    router.set_admin(1, true).unwrap();
    let all = objects(&router);
    assert!(router.poll(0), "there is more to do");
    assert!((objects(&router)..all).len() < 4000, "{all} objects before, {} after", objects(&router));
    while router.poll(0) {}
    assert_eq!(objects(&router), before + 1);
    let found = router.routes::<Ipv4Addr>().lookup(0, Ipv4Addr::new(20, 0, 0, 1)).unwrap();
    assert!(found.2.resolved.is_some());
    assert!(!router.routes::<Ipv4Addr>().is_busy());
}
