//! Routes over changing interfaces, compared with a plain model that computes everything from scratch.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr};

use infra::class_a::{Reader, SlotReader, WordReader, published, slots, words};
use infra::lpm::{Lpm, LpmLookup, NaiveLpm};
use infra::quiesce::Participant;
use proptest::prelude::*;

use super::*;
use crate::ip::path::Affected;
use crate::ip::path_list::Weighted;
use crate::ip::recursion::MAX_HOPS;

const INTERFACES: u32 = 3;

/// IPv4 and IPv6 test addresses made from 32 bits. In an IPv6 address they are the first 32 bits, and the rest is zero.
trait Small: Ip {
    fn small(bits: u32) -> Self;
    /// Returns the first 32 bits of the address.
    fn number(self) -> u32;

    fn of_bytes(bytes: [u8; 4]) -> Self {
        Self::small(u32::from_be_bytes(bytes))
    }
}

impl Small for Ipv4Addr {
    fn small(bits: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(bits)
    }

    fn number(self) -> u32 {
        self.to_bits()
    }
}

impl Small for Ipv6Addr {
    fn small(bits: u32) -> Ipv6Addr {
        Ipv6Addr::from_bits(u128::from(bits) << 96)
    }

    fn number(self) -> u32 {
        (self.to_bits() >> 96) as u32
    }
}

/// Interfaces, each up or down, with or without a connected network. Also counts the users of each adjacency.
#[derive(Clone)]
struct Links<A: Ip> {
    up: BTreeSet<u32>,
    networks: BTreeMap<u32, Prefix<A>>,
    users: HashMap<u32, i32>,
    asked: usize,
}

impl<A: Ip> Default for Links<A> {
    fn default() -> Self {
        Links { up: BTreeSet::new(), networks: BTreeMap::new(), users: HashMap::new(), asked: 0 }
    }
}

impl<A: Small> Links<A> {
    /// Resolves a path directly by the definition.
    fn meaning(&self, path: Path) -> Option<Object> {
        let usable = |i: &u32| self.up.contains(i);
        match path {
            Path::Attached(i) => usable(&i).then_some(Object::Glean(i)),
            Path::Via { next_hop, interface } => {
                let next_hop = A::of(next_hop)?;
                let on = |i: &u32| self.networks.get(i).is_some_and(|n| n.contains(next_hop));
                let out = interface.or_else(|| (0..INTERFACES).find(|i| usable(i) && on(i)));
                // One adjacency for each pair of interface and next hop.
                out.filter(usable).map(|i| Object::Adjacency(i << 16 | next_hop.number() & 0xffff))
            }
            path => path.constant(),
        }
    }

    /// Returns the change by which an interface affects paths: paths over the interface, and paths with a next hop in its network.
    fn affected(&self, interface: u32) -> Affected {
        let networks = self.networks.get(&interface).map(|n| Network::new(0, *n));
        Affected { interfaces: vec![interface], networks: networks.into_iter().collect() }
    }
}

impl<A: Small> Resolver for Links<A> {
    fn is_connected(&self, _: u16, address: IpAddr) -> bool {
        A::of(address).is_some_and(|a| self.networks.values().any(|n| n.contains(a)))
    }

    fn resolve(&mut self, _: u16, path: Path) -> Option<Object> {
        self.asked += 1;
        let object = self.meaning(path);
        if let Some(Object::Adjacency(index)) = object {
            *self.users.entry(index).or_default() += 1;
        }
        object
    }

    fn release(&mut self, object: Object) {
        if let Object::Adjacency(index) = object {
            *self.users.entry(index).or_default() -= 1;
        }
    }
}

/// Routes under test, with their tables and a model to compare with.
struct Lab<A: Ip> {
    routes: Routes<A>,
    links: Links<A>,
    participant: Participant,
    fibs: Reader<Fibs<A>>,
    objects: WordReader,
    balances: SlotReader<Buckets>,
    /// The model: all routes.
    model: BTreeMap<(Prefix<A>, Source), PathList>,
}

impl<A: Small> Lab<A> {
    fn new() -> Lab<A> {
        let domain = Domain::new();
        let (objects, object_reader) = words(&domain, 1 << 16).unwrap();
        let (balances, balance_reader) = slots(&domain, 1 << 10).unwrap();
        let (fibs, fib_reader) = published(&domain, Fibs::default());
        let special = A::SPECIAL.iter();
        Lab {
            routes: Routes::new(&domain, objects, balances, fibs).unwrap(),
            links: Links::default(),
            participant: domain.register(),
            fibs: fib_reader,
            objects: object_reader,
            balances: balance_reader,
            model: special
                .map(|(a, len, path)| ((Prefix::new(*a, *len), Source::SPECIAL), (*path).into()))
                .collect(),
        }
    }

