//! Router advertisements: the router tells the hosts of a link that it is their default router, and which prefixes and DNS servers they use
//! (RFC 4861 section 6.2, RFC 8106).
//!
//! [`advertiser`] decides when an advertisement is sent, [`advertisement`] makes its packets, and [`links`] connects both to the router.

#![forbid(unsafe_code)]

mod advertisement;
mod advertiser;
mod commands;
mod configured;
mod links;
mod messages;
mod show;

use graph::{Builder, GraphError};
use net::Tables;
use net::feature::{self, App, Registrar};
use net::router::Hooks;

pub use advertisement::{Advertisement, Advice, BadAdvice, PrefixAdvice};
pub use advertiser::{Interval, IntervalError};
pub use links::{Advertised, advertised_prefixes, install};
pub use wire::nd::Preference;

/// The feature.
pub struct Feature;

impl<C: App> feature::Feature<C> for Feature {
    fn name(&self) -> &'static str {
        "advertise"
    }

    fn about(&self) -> &'static str {
        "IPv6 router advertisements."
    }

    fn install(&self, _: &mut Builder, _: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        install(hooks)
    }

    fn register(&self, r: &mut Registrar<'_, C>) {
        r.setting::<Advice>();
        commands::register(r);
    }

    fn messages(&self, table: &mut vapi::Table<C>) {
        messages::register(table);
    }
}

#[cfg(test)]
mod tests;
