//! Tests with random configurations of all object types on the router's own graph. Shown commands give the same configuration again,
//! earlier configurations have no influence, and after a failure at any step nothing has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use drivers::{af_packet, af_xdp, pcap, tap};
use infra::lpm::LpmLookup;
use model::key::Need;
use net::ethernet::Tags;
use net::ip::{Address, Object, Path};
use net::router::Router;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::random::*;
use super::tests::{running, system};
use super::*;
use crate::app::Context;
use crate::cli::Call;
use crate::system::Spec;
use crate::testing::registry;

/// Returns the whole visible state of a router. References to interfaces, adjacencies and VRFs are by name or number, not by index.
pub(crate) fn state(s: &mut System) -> Vec<String> {
    while s.router.settle_routes() || s.router.waits_for_workers() {}
    let r = &s.router;
    let named = |index: u32| r.interface(index).map_or("nothing", |i| &i.name);
    let mut lines = Vec::new();
    for i in r.interfaces() {
        let (set, parent) = (
            (i.index, i.admin_up, i.mac, i.mtu, r.vrfs().table(i.fib), &i.addresses, i.tags),
            named(i.parent),
        );
        lines.push(format!("interface {} {set:?} on {parent}, usable: {}", i.name, r.usable(i.index)));
        lines.push(format!(
            "queues of {} {:?}, settings: {:?}",
            i.name,
            i.receive,
            s.abilities.catalog.shown(r, i.index)
        ));
        let own: Vec<_> = i.all_ip6().into_iter().map(|a| (a, i.standing(a.address))).collect();
        lines.push(format!("IPv6 on {}: {} {own:?}", i.name, i.ip6));
        lines.push(format!("{} answers for others: {}, uses {:?}", i.name, i.proxy, i.unnumbered.map(named)));
        let on = r.features(i.index).into_iter().flat_map(|(arc, f)| f.into_iter().map(move |f| (arc, f)));
        lines.extend(on.filter(|(_, f)| f.1).map(|(arc, f)| format!("feature {} {arc} {}", i.name, f.0)));
    }
    for slot in r.tables().placement.slots() {
        lines.push(format!("queue {} of {}: {:?}", slot.number, named(slot.interface), slot.attention()));
    }
    family::<Ipv4Addr>(r, &mut lines);
    family::<Ipv6Addr>(r, &mut lines);
    lines.extend(
        r.adjacencies().iter().map(|(_, a, _)| format!("adjacency {} {}", a.next_hop, named(a.interface))),
    );
    lines.extend(r.graph().punt_reasons().iter().map(|reason| format!("{} {}", reason.name, reason.rate())));
    lines.extend(s.abilities.catalog.variations().iter().map(|variation| (variation.state)(r)));
    lines.sort();
    lines
}

/// Adds the state of one address family.
fn family<A: OfFamily>(r: &Router, lines: &mut Vec<String>) {
    let named = |index: u32| r.interface(index).map_or("nothing", |i| &i.name);
    let path_by_name = |path: Path| match path {
        Path::Via { next_hop, interface } => format!("{next_hop} {:?}", interface.map(named)),
        Path::Attached(i) => format!("attached {}", named(i)),
        Path::Table(fib) => format!("table {}", r.vrfs().table(fib)),
        other => format!("{other:?}"),
    };
    let object_by_name = |object: Object| match object {
        Object::Adjacency(index) => {
            let a = r.adjacencies().get(index).expect("a path has its adjacency");
            format!("{} on {} {:?} {}", a.next_hop, named(a.interface), a.rewrite, a.mtu)
        }
        Object::Glean(i) => format!("glean {}", named(i)),
        Object::Table(fib) => format!("table {}", r.vrfs().table(fib)),
        other => format!("{other:?}"),
    };
    let mut participant = r.participant();
    let section = participant.enter();
    let fibs = r.tables().of::<A>().fibs.get(section.guard());
    for (t, fib) in r.vrfs().from(0) {
        let table = fibs.get(fib).expect("a VRF has a lookup table");
        lines.push(format!("{} table {t}", A::NAME));
        for (prefix, sources) in r.routes::<A>().iter(fib) {
            for (source, to) in sources {
                let paths: Vec<String> =
                    to.list.weighted().map(|w| format!("{} {}", path_by_name(w.path), w.weight)).collect();
                let objects: Vec<String> = match to.shares().map(|share| object_by_name(share.2)).collect() {
                    one if Vec::is_empty(&one) => to.resolved.map(object_by_name).into_iter().collect(),
                    several => several,
                };
                lines.push(format!("route {t} {prefix} {source:?} {paths:?} {objects:?}"));
            }
            // The workers' lookup agrees with the main thread's table.
            let taken = r.routes().lookup(fib, prefix.address());
            let leaf = taken.map_or(0, |(_, _, to)| to.object);
            assert_eq!(table.lookup(prefix.bits()), leaf, "{prefix} in table {t}");
        }
    }
    assert_eq!(fibs.0.iter().flatten().count(), r.vrfs().from(0).count());
    lines.extend(
        r.neighbors::<A>().map(|n| format!("neighbor {} {} {:?} {}", n.interface, n.ip, n.mac, n.state)),
    );
    lines.push(format!("{:?}", r.neighbor_config::<A>()));
}

