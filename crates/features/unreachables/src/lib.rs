//! ICMP messages "destination unreachable", which an operator may switch off by address family: a router that is scanned need not show which
//! of its networks and ports exist. Packets that are too big are reported all the same: without these reports, path MTU discovery fails
//! (RFC 1191, RFC 8201).

#![forbid(unsafe_code)]

mod object;

use std::net::{Ipv4Addr, Ipv6Addr};

use model::cli::Output;
use model::object::Change;
use net::feature::{self, App, Entry, Registrar};
use net::router::Routed;
use serde_json::json;

pub use object::{Family, Unreachables};

/// The feature.
pub struct Feature;

impl<C: App> feature::Feature<C> for Feature {
    fn name(&self) -> &'static str {
        "unreachables"
    }

    fn about(&self) -> &'static str {
        "Switches ICMP messages \"destination unreachable\" on and off."
    }

    fn register(&self, r: &mut Registrar<'_, C>) {
        r.entry(Entry::values::<Unreachables>(
            "unreachables",
            "family",
            "Whether the router reports packets that it cannot deliver to their sources, by ICMP messages \"destination unreachable\". \
             Packets that are too big are always reported.",
        ));
        family::<C, Ipv4Addr>(r, Family::Ip4);
        family::<C, Ipv6Addr>(r, Family::Ip6);
    }
}

/// Declares the commands of an address family.
fn family<C: App, A: Routed>(r: &mut Registrar<'_, C>, family: Family) {
    let word = family.word();
    r.command(
        &format!("set {word} unreachables {{enable | disable}}"),
        "Send or do not send ICMP messages \"destination unreachable\". Packets that are too big are always reported.",
        move |c, a| {
            c.transact(vec![Change::set(family.key(), Unreachables(a.has("enable")))])?;
            Ok(Output::none())
        },
    );
    r.command(
        &format!("set {word} unreachables default"),
        "Send ICMP messages \"destination unreachable\", which is the default.",
        move |c, _| feature::unset(c, family.key()),
    );
    r.command(
        &format!("show {word} unreachables"),
        "Show whether ICMP messages \"destination unreachable\" are sent.",
        |c, _| {
            let are_sent = c.router().tables().of::<A>().unreachables.are_sent();
            let text = if are_sent { "sent\n" } else { "not sent\n" };
            Ok(Output::show(json!({ "are_sent": are_sent }), text.to_string()))
        },
    );
}
