//! Unicast reverse path forwarding (RFC 3704): drops packets whose source address is not reachable: in strict mode
//! through the interface that received them, in loose mode through any interface.

#![forbid(unsafe_code)]

mod front;
mod messages;
mod node;
#[cfg(test)]
mod tests;
mod vpp;

use std::net::{Ipv4Addr, Ipv6Addr};

use graph::{Builder, GraphError};
use net::Tables;
use net::feature::{self, App, Registrar};
use net::router::Hooks;

pub use node::{Checked, Mode, Urpf, install};

/// The feature.
pub struct Feature;

impl<C: App> feature::Feature<C> for Feature {
    fn name(&self) -> &'static str {
        "urpf"
    }

    fn about(&self) -> &'static str {
        "Checks the source of received packets (RFC 3704)."
    }

    fn plugin(&self) -> Option<&'static str> {
        Some("urpf_plugin.so")
    }

    fn install(&self, b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        install::<Ipv4Addr>(b, t, hooks)?;
        install::<Ipv6Addr>(b, t, hooks)
    }

    fn register(&self, r: &mut Registrar<'_, C>) {
        front::register(r);
        vpp::register(r);
    }

    fn messages(&self, table: &mut vapi::Table<C>) {
        messages::register(table);
    }
}
