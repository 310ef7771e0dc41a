//! Routes and adjacencies.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::Ipv4Addr;

use net::ip::{Object, Path, PathState, Prefix4, Sources, Trail};
use serde::Serialize;

use super::super::{Context, Output};
use crate::cli::{Args, CliError, Registry, Table};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add("show ip fib [table <table:u16>] [<prefix:prefix4>]", "Show routes.", show);
    r.add("show ip fib [table <table:u16>] summary", "Count routes by the length of their prefix.", summary);
    r.add("show ip table [<table:u16>]", "Show the VRFs, and with a number who uses one.", tables);
    r.add("show adjacency [<index:u32>]", "Show adjacencies with what was sent over them.", adjacencies);
}

#[derive(Serialize)]
struct Route {
    prefix: String,
    installed: bool,
    sources: Vec<RouteSource>,
}

#[derive(Serialize)]
struct RouteSource {
    source: &'static str,
    path: String,
    resolved: bool,
    /// Of a next hop on no connected network: the next hops that the routes lead to, one behind the other.
    through: Vec<Ipv4Addr>,
    /// Of such a one: why it is unresolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

fn table_of(c: &Context, a: &Args) -> Result<u16, CliError> {
    let table = super::super::table(a, "table");
    match c.system.router.routes().tables().any(|t| t == table) {
        true => Ok(table),
        false => Err(a.fault("table", format!("there is no table {table}"))),
    }
}

fn interface_name(c: &Context, index: u32) -> String {
    c.system.router.interface(index).map_or_else(|_| format!("interface {index}"), |i| i.name.clone())
}

fn target_text(c: &Context, path: Path) -> String {
    match path {
        Path::Via { next_hop, interface: Some(i) } => format!("via {next_hop} {}", interface_name(c, i)),
        Path::Via { next_hop, interface: None } => format!("via {next_hop}"),
        Path::Attached(i) => format!("ip4-glean: {}", interface_name(c, i)),
        Path::Local => "dpo-receive".into(),
        Path::Drop => "dpo-drop ip4".into(),
        Path::Unreachable => "unreachable".into(),
        Path::Prohibit => "prohibit".into(),
        Path::Table(t) => format!("lookup in ip4 table {t}"),
    }
}

/// Where the routes lead that a next hop was looked for by, such as ` → 10.0.0.2 host-eth0`.
fn trail_text(c: &Context, trail: &Trail, leaves_by: Option<u32>) -> String {
    let mut text: String = trail.hops.iter().skip(1).map(|hop| format!(" → {hop}")).collect();
    match trail.end {
        Ok(Path::Via { next_hop, interface: Some(i) }) => {
            // On a link that it is attached to, the last next hop is the neighbour.
            let neighbor =
                if trail.hops.last() == Some(&next_hop) { String::new() } else { format!("{next_hop} ") };
            let _ = write!(text, " → {neighbor}{}", interface_name(c, i));
        }
        Ok(Path::Via { .. }) => {
            text.extend(leaves_by.map(|i| format!(" {}", interface_name(c, i))));
        }
        Ok(other) => {
            let _ = write!(text, " → {}", target_text(c, other));
        }
        Err(_) => {}
    }
    text
}

fn path_text(c: &Context, path: Path, state: Option<&PathState>) -> String {
    let adjacency = match state.and_then(|s| s.resolved) {
        Some(Object::Adjacency(index)) => c.system.router.adjacencies().get(index).map(|a| (index, a)),
        _ => None,
    };
    let mut text = target_text(c, path);
    if let Some(trail) = state.and_then(|s| s.trail.as_ref()) {
        text += &trail_text(c, trail, adjacency.map(|(_, a)| a.interface));
    }
    if let Some((index, adj)) = adjacency {
        let name = interface_name(c, adj.interface);
        let header = match &adj.rewrite {
            Some(r) => r.bytes().iter().map(|b| format!("{b:02x}")).collect(),
            None => "arp-ipv4 (incomplete)".to_string(),
        };
        let _ = write!(text, " [adj {index}: {name} mtu:{} {header}]", adj.mtu);
    }
    text
}

fn route(c: &Context, table: u16, prefix: Prefix4, sources: Sources<'_>) -> Route {
    let routes = c.system.router.routes();
    let sources: Vec<RouteSource> = sources
        .map(|(source, path)| {
            let state = routes.path(table, path);
            let trail = state.and_then(|s| s.trail.as_ref());
            RouteSource {
                source: source.name(),
                path: path_text(c, path, state),
                resolved: state.is_some_and(|s| s.resolved.is_some()),
                through: trail.map_or_else(Vec::new, |t| t.hops.iter().skip(1).copied().collect()),
                reason: trail.and_then(|t| t.end.err()).map(|lost| lost.to_string()),
            }
        })
        .collect();
    Route { prefix: prefix.to_string(), installed: sources.iter().any(|s| s.resolved), sources }
}

fn show(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let table = table_of(c, a)?;
    let routes = c.system.router.routes();
    let mut text = format!("ipv4-VRF:{table}, fib_index:{table}\n");
    let found: Vec<Route> = match a.get::<(Ipv4Addr, u8)>("prefix") {
        None => routes.iter(table).map(|(p, s)| route(c, table, p, s)).collect(),
        Some((address, 32)) => {
            // An address: the route that packets to it take.
            let taken = routes.lookup(table, address);
            taken.map(|(p, ..)| route(c, table, p, routes.exact(table, p))).into_iter().collect()
        }
        Some((address, len)) => {
            let prefix = Prefix4::new(address, len);
            let sources = routes.exact(table, prefix);
            if sources.clone().next().is_none() { Vec::new() } else { vec![route(c, table, prefix, sources)] }
        }
    };
    if found.is_empty() && a.get::<(Ipv4Addr, u8)>("prefix").is_some() {
        return Err(CliError::new("there is no such route"));
    }
    for r in &found {
        let _ = writeln!(text, "{}", r.prefix);
        let mut first = r.installed;
        for s in &r.sources {
            let state = match (s.resolved, first) {
                (true, true) => String::new(),
                (true, false) => " (another source is preferred)".into(),
                (false, _) => {
                    let reason = s.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
                    format!(" (unresolved{reason})")
                }
            };
            first &= !s.resolved;
            let _ = writeln!(text, "  [{}] {}{state}", s.source, s.path);
        }
    }
    Ok(Output::show(&found, text))
}

#[derive(Serialize)]
struct Summary {
    table: u16,
    routes: usize,
    by_length: BTreeMap<u8, usize>,
    lookup_memory_bytes: usize,
}

fn summary(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let table = table_of(c, a)?;
    let routes = c.system.router.routes();
    let by_length: BTreeMap<u8, usize> =
        (0..).zip(routes.lengths(table)).filter(|(_, count)| *count > 0).collect();
    let s = Summary {
        table,
        routes: by_length.values().sum(),
        by_length,
        lookup_memory_bytes: routes.memory_bytes(table),
    };
    let mut t = Table::new(&["Prefix length", "Count"]);
    s.by_length.iter().for_each(|(len, n)| t.row(vec![len.to_string(), n.to_string()]));
    let text = format!(
        "ipv4-VRF:{table}, fib_index:{table}\n{t}{} routes, lookup table {:.1} MiB\n",
        s.routes,
        s.lookup_memory_bytes as f64 / f64::from(1 << 20)
    );
    Ok(Output::show(&s, text))
}

#[derive(Serialize)]
struct Vrf {
    table: u16,
    interfaces: Vec<String>,
    routes: usize,
    lookup_memory_bytes: usize,
}

fn tables(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let one = a.get::<u16>("table").map(|_| table_of(c, a)).transpose()?;
    let r = &c.system.router;
    let wanted = r.routes().tables().filter(|t| one.is_none_or(|one| one == *t));
    let all: Vec<Vrf> = wanted
        .map(|table| Vrf {
            table,
            interfaces: r.interfaces().filter(|i| i.fib == table).map(|i| i.name.clone()).collect(),
            routes: r.routes().count(table),
            lookup_memory_bytes: r.routes().memory_bytes(table),
        })
        .collect();
    let mut text = String::new();
    for v in &all {
        let _ = writeln!(text, "[{0}] table_id:{0} ipv4-VRF:{0}", v.table);
        if one.is_some() {
            let mib = v.lookup_memory_bytes as f64 / f64::from(1 << 20);
            let _ = writeln!(text, "  routes: {}, lookup table {mib:.1} MiB", v.routes);
            let bound = if v.interfaces.is_empty() { "none".into() } else { v.interfaces.join(", ") };
            let _ = writeln!(text, "  interfaces: {bound}");
        }
    }
    Ok(Output::show(&all, text))
}

#[derive(Serialize)]
struct Adjacency {
    index: u32,
    next_hop: Ipv4Addr,
    interface: String,
    complete: bool,
    users: u32,
    packets: u64,
    bytes: u64,
}

fn adjacencies(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let counters = &c.system.router.tables().adjacency_counters;
    let wanted = a.get::<u32>("index");
    if let Some(index) = wanted.filter(|i| c.system.router.adjacencies().get(*i).is_none()) {
        return Err(a.fault("index", format!("there is no adjacency {index}")));
    }
    let all = c.system.router.adjacencies().iter().filter(|(index, ..)| wanted.is_none_or(|w| w == *index));
    let all = all.map(|(index, a, users)| {
        let [packets, bytes] = counters.read(index);
        let interface = interface_name(c, a.interface);
        Adjacency {
            index,
            next_hop: a.next_hop,
            interface,
            complete: a.rewrite.is_some(),
            users,
            packets,
            bytes,
        }
    });
    let mut all: Vec<Adjacency> = all.collect();
    all.sort_by_key(|a| a.index);
    let mut t = Table::new(&["Adj", "Next hop", "Interface", "State", "Users", "Packets", "Bytes"]);
    for a in &all {
        let state = if a.complete { "complete" } else { "incomplete" };
        t.row(vec![
            a.index.to_string(),
            a.next_hop.to_string(),
            a.interface.clone(),
            state.into(),
            a.users.to_string(),
            a.packets.to_string(),
            a.bytes.to_string(),
        ]);
    }
    Ok(Output::show(&all, t.to_string()))
}
