//! The bounds of the tables of neighbours.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use model::key::Kind;
use model::schema::{Described, Schema, number, optional};
use net::feature::{self, Entry, Registrar, unset};
use net::neighbor::{self, Config, Counters};
use serde::Serialize;

use crate::cli::{Args, CliError, Table};
use crate::commands::{Context, Done, Output};
use crate::intent::{Abilities, Change, Family, Key, Neighbor, Object, OfFamily, Refused, View, refuse};
use crate::system::System;

/// A second in the nanoseconds of the bounds.
const SECOND: u64 = 1_000_000_000;

/// The bounds of the table of neighbours of a family, where they are not the router's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeighborBounds {
    /// Entries in all, at most.
    pub limit: Option<u32>,
    /// Seconds after which a learned entry is asked again.
    pub age: Option<u32>,
}

impl Kind for NeighborBounds {
    type Key = Family;
    const NAME: &'static str = "neighbor-bounds";
    const PHASE: u16 = 22;

    fn title(family: &Family) -> String {
        format!("the bounds of the table of {} neighbours", family.name())
    }
}

impl Object<System> for NeighborBounds {
    fn validate(&self, family: &Family, view: &View<'_>, _: &Abilities) -> Result<(), Refused> {
        if *self == NeighborBounds::default() {
            return refuse("the bounds of the table of neighbours bound nothing: leave them out");
        }
        self.are_enough(*family, view)
    }

    fn validate_absence(family: &Family, view: &View<'_>) -> Result<(), Refused> {
        NeighborBounds::default().are_enough(*family, view)
    }

    fn apply(&self, family: &Family, _: Option<&Self>, system: &mut System) -> Result<(), Refused> {
        self.set(*family, system);
        Ok(())
    }

    fn withdraw(&self, family: &Family, system: &mut System) -> Result<(), Refused> {
        NeighborBounds::default().set(*family, system);
        Ok(())
    }

    fn dump(&self, family: &Family, _: bool) -> Vec<String> {
        let word = |name: &str, n: Option<u32>| n.map(|n| format!(" {name} {n}")).unwrap_or_default();
        let (limit, age) = (word("limit", self.limit), word("age", self.age));
        vec![format!("set ip neighbor-config {}{limit}{age}", family.word())]
    }
}

impl NeighborBounds {
    /// The key of the bounds of a family.
    pub fn key(family: Family) -> Key {
        Key::of::<NeighborBounds>(&family)
    }

    /// Whether the bounds are enough for the static neighbours.
    fn are_enough(self, family: Family, view: &View<'_>) -> Result<(), Refused> {
        let config = self.config(family);
        if config.max_age == 0 {
            return refuse("the age is at least one second");
        }
        let of_family = |key: &Key| key.get::<Neighbor>().is_some_and(|(_, ip)| Family::of(ip) == family);
        let named = view.range(Key::all::<Neighbor>()).filter(|(key, _)| of_family(key)).count();
        if named > config.max_entries {
            return refuse(format!(
                "there are {named} static {} neighbours, more than the limit of {}: forget some first",
                family.name(),
                config.max_entries
            ));
        }
        Ok(())
    }

    fn config(self, family: Family) -> Config {
        let own = match family {
            Family::V4 => <Ipv4Addr as neighbor::Family>::CONFIG,
            Family::V6 => <Ipv6Addr as neighbor::Family>::CONFIG,
        };
        Config {
            max_entries: self.limit.map_or(own.max_entries, |limit| limit as usize),
            max_age: self.age.map_or(own.max_age, |age| u64::from(age) * SECOND),
            ..own
        }
    }

    fn set(self, family: Family, system: &mut System) {
        let config = self.config(family);
        match family {
            Family::V4 => system.router.set_neighbor_config::<Ipv4Addr>(config),
            Family::V6 => system.router.set_neighbor_config::<Ipv6Addr>(config),
        }
    }
}

impl Described for NeighborBounds {
    fn schema() -> &'static Schema<NeighborBounds> {
        static SCHEMA: LazyLock<Schema<NeighborBounds>> = LazyLock::new(|| {
            Schema::new(NeighborBounds::default())
                .field(
                    "limit",
                    optional(number(0..=u32::MAX)),
                    |b| b.limit,
                    |b, n| b.limit = n,
                    "The most neighbours that are learned.",
                )
                .field(
                    "age-seconds",
                    optional(number(1..=u32::MAX).unit("seconds")),
                    |b| b.age,
                    |b, n| b.age = n,
                    "How long one is kept that nobody uses.",
                )
        });
        &SCHEMA
    }
}

/// The feature.
pub struct Feature;

impl feature::Feature<Context> for Feature {
    fn name(&self) -> &'static str {
        "neighbor-bounds"
    }

    fn about(&self) -> &'static str {
        "Bounds the tables of neighbours."
    }

    fn register(&self, r: &mut Registrar<'_, Context>) {
        family::<Ipv4Addr>(r, "ip4-neighbors");
        family::<Ipv6Addr>(r, "ip6-neighbors");
    }
}

fn family<A: OfFamily>(r: &mut Registrar<'_, Context>, entry: &'static str) {
    let (word, noun) = (A::FAMILY.word(), A::FAMILY.noun());
    let key = NeighborBounds::key(A::FAMILY);
    let help = "Bounds of neighbours (`show ip neighbor-config`).";
    r.entry(Entry::one::<NeighborBounds>(entry, help, key));
    r.command(
        &format!("set ip neighbor-config {word} [limit <limit:u32>] [age <age:u32>]"),
        "Bound the table of neighbours: entries at most, and seconds after which one is asked again.",
        configure::<A>,
    );
    r.command(
        &format!("set ip neighbor-config {word} default"),
        "Give the table of neighbours the router's own bounds again.",
        |c, _| unset(c, NeighborBounds::key(A::FAMILY)),
    );
    r.command(
        &format!("show {noun} neighbor-config"),
        "Show the bounds of the table of neighbours, and what neighbours made the router do.",
        show_config::<A>,
    );
}

fn configure<A: OfFamily>(c: &mut Context, a: &Args) -> Done {
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

fn show_config<A: OfFamily>(c: &mut Context, _: &Args) -> Done {
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
