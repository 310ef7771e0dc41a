//! Routes and adjacencies.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use infra::lpm::Address as _;
use infra::mem::Room;
use net::ip::{Address, Ip, Object, Path, PathList, PathState, Prefix, Routes, Trail, Weighted};
use serde::Serialize;

use super::path::PathFields;
use super::table::table_of;
use crate::app::{Context, Output};
use crate::cli::{Args, CliError, Merge, PAGE, Registry, Rows, Table};
use crate::intent::{Family, OfFamily};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    family::<Ipv4Addr>(r);
    family::<Ipv6Addr>(r);
    r.add(
        "show ip route-memory",
        "Show the memory of lookup tables and routes of both families, its limit, and the number of refused routes.",
        memory,
    );
    r.add("show adjacency [<index:u32>]", "Show adjacencies with their counters.", adjacencies);
}

/// Declares the commands of an address family.
fn family<A: OfFamily>(r: &mut Registry<Context>) {
    let (noun, prefix) = (A::FAMILY.noun(), A::FAMILY.prefix());
    // Operators know a VRF by its number or name only, so "index" is the same as "table".
    let fib = format!("show {noun} fib [table/index <table:table>]");
    r.add(
        &format!("{fib} [<prefix:{prefix}>]"),
        "Show all routes, the route of a prefix, or the route to an address.",
        show::<A>,
    );
    r.add(
        &format!("{fib} <prefix:{prefix}> longer-prefixes"),
        "Show the routes for a prefix and for all prefixes within it.",
        show::<A>,
    );
    r.add(&format!("{fib} summary"), "Count routes by prefix length.", summary::<A>);
}

#[derive(Serialize)]
struct Route {
    prefix: String,
    /// The interface of a link-local prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    installed: bool,
    sources: Vec<RouteSource>,
}

#[derive(Clone, Serialize)]
struct RouteSource {
    source: &'static str,
    /// The administrative distance: of the resolved sources, the one with the lowest distance is used.
    distance: u8,
    /// The paths with their weights, joined by "and".
    path: String,
    /// The paths as fields.
    paths: Vec<PathFields>,
    resolved: bool,
    /// The further next hops of a recursive lookup, in order, without the route's own next hop.
    through: Vec<IpAddr>,
    /// Why recursive lookups of some paths fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The distribution of flows over several paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ways: Vec<Share>,
}

#[derive(Clone, Serialize)]
struct Share {
    path: String,
    /// The share of all flows, in 256ths.
    parts: usize,
}

pub(super) fn interface_name(c: &Context, index: u32) -> String {
    c.system.router.interface(index).map_or_else(|_| format!("interface {index}"), |i| i.name.clone())
}

/// Separates a link-local prefix from the interface that the routing tables encode in its bits (see
/// [`Packets::scoped`](net::ip::Packets::scoped)). Returns the plain prefix, and the index of the interface, if there is one.
fn on_link<A: OfFamily>(prefix: Prefix<A>) -> (Prefix<A>, Option<u32>) {
    let (bits, link) = A::unscoped(prefix.bits());
    (Prefix::new(A::from_bits(bits), prefix.len()), link)
}

fn target_text<A: OfFamily>(c: &Context, path: Path) -> String {
    let word = A::FAMILY.word();
    match path {
        Path::Via { next_hop, interface: Some(i) } => format!("via {next_hop} {}", interface_name(c, i)),
        Path::Via { next_hop, interface: None } => format!("via {next_hop}"),
        Path::Attached(i) => format!("{word}-glean: {}", interface_name(c, i)),
        Path::Local => "dpo-receive".into(),
        Path::Drop => format!("dpo-drop {word}"),
        Path::Unreachable => "unreachable".into(),
        Path::Prohibit => "prohibit".into(),
        Path::Feature(kind, index) => c.system.router.forwarding_text(kind, index),
        Path::LinkLocal => {
            format!("{word}-link-local: lookup in the link-local routes of the packet's interface")
        }
        Path::Table(fib) => format!("lookup in {word} table {}", c.system.router.vrfs().table(fib)),
    }
}

/// Returns the steps of a next hop's recursive lookup, such as ` → 10.0.0.2 host-eth0`: further next hops, and the path at the end
/// if there is only one. `leaves_by` is the interface that the packets leave by, if known.
fn trail_text<A: OfFamily>(c: &Context, trail: &Trail, leaves_by: Option<u32>) -> String {
    let mut text: String = trail.hops.iter().skip(1).map(|hop| format!(" → {hop}")).collect();
    match trail.ends[..] {
        [(Path::Via { next_hop, interface: Some(i) }, _)] => {
            // The last next hop is the neighbor if it is on a connected network.
            let neighbor =
                if trail.hops.last() == Some(&next_hop) { String::new() } else { format!("{next_hop} ") };
            let _ = write!(text, " → {neighbor}{}", interface_name(c, i));
        }
        [(Path::Via { .. }, _)] => {
            text.extend(leaves_by.map(|i| format!(" {}", interface_name(c, i))));
        }
        [(other, _)] => {
            let _ = write!(text, " → {}", target_text::<A>(c, other));
        }
        _ => {}
    }
    text
}