    /// Returns the objects that workers use for packets to these addresses: several for an address whose flows are shared.
    fn forwarded(&mut self, to: &[A]) -> Vec<BTreeSet<u64>> {
        let section = self.participant.enter();
        let table = self.fibs.get(section.guard()).get(0).unwrap();
        let means = |word| match Object::from_word(word) {
            Object::Balance(at) => {
                let buckets = self.balances.get(section.guard(), at).unwrap();
                let words: BTreeSet<u64> = (0..256).map(|hash| buckets.word(hash << 24)).collect();
                assert_eq!(words, buckets.ways().iter().copied().collect());
                words
            }
            object => [object.to_word()].into(),
        };
        to.iter().map(|a| means(self.objects.get(table.lookup(a.to_bits())))).collect()
    }

    fn interface(&mut self, interface: u32, change: impl FnOnce(&mut Links<A>)) {
        let mut what = self.links.affected(interface);
        change(&mut self.links);
        what.networks.extend(self.links.affected(interface).networks);
        self.routes.resolve_again(what);
    }

    fn apply(&mut self, op: &Op<A>) {
        match *op {
            Op::Add(prefix, source, ref list) => {
                self.routes.add(0, prefix, source, list.clone(), &mut self.links).unwrap();
                self.model.insert((prefix, source), list.clone());
            }
            Op::Remove(prefix, source) => {
                let had = self.routes.remove(0, prefix, source, &mut self.links);
                assert_eq!(had.ok(), self.model.remove(&(prefix, source)));
            }
            Op::Flip(i) => self.interface(i, |links| {
                if !links.up.remove(&i) {
                    links.up.insert(i);
                }
            }),
            Op::Network(i, network) => {
                // Networks of interfaces do not overlap.
                if network.is_none_or(|n| !self.links.networks.values().any(|o| *o == n)) {
                    self.interface(i, |links| {
                        links.networks.remove(&i);
                        links.networks.extend(network.map(|n| (i, n)));
                    });
                }
            }
            Op::Settle(visits) => {
                self.routes.settle(visits, &mut self.links);
            }
        }
    }

    /// Returns a path's next hop if it has to be resolved through the routes.
    fn recursive(&self, path: Path) -> Option<A> {
        match path {
            Path::Via { next_hop, interface: None } if !self.links.is_connected(0, next_hop) => {
                A::of(next_hop)
            }
            _ => None,
        }
    }

    /// Resolves a path by the model, recursively if its next hop is resolved through the routes. `steps` is the number of routes followed
    /// so far.
    fn meaning(&self, path: Path, steps: usize) -> BTreeSet<u64> {
        let counts = |list: &PathList| {
            list.paths().any(|p| self.recursive(p).is_some() || self.links.meaning(p).is_some())
        };
        let Some(next_hop) = self.recursive(path) else {
            return self.links.meaning(path).iter().map(|object| object.to_word()).collect();
        };
        let covering = self.model.iter().filter(|((p, _), list)| p.contains(next_hop) && counts(list));
        let longest = covering.min_by_key(|((p, source), _)| (std::cmp::Reverse(p.len()), *source));
        // A walk of this many steps is in a loop or too long.
        let Some((_, list)) = longest.filter(|_| steps < MAX_HOPS) else { return BTreeSet::new() };
        let further = |path| match path {
            Path::Attached(i) => Some(Path::Via { next_hop: next_hop.into(), interface: Some(i) }),
            Path::Local | Path::Table(_) => None,
            path => Some(path),
        };
        list.paths().filter_map(further).flat_map(|path| self.meaning(path, steps + 1)).collect()
    }

    /// Returns the objects that the model expects for packets to these addresses.
    fn expected(&self, to: &[A]) -> Vec<BTreeSet<u64>> {
        let mut naive = NaiveLpm::new();
        let mut meanings = vec![nothing()];
        // The best source comes last and overwrites the others.
        for ((prefix, _), list) in self.model.iter().rev() {
            let meaning: BTreeSet<u64> = list.paths().flat_map(|path| self.meaning(path, 0)).collect();
            if !meaning.is_empty() {
                naive.insert(prefix.bits(), prefix.len(), meanings.len() as u32).unwrap();
                meanings.push(meaning);
            }
        }
        to.iter().map(|a| meanings[naive.lookup(a.to_bits()) as usize].clone()).collect()
    }
}

