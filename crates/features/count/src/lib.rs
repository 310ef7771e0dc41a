//! `ip4-count`: counts received IPv4 packets by interface, and shows the cost of a feature with no other
//! work.

#![forbid(unsafe_code)]

mod front;
mod node;
#[cfg(test)]
mod tests;

use graph::{Builder, GraphError};
use net::Tables;
use net::feature::{self, App, Registrar};
use net::router::Hooks;

pub use node::{Count, install};

/// The feature.
pub struct Feature;

impl<C: App> feature::Feature<C> for Feature {
    fn name(&self) -> &'static str {
        "count"
    }

    fn about(&self) -> &'static str {
        "Counts received IPv4 packets and bytes by interface."
    }

    fn install(&self, b: &mut Builder, _: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        install(b, hooks)
    }

    /// `set interface feature` switches it on, and is saved.
    fn register(&self, r: &mut Registrar<'_, C>) {
        front::register(r);
    }
}
