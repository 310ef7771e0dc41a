//! Tests of routes with several paths and packets of many flows.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use drivers::pktgen::{self, Field, Mode, Stream, Template};
use wire::Mac;
use wire::builder::PacketBuilder;

use super::*;
use crate::ip::{Address, IpPrefix, Path, PathList, Prefix4, Weighted};
use crate::testing::install;
use crate::testing::turn;

const PEER: Mac = Mac([2, 0, 0, 0, 0, 9]);
/// Number of flows to 20.0.0.1. Their source ports are 1 to this number.
const FLOWS: u16 = 4096;
/// The offset of the source port in a packet.
const PORT: usize = 34;

/// A router that repeatedly receives packets of all flows on pg0, and has three other interfaces to send them on.
struct Lab {
    router: Router,
    worker: graph::Worker,
    sinks: Vec<pktgen::Sink>,
}

/// The output interface of each flow, by source port.
type Ways = BTreeMap<u16, usize>;

impl Lab {
    fn new() -> Lab {
        let Parts { mut router, mut workers } =
            Router::build(install, &Sizes { buffers: 8192, workers: 1 }).unwrap();
        let mut sinks = Vec::new();
        for n in 0..4u8 {
            let mac = Mac([2, 0xfe, 0, 0, 0, n]);
            let (device, generator, sink) =
                pktgen::open(&pktgen::Config { mac: mac.0, ..Default::default() });
            let index = router.add_device(&format!("pg{n}"), device).unwrap();
            router.set_admin(index, true).unwrap();
            router.add_address(index, Address::new(Ipv4Addr::new(10, n, 0, 1), 16)).unwrap();
            router.add_neighbor(index, Ipv4Addr::new(10, n, 0, 2), PEER, true).unwrap();
            if n == 0 {
                let packet = PacketBuilder::ipv4([198, 18, 0, 1].into(), [20, 0, 0, 1].into());
                let mut template = Template::fixed(packet.ethernet(PEER, mac).udp(0, 80).build());
                let mode = Mode::Increment { min: 1, max: u64::from(FLOWS), step: 1 };
                template.fields = vec![Field { offset: PORT, width: 2, mode, ip4_checksum: false }];
                let stream = Stream { name: "flows".into(), templates: vec![template], ..Stream::default() };
                generator.add(stream).unwrap();
                generator.set_enabled(None, true);
            }
            sinks.push(sink);
        }
        Lab { router, worker: workers.remove(0), sinks }
    }

    fn route(&mut self, ways: &[(u8, u8)]) {
        let way = |&(n, weight): &(u8, u8)| Weighted {
            path: Path::Via { next_hop: Ipv4Addr::new(10, n, 0, 2).into(), interface: None },
            weight,
        };
        let list = PathList::new(ways.iter().map(way).collect()).unwrap();
        self.router.add_route(0, prefix(), list).unwrap();
    }

    /// Lets the router forward packets of all flows, and returns the output interface of each flow. All packets of one flow must leave by
    /// the same interface.
    fn ways(&mut self) -> Ways {
        let mut ways = Ways::new();
        self.sinks.iter().for_each(|sink| sink.keep(usize::MAX));
        for _ in 0..2 * usize::from(FLOWS).div_ceil(256) {
            turn(&self.router, &mut self.worker);
        }
        for (way, sink) in self.sinks.iter().enumerate() {
            for packet in sink.take() {
                let port = u16::from_be_bytes([packet.bytes[PORT], packet.bytes[PORT + 1]]);
                assert_eq!(*ways.entry(port).or_insert(way), way, "the flow of port {port}");
            }
        }
        assert_eq!(ways.len(), usize::from(FLOWS));
        ways
    }
}

/// Returns the number of flows on each interface.
fn count(ways: &Ways) -> [usize; 4] {
    ways.values().fold([0; 4], |mut count, way| {
        count[*way] += 1;
        count
    })
}

fn prefix() -> Prefix4 {
    "20.0.0.0/16".parse().unwrap()
}

#[test]
fn flows_are_distributed_evenly_or_by_weight() {
    let mut lab = Lab::new();
    lab.route(&[(1, 1), (2, 1), (3, 1)]);
    let [_, shares @ ..] = count(&lab.ways());
    // A third is 1,365. The hash is as good as random, and three standard deviations are 91.
    assert!(shares.iter().all(|n| (1260..1470).contains(n)), "{shares:?}");
    lab.route(&[(1, 2), (2, 1), (3, 1)]);
    let [_, shares @ ..] = count(&lab.ways());
    assert!((1950..2150).contains(&shares[0]) && shares[1].abs_diff(shares[2]) < 180, "{shares:?}");
}