/// The expected result for an address without a route.
fn nothing() -> BTreeSet<u64> {
    [Object::from_word(0).to_word()].into()
}

#[derive(Clone, Debug)]
enum Op<A: Ip> {
    Add(Prefix<A>, Source, PathList),
    Remove(Prefix<A>, Source),
    Flip(u32),
    Network(u32, Option<Prefix<A>>),
    Settle(usize),
}

fn network<A: Small>() -> impl Strategy<Value = Prefix<A>> {
    (0u8..4).prop_map(|n| Prefix::new(A::of_bytes([10, n, 0, 0]), 16))
}

fn path<A: Small>() -> impl Strategy<Value = Path> {
    let far = [[20, 0, 0, 1], [20, 0, 0, 129], [20, 128, 0, 0], [240, 0, 0, 1], [30, 0, 0, 1]];
    let next_hop = prop_oneof![
        2 => (0u8..4, 1u8..4).prop_map(|(n, host)| A::of_bytes([10, n, 0, host])),
        // Destinations that routes may lead to, in chains and loops.
        1 => prop::sample::select(far.to_vec()).prop_map(A::of_bytes),
    ];
    prop_oneof![
        6 => (next_hop, prop::option::of(0..INTERFACES)).prop_map(|(hop, interface)| Path::Via { next_hop: hop.into(), interface }),
        2 => (0..INTERFACES).prop_map(Path::Attached),
        1 => Just(Path::Drop),
        1 => Just(Path::Local),
    ]
}

/// A list of one path or of several.
fn list<A: Small>() -> impl Strategy<Value = PathList> {
    let weighted = (path::<A>(), 1u8..4).prop_map(|(path, weight)| Weighted { path, weight });
    let several = prop::collection::vec(weighted, 2..4);
    prop_oneof![
        2 => path::<A>().prop_map(PathList::from),
        1 => several.prop_filter_map("they make no list", |paths| PathList::new(paths).ok()),
    ]
}

/// Prefixes of various lengths, many of which contain each other.
fn prefix<A: Small>() -> impl Strategy<Value = Prefix<A>> {
    let address = prop::sample::select(vec![
        [0u8, 0, 0, 0],
        [20, 0, 0, 0],
        [20, 0, 0, 129],
        [20, 128, 0, 0],
        [240, 0, 0, 1],
    ]);
    (address, prop::sample::select(vec![0, 1, 4, 8, 9, 16, 24, 25, 32]))
        .prop_map(|(a, len)| Prefix::new(A::of_bytes(a), len))
}

fn op<A: Small>() -> impl Strategy<Value = Op<A>> {
    let source = || prop::sample::select(vec![Source::INTERFACE, Source::NEIGHBOR, Source::STATIC]);
    prop_oneof![
        6 => (prefix(), source(), list::<A>()).prop_map(|(p, s, list)| Op::Add(p, s, list)),
        2 => (prefix(), source()).prop_map(|(p, s)| Op::Remove(p, s)),
        3 => (0..INTERFACES).prop_map(Op::Flip),
        2 => (0..INTERFACES, prop::option::of(network())).prop_map(|(i, n)| Op::Network(i, n)),
        2 => (0usize..4).prop_map(Op::Settle),
    ]
}

