//! A router between links, and the rules that it must always keep.
//!
//! The router's workers share flows by handoff. A single thread runs the turns of all workers: one after the other when the world settles,
//! or those of one worker if the script says so, so that the other worker falls behind. The script also sets the time. So a script always
//! does the same, except for random numbers of the router: the seeds of its hashes and the jitter of its timers.
//!
//! Making a world takes longer than most scripts, so worlds are reused. At its end, a script takes everything down.
//! [`World::reset`] sets the world up again, and checks that it is as at first.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;

use buf::bpf::Program;
use buf::{Frame, TxCaps};
use control::system::Catalog;
use graph::{PuntReason, Worker};
use infra::lpm::LpmLookup;
use infra::quiesce::Participant;
use net::ethernet::{Match, Tags};
use net::feature::{Attached, Decisions};
use net::handoff::SHARDS;
use net::interface::Handoff;
use net::ip::{Address, IpPrefix, Packets, Path, PathList, Source, Weighted};
use net::router::{Parts, Receive, Routed, Router, Sizes};
use wire::Mac;

use crate::link::{Far, Line};
use crate::packet::Arriving;
use crate::question::{ANSWERING, Asked};
use crate::script::{Script, own, own6};
use crate::state::Configuration;
use crate::track;

pub const WORKERS: usize = 2;
/// Links: one with all offloads, one without any, one with checksums only, and one whose packets mostly go to another
/// VRF.
pub const LINKS: usize = 4;
pub const CAPS: [TxCaps; LINKS] = [
    TxCaps { gso: true, csum: true },
    TxCaps { gso: false, csum: false },
    TxCaps { gso: false, csum: true },
    TxCaps { gso: false, csum: false },
];
pub const MS: u64 = 1_000_000;
/// The tables are checked after this number of calls of [`World::settle`], if the router was changed.
const LOOK: usize = 8;

pub struct World {
    pub router: Router,
    pub catalog: Arc<Catalog>,
    /// For each setting of a feature: example values that an interface may have.
    pub examples: Rc<[Vec<Attached>]>,
    pub workers: Vec<Worker>,
    participant: Participant,
    pub links: Vec<Far>,
    pub now: u64,
    pub asked: Vec<Asked>,
    /// Number of IPv6 packets sent to stations that the router had resolved.
    pub reached6: u64,
    /// True if the router was changed since its tables were last checked.
    pub changed: bool,
    /// Number of times that the world has settled since its tables were last checked.
    settled: usize,
    /// Number of frames that had been sent outside the graph (`Router::sent_at_once`) when the script began.
    at_once: u64,
    /// The default limits of the neighbor tables.
    bounds: (net::neighbor::Config, net::neighbor::Config),
    /// The path by which packets follow the route to another destination (see [`track`]).
    elsewhere: Path,
    /// The state of the router after its first setup.
    fresh: Option<State>,
    /// True if packets with false offload words arrived: segments and checksums may then be wrong.
    pub lied: bool,
}

/// The features of an interface, by arc; true for those that are on.
type Features = Vec<(&'static str, Vec<(&'static str, bool)>)>;

/// The part of a router's state that must be the same after a reset as in a new world.
#[derive(Debug, PartialEq)]
struct State {
    configuration: Configuration,
    features: Vec<Features>,
    punt_rates: Vec<u32>,
    shards: Vec<usize>,
    varied: Vec<String>,
    taken: u64,
    buffers_used: usize,
}

pub fn device_name(link: usize) -> String {
    format!("d{link}")
}

pub fn device_mac(link: usize) -> Mac {
    Mac([2, 0, 0, 0, 0, link as u8])
}

