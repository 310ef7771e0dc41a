//! Rates of punted packets: how many packets per second each worker passes to the main thread, by punt reason. Without this feature, each
//! reason has the rate that its node declares.

#![forbid(unsafe_code)]

mod commands;
mod rate;

use net::feature::{self, App, Registrar};

pub use rate::{PuntRate, RATES};

/// The feature.
pub struct Feature;

impl<C: App> feature::Feature<C> for Feature {
    fn name(&self) -> &'static str {
        "punt"
    }

    fn about(&self) -> &'static str {
        "Sets the rates of packets punted to the main thread, by reason."
    }

    fn register(&self, r: &mut Registrar<'_, C>) {
        r.entry(rate::entry());
        commands::register(r);
    }
}