/// Executes the operations and compares the routes with the model.
fn compare<A: Small>(ops: &[Op<A>]) -> Result<(), TestCaseError> {
    let mut lab = Lab::<A>::new();
    let corners = |op: &Op<A>| match op {
        Op::Add(p, ..) => vec![p.address(), p.last()],
        _ => Vec::new(),
    };
    let to: Vec<A> = ops.iter().flat_map(corners).chain([A::small(u32::MAX), A::small(10 << 24)]).collect();
    for op in ops {
        let before = (!lab.routes.unsettled()).then(|| lab.expected(&to));
        lab.apply(op);
        // A change of routes drops no packet that had a route before and has one afterwards, settled or not.
        if let (Op::Add(..) | Op::Remove(..), Some(before)) = (op, before) {
            let now = lab.forwarded(&to);
            for ((before, now), after) in before.iter().zip(now).zip(lab.expected(&to)) {
                let goes = |words: &BTreeSet<u64>| {
                    words.iter().all(|word| {
                        matches!(Object::from_word(*word), Object::Adjacency(_) | Object::Glean(_))
                    })
                };
                prop_assert!(
                    !goes(before) || !goes(&after) || goes(&now),
                    "{op:?}: {before:?} {now:?} {after:?}"
                );
            }
        }
        // At any time, no packet uses an adjacency without a user.
        for index in lab.forwarded(&to).iter().flatten().filter_map(|word| Object::adjacency(*word)) {
            prop_assert!(lab.links.users.get(&index).is_some_and(|n| *n > 0), "{op:?}: {index}");
        }
        // The displayed state is right once all lists are resolved again, unless recursive paths have yet to
        // follow.
        let follow = lab.routes.asks()
            || lab.routes.unsettled()
                && lab.model.values().any(|l| l.paths().any(|p| lab.recursive(p).is_some()));
        for (address, expected) in to.iter().zip(lab.expected(&to)).filter(|_| !follow) {
            let found = lab.routes.lookup(0, *address);
            let ways = found.map(|(_, _, state)| state.ways.iter().map(|way| way.to_word()).collect());
            prop_assert_eq!(ways.unwrap_or_else(nothing), expected);
        }
        if !lab.routes.unsettled() {
            prop_assert_eq!(lab.forwarded(&to), lab.expected(&to), "{:?}", op);
        }
    }
    while lab.routes.settle(1, &mut lab.links) {}
    prop_assert_eq!(lab.forwarded(&to), lab.expected(&to));
    let shown: Vec<_> =
        lab.routes.iter(0).flat_map(|(p, s)| s.map(move |s| ((p, s.0), s.1.list.clone()))).collect();
    prop_assert_eq!(shown, lab.model.clone().into_iter().collect::<Vec<_>>());
    // Everything is released at the end.
    for (prefix, source) in lab.model.clone().into_keys() {
        lab.routes.remove(0, prefix, source, &mut lab.links).unwrap();
    }
    while lab.routes.settle(1, &mut lab.links) {}
    lab.routes.collect(&mut lab.links);
    prop_assert!(lab.routes.holding.is_empty());
    prop_assert!(!lab.routes.unsettled() && lab.links.users.values().all(|n| *n == 0));
    prop_assert_eq!(lab.forwarded(&to), vec![nothing(); to.len()]);
    lab.routes.collect(&mut lab.links);
    prop_assert_eq!((lab.routes.objects.len(), lab.routes.balances.len()), (1, 0));
    Ok(())
}

/// The interface is down; its network is added and then removed before any list is resolved again. While the network exists, recursive
/// paths must not follow the route to 240.0.0.0/4, whose next hop is in that network. A route via 240.0.0.1 that is added meanwhile must be
/// resolved again when the network is removed.
#[test]
fn routes_added_during_a_short_change_are_resolved_again() {
    let via =
        |hop: [u8; 4]| PathList::from(Path::Via { next_hop: Ipv4Addr::from(hop).into(), interface: None });
    let prefix = |a: [u8; 4], len| Prefix::new(Ipv4Addr::from(a), len);
    let ops = [
        Op::Add(prefix([240, 0, 0, 0], 4), Source::INTERFACE, via([10, 0, 0, 1])),
        Op::Add(prefix([0; 4], 1), Source::INTERFACE, via([10, 0, 0, 1])),
        Op::Network(0, Some(prefix([10, 0, 0, 0], 16))),
        Op::Add(prefix([0; 4], 1), Source::INTERFACE, via([240, 0, 0, 1])),
        Op::Network(0, None),
    ];
    compare(&ops).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn settled_routes_equal_a_simple_computation(ops in prop::collection::vec(op::<Ipv4Addr>(), 1..60)) {
        compare(&ops)?;
    }

    #[test]
    fn settled_ipv6_routes_equal_a_simple_computation(ops in prop::collection::vec(op::<Ipv6Addr>(), 1..60)) {
        compare(&ops)?;
    }
}

