//! Warnings about a plan of changes. Most of them depend on more than one object.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use net::ip::IpPrefix;
use net::router::Router;

use crate::intent::{Addresses, Branch, Interface, Key, Plan, Route, Via, View, is_connected};

/// Maximum number of next hops listed; the others are counted.
const MOST: usize = 10;

/// Returns a warning for each unreachable next hop in `paths`, the paths of a new route to `prefix`. A next hop is unreachable if no
/// connected network and no other route covers it. Next hops with an interface are not checked.
pub(crate) fn unreachable_paths(
    view: &View<'_>,
    table: u32,
    prefix: IpPrefix,
    paths: &[Branch],
) -> Vec<String> {
    let covered = |ip: IpAddr| {
        let most = IpPrefix::host(ip).len();
        let mut wider = (0..=most).rev().map(|len| IpPrefix::new(ip, len));
        wider.any(|wider| {
            is_connected(view, table, wider)
                || wider != prefix && view.get(&Route::key(table, wider)).is_some()
        })
    };
    let hops = paths.iter().filter_map(|path| match path.via {
        Via::NextHop(ip, None) => Some(ip),
        _ => None,
    });
    hops.filter(|ip| !covered(*ip)).map(|ip| unreachable(table, ip, prefix)).collect()
}

fn unreachable(table: u32, ip: IpAddr, prefix: IpPrefix) -> String {
    let at = if table == 0 { String::new() } else { format!(" in table {table}") };
    format!(
        "{ip}, the next hop of {prefix}{at}, is unreachable: no connected network and no other route covers it"
    )
}

/// Returns the warnings of [`unreachable_paths`] for all new and changed routes of a plan, but lists at most [`MOST`] next hops.
pub(super) fn unreachable_next_hops(plan: &Plan) -> Vec<String> {
    let mut hops: BTreeMap<(u32, IpAddr), IpPrefix> = BTreeMap::new();
    for edit in &plan.edits {
        let (Some((table, prefix)), Some(route)) =
            (edit.key.get::<Route>(), edit.new.as_ref().and_then(|new| new.get::<Route>()))
        else {
            continue;
        };
        for (via, _) in route.paths() {
            if let Via::NextHop(ip, None) = via {
                hops.entry((table, *ip)).or_insert(prefix);
            }
        }
    }
    if hops.is_empty() {
        return Vec::new();
    }
    let connected = connected(plan);
    hops.retain(|(table, ip), _| !connected.covers(*table, *ip, None));
    if !hops.is_empty() {
        // Only now are all routes searched, because this takes long.
        let routes = routes(plan);
        hops.retain(|(table, ip), prefix| !routes.covers(*table, *ip, Some(*prefix)));
    }
    let line = |((table, ip), prefix): (&(u32, IpAddr), &IpPrefix)| unreachable(*table, *ip, *prefix);
    let mut warnings: Vec<String> = hops.iter().take(MOST).map(line).collect();
    if let Some(more) = hops.len().checked_sub(MOST).filter(|more| *more > 0) {
        warnings.push(format!("{more} more next hops are unreachable"));
    }
    warnings
}

/// Prefixes of all VRFs, to find out which addresses they cover.
#[derive(Default)]
struct Prefixes {
    all: BTreeSet<(u32, IpPrefix)>,
    /// The existing prefix lengths, by family (true: IPv6).
    lengths: BTreeSet<(bool, u8)>,
}

impl Prefixes {
    fn add(&mut self, table: u32, prefix: IpPrefix) {
        self.lengths.insert((prefix.address().is_ipv6(), prefix.len()));
        self.all.insert((table, prefix));
    }

    /// True if a prefix other than `own` covers an address.
    fn covers(&self, table: u32, ip: IpAddr, own: Option<IpPrefix>) -> bool {
        let lengths = self.lengths.iter().filter(|(ip6, _)| *ip6 == ip.is_ipv6());
        let mut prefixes =
            lengths.map(|(_, len)| IpPrefix::new(ip, *len)).filter(|prefix| Some(*prefix) != own);
        prefixes.any(|prefix| self.all.contains(&(table, prefix)))
    }
}