/// The interfaces that are not devices.
pub const OTHERS: [(&str, Other); 7] = [
    ("d0.100", Other::SubInterface(0, Match::Tags(Tags { outer_service: false, outer: 100, inner: None }))),
    (
        "d1.200",
        Other::SubInterface(1, Match::Tags(Tags { outer_service: true, outer: 200, inner: Some(300) })),
    ),
    ("loop0", Other::Loopback),
    // This sub-interface takes all untagged frames from its device, so only scripts add it.
    ("d2.untagged", Other::SubInterface(2, Match::Untagged)),
    ("d0.default", Other::SubInterface(0, Match::Default)),
    ("d1.inner", Other::SubInterface(1, Match::AnyInner { outer_service: true, outer: 200 })),
    ("d1.outer", Other::SubInterface(1, Match::AnyOuter { outer_service: false })),
];

/// An interface that is not a device.
#[derive(Clone, Copy)]
pub enum Other {
    /// A sub-interface of this link's device.
    SubInterface(usize, Match),
    Loopback,
}

impl Decisions for Script<'_> {
    fn below(&mut self, n: usize) -> usize {
        Script::below(self, n)
    }

    fn address(&mut self) -> IpAddr {
        match Script::below(self, 4) {
            0 => own6(Script::below(self, LINKS)).into(),
            1 => self.address6().into(),
            _ => Script::address(self).into(),
        }
    }

    fn table(&mut self) -> u32 {
        self.pick(&[0, 0, 1, 2])
    }
}

impl World {
    /// Returns a router with an interface for each link, sub-interfaces, a loopback, two VRFs, neighbors and routes.
    pub fn new(buffers: usize) -> World {
        let sizes = Sizes { buffers, workers: WORKERS };
        let Parts { mut router, workers } = Router::build(track::install, &sizes).expect("a router");
        let (_, catalog) = volley::features::declared();
        catalog.make_examples(&mut router).expect("what features have examples of");
        let bounds = (router.neighbor_config::<Ipv4Addr>(), router.neighbor_config::<Ipv6Addr>());
        let mut w = World {
            participant: router.participant(),
            router,
            examples: catalog.examples().into(),
            catalog,
            workers,
            links: (0..LINKS).map(|_| Far::default()).collect(),
            now: 3_600_000 * MS,
            asked: Vec::new(),
            reached6: 0,
            changed: true,
            settled: 0,
            at_once: 0,
            bounds,
            elsewhere: Path::Drop,
            fresh: None,
            lied: false,
        };
        w.elsewhere = track::begin(&mut w.router);
        w.router.add_table(1).expect("a second VRF");
        // Addresses are usable at once.
        w.router.set_dad_transmits(0);
        w.set_up_all();
        w.fresh = Some(w.state());
        w
    }

    /// Sets the router up again after a script has [ended](Self::end), and checks that it is as in a new world.
    pub fn reset(&mut self) {
        // Long enough for all rates to recover.
        self.now += 3_600_000 * MS;
        self.asked.clear();
        (self.changed, self.lied, self.reached6) = (true, false, 0);
        self.router.set_neighbor_config::<Ipv4Addr>(self.bounds.0);
        self.router.set_neighbor_config::<Ipv6Addr>(self.bounds.1);
        self.router.graph().punt_reasons().iter().for_each(|r| r.set_rate(r.default_rate));
        for variation in self.catalog.variations() {
            (variation.vary)(&mut self.router, 0).expect("as at the start");
        }
        self.router.graph().tracer().clear();
        self.router.graph().stats().clear_runtime();
        self.router.graph().stats().clear_errors();
        for far in &self.links {
            *far.line() = Line::default();
        }
        self.at_once = self.router.sent_at_once();
        self.set_up_all();
        assert_eq!(Some(self.state()), self.fresh, "a used world is like a new one after a reset");
    }

