//! `ip4-count`: counts received IPv4 packets by interface. It also shows the cost of a feature that does
//! nothing else.

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

    /// The command `set interface feature` switches the feature on, and is saved with the configuration.
    fn register(&self, r: &mut Registrar<'_, C>) {
        front::register(r);
    }
}