fn dumped(store: &Store) -> Vec<String> {
    let indices = !in_order(store.tree());
    store.iter().flat_map(|(k, v)| v.dump(k, indices)).collect()
}

fn tree(store: &Store) -> Tree {
    store.tree().clone()
}

/// A change of the current tree.
#[derive(Clone, Debug)]
enum Op {
    Set(Key, Value),
    /// Removes one of the existing objects, with all dependents.
    Remove(prop::sample::Index),
}

/// Generates an operator's transactions: first interfaces and VRFs, then a few objects of any type at a time.
fn steps(most: usize) -> impl Strategy<Value = Vec<Vec<Op>>> {
    let set = |(key, value)| Op::Set(key, value);
    let op = prop_oneof![9 => object().prop_map(set), 1 => any::<prop::sample::Index>().prop_map(Op::Remove)];
    let tables = TABLES.map(|t| vec![Op::Set(Table::key(t), Table::default().into())]);
    let begin = prop::collection::vec(interface().prop_map(move |o| vec![set(o)]), 6..16);
    let then = prop::collection::vec(prop::collection::vec(op, 1..3), most / 2..most);
    (begin, then).prop_map(move |(begin, then)| tables.iter().cloned().chain(begin).chain(then).collect())
}

/// Returns a router after these steps. Checks that refused steps change nothing.
fn walked(steps: Vec<Vec<Op>>) -> Result<(System, Store), TestCaseError> {
    let (mut s, mut store) = (system(), Store::default());
    for step in steps {
        let shown = format!("{step:?}");
        let mut changes = Vec::new();
        for op in step {
            match op {
                Op::Set(key, value) => changes.push(Change::set(key, value)),
                Op::Remove(_) if store.iter().next().is_none() => {}
                Op::Remove(which) => {
                    let (key, _) = store.iter().nth(which.index(store.iter().count())).unwrap();
                    changes.extend(store.snapshot().with_dependents(key).into_iter().map(Change::remove));
                }
            }
        }
        let (before, had) = (state(&mut s), tree(&store));
        if let Err(e) = store.transact(&mut s, changes) {
            prop_assert!(!e.why.contains("taken back"), "{}: {}", shown, e);
            prop_assert_eq!(state(&mut s), before, "{}: {}", shown, e);
            prop_assert_eq!(tree(&store), had);
        }
    }
    Ok((s, store))
}

/// The random trees have enough objects for the tests below to be meaningful.
#[test]
fn random_trees_have_enough_objects_of_all_types() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut seen, mut subs) = (BTreeMap::new(), 0);
    for _ in 0..60 {
        let steps = steps(60).new_tree(&mut runner).unwrap().current();
        let (_, store) = walked(steps).unwrap();
        for (key, _) in store.iter() {
            *seen.entry(key.kind().name).or_insert(0) += 1;
            subs += usize::from(key.get::<Interface>().is_some_and(|(sub, _)| sub));
        }
    }
    let enough = [
        ("addresses", 20),
        ("dad", 5),
        ("feature", 15),
        ("interface", 60),
        ("memif-socket", 10),
        ("neighbor", 20),
        ("neighbor-bounds", 5),
        ("punt-rate", 5),
        ("reassembly", 5),
        ("route", 50),
        ("table", 20),
        ("unnumbered", 3),
    ];
    assert_eq!(seen.len(), enough.len(), "{seen:?}");
    assert!(
        subs >= 20 && enough.iter().all(|(kind, n)| seen[*kind] >= *n),
        "{seen:?}, {subs} sub-interfaces"
    );
}

