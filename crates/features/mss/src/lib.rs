//! MSS clamping: lowers the MSS option in TCP SYN segments that pass the router (RFC 9293 section 3.7.1).

#![forbid(unsafe_code)]

mod front;
mod messages;
mod node;

use std::net::{Ipv4Addr, Ipv6Addr};

use graph::{Builder, GraphError};
use net::Tables;
use net::feature::{self, App, Registrar};
use net::router::Hooks;

pub use node::{Clamped, Clamping, Clamps, Mss, install};

/// The feature.
pub struct Feature;

impl<C: App> feature::Feature<C> for Feature {
    fn name(&self) -> &'static str {
        "mss"
    }

    fn about(&self) -> &'static str {
        "Lowers the MSS option of TCP (MSS clamping)."
    }

    fn plugin(&self) -> Option<&'static str> {
        Some("mss_clamp_plugin.so")
    }

    fn install(&self, b: &mut Builder, _: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        install::<Ipv4Addr>(b, hooks)?;
        install::<Ipv6Addr>(b, hooks)
    }

    fn register(&self, r: &mut Registrar<'_, C>) {
        front::register(r);
    }

    fn messages(&self, table: &mut vapi::Table<C>) {
        messages::register(table);
    }
}
