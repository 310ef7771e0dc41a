//! The number of probes before an IPv6 address is used: duplicate address detection (RFC 4862 section 5.4).
#![allow(non_camel_case_types)]

use std::sync::LazyLock;

use model::key::Kind;
use model::schema::{Described, Schema, parsed};
use net::feature::{self, Entry, Registrar, unset};
use net::nd::Standing;
use net::router::Probed;
use vapi::types::{interface_index, ip6_address};
use vapi::wire::Array;
use vapi::{Code, DONE, Table, define};

use crate::api::{change, numbers};
use crate::app::{Context, Done, Output};
use crate::cli::Args;
use crate::intent::{Change, Family, Key, Object, Reason, Refused, View, refuse_as};
use crate::system::{Abilities, System};

/// The default of RFC 4862 section 5.1.
const USUAL: u8 = 1;
/// Maximum number of probes.
const MOST: u8 = 10;
/// Interval between two probes, in seconds. This interval cannot be changed.
const DELAY: f64 = 1.0;

/// The number of probes (DupAddrDetectTransmits). With 0, addresses are used at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes {
    /// Number of probes.
    pub transmits: u8,
}

impl Default for Probes {
    fn default() -> Probes {
        Probes { transmits: USUAL }
    }
}

impl Kind for Probes {
    /// The address family, which is always IPv6.
    type Key = Family;
    const NAME: &'static str = "dad";
    const PHASE: u16 = 23;

    fn title(_: &Family) -> String {
        "duplicate address detection".into()
    }
}

impl Probes {
    fn key() -> Key {
        Key::of::<Probes>(&Family::V6)
    }
}

impl Object<System> for Probes {
    fn validate(&self, _: &Family, _: &View<'_>, _: &Abilities) -> Result<(), Refused> {
        match self.transmits > MOST {
            true => refuse_as(Reason::Value, format!("the number of probes must be 0 to {MOST}")),
            false => Ok(()),
        }
    }

    fn apply(&self, _: &Family, _: Option<&Self>, system: &mut System) -> Result<(), Refused> {
        system.router.set_dad_transmits(self.transmits);
        Ok(())
    }

    fn withdraw(&self, _: &Family, system: &mut System) -> Result<(), Refused> {
        system.router.set_dad_transmits(USUAL);
        Ok(())
    }

    fn dump(&self, _: &Family, _: bool) -> Vec<String> {
        vec![format!("set ip6 dad transmits {}", self.transmits)]
    }
}

impl Described for Probes {
    fn schema() -> &'static Schema<Probes> {
        static SCHEMA: LazyLock<Schema<Probes>> = LazyLock::new(|| {
            Schema::new(Probes::default())
                .field(
                    "transmits",
                    // The examples leave out 0: with 0 probes, the state of an address depends on when the address was added.
                    parsed("0 to 10", &["2", "10"], read, |n: &u8| n.to_string()),
                    |p| p.transmits,
                    |p, n| p.transmits = n,
                    "The number of probes before an address is used, one per second. With 0, it is used at once.",
                )
                .always()
        });
        &SCHEMA
    }
}

fn read(text: &str) -> Result<u8, String> {
    let number = text.parse().ok().filter(|n| *n <= MOST);
    number.ok_or_else(|| format!("expected a number from 0 to {MOST}"))
}

define! {
    /// Sets the number of probes.
    request ip6_dad_enable_disable {
        enable: bool = true,
        dad_transmits: u8 = 1,
        dad_retransmit_delay: f64 = 1.0,
    }
    /// Asks for the number of probes.
    dump ip6_dad_dump { } -> ip6_dad_details { enabled: bool, dad_transmits: u8, dad_retransmit_delay: f64 }
    /// The state of an address.
    enum ip6_dad_state: u8 {
        IP6_DAD_STATE_IDLE = 0,
        IP6_DAD_STATE_TENTATIVE = 1,
        IP6_DAD_STATE_PREFERRED = 2,
        IP6_DAD_STATE_DUPLICATE = 3,
    }
    /// Asks for events when an address begins to be probed, after each probe, and at the end.
    request want_ip6_dad_events { enable_disable: bool, pid: u32 } events ip6_dad_event;
    /// A step of the duplicate address detection of an address.
    event ip6_dad_event {
        pid: u32,
        state: ip6_dad_state,
        sw_if_index: interface_index,
        address: ip6_address,
        dad_count: u8,
        dad_transmits: u8,
    }
}