/// Returns an object's adjacency, such as ` [adj 3: host-eth0 mtu:1500 …]`; empty if it has none.
fn adjacency_text(c: &Context, object: Option<Object>) -> String {
    let mut text = String::new();
    if let Some(Object::Adjacency(index)) = object
        && let Some(adj) = c.system.router.adjacencies().get(index)
    {
        let name = interface_name(c, adj.interface);
        let _ = write!(text, " [adj {index}: {name} mtu:{} ", adj.mtu);
        match &adj.rewrite {
            Some(r) => {
                for b in r.bytes() {
                    let _ = write!(text, "{b:02x}");
                }
            }
            None => {
                let family = Family::of(adj.next_hop).name().to_lowercase();
                let _ = write!(text, "arp-{family} (incomplete)");
            }
        }
        text.push(']');
    }
    text
}

fn list_text<A: OfFamily>(c: &Context, to: &PathState) -> String {
    let PathList::One(path) = to.list else {
        let branch = |w: Weighted| match w.weight {
            1 => target_text::<A>(c, w.path),
            weight => format!("{} weight {weight}", target_text::<A>(c, w.path)),
        };
        return to.list.weighted().map(branch).collect::<Vec<_>>().join(" and ");
    };
    let mut text = target_text::<A>(c, path);
    let adjacency = if let Some(Object::Adjacency(index)) = to.resolved { Some(index) } else { None };
    if let Some(trail) = &to.trail {
        let leaves_by = adjacency.and_then(|index| c.system.router.adjacencies().get(index));
        text += &trail_text::<A>(c, trail, leaves_by.map(|a| a.interface));
    }
    text + &adjacency_text(c, to.resolved)
}

/// Formats routes as rows. Many routes share their paths, so the formatted paths of the last route are cached. The cache is valid
/// only until a route changes.
struct Reader<'c, A> {
    context: &'c Context,
    fib: u16,
    last: Option<(u32, RouteSource)>,
    family: PhantomData<A>,
}

impl<A: OfFamily> Reader<'_, A> {
    fn new(context: &Context, fib: u16) -> Reader<'_, A> {
        Reader { context, fib, last: None, family: PhantomData }
    }

    /// Returns the routes of all sources for a prefix; `None` if there are none.
    fn route(&mut self, prefix: Prefix<A>) -> Option<Route> {
        let sources = self.context.system.router.routes::<A>().exact(self.fib, prefix);
        let sources: Vec<RouteSource> = sources
            .map(|(source, to)| RouteSource {
                source: self.context.system.router.source_name(source),
                distance: source.distance(),
                ..self.paths(to)
            })
            .collect();
        let installed = sources.iter().any(|s| s.resolved);
        let (prefix, link) = on_link(prefix);
        let link = link.map(|index| interface_name(self.context, index));
        (!sources.is_empty()).then(|| Route { prefix: prefix.to_string(), link, installed, sources })
    }

    fn paths(&mut self, to: &PathState) -> RouteSource {
        if let Some((_, source)) = self.last.as_ref().filter(|(last, _)| *last == to.object) {
            return source.clone();
        }
        let (c, trail) = (self.context, to.trail.as_ref());
        let share = |(path, parts, means)| Share {
            path: target_text::<A>(c, path) + &adjacency_text(c, Some(means)),
            parts,
        };
        let lost = trail.map_or_else(Vec::new, |t| t.lost.iter().map(ToString::to_string).collect());
        let source = RouteSource {
            source: "",
            distance: 0,
            path: list_text::<A>(c, to),
            paths: to.list.weighted().map(|path| PathFields::new(c, path)).collect(),
            resolved: to.resolved.is_some(),
            through: trail.map_or_else(Vec::new, |t| t.hops.iter().skip(1).copied().collect()),
            reason: (!lost.is_empty()).then(|| lost.join("; ")),
            ways: to.shares().map(share).collect(),
        };
        self.last.insert((to.object, source)).1.clone()
    }
}

