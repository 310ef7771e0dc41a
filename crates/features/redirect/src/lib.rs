//! ICMP redirects: reports better first hops to hosts (RFC 1812 section 5.2.7.2).
//!
//! IPv6 redirects (RFC 4861 section 8) are not sent.

#![forbid(unsafe_code)]

mod front;
mod node;
#[cfg(test)]
mod tests;

use graph::{Builder, GraphError};
use net::Tables;
use net::feature::{self, App, Registrar};
use net::router::Hooks;

pub use node::{Redirects, install};

/// The feature.
pub struct Feature;

impl<C: App> feature::Feature<C> for Feature {
    fn name(&self) -> &'static str {
        "redirect"
    }

    fn about(&self) -> &'static str {
        "Reports better first hops to hosts (ICMP redirects, IPv4)."
    }

    fn install(&self, b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        install(b, t, hooks)
    }

    fn register(&self, r: &mut Registrar<'_, C>) {
        front::register(r);
    }
}