/// The feature: duplicate address detection.
pub struct Feature;

impl feature::Feature<Context> for Feature {
    fn name(&self) -> &'static str {
        "dad"
    }

    fn about(&self) -> &'static str {
        "Sets how IPv6 addresses are tested for duplicates."
    }

    fn register(&self, r: &mut Registrar<'_, Context>) {
        let help = "Duplicate address detection of IPv6.";
        r.entry(Entry::one::<Probes>("ip6-dad", help, Probes::key()));
        r.command(
            "set ip6 dad transmits <n:u8>",
            "Set how many probes are sent before an IPv6 address is used, one per second. With 0, addresses are used at once. \
             The setting applies to addresses that are added later.",
            |c, a| set(c, a, a.need("n")?),
        );
        r.command("set ip6 dad default", "Reset the number of probes to the default.", |c, _| {
            unset(c, Probes::key())
        });
        r.command("show ip6 dad", "Show how many probes are sent before an IPv6 address is used.", |c, _| {
            let transmits = probes(c);
            Ok(Output::show(serde_json::json!({ "transmits": transmits }), format!("{transmits} probes\n")))
        });
    }

    fn messages(&self, table: &mut Table<Context>) {
        table
            .module("ip6_dad", [1, 0, 0])
            .request::<ip6_dad_enable_disable>(|c, _, q| {
                let transmits = if q.enable { q.dad_transmits } else { 0 };
                if transmits > 0 && q.dad_retransmit_delay != DELAY {
                    return Err(Code::UNSUPPORTED);
                }
                change::make(c, changes(c, transmits))?;
                DONE
            })
            .dump::<ip6_dad_dump, _>(|c, _| {
                let dad_transmits = probes(c);
                let enabled = dad_transmits > 0;
                vapi::all(vec![ip6_dad_details { enabled, dad_transmits, dad_retransmit_delay: DELAY }])
            })
            .registration::<want_ip6_dad_events>(|c, caller, q| {
                let changed = c.events.want(EVENT, caller.client, q.enable_disable, q.pid);
                c.system.router.watch_probes(c.events.is_wanted(EVENT));
                if changed { DONE } else { Err(Code::INVALID_REGISTRATION) }
            })
            .event_from::<ip6_dad_event>(news);
    }
}

/// The kind of event that clients register for.
const EVENT: &str = "ip6_dad_event";

/// Returns the events for all registered clients.
fn news(c: &mut Context) -> Vec<(u64, ip6_dad_event)> {
    let probed = c.system.router.take_probed();
    if probed.is_empty() {
        return Vec::new();
    }
    let clients = c.events.registered(EVENT);
    // Clients that have disconnected are no longer registered. Without registered clients, the router stops collecting probes.
    c.system.router.watch_probes(!clients.is_empty());
    let dad_transmits = probes(c);
    let event = |step: &Probed, pid| ip6_dad_event {
        pid,
        state: match step.standing {
            Standing::Tentative => ip6_dad_state::IP6_DAD_STATE_TENTATIVE,
            Standing::Unique => ip6_dad_state::IP6_DAD_STATE_PREFERRED,
            Standing::Duplicate => ip6_dad_state::IP6_DAD_STATE_DUPLICATE,
        },
        sw_if_index: numbers::number(step.interface),
        address: ip6_address(Array(step.address.octets())),
        dad_count: step.sent,
        dad_transmits,
    };
    let all =
        probed.iter().flat_map(|step| clients.iter().map(move |(client, pid)| (*client, event(step, *pid))));
    all.collect()
}

fn probes(c: &Context) -> u8 {
    let set = c.store.get(&Probes::key()).and_then(|value| value.get::<Probes>());
    set.copied().unwrap_or_default().transmits
}

/// Returns the changes that set the number of probes to `transmits`. The default number is not stored: an existing object is
/// removed.
fn changes(c: &Context, transmits: u8) -> Vec<Change> {
    let value = (transmits != USUAL).then(|| Probes { transmits }.into());
    let is_set = c.store.get(&Probes::key()).is_some();
    let change = Change { key: Probes::key(), value };
    Some(change).filter(|change| change.value.is_some() || is_set).into_iter().collect()
}

fn set(c: &mut Context, a: &Args, transmits: u8) -> Done {
    c.transact(changes(c, transmits)).map_err(|e| a.about("n", e))?;
    Ok(Output::none())
}