/// The immediate cost of an interface change does not grow with the number of routes or of unrelated paths.
#[test]
fn an_interface_change_resolves_only_its_own_paths() {
    let mut lab = Lab::<Ipv4Addr>::new();
    for i in 0..INTERFACES {
        let network = Prefix::new(Ipv4Addr::new(10, i as u8, 0, 0), 16);
        lab.interface(i, |links| links.up.extend([i]));
        lab.interface(i, |links| links.networks.extend([(i, network)]));
    }
    let hop = |net: u32, n: u32, interface| Path::Via {
        next_hop: Ipv4Addr::from_bits(0x0a00_0001 + (net << 16) + n).into(),
        interface,
    };
    let add = |lab: &mut Lab<Ipv4Addr>, n: u32, path| {
        let prefix = Prefix::new(Ipv4Addr::from_bits(0x1400_0000 + (n << 8)), 24);
        lab.routes.add(0, prefix, Source::STATIC, PathList::from(path), &mut lab.links).unwrap();
    };
    for n in 0..2000 {
        add(&mut lab, n, hop(0, n % 10, None));
        add(&mut lab, 2000 + n, hop(1, n, None));
        add(&mut lab, 4000 + n, hop(2, n, Some(2)));
    }
    let covering = Prefix::new(Ipv4Addr::new(20, 0, 0, 0), 8);
    lab.routes.add(0, covering, Source::STATIC, hop(1, 0, None).into(), &mut lab.links).unwrap();
    while lab.routes.settle(1, &mut lab.links) {}
    lab.links.asked = 0;
    lab.interface(0, |links| {
        links.up.remove(&0);
    });
    while lab.routes.ask_next(&mut lab.links).is_some() {}
    assert_eq!(lab.links.asked, 10);
    // All packets are dropped now. A route's packets take the shorter route once the route is visited, and a call visits no more routes
    // than requested.
    let to: Vec<Ipv4Addr> = (0..2000).map(|n| Ipv4Addr::from_bits(0x1400_0001 + (n << 8))).collect();
    assert_eq!(lab.forwarded(&to), vec![BTreeSet::from([Object::Unresolved.to_word()]); 2000]);
    let shorter = Object::Adjacency(1 << 16 | 1).to_word();
    let follow =
        |lab: &mut Lab<Ipv4Addr>| lab.forwarded(&to).iter().filter(|words| words.contains(&shorter)).count();
    assert!(lab.routes.settle(500, &mut lab.links));
    assert_eq!(follow(&mut lab), 500);
    while lab.routes.settle(500, &mut lab.links) {}
    assert_eq!(follow(&mut lab), 2000);
}

/// When an interface with many next hops changes, their paths are resolved in several steps. Lists that are not resolved again yet keep
/// their old resolution. Several changes in a row cause only one new resolution of each list.
#[test]
fn paths_of_an_interface_are_resolved_in_slices() {
    const HOPS: u32 = 1000;
    let mut lab = Lab::<Ipv4Addr>::new();
    lab.interface(0, |links| {
        links.up.insert(0);
        links.networks.insert(0, Prefix::new(Ipv4Addr::new(10, 0, 0, 0), 16));
    });
    while lab.routes.settle(1, &mut lab.links) {}
    for n in 0..HOPS {
        let prefix = Prefix::new(Ipv4Addr::from_bits(0x1400_0000 + (n << 8)), 24);
        // Every second path names the interface. Its list is found both by the interface and by the next hop.
        let interface = (n % 2 == 0).then_some(0);
        let path = Path::Via { next_hop: Ipv4Addr::from_bits(0x0a00_0001 + n).into(), interface };
        lab.routes.add(0, prefix, Source::STATIC, path.into(), &mut lab.links).unwrap();
    }
    lab.links.asked = 0;
    let to: Vec<Ipv4Addr> = (0..HOPS).map(|n| Ipv4Addr::from_bits(0x1400_0001 + (n << 8))).collect();
    for up in [false, true, false] {
        lab.interface(0, |links| {
            let _ = if up { links.up.insert(0) } else { links.up.remove(&0) };
        });
    }
    assert_eq!(lab.links.asked, 0);
    assert!(lab.routes.settle(3 * recursion::COST, &mut lab.links));
    assert_eq!(lab.links.asked, 3);
    let led = |lab: &mut Lab<Ipv4Addr>| {
        let words = lab.forwarded(&to).into_iter().flatten();
        let indices: Vec<u32> = words.filter_map(Object::adjacency).collect();
        assert!(indices.iter().all(|index| lab.links.users[index] == 1));
        indices.len()
    };
    assert_eq!(led(&mut lab), HOPS as usize - 3);
    let mut slices = 0;
    while lab.routes.asks() {
        let before = lab.links.asked;
        lab.routes.settle(40, &mut lab.links);
        assert!(lab.links.asked - before <= 40 / recursion::COST);
        slices += 1;
    }
    assert!(slices >= HOPS as usize * recursion::COST / 40, "{slices} slices");
    assert_eq!((lab.links.asked, led(&mut lab)), (HOPS as usize, 0));
}

/// A full table is reported as full, not as out of memory: otherwise an operator would add memory in vain.
#[test]
fn a_full_table_is_not_reported_as_out_of_memory() {
    for full in [LpmFull::Groups(7), LpmFull::Blocks, LpmFull::Leaf(0)] {
        assert!(matches!(RouteError::from(full), RouteError::Full(_)), "{full}");
    }
    let told = RouteError::from(LpmFull::Memory);
    assert!(matches!(told, RouteError::NoMemory(_)));
    assert!(told.to_string().contains("out of memory: "), "{told}");
}
