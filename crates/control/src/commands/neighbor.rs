//! Neighbours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use net::neighbor::Counters;
use serde::Serialize;
use wire::Mac;

use super::{Context, Output};
use crate::cli::{Args, CliError, Registry, Table};
use crate::intent::{Change, Neighbor, NeighborBounds, OfFamily};

/// A second in the nanoseconds of the bounds.
const SECOND: u64 = 1_000_000_000;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    for words in ["set ip neighbor", "set ip arp", "ip neighbor"] {
        r.add(
            &format!("{words} <interface:interface> <ip:ip> <mac:mac> [static]"),
            "Name a neighbour's Ethernet address. It stays until it is deleted, with \"static\" or without.",
            set,
        );
        r.add(
            &format!("{words} del <interface:interface> <ip:ip> [<mac:mac>]"),
            "Forget a neighbour that was named.",
            remove,
        );
    }
    family::<Ipv4Addr>(r);
    family::<Ipv6Addr>(r);
}

/// Declares the commands that each family has of its own.
fn family<A: OfFamily>(r: &mut Registry<Context>) {
    let (word, noun) = (A::FAMILY.word(), A::FAMILY.noun());
    r.add(
        &format!("set ip neighbor-config {word} [limit <limit:u32>] [age <age:u32>]"),
        "Bound the table of neighbours: entries at most, and seconds after which one is asked again.",
        configure::<A>,
    );
    r.add(
        &format!("set ip neighbor-config {word} default"),
        "Give the table of neighbours the router's own bounds again.",
        |c, _| c.unset(NeighborBounds::key(A::FAMILY)),
    );
    r.add(
        &format!("show {noun} neighbor-config"),
        "Show the bounds of the table of neighbours, and what neighbours made the router do.",
        show_config::<A>,
    );
    for words in [format!("clear {noun} neighbors"), format!("{noun} neighbor flush")] {
        r.add(&format!("{words} [<interface:interface>]"), "Forget learned neighbours.", flush::<A>);
    }
}

fn flush<A: OfFamily>(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let wanted = a.get::<String>("interface");
    let all: Vec<u32> = c
        .system
        .router
        .interfaces()
        .filter(|i| wanted.as_ref().is_none_or(|w| *w == i.name))
        .map(|i| i.index)
        .collect();
    for index in all {
        c.system.router.flush_neighbors::<A>(index).map_err(|e| CliError::new(e.to_string()))?;
    }
    Ok(Output::none())
}

fn set(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let key = Neighbor::key(&a.need::<String>("interface")?, a.need::<IpAddr>("ip")?);
    let mac = a.need::<Mac>("mac")?;
    let about = if mac.is_unicast() { "ip" } else { "mac" };
    c.transact(vec![Change::set(key, Neighbor { mac })]).map_err(|e| a.about(about, e))?;
    Ok(Output::none())
}

fn remove(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let key = Neighbor::key(&a.need::<String>("interface")?, a.need::<IpAddr>("ip")?);
    c.transact(vec![Change::remove(key)]).map_err(|e| a.about("ip", e))?;
    Ok(Output::none())
}

fn configure<A: OfFamily>(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let (limit, age) = (a.get::<u32>("limit"), a.get::<u32>("age"));
    let about = match (limit, age) {
        (None, None) => return Err(CliError::new("nothing is bounded: limit ENTRIES, or age SECONDS")),
        (_, Some(0)) | (None, _) => "age",
        _ => "limit",
    };
    let old = c.store.get(&NeighborBounds::key(A::FAMILY)).and_then(|value| value.get());
    let old = old.copied().unwrap_or(NeighborBounds::default());
    let new = NeighborBounds { limit: limit.or(old.limit), age: age.or(old.age) };
    let change = Change::set(NeighborBounds::key(A::FAMILY), new);
    c.transact(vec![change]).map_err(|e| a.about(about, e))?;
    Ok(Output::none())
}

#[derive(Serialize)]
struct Bounds {
    limit: usize,
    unresolved_limit: usize,
    age_seconds: u64,
    counters: Counters,
}

fn show_config<A: OfFamily>(c: &mut Context, _: &Args) -> Result<Output, CliError> {
    let config = c.system.router.neighbor_config::<A>();
    let counters = *c.system.router.neighbor_counters::<A>();
    let shown = Bounds {
        limit: config.max_entries,
        unresolved_limit: config.max_unresolved,
        age_seconds: config.max_age / SECOND,
        counters,
    };
    let mut text = format!(
        "{}:\n  limit {}, of these without an answer {}\n  age {} s\n",
        A::FAMILY.word(),
        shown.limit,
        shown.unresolved_limit,
        shown.age_seconds
    );
    let mut t = Table::new(&["Count", "What"]);
    for (count, what) in [
        (counters.requests, "requests sent"),
        (counters.replies, "replies sent"),
        (counters.announcements, "announcements sent"),
        (counters.resolved, "neighbours that answered, or made themselves known"),
        (counters.failed, "neighbours that did not answer"),
        (counters.changed, "neighbours that changed their Ethernet address"),
        (counters.recycled, "entries that gave way to others, the table being full"),
        (counters.refused, "entries refused, the table being full of static ones"),
        (counters.conflicts, "claims of others to an address of this router"),
    ] {
        t.row(vec![count.to_string(), what.into()]);
    }
    text += &t.to_string();
    Ok(Output::show(&shown, text))
}
