//! The limits of the neighbor tables, and the queue of neighbor changes that clients get as events.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use graph::{Builder, GraphError};
use model::key::Kind;
use model::schema::{Described, Schema, number, optional};
use net::Tables;
use net::feature::{self, Entry, Registrar, unset};
use net::neighbor::{self, Config, Counters};
use net::router::{Hooks, News, Router};
use serde::Serialize;

use crate::app::{Context, Done, Output};
use crate::cli::{Args, CliError, Table};
use crate::intent::{Change, Family, Key, Neighbor, Object, OfFamily, Refused, View, refuse};
use crate::system::{Abilities, System};

/// Maximum number of announcements of an address.
const MOST_ANNOUNCEMENTS: u8 = 10;
/// A second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// The limits of the neighbor table of one address family. A field that is `None` stands for the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeighborBounds {
    /// Maximum number of entries.
    pub limit: Option<u32>,
    /// Seconds after which a learned entry is verified again.
    pub age: Option<u32>,
    /// How often a new address of the router is announced.
    pub announcements: Option<u8>,
}

impl Kind for NeighborBounds {
    type Key = Family;
    const NAME: &'static str = "neighbor-bounds";
    const PHASE: u16 = 22;

    fn title(family: &Family) -> String {
        format!("the limits of the {} neighbor table", family.name())
    }
}

impl Object<System> for NeighborBounds {
    fn validate(&self, family: &Family, view: &View<'_>, _: &Abilities) -> Result<(), Refused> {
        if *self == NeighborBounds::default() {
            return refuse("no limit of the neighbor table is set: set one, or leave out this entry");
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
        let announcements = word("announcements", self.announcements.map(u32::from));
        vec![format!("set ip neighbor-config {}{limit}{age}{announcements}", family.word())]
    }
}

impl NeighborBounds {
    /// Returns the key of the limits of a family.
    pub fn key(family: Family) -> Key {
        Key::of::<NeighborBounds>(&family)
    }

    /// Checks that the limits have room for the static neighbors, and that the age is not 0.
    fn are_enough(self, family: Family, view: &View<'_>) -> Result<(), Refused> {
        let config = self.config(family);
        if config.max_age == 0 {
            return refuse("the age must be at least one second");
        }
        let of_family = |key: &Key| key.get::<Neighbor>().is_some_and(|(_, ip)| Family::of(ip) == family);
        let named = view.range(Key::all::<Neighbor>()).filter(|(key, _)| of_family(key)).count();
        if named > config.max_entries {
            return refuse(format!(
                "{named} static {} neighbors are more than the limit of {}: remove some first",
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
            announcements: self.announcements.unwrap_or(own.announcements),
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
                    "The maximum number of neighbors in the table.",
                )
                .field(
                    "age-seconds",
                    optional(number(1..=u32::MAX).unit("seconds")),
                    |b| b.age,
                    |b, n| b.age = n,
                    "The age at which a learned neighbor is verified again.",
                )
                .field(
                    "announcements",
                    optional(number(0..=MOST_ANNOUNCEMENTS)),
                    |b| b.announcements,
                    |b, n| b.announcements = n,
                    "How often a new address of the router is announced on its link.",
                )
        });
        &SCHEMA
    }
}

/// Maximum number of changes that wait to be sent to clients.
const MOST_WAITING: usize = 1 << 17;
/// The changes of neighbors that wait to be sent to clients as events.
#[derive(Default)]
pub(crate) struct Changes {
    /// True if a client wants events about changes.
    wanted: bool,
    waiting: VecDeque<News>,
    /// True if changes were lost, because too many waited.
    lost: bool,
}

impl Changes {
    /// If `wanted`, begins to collect changes. Otherwise stops, and drops the collected changes.
    pub(crate) fn want(&mut self, wanted: bool) {
        if wanted {
            self.wanted = true;
        } else {
            *self = Changes::default();
        }
    }

    /// Removes and returns up to `most` changes, the oldest first. Also returns true if changes were lost since the last call. `None` if no
    /// client wants changes.
    pub(crate) fn take(&mut self, most: usize) -> Option<(Vec<News>, bool)> {
        if !self.wanted {
            return None;
        }
        let most = most.min(self.waiting.len());
        Some((self.waiting.drain(..most).collect(), std::mem::take(&mut self.lost)))
    }

