//! Tests bridge domains in a whole router, against a plain description of a bridge.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use net::ethernet::Tags;
use net::ip::Address;
use net::testing::Lab;
use proptest::prelude::*;
use wire::Mac;

use super::{BridgePort, Bridges, Kind, Policy};
use crate::rewrite::Rewrite;

/// Number of ports: sub-interfaces of the router's two links.
const PORTS: usize = 5;
pub(super) const DOMAINS: [u32; 2] = [7, 9_000_000];
pub(super) const ALL: Mac = Mac([0xff; 6]);
pub(super) const POLICY: Policy = Policy { limit: 1000, ..Policy::PLAIN };
const PORT: BridgePort = BridgePort::PLAIN;

/// A router whose sub-interfaces 1 to 5 (by turns of the left and the right link) remove and add their tags.
pub(super) struct Bridged {
    pub lab: Lab,
    pub ports: Vec<u32>,
}

pub(super) fn station(n: u8) -> Mac {
    Mac([2, 0, 0, 0, 0xb, n])
}

impl Bridged {
    pub(super) fn new() -> Bridged {
        let all = |b: &mut graph::Builder, t: &net::Tables, hooks: &mut net::router::Hooks| {
            net::testing::install(b, t, hooks)?;
            crate::install(b, t, hooks)?;
            super::install(b, t, hooks)
        };
        let mut lab = Lab::with(all, |link| Address::new([10, 0, link as u8, 1], 24));
        let pop = Rewrite::parse("pop 1").unwrap();
        let mut ports = Vec::new();
        for n in 0..PORTS {
            let tags = Tags { outer_service: false, outer: 1 + n as u16, inner: None };
            let port = lab.router.add_subinterface(&format!("port{n}"), n as u32 % 2, tags).unwrap();
            lab.router.set(port, pop.plans(Some(tags)).unwrap()).unwrap();
            lab.router.set_admin(port, true).unwrap();
            ports.push(port);
        }
        for id in DOMAINS {
            super::set_domain(&mut lab.router, id, POLICY).unwrap();
        }
        lab.pass(1000);
        let mut all = Bridged { lab, ports };
        all.sent();
        all
    }

    pub(super) fn join(&mut self, port: usize, id: u32, how: BridgePort) {
        super::join(&mut self.lab.router, self.ports[port], id, how).unwrap();
    }

    /// A station on a port sends a frame. Returns the ports out of which it was sent.
    pub(super) fn frame(&mut self, port: usize, queue: usize, src: Mac, dst: Mac) -> BTreeSet<usize> {
        let tag = [0x81, 0, 0, 1 + port as u8];
        let frame = [&dst.0[..], &src.0, &tag, &[0x88, 0xb5], &[7; 60]].concat();
        self.lab.receive(port as u32 % 2, queue, frame.clone());
        let mut to = BTreeSet::new();
        for (link, mut bytes) in self.sent() {
            let n = usize::from(bytes[15]) - 1;
            assert_eq!(link, n % 2);
            assert!(to.insert(n), "two frames for port {n}");
            bytes[15] = 1 + port as u8;
            assert_eq!(bytes, frame);
        }
        to
    }

    fn sent(&mut self) -> Vec<(usize, Vec<u8>)> {
        let mut all = Vec::new();
        for link in 0..2 {
            all.extend(self.lab.sent(link as u32).into_iter().map(|bytes| (link, bytes)));
        }
        all.retain(|(_, bytes)| bytes[16..18] == [0x88, 0xb5]);
        all
    }

    pub(super) fn dropped(&self, reason: &str) -> u64 {
        let dropped = self.lab.router.graph().stats().dropped();
        let ours = dropped.iter().filter(|d| d.node.starts_with("l2-") && d.reason.name == reason);
        ours.map(|d| d.packets).sum()
    }

    fn bridges(&mut self) -> &mut Bridges {
        self.lab.router.state_mut().unwrap()
    }