impl Route {
    /// Returns the default route for addresses without a route: drop.
    fn without(family: Family) -> Route {
        let path = format!("dpo-drop {}", family.word());
        let (source, reason) = ("default", None);
        let of = RouteSource {
            source,
            distance: u8::MAX,
            path,
            paths: vec![PathFields::drop()],
            resolved: true,
            through: Vec::new(),
            reason,
            ways: Vec::new(),
        };
        let prefix = if family == Family::V4 { "0.0.0.0/0" } else { "::/0" };
        Route { prefix: prefix.into(), link: None, installed: true, sources: vec![of] }
    }

    fn text(&self, out: &mut String) {
        let link = self.link.as_ref().map_or_else(String::new, |link| format!(" on {link}"));
        let _ = writeln!(out, "{}{link}", self.prefix);
        let mut first = self.installed;
        for s in &self.sources {
            let reason = s.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
            let state = match (s.resolved, first) {
                (true, true) if s.reason.is_some() => format!(" (in part unresolved{reason})"),
                (true, true) => String::new(),
                (true, false) => " (another source is preferred)".into(),
                (false, _) => format!(" (unresolved{reason})"),
            };
            first &= !s.resolved;
            // The distances of the router's own sources are omitted.
            let distance = match s.distance {
                2..=253 => format!(", distance {}", s.distance),
                _ => String::new(),
            };
            let _ = writeln!(out, "  [{}{distance}] {}{state}", s.source, s.path);
            for way in &s.ways {
                let _ = writeln!(out, "    {}/256 of the flows: {}", way.parts, way.path);
            }
        }
    }
}

/// The rows of `show ip fib` for a VRF. The first calls gather and sort the prefixes, part by part. Later calls show the routes that still
/// exist.
struct Fib<A: Ip> {
    heading: String,
    fib: u16,
    /// Only prefixes within this one are shown.
    within: Prefix<A>,
    gathered: usize,
    prefixes: Merge<Prefix<A>>,
    begun: bool,
}

impl<A: OfFamily> Rows<Context> for Fib<A> {
    type Row = Route;

    fn next(&mut self, c: &Context, page: &mut Vec<Route>) -> bool {
        if self.gathered < Routes::<A>::PARTS {
            let part = c.system.router.routes::<A>().part(self.fib, self.gathered);
            self.prefixes.add(part.filter(|prefix| self.within.covers(*prefix)).collect());
            self.gathered += 1;
            return true;
        }
        let mut reader = Reader::<A>::new(c, self.fib);
        page.extend(self.prefixes.by_ref().take(PAGE).filter_map(|prefix| reader.route(prefix)));
        !self.prefixes.is_empty()
    }

    fn kept(&self) -> usize {
        self.prefixes.bytes()
    }

    fn text(&mut self, page: &[Route], out: &mut String) {
        if !std::mem::replace(&mut self.begun, true) {
            out.push_str(&self.heading);
        }
        page.iter().for_each(|route| route.text(out));
    }
}

/// Looks up a link-local address on each link of a VRF, and returns the prefixes of the routes that it finds. Such a route leads to
/// the router itself, to a neighbor, or to the link's network. Empty for an address that is not link-local.
fn on_links<A: OfFamily>(c: &Context, fib: u16, address: A) -> Vec<Prefix<A>> {
    let router = &c.system.router;
    let links = router.interfaces().filter(|i| i.fib == fib);
    let scoped =
        links.map(|i| A::scoped(address.to_bits(), i.index)).filter(|bits| *bits != address.to_bits());
    let routes = scoped.filter_map(|bits| router.routes::<A>().lookup(fib, A::from_bits(bits)));
    routes.map(|(prefix, ..)| prefix).filter(|prefix| on_link(*prefix).1.is_some()).collect()
}

fn show<A: OfFamily>(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let id = table_of(c, a)?;
    let (fib, heading) = (id.fib, id.heading::<A>(c));
    let routes = c.system.router.routes::<A>();
    let prefix = a.get::<Address>("prefix").and_then(Address::of::<A>);
    if prefix.is_none() || a.has("longer-prefixes") {
        let within = prefix.map_or(Prefix::DEFAULT, Address::prefix);
        let all = Fib::<A> { heading, fib, within, gathered: 0, prefixes: Merge::default(), begun: false };
        return Ok(Output::rows(all, a.json()));
    }
    let wanted = match prefix {
        None => None,
        // An address: the route to it.
        Some(Address { address, len }) if len == A::Bits::BITS => {
            let found = routes.lookup(fib, address).map(|(prefix, ..)| prefix);
            let links = on_links(c, fib, address);
            if !links.is_empty() {
                let mut prefixes = Merge::default();
                prefixes.add(found.into_iter().chain(links).collect());
                let (within, gathered) = (Prefix::DEFAULT, Routes::<A>::PARTS);
                return Ok(Output::rows(
                    Fib::<A> { heading, fib, within, gathered, prefixes, begun: false },
                    a.json(),
                ));
            }
            if found.is_none() {
                // No route: packets are dropped.
                let route = Route::without(A::FAMILY);
                let mut text = heading;
                route.text(&mut text);
                return Ok(Output::show([route], text));
            }
            found
        }
        Some(network) => Some(network.prefix()),
    };
    match wanted.and_then(|prefix| Reader::<A>::new(c, fib).route(prefix)) {
        Some(route) => {
            let mut text = heading;
            route.text(&mut text);
            Ok(Output::show([route], text))
        }
        None => Err(a.fault("prefix", "there is no such route")),
    }
}