/// Returns the connected networks after the plan.
fn connected(plan: &Plan) -> Prefixes {
    let (tree, mut networks) = (plan.after.tree(), Prefixes::default());
    for (key, value) in tree.range(Key::all::<Addresses>()) {
        let Some((name, addresses)) = key.get::<Addresses>().zip(value.get::<Addresses>()) else { continue };
        let keys = [Interface::key(&name), Interface::sub_key(&name)];
        let interface = keys.iter().find_map(|key| tree.get(key)?.get::<Interface>());
        let Some(table) = interface.map(|i| i.table) else { continue };
        addresses.0.iter().for_each(|address| networks.add(table, address.network()));
    }
    networks
}

/// Returns the destinations of all routes after the plan.
fn routes(plan: &Plan) -> Prefixes {
    let mut destinations = Prefixes::default();
    for (key, _) in plan.after.tree().range(Key::all::<Route>()) {
        if let Some((table, prefix)) = key.get::<Route>() {
            destinations.add(table, prefix);
        }
    }
    destinations
}

/// Returns warnings about missing receive queues or workers in an interface's configuration. They are no errors: the
/// queue or worker may exist later.
pub(super) fn missing_queues(name: &str, wanted: &Interface, router: &Router) -> Vec<String> {
    let Some(found) = router.interface_named(name).filter(|found| found.device.is_some()) else {
        return Vec::new();
    };
    let slots = router.tables().placement.slots();
    let queues = slots.iter().filter(|slot| slot.interface == found.index).count();
    let warning = |(queue, worker): (usize, Option<usize>)| {
        if queue >= queues {
            return Some(format!("{name} has no queue {queue} now"));
        }
        let missing = worker.filter(|worker| *worker >= router.workers())?;
        Some(format!(
            "worker {missing} does not exist now: until it does, another worker polls queue {queue} of {name}"
        ))
    };
    wanted.receive.queues.iter().map(|(queue, of)| (*queue, of.worker)).filter_map(warning).collect()
}

/// Returns the warnings of [`missing_queues`] for the changed `interfaces`, before the plan is executed. Leaves out the interfaces
/// whose devices the plan opens (`opened`): their queues are not known yet.
pub(super) fn queues_in_advance(
    plan: &Plan,
    interfaces: &[Key],
    opened: &[String],
    router: &Router,
) -> Vec<String> {
    let opened: BTreeSet<&String> = opened.iter().collect();
    let keeps = interfaces.iter().filter_map(|key| Interface::name_in(key).map(|name| (key, name)));
    let keeps = keeps.filter(|(_, name)| !opened.contains(name));
    let of = |(key, name): (&Key, String)| {
        let wanted = plan.after.tree().get(key)?.get::<Interface>()?;
        Some(missing_queues(&name, wanted, router))
    };
    keeps.filter_map(of).flatten().collect()
}

/// Returns those warnings of [`of_device`] that are already known before the plan is executed, for the devices that the plan opens.
/// `opened` are the names of the interfaces.
pub(super) fn of_devices_in_advance(plan: &Plan, opened: &[String]) -> Vec<String> {
    let of = |name: &String| {
        let interface = plan.after.tree().get(&Interface::key(name))?.get::<Interface>()?;
        interface.spec.backed()?.warning().map(|why| format!("{name}: {why}"))
    };
    opened.iter().filter_map(of).collect()
}

/// Returns a warning if the interface's device works, but not as well as it could.
pub(super) fn of_device(name: &str, router: &Router) -> Option<String> {
    let device = router.interface_named(name).and_then(|found| found.device.as_ref());
    device.and_then(|device| device.warning()).map(|why| format!("{name}: {why}"))
}

#[cfg(test)]
mod tests {
    use crate::commands::config_tests::file;
    use crate::testing::Cli;