/// Returns a router that got the tree in one transaction.
fn fresh(wanted: &Tree) -> Result<(System, Store), TestCaseError> {
    let (mut s, mut store) = (system(), Store::default());
    let all = store.diff(wanted);
    store.transact(&mut s, all).map_err(|e| TestCaseError::fail(format!("at once: {e}")))?;
    Ok((s, store))
}

/// Returns the error text for an interface that uses IPv6 with an MTU below 1280; `None` for other interfaces. An interface uses IPv6 if
/// `list` has an IPv6 address, or if `is_on`.
fn too_narrow(name: &str, interface: &Interface, list: &[Address], is_on: bool) -> Option<String> {
    let speaks = is_on || list.iter().any(|a| a.address.is_ipv6());
    let mtu = interface.mtu.filter(|mtu| *mtu < 1280 && speaks)?;
    Some(format!("the MTU of {name} is {mtu}, but IPv6 needs at least 1280"))
}

/// Returns all possible faults of an interface's addresses, found by visiting all objects.
fn plain_faults_of_addresses(interface: &str, list: &[Address], tree: &Tree) -> Vec<String> {
    let of = |name: &str| {
        let value = tree.get(&Interface::key(name)).or(tree.get(&Interface::sub_key(name)))?;
        value.get::<Interface>()
    };
    let Some(on) = of(interface) else {
        return vec![format!("there is no interface {interface}")];
    };
    let table = on.table;
    let mut faults: Vec<String> = too_narrow(interface, on, list, false).into_iter().collect();
    for (n, a) in list.iter().enumerate() {
        faults.extend(a.check().err().map(|e| e.0));
        if list[..n].iter().any(|b| a.address == b.address) {
            faults.push(format!("{interface} has the address {} already", a.address));
        }
        for (key, value) in tree {
            if let (Some(other), Some(Addresses(others))) = (key.get::<Addresses>(), value.get())
                && other != interface
                && of(&other).is_some_and(|o| o.table == table)
            {
                faults.extend(others.iter().filter_map(|b| {
                    let overlap = a.network().covers(b.network()) || b.network().covers(a.network());
                    let apart = !a.is_link_local() && !b.is_link_local();
                    (overlap && apart).then(|| match a.address == b.address {
                        true => format!("{other} has the address {} already", b.address),
                        false => format!(
                            "{a} on {interface} overlaps {b} on {other}: connected networks must not overlap"
                        ),
                    })
                }));
            }
            if let (Some((t, prefix)), Some(route)) = (key.get::<Route>(), value.get::<Route>()) {
                for (via, _) in route.paths() {
                    let Via::NextHop(ip, by) = via else { continue };
                    let t = by.as_ref().and_then(|i| of(i)).map_or(t, |i| i.table);
                    let same_link = !a.is_link_local() || by.as_deref() == Some(interface);
                    if *ip == a.address && t == table && same_link {
                        faults.push(format!(
                            "{ip} is the next hop of the route for {prefix}: remove the route first"
                        ));
                    }
                }
            }
            if let Some((_, ip)) = key.get::<Neighbor>().filter(|(on, _)| on == interface) {
                faults.extend(neighbor::apart(*a, ip, interface).err().map(|e| e.why));
            }
        }
    }
    faults
}

