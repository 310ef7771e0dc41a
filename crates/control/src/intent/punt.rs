//! How many packets of a kind go to the main thread.

use std::ops::RangeInclusive;

use model::key::Kind;

use super::{Abilities, Key, Object, Refused, View, refuse};
use crate::system::System;

/// Packets a second that one worker may let through.
pub const RATES: RangeInclusive<u32> = 1..=10_000_000;

/// How many packets a second one worker lets through to the main thread for a reason.
#[derive(Clone, Debug, PartialEq)]
pub struct PuntRate(pub u32);

impl Kind for PuntRate {
    /// The reason.
    type Key = String;
    const NAME: &'static str = "punt-rate";
    const PHASE: u16 = 21;

    fn title(reason: &String) -> String {
        format!("the rate of packets to the main thread for {reason}")
    }
}

impl PuntRate {
    /// The key of the rate of a reason.
    pub fn key(reason: &str) -> Key {
        Key::with::<PuntRate>(reason)
    }
}

impl Object<System> for PuntRate {
    fn validate(&self, reason: &String, _: &View<'_>, abilities: &Abilities) -> Result<(), Refused> {
        let known = abilities.punt_reasons();
        if !known.contains(&reason.as_str()) {
            return refuse(format!(
                "no packets go to the main thread for {reason}: there is {}",
                known.join(", ")
            ));
        }
        if !RATES.contains(&self.0) {
            return refuse(format!(
                "packets of a reason a second: {} to {}, not {}",
                RATES.start(),
                RATES.end(),
                self.0
            ));
        }
        Ok(())
    }

    fn apply(&self, reason: &String, _: Option<&Self>, system: &mut System) -> Result<(), Refused> {
        set(reason, Some(self.0), system);
        Ok(())
    }

    fn withdraw(&self, reason: &String, system: &mut System) -> Result<(), Refused> {
        set(reason, None, system);
        Ok(())
    }

    fn dump(&self, reason: &String, _: bool) -> Vec<String> {
        vec![format!("set punt rate {reason} {}", self.0)]
    }
}

/// Sets the rate of a reason, or gives it back the one that it had.
fn set(reason: &str, rate: Option<u32>, system: &System) {
    if let Some(info) = system.router.graph().punt_reasons().iter().find(|r| r.name == reason) {
        info.set_rate(rate.unwrap_or(info.default_rate));
    }
}
