//! The rate of a punt reason, as an object of the configuration.

use std::ops::RangeInclusive;

use model::key::{Key, Kind};
use model::object::{Object, Refused, View, World, refuse};
use model::schema::{Form, Number, Parsed, Valued, number, text};
use net::feature::Entry;
use net::objects::{Ability, Host};

/// Allowed rates, in packets per second and worker.
pub const RATES: RangeInclusive<u32> = 1..=10_000_000;

/// How many packets per second each worker passes to the main thread for a punt reason.
#[derive(Clone, Debug, PartialEq)]
pub struct PuntRate(pub u32);

impl Kind for PuntRate {
    /// The name of the punt reason.
    type Key = String;
    const NAME: &'static str = "punt-rate";
    const PHASE: u16 = 21;

    fn title(reason: &String) -> String {
        format!("the maximum rate of packets to the main thread for {reason}")
    }
}

impl PuntRate {
    /// Returns the key under which the configuration has the rate of the punt reason `reason`.
    pub fn key(reason: &str) -> Key {
        Key::with::<PuntRate>(reason)
    }
}

impl<W: Host> Object<W> for PuntRate {
    fn validate(
        &self,
        reason: &String,
        _: &View<'_, W>,
        abilities: &<W as World>::Abilities,
    ) -> Result<(), Refused> {
        let known = abilities.punt_reasons();
        if !known.contains(&reason.as_str()) {
            return refuse(format!("unknown punt reason {reason}: expected one of {}", known.join(", ")));
        }
        if !RATES.contains(&self.0) {
            return refuse(format!(
                "the maximum rate of a punt reason must be {}, not {}",
                PuntRate::form().values(),
                self.0
            ));
        }
        Ok(())
    }

    fn apply(&self, reason: &String, _: Option<&Self>, world: &mut W) -> Result<(), Refused> {
        set(reason, Some(self.0), world);
        Ok(())
    }

    fn withdraw(&self, reason: &String, world: &mut W) -> Result<(), Refused> {
        set(reason, None, world);
        Ok(())
    }

    fn dump(&self, reason: &String, _: bool) -> Vec<String> {
        vec![format!("set punt rate {reason} {}", self.0)]
    }
}

/// Sets the rate of a punt reason in packets per second; `None` resets it to the reason's default.
fn set<W: Host>(reason: &str, rate: Option<u32>, world: &mut W) {
    if let Some(info) = world.router().graph().punt_reasons().iter().find(|r| r.name == reason) {
        info.set_rate(rate.unwrap_or(info.default_rate));
    }
}

impl Valued for PuntRate {
    type Form = Number<u32>;

    fn names() -> Parsed<String> {
        text("a punt reason", &["arp-request", "nd-router"])
    }

    fn form() -> Number<u32> {
        number(RATES).unit("packets a second")
    }

    fn value(&self) -> u32 {
        self.0
    }

    fn with(rate: u32) -> PuntRate {
        PuntRate(rate)
    }
}

/// Returns the entry `punt-rates` in the section `settings` of a configuration file: a map from punt reason
/// to rate.
pub(crate) fn entry<W: Host>() -> Entry<W> {
    Entry::values::<PuntRate>(
        "punt-rates",
        "reason",
        "The maximum rate of packets of one reason from each worker to the main thread (`show punt`).",
    )
}