/// Returns the faults of an object that validation finds by searching for other objects. This function finds them by visiting all objects.
/// `None` for types whose validation does not search.
fn plain_faults(key: &Key, value: &Value, tree: &Tree) -> Option<Vec<String>> {
    let host_end = |i: &Interface| {
        let tap = i.spec.get::<tap::Config>().filter(|c| c.host_namespace.is_none())?;
        Some(tap.host_name.clone())
    };
    let recorded = |i: &Interface| i.spec.get::<pcap::Config>()?.record.clone();
    // The Linux interface in use, and true if by AF_XDP.
    let taken = |i: &Interface| match (i.spec.get::<af_packet::Config>(), i.spec.get::<af_xdp::Config>()) {
        (Some(c), _) => Some((c.name.clone(), false)),
        (_, Some(c)) => Some((c.name.clone(), true)),
        _ => None,
    };
    if let (Some(i), Some(Addresses(list))) = (key.get::<Addresses>(), value.get()) {
        return Some(plain_faults_of_addresses(&i, list, tree));
    }
    match (Interface::name_in(key), value.get::<Interface>(), key.get::<Route>(), value.get::<Route>()) {
        (Some(ref name), Some(i), ..) => {
            let others = tree
                .iter()
                .filter_map(|(key, value)| Some((Interface::name_in(key)?, value.get::<Interface>()?)));
            let clash = |(other, o): (String, &Interface)| {
                if other == *name {
                    return None;
                }
                if let (Spec::Sub { parent, takes, .. }, Spec::Sub { parent: p, takes: t, .. }) =
                    (&i.spec, &o.spec)
                    && (p, t) == (parent, takes)
                {
                    return Some(format!("{other} already receives packets with these tags ({takes})"));
                }
                if let (Some(mine), Some(theirs)) = (host_end(i), host_end(o))
                    && mine == theirs
                {
                    return Some(format!("{mine} is already the host's end of {other}"));
                }
                if let (Some(to), Some(taken)) = (recorded(i), recorded(o))
                    && to.file == taken.file
                {
                    return Some(format!("{other} already records to {}", to.file.display()));
                }
                let (mine, by_xdp) = taken(i)?;
                if host_end(o).as_ref() == Some(&mine) {
                    return Some(format!("{mine} is the host's end of {other}, the router's own tap"));
                }
                let in_the_other_way = taken(o) == Some((mine.clone(), !by_xdp));
                in_the_other_way.then(|| format!("{other} already uses the Linux interface {mine}"))
            };
            let narrow = too_narrow(name, i, list(tree.get(&Addresses::key(name))), i.ip6);
            Some(others.filter_map(clash).chain(narrow).collect())
        }
        (_, _, Some((t, prefix)), Some(route)) => {
            let of = |name: &String| {
                let value = tree.get(&Interface::key(name)).or(tree.get(&Interface::sub_key(name)))?;
                value.get::<Interface>().map(|i| i.table)
            };
            let says = |i: String| {
                format!("the next hop of {prefix} is the router's own address on {i}: use a neighbor's")
            };
            let mut faults = Vec::new();
            for (via, _) in route.paths() {
                let Via::NextHop(ip, by) = via else { continue };
                let t = by.as_ref().and_then(of).unwrap_or(t);
                faults.extend(tree.iter().filter_map(|(key, value)| {
                    let i = key.get::<Addresses>().filter(|i| of(i) == Some(t))?;
                    let same_link = |a: &Address| !a.is_link_local() || by.as_ref() == Some(&i);
                    list(Some(value)).iter().any(|a| a.address == *ip && same_link(a)).then(|| says(i))
                }));
            }
            Some(faults)
        }
        _ => None,
    }
}

/// True if a refusal is about the object's relation to other objects, according to the message `said`.
fn is_about_others(said: &str) -> bool {
    [
        "has the address",
        "overlaps",
        "is the next hop",
        "neighbor",
        "with these tags",
        "host's end",
        "records to",
        "already uses the Linux interface",
        "router's own address",
        "but IPv6 needs at least",
    ]
    .iter()
    .any(|part| said.contains(part))
}