    /// Adds interfaces and routes, and runs the workers until everything is in place.
    fn set_up_all(&mut self) {
        for n in 0..LINKS {
            self.router.prefer_index(Some(n as u32));
            self.add_device(n);
        }
        let at_start = |n: &usize| !matches!(OTHERS[*n].1, Other::SubInterface(_, Match::Untagged));
        for n in (0..OTHERS.len()).filter(at_start) {
            self.router.prefer_index(Some((LINKS + n) as u32));
            self.add_other(n);
        }
        for worker in 0..WORKERS {
            let own: Vec<usize> = (0..SHARDS).filter(|shard| shard % WORKERS == worker).collect();
            self.router.give_shards(&own, worker).expect("nothing is on its way");
        }
        self.exercise(None);
        let routes = [
            (0, "10.1.0.0/16", Path::Via { next_hop: Ipv4Addr::new(10, 0, 0, 2).into(), interface: None }),
            (0, "10.1.1.0/24", Path::Via { next_hop: Ipv4Addr::new(10, 0, 1, 3).into(), interface: None }),
            (0, "10.2.0.0/16", Path::Table(1)),
            (1, "10.2.1.0/24", Path::Table(0)),
            (1, "10.0.0.0/8", Path::Table(0)),
            (0, "10.2.3.0/24", self.elsewhere),
            (0, "2001:db8:2:3::/64", self.elsewhere),
            (0, "10.3.1.0/24", Path::Drop),
            (0, "10.3.2.0/24", Path::Unreachable),
            (0, "10.3.3.0/24", Path::Prohibit),
            (0, "2001:db8:1::/48", Path::Via { next_hop: host6(0).into(), interface: None }),
            (0, "2001:db8:1:1::/64", Path::Via { next_hop: next6(1, 3).into(), interface: None }),
            (0, "2001:db8:2::/48", Path::Table(1)),
            (1, "2001:db8::/32", Path::Table(0)),
            (0, "2001:db8:3:1::/64", Path::Drop),
            (0, "2001:db8:3:2::/64", Path::Unreachable),
            (0, "2001:db8:3:3::/64", Path::Prohibit),
        ];
        for (fib, prefix, path) in routes {
            let prefix = prefix.parse::<IpPrefix>().expect("a prefix");
            self.router.add_route(fib, prefix, path).expect("a route");
        }
        let ways = [[10, 0, 0, 2], [10, 0, 1, 3]]
            .map(|hop| Weighted { path: Path::Via { next_hop: hop.into(), interface: None }, weight: 1 });
        let shared = PathList::new(ways.to_vec()).expect("two paths");
        let prefix = "10.3.0.0/24".parse::<IpPrefix>().expect("a prefix");
        self.router.add_route(0, prefix, shared).expect("a route");
        self.settle();
    }

    /// Returns the configuration, which a refused change must leave as it is.
    pub fn configuration(&self) -> Configuration {
        Configuration::of(&self.router, &self.catalog)
    }

    /// Returns all state that a script may have changed.
    fn state(&self) -> State {
        let r = &self.router;
        State {
            configuration: self.configuration(),
            features: r.interfaces().map(|i| r.features(i.index)).collect(),
            punt_rates: r.graph().punt_reasons().iter().map(|reason| reason.rate()).collect(),
            shards: r.shards().workers().collect(),
            varied: self.catalog.variations().iter().map(|v| (v.state)(r)).collect(),
            taken: self.links.iter().map(|far| far.line().taken).sum(),
            buffers_used: r.pool().stats().used,
        }
    }

    /// Adds the interface of a link with its device, unless the interface exists.
    pub fn add_device(&mut self, n: usize) {
        let far = self.links[n].clone();
        let device = far.device(device_mac(n), 1500, CAPS[n]);
        let Ok(index) = self.router.add_absent_device(&device_name(n), device_mac(n), 1500) else { return };
        if n == 0 {
            // Its flows are spread over the workers.
            let receive = Receive { handoff: Handoff::On, ..Receive::default() };
            self.router
                .set_receive(index, receive)
                .expect("there is no queue yet that would have to stand still");
        }
        self.router.attach_device(index, device).expect("a device can be attached");
        if n == 3 {
            self.router.set_table(index, 1).expect("a new interface may go to another VRF");
        }
        // Some settings of features are on from the start, so that scripts need not find them.
        for of_setting in self.examples.iter().skip(n).step_by(LINKS) {
            let example = of_setting.last().expect("a setting has examples");
            example.apply(&Attached::default(), &mut self.router, index).expect("it is there");
        }
        self.set_up(index, n);
    }