#[test]
fn a_removed_path_moves_only_its_own_flows() {
    let mut lab = Lab::new();
    lab.route(&[(1, 1), (2, 1), (3, 1)]);
    let before = lab.ways();
    let moved = |after: &Ways| {
        let moved = before.iter().zip(after).filter(|(was, is)| was.1 != is.1);
        moved.fold([0; 4], |mut of: [usize; 4], (was, _)| {
            of[*was.1] += 1;
            of
        })
    };
    let own = count(&before)[2];
    // The operator removes a path: only its flows move. With the path back, the shares are even again.
    lab.route(&[(1, 1), (3, 1)]);
    assert_eq!(moved(&lab.ways()), [0, 0, own, 0]);
    lab.route(&[(1, 1), (2, 1), (3, 1)]);
    let [_, shares @ ..] = count(&lab.ways());
    assert!(shares.iter().all(|n| (1260..1470).contains(n)), "{shares:?}");
    // The interface of a path goes down.
    let before = lab.ways();
    let own = count(&before)[2];
    lab.router.set_admin(2, false).unwrap();
    let after = lab.ways();
    assert!(before.iter().zip(&after).all(|(was, is)| if *was.1 == 2 { *is.1 != 2 } else { was.1 == is.1 }));
    let [_, one, two, three] = count(&after);
    assert_eq!(two, 0);
    assert!(one.abs_diff(three) < 250 && own > 1000, "{one} {three}");
    lab.router.set_admin(2, true).unwrap();
    let [_, shares @ ..] = count(&lab.ways());
    assert!(shares.iter().all(|n| (1260..1470).contains(n)), "{shares:?}");
    // Without any path left, the route is withdrawn.
    for n in 1..=3 {
        lab.router.set_admin(n, false).unwrap();
    }
    assert!(lab.router.routes::<Ipv4Addr>().lookup(0, Ipv4Addr::new(20, 0, 0, 1)).is_none());
}

/// Two routes with the same paths usually share one object. But a route with active flows that changes to the paths of another route gets
/// an object of its own, so that flows on paths that the route keeps do not move.
#[test]
fn a_route_that_shares_an_object_keeps_its_flows() {
    let mut lab = Lab::new();
    let other = |lab: &mut Lab, ways: &[u8]| {
        let way = |n: &u8| Weighted {
            path: Path::Via { next_hop: Ipv4Addr::new(10, *n, 0, 2).into(), interface: None },
            weight: 1,
        };
        let list = PathList::new(ways.iter().map(way).collect()).unwrap();
        lab.router.add_route(0, "30.0.0.0/16".parse::<IpPrefix>().unwrap(), list).unwrap();
    };
    let object =
        |lab: &Lab, to: [u8; 4]| lab.router.routes::<Ipv4Addr>().lookup(0, to.into()).unwrap().2.object;
    lab.route(&[(1, 1), (2, 1), (3, 1)]);
    other(&mut lab, &[1, 2, 3]);
    assert_eq!(object(&lab, [20, 0, 0, 1]), object(&lab, [30, 0, 0, 1]));
    lab.router.remove_route(0, "30.0.0.0/16".parse::<IpPrefix>().unwrap()).unwrap();
    other(&mut lab, &[1, 3]);
    let before = lab.ways();
    lab.route(&[(1, 1), (3, 1)]);
    let after = lab.ways();
    assert!(before.iter().zip(&after).all(|(was, is)| *was.1 == 2 || was.1 == is.1));
    assert_ne!(object(&lab, [20, 0, 0, 1]), object(&lab, [30, 0, 0, 1]));
}

#[test]
fn a_next_hop_behind_several_paths_uses_all_of_them() {
    let mut lab = Lab::new();
    lab.route(&[(1, 1), (2, 1), (3, 1)]);
    let path = Path::Via { next_hop: Ipv4Addr::new(20, 0, 9, 9).into(), interface: None };
    lab.router.add_route(0, "20.0.0.1/32".parse::<IpPrefix>().unwrap(), path).unwrap();
    let found = lab.router.routes::<Ipv4Addr>().lookup(0, Ipv4Addr::new(20, 0, 0, 1)).unwrap();
    assert_eq!((found.0.len(), found.2.shares().count()), (32, 3));
    let before = lab.ways();
    lab.router.set_admin(3, false).unwrap();
    let after = lab.ways();
    assert!(before.iter().zip(&after).all(|(was, is)| *was.1 == 3 || was.1 == is.1));
    assert_eq!(count(&after)[3], 0);
}

#[test]
fn changes_of_paths_lose_no_packet() {
    let mut lab = Lab::new();
    lab.route(&[(1, 1)]);
    let Lab { mut router, worker, sinks } = lab;
    router.start(vec![worker], &[]).unwrap();
    let clock = infra::clock::Clock::new();
    let lists = [&[1u8, 2][..], &[1, 2, 3], &[3], &[2, 3], &[1]];
    for change in 0..10_000usize {
        let way = |n: &u8| Weighted {
            path: Path::Via { next_hop: Ipv4Addr::new(10, *n, 0, 2).into(), interface: None },
            weight: 1 + (change % 3) as u8,
        };
        let list = PathList::new(lists[change % lists.len()].iter().map(way).collect()).unwrap();
        router.add_route(0, prefix(), list).unwrap();
        router.poll(clock.now_ns());
    }
    let dropped: Vec<_> = router.graph().stats().dropped().into_iter().filter(|d| d.packets > 0).collect();
    assert_eq!(dropped, []);
    assert!(sinks[1..].iter().all(|sink| sink.packets() > 0), "all ways were taken");
}