/// Generates objects as [`object`] does, and also taps, capture devices and Linux interfaces that may conflict.
fn object_or_port() -> impl Strategy<Value = (Key, Value)> {
    let port = (0u8..3, 0u8..6, 0u32..2).prop_map(|(n, kind, table)| {
        // A VLAN of a port. Below, kind 5 is a Linux interface with the name of such a VLAN.
        if kind == 4 {
            let tags = Tags { outer_service: false, outer: 5, inner: None };
            let spec = Spec::Sub { parent: format!("xdp-eth{n}"), id: 5, takes: tags.into() };
            return (Interface::sub_key(&format!("xdp-eth{n}.5")), Interface::new(spec).into());
        }
        let (name, spec) = match kind {
            0 => (format!("tap{n}"), Spec::by(tap::Config::new(format!("eth{}", n / 2)))),
            1 => {
                let record = Some(pcap::Record { file: format!("/f{}", n / 2).into(), most: 1 });
                (format!("pcap{n}"), Spec::by(pcap::Config { record, ..pcap::Config::new(n.into()) }))
            }
            2 => (format!("host-eth{n}"), Spec::by(af_packet::Config::new(format!("eth{n}")))),
            5 => (format!("host-eth{n}.5"), Spec::by(af_packet::Config::new(format!("eth{n}.5")))),
            _ => (format!("xdp-eth{n}"), Spec::by(af_xdp::Config::new(format!("eth{n}")))),
        };
        (Interface::key(&name), Interface { table, ..Interface::new(spec) }.into())
    });
    prop_oneof![9 => object(), 1 => port]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// For any tree and change: validation by indexes refuses each object in which a search through all objects finds a fault. It reports
    /// no fault about other objects that this search does not find. The results of searches for dependents are the same, too.
    #[test]
    fn validation_by_indexes_finds_all_faults(
        tree in prop::collection::vec(object_or_port(), 0..60),
        changes in prop::collection::vec((object_or_port(), prop::bool::weighted(0.7)), 0..40),
        gone in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let tree: Tree = tree.into_iter().collect();
        let mut changed: BTreeMap<Key, Option<Value>> =
            changes.into_iter().map(|((k, v), set)| (k, set.then_some(v))).collect();
        let keys: Vec<Key> = tree.keys().cloned().collect();
        if !keys.is_empty() {
            changed.extend(gone.iter().map(|n| (n.get(&keys).clone(), None)));
        }
        let mut after = tree.clone();
        for (key, value) in &changed {
            match value {
                Some(value) => after.insert(key.clone(), value.clone()),
                None => after.remove(key),
            };
        }
        let s = system();
        let mut snapshot = Snapshot::of(tree);
        {
            let view = snapshot.view_with(&changed);
            for (key, value) in &after {
                let Some(plain) = plain_faults(key, value, &after) else { continue };
                match value.validate(key, &view, &s.abilities) {
                    Ok(()) => prop_assert!(plain.is_empty(), "{key:?}: {plain:?}"),
                    Err(e) => {
                        let found = |said: &str| plain.iter().any(|p| p == said) || !is_about_others(said);
                        prop_assert!(e.why.split("; ").all(found), "{key:?}: {e}, not {plain:?}");
                    }
                }
            }
            for need in after.keys().filter_map(Key::role) {
                let plain: BTreeSet<&Key> =
                    after.iter().filter(|(k, v)| v.needs_any(k, |n| *n == need)).map(|(k, _)| k).collect();
                let wanted = BTreeSet::from([need]);
                let found: BTreeSet<&Key> = view.needing(&wanted).map(|(k, _)| k).collect();
                prop_assert_eq!(found, plain, "{:?}", wanted);
            }
        }
        snapshot.take(changed);
        prop_assert!(snapshot.tree() == &after && snapshot.is_consistent());
        for key in after.keys() {
            let mut gone: BTreeSet<Need> = key.role().into_iter().collect();
            let mut plain = BTreeSet::from([key.clone()]);
            for (key, value) in &after {
                if value.needs_any(key, |need| gone.contains(need)) {
                    gone.extend(key.role());
                    plain.insert(key.clone());
                }
            }
            let found = snapshot.with_dependents(key);
            prop_assert_eq!(found.len(), plain.len());
            prop_assert_eq!(found.into_iter().collect::<BTreeSet<Key>>(), plain);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Many routes that are set together get the same paths as with one transaction for each route. The same routes are refused.
    #[test]
    fn routes_are_put_as_by_transactions(steps in steps(20), objects in prop::collection::vec(object(), 80)) {
        let routes: Vec<&(Key, Value)> = objects.iter().filter(|(key, _)| key.is::<Route>()).collect();
        let keys: Vec<Key> = routes.iter().map(|(key, _)| key.clone()).collect();
        for (_, value) in routes.iter().take(3) {
            let (mut s, mut store) = walked(steps.clone())?;
            let (mut slow_s, mut slow) = walked(steps.clone())?;
            let (mut at, mut refused, mut expected) = (0, Vec::new(), Vec::new());
            while at < keys.len() {
                let (n, why) = store.put(&mut s, &keys[at..], Some(value), |_, _| {});
                at += n;
                if let Some(why) = why {
                    refused.push((at, why));
                    at += 1;
                }
            }
            for (n, key) in keys.iter().enumerate() {
                if let Err(why) = slow.transact(&mut slow_s, vec![Change::set(key.clone(), value.clone())]) {
                    expected.push((n, why));
                }
            }
            prop_assert_eq!(refused, expected);
            prop_assert_eq!(state(&mut s), state(&mut slow_s));
            prop_assert!(store.tree() == slow.tree() && store.snapshot().is_consistent());
        }
    }

    /// The commands of `show config` give a new router the same configuration and the same state.
    #[test]
    fn dumped_commands_give_the_same_router(steps in steps(60)) {
        let (mut s, store) = walked(steps)?;
        let commands = Rc::new(registry());
        let mut again = Context::new(system());
        for line in dumped(&store) {
            let said = commands.run(&mut again, &line, Call::default());
            prop_assert!(said.is_ok(), "{}", said.err().map(|e| e.render()).unwrap_or_default());
        }
        prop_assert_eq!(dumped(&again.store), dumped(&store));
        prop_assert_eq!(tree(&again.store), tree(&store));
        prop_assert_eq!(state(&mut again.system), state(&mut s));
    }

    /// Applying the difference between two configurations gives the same state as a new router with the second one. Applying the difference
    /// in the other direction gives the state of the first one again.
    #[test]
    fn difference_leads_to_the_other_configuration(a in steps(60), b in steps(60)) {
        let (mut s, mut store) = walked(a)?;
        let (mut other, wanted) = walked(b)?;
        let (first, second) = (tree(&store), tree(&wanted));
        let before = state(&mut s);
        prop_assert_eq!(state(&mut fresh(&second)?.0), state(&mut other));
        for (to, expected) in [(&second, state(&mut other)), (&first, before)] {
            let changes = store.diff(to);
            let shown = format!("{changes:#?}");
            let done = store.transact(&mut s, changes);
            prop_assert!(done.is_ok(), "{}\n{}", done.unwrap_err(), shown);
            prop_assert_eq!(&tree(&store), to);
            prop_assert_eq!(state(&mut s), expected, "{}", shown);
            prop_assert!(store.diff(to).is_empty());
        }
    }

    /// Applying the difference between two configurations gives the right state, even while workers run.
    #[test]
    fn difference_applies_while_workers_run(a in steps(40), b in steps(40)) {
        let (mut s, mut store) = (running(), Store::default());
        for steps in [a, b] {
            let (mut other, wanted) = walked(steps)?;
            let changes = store.diff(&tree(&wanted));
            store.transact(&mut s, changes).map_err(|e| TestCaseError::fail(e.why))?;
            prop_assert_eq!(dumped(&store), dumped(&wanted));
            prop_assert_eq!(state(&mut s), state(&mut other));
        }
    }

    /// If any step of a transaction fails, the router and the tree are unchanged.
    #[test]
    fn failure_at_any_step_is_rolled_back(a in steps(60), b in steps(60)) {
        let (mut s, mut store) = walked(a)?;
        let (_, wanted) = walked(b)?;
        let (had, before) = (tree(&store), state(&mut s));
        let changes = store.diff(&tree(&wanted));
        for failing in 0.. {
            let mut step = 0;
            let done = store.transact_by(&mut s, changes.clone(), |what, system| {
                step += 1;
                if step > failing { refuse("out of luck") } else { what.run(system) }
            });
            let Err(e) = done else { break };
            prop_assert_eq!(e.why, "out of luck");
            prop_assert_eq!(tree(&store), had.clone());
            prop_assert_eq!(state(&mut s), before.clone(), "failing at step {}", failing);
        }
        prop_assert_eq!(tree(&store), tree(&wanted));
    }
}