    /// Adds one of the interfaces that are not devices, if its parent exists.
    pub fn add_other(&mut self, n: usize) {
        let (name, other) = OTHERS[n];
        let index = match other {
            Other::SubInterface(link, takes) => {
                let Some(parent) = self.router.interface_named(&device_name(link)) else { return };
                let parent = parent.index;
                self.router.add_subinterface(name, parent, takes)
            }
            Other::Loopback => self.router.add_loopback(name, Mac([2, 0, 0, 0, 0, 0xff])),
        };
        if let Ok(index) = index {
            self.set_up(index, LINKS + n);
        }
    }

    /// Sets an interface up with network `n` and one host on it. The router refuses the addresses if a script gave
    /// that network to another interface.
    fn set_up(&mut self, index: u32, n: usize) {
        let _ = self.router.set_admin(index, true);
        let _ = self.router.add_address(index, Address::new(own(n), 24));
        let host = Ipv4Addr::new(10, 0, n as u8, 2);
        let _ = self.router.add_neighbor(index, host, Mac([2, 0, 0, 0, 1, n as u8]), true);
        let _ = self.router.add_address(index, Address::new(own6(n), 64));
        let _ = self.router.add_neighbor(index, host6(n), Mac([2, 0, 0, 0, 1, n as u8]), true);
    }

    /// Starts the features that are not enabled by a setting, such as captures. They process packets that match `filter`; without a filter,
    /// all packets.
    pub fn exercise(&mut self, filter: Option<&Program>) {
        for exercise in self.catalog.exercises() {
            (exercise.begin)(&mut self.router, filter.cloned());
        }
    }

    /// Performs random actions of features that an operator would start by commands, such as pings.
    pub fn act(&mut self, s: &mut Script<'_>) {
        for exercise in self.catalog.exercises() {
            (exercise.act)(&mut self.router, s);
        }
    }

    /// Runs one turn of each worker. Returns the number of packets received.
    pub fn turn(&mut self) -> usize {
        (0..WORKERS).map(|worker| self.turn_of(worker)).sum()
    }

    /// Runs one turn of a worker. Returns the number of packets received.
    pub fn turn_of(&mut self, worker: usize) -> usize {
        let section = self.participant.enter();
        let came = self.workers[worker].turn_at(section.guard(), self.now);
        drop(section);
        for n in 0..LINKS {
            let sent = std::mem::take(&mut self.links[n].line().sent);
            for packet in sent {
                self.check_sent(n, &packet);
            }
        }
        for exercise in self.catalog.exercises() {
            (exercise.look)(&mut self.router).expect("what a feature has is right");
        }
        came
    }

    /// Runs the workers and the main thread until all work is done, but for at most four rounds.
    pub fn settle(&mut self) {
        for _ in 0..4 {
            let came = self.turn();
            if !self.router.poll(self.now) && came == 0 {
                break;
            }
        }
        self.settled += 1;
        if self.changed && self.settled >= LOOK {
            self.check_tables();
        }
    }

    /// Records an ARP request or a neighbor solicitation of the router. Some hosts answer at once, others when the script says so.
    pub fn ask(&mut self, asked: Asked) {
        // A learned neighbor becomes a route.
        self.changed = true;
        if asked.is_answered_at_once() {
            let bytes = asked.answer(ANSWERING);
            self.links[asked.link].line().arriving[0].push_back(Arriving { bytes, ..Arriving::default() });
        }
        self.asked.push(asked);
    }