#[derive(Serialize)]
struct Memory {
    used_bytes: u64,
    limit_bytes: u64,
    refused_routes: u64,
    without_memory: u64,
}

fn memory(c: &mut Context, _: &Args) -> Result<Output, CliError> {
    let m = c.system.router.route_memory();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let (used, limit) = (mib(m.used), mib(m.limit));
    let mut text = format!("{used:.1} MiB of at most {limit:.0} MiB; {} routes were refused\n", m.refused);
    if m.no_memory > 0 {
        text += &format!(
            "{} more routes or tables were refused because memory ran out; memory now: {}\n",
            m.no_memory,
            Room::now()
        );
    }
    let memory = Memory {
        used_bytes: m.used,
        limit_bytes: m.limit,
        refused_routes: m.refused,
        without_memory: m.no_memory,
    };
    Ok(Output::show(memory, text))
}

#[derive(Serialize)]
struct Summary {
    table: u32,
    routes: usize,
    by_length: BTreeMap<u8, usize>,
    lookup_memory_bytes: usize,
}

fn summary<A: OfFamily>(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let id = table_of(c, a)?;
    let routes = c.system.router.routes::<A>();
    let by_length: BTreeMap<u8, usize> =
        (0..).zip(routes.lengths(id.fib).iter().copied()).filter(|(_, count)| *count > 0).collect();
    let s = Summary {
        table: id.table,
        routes: by_length.values().sum(),
        by_length,
        lookup_memory_bytes: routes.memory_bytes(id.fib),
    };
    let mut t = Table::new(&["Prefix length", "Count"]);
    s.by_length.iter().for_each(|(len, n)| t.row(vec![len.to_string(), n.to_string()]));
    let text = format!(
        "{}{t}{} routes, lookup table {:.1} MiB\n",
        id.heading::<A>(c),
        s.routes,
        s.lookup_memory_bytes as f64 / f64::from(1 << 20)
    );
    Ok(Output::show(&s, text))
}

#[derive(Serialize)]
struct Adjacency {
    index: u32,
    next_hop: IpAddr,
    interface: String,
    complete: bool,
    users: u32,
    packets: u64,
    bytes: u64,
}

/// The adjacencies from index `next` on; if `one` is true, only the adjacency `next`.
struct AllAdjacencies {
    next: u32,
    one: bool,
    table: Table,
}

impl Rows<Context> for AllAdjacencies {
    type Row = Adjacency;

    fn next(&mut self, c: &Context, page: &mut Vec<Adjacency>) -> bool {
        let counters = &c.system.router.tables().adjacency_counters;
        let all = c.system.router.adjacencies().iter_from(self.next).take(PAGE);
        let wanted = all.take_while(|(index, ..)| !self.one || *index == self.next);
        page.extend(wanted.map(|(index, a, users)| {
            let [packets, bytes] = counters.read(index);
            Adjacency {
                index,
                next_hop: a.next_hop,
                interface: interface_name(c, a.interface),
                complete: a.rewrite.is_some(),
                users,
                packets,
                bytes,
            }
        }));
        self.next = page.last().map_or(0, |last| last.index + 1);
        !page.is_empty() && !self.one
    }

    fn text(&mut self, page: &[Adjacency], out: &mut String) {
        for a in page {
            self.table.row(vec![
                a.index.to_string(),
                a.next_hop.to_string(),
                a.interface.clone(),
                if a.complete { "complete" } else { "incomplete" }.into(),
                a.users.to_string(),
                a.packets.to_string(),
                a.bytes.to_string(),
            ]);
        }
        self.table.flush(out);
    }
}

fn adjacencies(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let one = a.get::<u32>("index");
    if let Some(index) = one.filter(|i| c.system.router.adjacencies().get(*i).is_none()) {
        return Err(a.fault("index", format!("there is no adjacency {index}")));
    }
    let table = Table::new(&["Adj", "Next hop", "Interface", "State", "Users", "Packets", "Bytes"]);
    Ok(Output::rows(AllAdjacencies { next: one.unwrap_or(0), one: one.is_some(), table }, a.json()))
}
