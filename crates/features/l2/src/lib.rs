//! Layer 2: cross-connects and patches, which send the frames received on one interface out of another, and bridge domains, which send
//! frames to the ports of their destinations. VLAN tags may be rewritten.

#![forbid(unsafe_code)]

mod bridge;
mod commands;
mod exercise;
mod messages;
mod node;
#[cfg(test)]
mod node_tests;
mod object;
mod rewrite;
mod rewriting;

use graph::{Builder, GraphError};
use net::Tables;
use net::feature::{self, App, Registrar};
use net::router::Hooks;

pub use bridge::{
    BridgePort, Policy, attach, detach, flush_port, join, leave, remove_domain, set_domain, set_station,
};
pub use node::{Peer, Way, connect, disconnect, install};
pub use object::{CrossConnect, Patch};
pub use rewrite::Rewrite;
pub use rewriting::TagRewrite;

/// The feature.
pub struct Feature;

impl<C: App> feature::Feature<C> for Feature {
    fn name(&self) -> &'static str {
        "l2"
    }

    fn about(&self) -> &'static str {
        "Switches Ethernet frames between interfaces."
    }

    fn install(&self, b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        install(b, t, hooks)?;
        bridge::install(b, t, hooks)
    }

    fn register(&self, r: &mut Registrar<'_, C>) {
        object::register(r);
        rewriting::register(r);
        commands::register(r);
        bridge::objects::register(r);
        bridge::commands::register(r);
        r.exercise(exercise::EXERCISE);
        r.exercise(bridge::exercise::EXERCISE);
    }

    fn messages(&self, table: &mut vapi::Table<C>) {
        messages::register(table);
        bridge::messages::register(table);
        rewriting::messages(table);
    }
}
