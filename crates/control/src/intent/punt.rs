//! How many packets of a kind go to the main thread.

use std::ops::RangeInclusive;

use super::{Abilities, Refused, refuse};
use crate::system::System;

/// Packets a second that one worker may let through.
pub const RATES: RangeInclusive<u32> = 1..=10_000_000;

pub(super) fn validate(reason: &str, rate: u32, abilities: &Abilities) -> Result<(), Refused> {
    let known = abilities.punt_reasons();
    if !known.contains(&reason) {
        return refuse(format!(
            "no packets go to the main thread for {reason}: there is {}",
            known.join(", ")
        ));
    }
    if !RATES.contains(&rate) {
        return refuse(format!(
            "packets of a reason a second: {} to {}, not {rate}",
            RATES.start(),
            RATES.end()
        ));
    }
    Ok(())
}

/// Sets the rate of a reason, or gives it back the one that it had.
pub(super) fn apply(reason: &str, rate: Option<u32>, system: &System) {
    if let Some(info) = system.router.graph().punt_reasons().iter().find(|r| r.name == reason) {
        info.set_rate(rate.unwrap_or(info.default_rate));
    }
}

pub(super) fn dump(reason: &str, rate: u32) -> String {
    format!("set punt rate {reason} {rate}")
}