    /// Checks that the workers' IPv4 tables agree with the main thread's.
    fn check_tables(&mut self) {
        (self.changed, self.settled) = (false, 0);
        let section = self.participant.enter();
        let fibs = self.router.tables().ip4.fibs.get(section.guard());
        for fib in self.router.routes::<Ipv4Addr>().tables() {
            let table = fibs.0.get(usize::from(fib)).and_then(Option::as_ref).expect("a VRF has a table");
            let ends = self.router.routes::<Ipv4Addr>().iter(fib).flat_map(|(p, _)| [p.address(), p.last()]);
            let near = ends.flat_map(|a| [a, Ipv4Addr::from_bits(a.to_bits().wrapping_add(1))]);
            for address in near.chain([Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST]) {
                let said = self.router.routes::<Ipv4Addr>().lookup(fib, address);
                let found = table.lookup(address.to_bits());
                assert_eq!(found, said.map_or(0, |s| s.2.object), "{address} in table {fib}: {said:?}");
            }
        }
    }

    /// Lets all waiting packets expire, checks that counters agree, takes everything down, and checks that nothing is
    /// left.
    pub fn end(&mut self) {
        for far in &self.links {
            far.line().room = usize::MAX;
        }
        // Fragments wait for a minute at most. A next hop is requested for a few seconds, and the resulting report
        // may wait for another one. Without waiting packets, a few seconds are enough.
        for second in 0..90 {
            self.now += 1000 * MS;
            let came = self.turn();
            self.router.poll(self.now);
            if second >= 2 && came == 0 && self.router.pool().stats().used == 0 {
                break;
            }
        }
        self.sweep();
        self.settle();
        self.check_tables();
        self.check_buffers("when all has expired");
        self.check_counters();
        self.describe_traces();

        let indexes: Vec<u32> =
            self.router.interfaces().filter(|i| i.parent == i.index).map(|i| i.index).collect();
        for index in indexes {
            self.router.remove_interface(index).expect("an interface can be removed");
        }
        self.remove_routes::<Ipv4Addr>();
        self.remove_routes::<Ipv6Addr>();
        self.settle();
        assert_eq!(self.router.adjacencies().iter().count(), 0, "an adjacency that nobody uses");
        assert_eq!(self.router.neighbors::<Ipv4Addr>().count(), 0, "a neighbor without an interface");
        assert_eq!(self.router.neighbors::<Ipv6Addr>().count(), 0, "a neighbor without an interface");
        self.check_buffers("when all was removed");
    }

    /// Makes the nodes that hold packets for unknown next hops drop the expired packets. If a rate limit has suppressed the request for a
    /// next hop, the packet would otherwise stay in its node until the next packet reaches the node.
    fn sweep(&mut self) {
        for name in [Ipv4Addr::NODES.resolve, Ipv6Addr::NODES.resolve] {
            let node = self.router.graph().node(name).expect("the node is there");
            for worker in &mut self.workers {
                let section = self.participant.enter();
                worker.feed(section.guard(), self.now, node, &mut Frame::new());
            }
        }
    }

    /// Removes the static routes of a family, and checks that only special ones are left.
    fn remove_routes<A: Routed>(&mut self) {
        for fib in [0, 1] {
            let routes = self.router.routes::<A>().iter(fib);
            let left: Vec<_> = routes
                .flat_map(|(p, all)| all.map(move |(source, to)| (p, source, to.list.clone())))
                .collect();
            for (prefix, source, list) in left {
                match source {
                    Source::STATIC => assert_eq!(self.router.remove_route(fib, prefix), Ok(list)),
                    Source::SPECIAL => {}
                    _ => panic!("{prefix} in table {fib} has no cause: {source:?} {list:?}"),
                }
            }
        }
    }

    fn check_buffers(&self, when: &str) {
        let stats = self.router.pool().stats();
        assert_eq!(stats.lost, 0, "packets were lost {when}: {stats:?}");
        let dropped = self.router.graph().stats().dropped();
        let dropped: Vec<_> =
            dropped.iter().filter(|d| d.packets > 0).map(|d| (d.node, d.reason.name, d.packets)).collect();
        assert_eq!(stats.used, 0, "buffers are still in use {when}: {stats:?}\n{dropped:?}");
    }

