//! Pings by the router itself: the main thread sends echo requests ([`session`]), and workers punt the replies.
//!
//! The router's answers to the pings of others are part of its core (`net::icmp`).

#![forbid(unsafe_code)]

mod command;
mod exercise;
mod messages;
mod route;
mod session;

use std::net::{Ipv4Addr, Ipv6Addr};

use graph::{Builder, GraphError, reasons};
use net::Tables;
use net::feature::{self, App, Registrar};
use net::ip::Packets;
use net::router::Hooks;
use wire::{icmpv4, icmpv6};

use session::Pings;

/// Maximum number of echo replies per second that one worker passes to the main thread.
const REPLIES: u32 = 1000;

reasons! {
    /// Why an echo reply is ignored.
    pub enum Reason {
        NoPing = "no-ping", Info, counted, "no ping of this router waits for this echo reply";
    }
}

/// The feature.
pub struct Feature;

impl<C: App> feature::Feature<C> for Feature {
    fn name(&self) -> &'static str {
        "ping"
    }

    fn about(&self) -> &'static str {
        "Pings by the router itself."
    }

    fn plugin(&self) -> Option<&'static str> {
        Some("ping_plugin.so")
    }

    fn install(&self, b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        install(b, t, hooks)
    }

    fn register(&self, r: &mut Registrar<'_, C>) {
        command::register(r);
        r.exercise(exercise::EXERCISE);
    }

    fn messages(&self, table: &mut vapi::Table<C>) {
        messages::register(table);
    }
}

/// Adds the state and the punt reasons.
fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    hooks.state(|_| Ok(Pings::default()))?;
    hooks.state(|_| Ok(messages::Asked::default()))?;
    b.main_reasons::<Reason>();
    let reply = hooks.punt(b, "icmp-echo-reply", REPLIES, session::reply);
    t.ip4.icmp_types.register(icmpv4::kind::ECHO_REPLY, reply)?;
    let reply = hooks.punt(b, "icmp6-echo-reply", REPLIES, session::reply);
    t.ip6.icmp_types.register(icmpv6::kind::ECHO_REPLY, reply)?;
    hooks.inject(b, Ipv4Addr::NODES.lookup)?;
    hooks.inject(b, Ipv6Addr::NODES.lookup)
}

#[cfg(test)]
mod tests;