    /// The stations of a domain that the router knows, with their ports.
    fn known(&mut self, id: u32) -> BTreeMap<Mac, u32> {
        let now = self.lab.now;
        let entries = self.bridges().entries(0..usize::MAX, now).filter(|shown| shown.bd == id);
        entries.map(|shown| (shown.mac, shown.place.port)).collect()
    }
}

/// What a bridge knows of a station.
#[derive(Clone, Copy)]
struct Heard {
    port: usize,
    second: u64,
}

/// A plain bridge.
struct Plain {
    ports: [Option<(u32, BridgePort)>; PORTS],
    up: [bool; PORTS],
    policy: Policy,
    known: HashMap<(u32, Mac), Heard>,
}

impl Plain {
    fn forget(&mut self, gone: impl Fn(u32, &Heard) -> bool) {
        self.known.retain(|(id, _), heard| !gone(*id, heard));
    }

    /// Returns the ports that get a frame.
    fn frame(&mut self, port: usize, src: Mac, dst: Mac, second: u64) -> BTreeSet<usize> {
        let Some((id, from)) = self.ports[port].filter(|_| self.up[port]) else { return BTreeSet::new() };
        let (age, policy) = (u64::from(self.policy.age), self.policy);
        self.known.retain(|_, heard| age == 0 || second - heard.second < age);
        if src.0[0] & 1 == 1 || src == Mac([0; 6]) {
            return BTreeSet::new();
        }
        if from.learn && policy.learn {
            self.known.insert((id, src), Heard { port, second });
        }
        let reaches = |other: &usize| {
            self.ports[*other].is_some_and(|(of, to)| {
                of == id && *other != port && (to.group == 0 || to.group != from.group)
            })
        };
        let is_group = dst.0[0] & 1 == 1;
        let known = self.known.get(&(id, dst)).filter(|_| !is_group && from.forward && policy.forward);
        let to: BTreeSet<usize> = match known {
            Some(heard) => [heard.port].into_iter().filter(reaches).collect(),
            None if from.flood && if is_group { policy.flood } else { policy.unknown } => {
                (0..PORTS).filter(reaches).collect()
            }
            None => BTreeSet::new(),
        };
        to.into_iter().filter(|port| self.up[*port]).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Frame { port: usize, queue: usize, src: u8, dst: u8 },
    Pass(u64),
    Flush(Option<usize>),
    Policy(Policy),
    Port { port: usize, id: Option<usize>, how: BridgePort },
    Up(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    let port = || 0..PORTS;
    let frame = (port(), 0..2usize, 0..8u8, 0..9u8);
    let how = (0..3u8, any::<[bool; 3]>()).prop_map(|(group, [learn, forward, flood])| BridgePort {
        group,
        learn,
        forward,
        flood,
        ..PORT
    });
    let policy = (any::<[bool; 4]>(), prop::sample::select(vec![0, 1, 3]));
    prop_oneof![
        12 => frame.prop_map(|(port, queue, src, dst)| Step::Frame { port, queue, src, dst }),
        2 => (1..25u64).prop_map(|tenths| Step::Pass(100 * tenths)),
        1 => prop::option::of(port()).prop_map(Step::Flush),
        1 => policy.prop_map(|([learn, forward, flood, unknown], age)| {
            Step::Policy(Policy { learn, forward, flood, unknown, age, ..POLICY })
        }),
        2 => (port(), prop::option::weighted(0.8, 0..2usize), how)
            .prop_map(|(port, id, how)| Step::Port { port, id, how }),
        1 => (port(), any::<bool>()).prop_map(|(port, up)| Step::Up(port, up)),
    ]
}

/// Returns the address with this number: of a station, or of a group.
fn address(n: u8) -> Mac {
    match n {
        8 => ALL,
        n => station(n),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Each frame leaves by the ports of a plain bridge, once.
    #[test]
    fn a_bridge_domain_is_a_bridge(steps in prop::collection::vec(step(), 1..80)) {
        let mut router = Bridged::new();
        let mut plain =
            Plain { ports: [None; PORTS], up: [true; PORTS], policy: POLICY, known: HashMap::new() };
        for port in 0..PORTS {
            router.join(port, DOMAINS[0], PORT);
            plain.ports[port] = Some((DOMAINS[0], PORT));
        }
        for step in steps {
            match step {
                Step::Frame { port, queue, src, dst } => {
                    let (src, dst) = (station(src), address(dst));
                    let expected = plain.frame(port, src, dst, router.lab.now / 1_000_000_000);
                    prop_assert_eq!(router.frame(port, queue, src, dst), expected, "{} to {}", src, dst);
                }
                Step::Pass(ms) => router.lab.pass(ms),
                Step::Flush(None) => {
                    router.bridges().flush(DOMAINS[0]);
                    plain.forget(|id, _| id == DOMAINS[0]);
                }
                Step::Flush(Some(port)) => {
                    let index = router.ports[port];
                    super::flush_port(&mut router.lab.router, index).unwrap();
                    plain.forget(|_, heard| heard.port == port);
                }
                Step::Policy(policy) => {
                    for id in DOMAINS {
                        super::set_domain(&mut router.lab.router, id, policy).unwrap();
                    }
                    // Entries that have been void do not return when the age grows.
                    let second = router.lab.now / 1_000_000_000;
                    let age = u64::from(plain.policy.age);
                    plain.known.retain(|_, heard| age == 0 || second - heard.second < age);
                    plain.policy = policy;
                }
                Step::Port { port, id, how } => {
                    let before = plain.ports[port].map(|(id, _)| id);
                    plain.ports[port] = id.map(|id| (DOMAINS[id], how));
                    match id {
                        Some(id) => router.join(port, DOMAINS[id], how),
                        None if before.is_some() => {
                            super::leave(&mut router.lab.router, router.ports[port]).unwrap();
                        }
                        None => {}
                    }
                    if before != plain.ports[port].map(|(id, _)| id) {
                        plain.forget(|_, heard| heard.port == port);
                    }
                }
                Step::Up(port, up) => {
                    let index = router.ports[port];
                    router.lab.router.set_admin(index, up).unwrap();
                    plain.up[port] = up;
                    if !up {
                        plain.forget(|_, heard| heard.port == port);
                    }
                    router.lab.run();
                    router.sent();
                }
            }
        }
    }
}

#[test]
fn configured_entries_stay_and_filter() {
    let mut router = Bridged::new();
    (0..PORTS).for_each(|port| router.join(port, 7, PORT));
    let index = router.ports[2];
    router.bridges().set_entry(7, station(1), Kind::Static, index).unwrap();
    router.bridges().set_entry(7, station(2), Kind::Filter, 0).unwrap();
    assert_eq!(router.frame(0, 0, station(5), station(1)), [2].into());
    // The station cannot move.
    assert_eq!(router.frame(3, 0, station(1), station(5)), [].into());
    assert_eq!(router.frame(2, 0, station(1), station(5)), [0].into());
    assert_eq!(router.frame(0, 0, station(2), station(1)), [].into());
    assert_eq!(router.frame(0, 0, station(5), station(2)), [].into());
    assert_eq!((router.dropped("static-moved"), router.dropped("filtered")), (1, 2));
    router.bridges().flush_all();
    assert_eq!(router.frame(0, 0, station(6), station(1)), [2].into(), "flushes forget learned ones only");
    assert!(router.bridges().remove_entry(7, station(1)) && !router.bridges().remove_entry(7, station(1)));
    assert_eq!(router.frame(0, 0, station(6), station(1)), [1, 2, 3, 4].into());
    for (src, dst) in [(ALL, station(1)), (Mac([0; 6]), station(1))] {
        assert_eq!(router.frame(0, 0, src, dst), [].into());
    }
    assert_eq!(router.frame(0, 0, station(6), Mac([1, 0x80, 0xc2, 0, 0, 0xe])), [].into());
    assert_eq!((router.dropped("bad-source"), router.dropped("reserved-group")), (2, 1));
}

/// A removed domain leaves no entries to the next domain with its index, and epochs that return revive none.
#[test]
fn nothing_returns_from_former_times() {
    let mut router = Bridged::new();
    (0..3).for_each(|port| router.join(port, 7, PORT));
    let learns = |router: &mut Bridged| router.frame(1, 0, station(1), ALL);
    let is_known = |router: &mut Bridged| router.frame(0, 0, station(9), station(1)) == [1].into();
    learns(&mut router);
    assert!(is_known(&mut router));
    for flushes in [255, 256, 257, 512] {
        learns(&mut router);
        for _ in 0..flushes {
            router.bridges().flush(7);
        }
        assert!(!is_known(&mut router), "{flushes}");
        learns(&mut router);
        let index = router.ports[1];
        for _ in 0..flushes {
            super::flush_port(&mut router.lab.router, index).unwrap();
        }
        assert!(!is_known(&mut router), "{flushes} of the port");
    }
    learns(&mut router);
    assert_eq!(router.known(7).len(), 2);
    for port in 0..3 {
        let index = router.ports[port];
        super::leave(&mut router.lab.router, index).unwrap();
    }
    super::remove_domain(&mut router.lab.router, 7).unwrap();
    // Its index is not free before its entries are gone.
    super::set_domain(&mut router.lab.router, 8, POLICY).unwrap();
    (0..3).for_each(|port| router.join(port, 8, PORT));
    assert!(!is_known(&mut router));
    router.lab.pass(30_000);
    assert_eq!(router.bridges().usage().0, router.known(8).len());
    assert_eq!(router.bridges().learned(8), router.known(8).len());
}

#[test]
fn the_learn_limit_holds_and_known_stations_stay() {
    let mut router = Bridged::new();
    super::set_domain(&mut router.lab.router, 7, Policy { limit: 3, age: 5, ..POLICY }).unwrap();
    (0..PORTS).for_each(|port| router.join(port, 7, PORT));
    for n in 0..200 {
        router.frame(usize::from(n) % PORTS, usize::from(n) % 2, station(n), ALL);
    }
    let first: Vec<Mac> = router.known(7).into_keys().collect();
    assert_eq!(first, [station(0), station(1), station(2)]);
    // A station that is heard keeps its place, although there is no room. A silent one loses it.
    for _ in 0..10 {
        router.lab.pass(1000);
        router.frame(0, 0, station(0), ALL);
        router.frame(1, 1, station(1), ALL);
    }
    assert_eq!(router.known(7).into_keys().collect::<Vec<_>>(), [station(0), station(1)]);
    router.lab.pass(4000);
    router.frame(0, 0, station(0), ALL);
    router.frame(1, 1, station(1), ALL);
    router.lab.pass(25_000);
    assert_eq!(router.bridges().learned(7), 0, "all are forgotten after some time");
}

/// The table grows in the middle of a pass, after a domain was removed. The next domain with its index has none of its entries.
#[test]
fn a_removed_domain_leaves_nothing_while_the_table_grows() {
    let mut router = Bridged::new();
    (0..3).for_each(|port| router.join(port, 7, PORT));
    for n in 0..100 {
        router.frame(1, 0, station(n), ALL);
    }
    router.lab.pass(5_000);
    for port in 0..3 {
        let index = router.ports[port];
        super::leave(&mut router.lab.router, index).unwrap();
    }
    super::remove_domain(&mut router.lab.router, 7).unwrap();
    let index = router.ports[4];
    router.join(4, DOMAINS[1], PORT);
    for n in 0..4_000u64 {
        let mac = Mac::from_u64(0x0200_0000_0000 + n);
        super::set_station(&mut router.lab.router, DOMAINS[1], mac, index).unwrap();
    }
    // The first domain has the first index. Once that is free again, no entry of it is left.
    assert!(!router.bridges().is_free(1));
    while !router.bridges().is_free(1) {
        router.lab.pass(100);
    }
    assert_eq!(router.bridges().usage().0, 4_000);
    super::set_domain(&mut router.lab.router, 7, POLICY).unwrap();
    (0..3).for_each(|port| router.join(port, 7, PORT));
    router.frame(1, 0, station(1), ALL);
    assert_eq!((router.bridges().learned(7), router.known(7).len()), (1, 1));
}
