//! Policers: rate limits for packets received on an interface, or sent by it.
//!
//! ```text
//! ip4-unicast, ip6-unicast, ip4-multicast, ip6-multicast: policer-input-…    interface-output: policer-output
//! ```
//!
//! A policer colors each packet green (it conforms), yellow (it exceeds) or red (it violates) by the tokens
//! in its buckets, and defines the action for each color. Any number of interfaces may share a policer.
//! Workers share the buckets without locks, and the limits hold exactly for all workers together: see
//! [`Policer`].
//!
//! [`Params`] describes a policer, and is an object of the configuration whose key is the policer's name.
//! [`Policers`] is the main thread's table of policers, by index. [`PolicedBy`] is the operator's setting of
//! an interface, with the names of its policers; workers read the indexes in [`Policing`].

#![forbid(unsafe_code)]

mod action;
mod bucket;
mod commands;
mod configured;
mod messages;
mod node;
mod object;
mod packet;
mod rate;
mod show;
mod table;
mod vector;

pub use action::{Action, MAX_DSCP};
pub use bucket::{Color, Item, Policer};
pub use configured::PolicedBy;
pub use node::{Policing, install};
pub use object::MAX_NAME;
pub use rate::{Kind, MAX_BURST, MOST_RATE, Params, Round, Unit};
pub use table::{Counted, MAX_POLICERS, Policers, Shared};
pub use vector::{Load, Vector};

/// The feature.
pub struct Feature;

impl<C: net::feature::App> net::feature::Feature<C> for Feature {
    fn name(&self) -> &'static str {
        "policer"
    }

    fn about(&self) -> &'static str {
        "Rate limits for packets received or sent on an interface."
    }

    fn plugin(&self) -> Option<&'static str> {
        Some("policer_plugin.so")
    }

    fn install(
        &self,
        b: &mut graph::Builder,
        t: &net::Tables,
        hooks: &mut net::router::Hooks,
    ) -> Result<(), graph::GraphError> {
        install(b, t, hooks)
    }

    fn register(&self, r: &mut net::feature::Registrar<'_, C>) {
        // This precedes the commands, because their arguments are names of policers.
        object::register(r);
        configured::register(r);
        commands::register(r);
        show::register(r);
        let not_yet = net::feature::Foreign::not_yet;
        r.foreign(&[not_yet("show policer pools"), not_yet("set policer classify")]);
    }

    fn messages(&self, table: &mut vapi::Table<C>) {
        messages::register(table);
    }
}