    /// Returns the number of packets that each node received.
    pub fn nodes(&self) -> BTreeMap<&'static str, u64> {
        self.router.graph().stats().runtime(None).iter().map(|n| (n.name, n.packets)).collect()
    }

    /// Returns the numbers of packets passed to the main thread, and of packets dropped because they exceeded their rate, by punt reason.
    pub fn punted(&self) -> BTreeMap<&'static str, [u64; 2]> {
        let reasons = self.router.graph().punt_reasons().iter().zip(0..);
        reasons.map(|(info, n)| (info.name, self.router.graph().stats().punted(PuntReason(n)))).collect()
    }

    /// Checks that counters agree: those of the first nodes with the received packets, those of the last nodes with the sent, dropped and
    /// punted packets.
    fn check_counters(&self) {
        let stats = self.router.graph().stats();
        let nodes = self.nodes();
        let dropped = stats.dropped();
        let drops = |node: &str| -> u64 {
            dropped.iter().filter(|d| d.reason.drops && d.node == node).map(|d| d.packets).sum()
        };
        let (taken, sent) = self.links.iter().fold((0, 0), |(t, s), far| {
            let line = far.line();
            (t + line.taken, s + line.sent_count)
        });
        assert_eq!(nodes["pg-input"], taken, "packets that came in");
        // Frames of a bridge domain come in once more, to the domain's own interface.
        assert!(nodes["ethernet-input"] >= taken, "{} of {taken} packets", nodes["ethernet-input"]);
        let of = |node: &str| nodes.get(node).copied().unwrap_or(0);
        let onward = nodes["ip4-input"] + nodes["ip6-input"] + nodes["arp-input"] + drops("ethernet-input");
        let onward = onward + stats.dropped_for("ethernet-input", "group-ethertype").unwrap_or(0);
        // The frames of ports in a mode.
        let onward = onward + of("l2-xconnect") + of("l2-bridge") - of("l2-bvi");
        assert_eq!(nodes["ethernet-input"], onward);
        // The last packets of an interface that goes down are sent outside the graph, and no node counts them.
        let by_nodes = sent - (self.router.sent_at_once() - self.at_once);
        let out = by_nodes + drops("interface-tx") + of("l2-bvi");
        assert_eq!(nodes["interface-tx"], out, "packets that went out");
        let of_nodes = |d: &&graph::stats::Dropped| d.reason.drops && d.node != graph::stats::MAIN_THREAD;
        let all: u64 = dropped.iter().filter(of_nodes).map(|d| d.packets).sum();
        assert_eq!(nodes["error-drop"], all, "each dropped packet has one reason");
        assert_eq!(nodes["drop"], all);
        assert_eq!(nodes["punt"], nodes["error-punt"]);
        let punted: u64 = self.punted().into_values().flatten().sum();
        assert_eq!(nodes["punt"], punted, "each punted packet has a reason");
    }

    /// Checks that every traced packet can be described.
    fn describe_traces(&self) {
        let tracer = self.router.graph().tracer();
        for entry in tracer.entries() {
            // A node may add nothing to its name; otherwise it adds whole lines.
            let text = tracer.describe(&entry);
            assert!(text.is_empty() || text.ends_with('\n'), "{}: {text}", tracer.node_name(entry.node));
        }
    }

    /// Returns the description of all traced packets, for a failed run.
    pub fn trace(&self) -> String {
        let tracer = self.router.graph().tracer();
        tracer.entries().iter().map(|e| tracer.describe(e)).collect()
    }
}

/// Returns the address of the host of network `n` that the router knows from the start.
fn host6(n: usize) -> Ipv6Addr {
    next6(n, 2)
}

/// Returns the address of the host with number `host` in network `n`.
fn next6(n: usize, host: u128) -> Ipv6Addr {
    Ipv6Addr::from_bits(own6(n).to_bits() - 1 + host)
}