    #[test]
    fn apply_warns_of_unreachable_next_hops_and_missing_queues() {
        let mut cli = Cli::new();
        let mut warnings = |text: &str| {
            let (_folder, path) = file("x.yaml", text);
            let warnings = |told: String| {
                told.lines().filter(|l| l.starts_with('!')).map(str::to_string).collect::<Vec<_>>()
            };
            let planned = warnings(cli.ok(&format!("config apply {path} dry-run")));
            let applied = warnings(cli.ok(&format!("config apply {path}")));
            assert_eq!(planned, applied);
            applied
        };
        let unreachable = |hop: &str, of: &str| {
            format!(
                "! {hop}, the next hop of {of}, is unreachable: no connected network and no other route covers it"
            )
        };
        let ports = "interfaces: { pg0: { addresses: [ 10.0.0.1/24, \"2001:db8::1/64\" ] }, pg1: { table: 7 } }\ntables: [ 7 ]\n";
        let routes = |routes: &str| format!("{ports}routes:\n{routes}");
        assert_eq!(warnings(&routes("  - { prefix: 20.0.0.0/8, via: 10.0.0.2 }\n")), [""; 0]);
        assert_eq!(
            warnings(&routes(
                "  - { prefix: 21.0.0.0/8, via: 10.0.1.2 }\n  - { prefix: 22.0.0.0/8, via: 22.0.0.1 }\n  - { prefix: 23.0.0.0/8, via: 10.0.0.2 }\n  \
               - { prefix: 24.0.0.0/8, via: 23.0.0.1 }\n  - { prefix: \"2001:db8:1::/48\", via: \"2001:db8:2::1\" }\n  \
               - { prefix: 25.0.0.0/8, table: 7, via: 10.0.0.2 }\n  - { prefix: 26.0.0.0/8, via: drop }\n"
            )),
            [
                unreachable("10.0.1.2", "21.0.0.0/8"),
                unreachable("22.0.0.1", "22.0.0.0/8"),
                unreachable("2001:db8:2::1", "2001:db8:1::/48"),
                unreachable("10.0.0.2", "25.0.0.0/8 in table 7"),
            ]
        );
        let many: String =
            (0..13).map(|n| format!("  - {{ prefix: 30.{n}.0.0/16, via: 40.0.0.{n} }}\n")).collect();
        let told = warnings(&routes(&many.replace("40.0.0.0 ", "40.0.0.99 ")));
        assert_eq!((told.len(), told[10].as_str()), (11, "! 3 more next hops are unreachable"));
        assert_eq!(
            warnings(
                "interfaces: { pg0: { receive: { queues: { 0: { worker: 5 }, 3: { mode: polling } } } }, pg1: {} }\n"
            ),
            [
                "! worker 5 does not exist now: until it does, another worker polls queue 0 of pg0",
                "! pg0 has no queue 3 now"
            ]
        );
    }

    /// Commands that add routes warn of next hops that are unreachable in the VRF of the route.
    #[test]
    fn commands_warn_of_unreachable_next_hops() {
        let mut cli = Cli::new();
        cli.ok("ip table add 7");
        cli.ok("set interface ip address pg0 2001:db8::1/64");
        for (line, hop) in [
            ("20.0.0.0/8 via 10.0.0.2", None),
            ("21.0.0.0/8 via 10.0.1.2", Some("10.0.1.2, the next hop of 21.0.0.0/8,")),
            ("22.0.0.0/8 via 22.0.0.1", Some("22.0.0.1, the next hop of 22.0.0.0/8,")),
            ("24.0.0.0/8 via 20.0.0.1", None),
            ("2001:db8:1::/48 via 2001:db8::2", None),
            ("2001:db8:1::/48 via 2001:db8:2::1", Some("2001:db8:2::1, the next hop of 2001:db8:1::/48,")),
            ("25.0.0.0/8 table 7 via 10.0.0.2", Some("10.0.0.2, the next hop of 25.0.0.0/8 in table 7,")),
            ("26.0.0.0/8 via 10.0.1.2 pg0", None),
            ("27.0.0.0/8 via drop", None),
        ] {
            let told = cli.ok(&format!("ip route add {line}"));
            let warning: Vec<&str> = told.lines().filter(|told| told.starts_with('!')).collect();
            match hop {
                None => assert_eq!(warning, [""; 0], "{line}"),
                Some(hop) => assert!(warning.len() == 1 && warning[0].contains(hop), "{line}: {told}"),
            }
        }
        assert!(!cli.ok("ip route del 21.0.0.0/8").contains('!'));
    }
}
