//! Rates of punted packets: how many packets per second each worker passes to the main thread, by punt reason. Without this feature, each
//! reason has the rate that its node declares.

#![forbid(unsafe_code)]

mod commands;
mod rate;

use net::feature::{self, App, Foreign, Registrar};

pub use rate::{PuntRate, RATES};

/// The feature.
pub struct Feature;

impl<C: App> feature::Feature<C> for Feature {
    fn name(&self) -> &'static str {
        "punt"
    }

    fn about(&self) -> &'static str {
        "Limits the rates of packets punted to the main thread, by reason."
    }

    fn register(&self, r: &mut Registrar<'_, C>) {
        r.entry(rate::entry());
        commands::register(r);
        r.foreign(&[
            Foreign::not_yet("ip punt"),
            Foreign::not_yet("ip6 punt"),
            Foreign::not_yet("set ip punt"),
            Foreign::not_yet("show ip punt"),
            Foreign::use_command("show punt stats", "show punt"),
            Foreign::use_command("show punt reasons", "show punt"),
        ]);
    }
}
