//! Policers: limits of rate for what comes in by an interface, or leaves by it.
//!
//! ```text
//! ip4-unicast, ip6-unicast, ip4-multicast, ip6-multicast: policer-input-…    interface-output: policer-output
//! ```
//!
//! A policer colours each packet green (it conforms), yellow (it exceeds) or red (it violates) by the tokens in its buckets, and says what
//! becomes of each colour. Any number of interfaces may share one. Workers share its buckets without locks, and what passes is exact
//! over all of them: see [`Policer`].
//!
//! [`Params`] describes a policer, [`Policers`] is the main thread's table of them, and [`Policing`] the setting of an interface that
//! names the policers by their indexes.

#![forbid(unsafe_code)]

mod bucket;
mod node;
mod rate;
mod table;
mod vector;

pub use bucket::{Color, Item, Policer};
pub use node::{Policing, install};
pub use rate::{Action, BadParams, Kind, MAX_BURST, MAX_DSCP, Params, Round, Unit};
pub use table::{Counted, MAX_POLICERS, Policers, Shared};
pub use vector::{Load, Vector};

/// This feature.
pub struct Feature;

impl<C: net::feature::App> net::feature::Feature<C> for Feature {
    fn name(&self) -> &'static str {
        "policer"
    }

    fn about(&self) -> &'static str {
        "Limits of rate for what comes in by an interface, or leaves by it."
    }

    fn install(
        &self,
        b: &mut graph::Builder,
        t: &net::Tables,
        hooks: &mut net::router::Hooks,
    ) -> Result<(), graph::GraphError> {
        install(b, t, hooks)
    }

    /// Nothing yet: its commands, its section of the configuration and its metrics are to come.
    fn register(&self, _: &mut net::feature::Registrar<'_, C>) {}
}