    /// Returns the number of changes that wait to be sent to clients.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// The router's callback for changes of neighbors. Queues a change if a client wants events.
fn learn(router: &mut Router, news: &News) {
    let Ok(changes) = router.state_mut::<Changes>() else { return };
    if !changes.wanted {
        return;
    }
    if changes.waiting.len() < MOST_WAITING {
        changes.waiting.push_back(*news);
    } else {
        changes.lost = true;
    }
}

/// The feature `neighbor-bounds`: the limits of the neighbor tables. It also collects neighbor changes, for events to clients.
pub struct Feature;

impl feature::Feature<Context> for Feature {
    fn name(&self) -> &'static str {
        "neighbor-bounds"
    }

    fn about(&self) -> &'static str {
        "Limits the neighbor tables."
    }

    fn install(&self, _: &mut Builder, _: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        hooks.state(|_| Ok(Changes::default()))?;
        hooks.on_neighbor(learn);
        Ok(())
    }

    fn register(&self, r: &mut Registrar<'_, Context>) {
        family::<Ipv4Addr>(r, "ip4-neighbors");
        family::<Ipv6Addr>(r, "ip6-neighbors");
    }
}

fn family<A: OfFamily>(r: &mut Registrar<'_, Context>, entry: &'static str) {
    let (word, noun) = (A::FAMILY.word(), A::FAMILY.noun());
    let key = NeighborBounds::key(A::FAMILY);
    let help = "Limits of the neighbor table (`show ip neighbor-config`).";
    r.entry(Entry::one::<NeighborBounds>(entry, help, key));
    let schema = NeighborBounds::schema();
    let (limit, age) = (schema.syntax("limit", "limit"), schema.syntax("age-seconds", "age"));
    let announcements = schema.syntax("announcements", "announcements");
    r.command(
        &format!("set ip neighbor-config {word} [limit {limit}] [age {age}] [announcements {announcements}]"),
        "Limit the neighbor table: the maximum number of entries, and the age in seconds at which a learned entry is \
         verified again, and how often a new address of the router is announced.",
        configure::<A>,
    );
    r.command(
        &format!("set ip neighbor-config {word} default"),
        "Reset the limits of the neighbor table to the defaults.",
        |c, _| unset(c, NeighborBounds::key(A::FAMILY)),
    );
    r.command(
        &format!("show {noun} neighbor-config"),
        "Show the limits and counters of the neighbor table.",
        show_config::<A>,
    );
}

fn configure<A: OfFamily>(c: &mut Context, a: &Args) -> Done {
    let (limit, age) = (a.get::<u32>("limit"), a.get::<u32>("age"));
    let announcements = a.get::<u8>("announcements");
    let about = match (limit, age, announcements) {
        (None, None, None) => {
            let why = "no limit is given: use limit ENTRIES, age SECONDS, or announcements NUMBER";
            return Err(CliError::new(why));
        }
        (Some(_), ..) => "limit",
        (None, Some(_), _) => "age",
        (None, None, Some(_)) => "announcements",
    };
    let old = c.store.get(&NeighborBounds::key(A::FAMILY)).and_then(|value| value.get());
    let old = old.copied().unwrap_or(NeighborBounds::default());
    let new = NeighborBounds {
        limit: limit.or(old.limit),
        age: age.or(old.age),
        announcements: announcements.or(old.announcements),
    };
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
        "{}:\n  limit {}, of these unresolved {}\n  age {} s\n",
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
        (counters.resolved, "neighbors that answered or announced themselves"),
        (counters.failed, "neighbors that did not answer"),
        (counters.changed, "neighbors that changed their Ethernet address"),
        (counters.recycled, "entries replaced because the table was full"),
        (counters.refused, "entries refused because the table was full of static entries"),
        (counters.conflicts, "claims of other stations to an address of this router"),
    ] {
        t.row(vec![count.to_string(), what.into()]);
    }
    text += &t.to_string();
    Ok(Output::show(&shown, text))
}
