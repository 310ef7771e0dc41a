//! IPv6 on interfaces.

use std::fmt::Write;
use std::net::Ipv6Addr;

use net::feature::{Attached, no_ip6};
use net::nd::Standing;
use net::router::InterfaceInfo;
use serde::Serialize;
use serde_json::{Map, Value};

use super::interface::Chosen;
use crate::app::{Context, Output};
use crate::cli::{Args, CliError, Registry, Rows};
use crate::intent::Find;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "show ip6 interface [<interface:interface>]",
        "Show the interfaces with IPv6 enabled: their addresses with states, router advertisements, and joined \
         groups.",
        show,
    );
}

#[derive(Serialize)]
struct Interface {
    name: String,
    admin_up: bool,
    /// True if the operator enabled IPv6 explicitly (`enable ip6 interface`). False if only a configured address enables it.
    enabled: bool,
    link_local: Option<Ipv6Addr>,
    addresses: Vec<Stand>,
    #[serde(flatten)]
    of_features: Map<String, Value>,
    /// The lines that features add to the output.
    #[serde(skip)]
    lines: String,
    groups: Vec<Ipv6Addr>,
}

#[derive(Serialize)]
struct Stand {
    address: String,
    /// State of the address: `tentative`, `unique` or `duplicate`; `unused` while the interface does not use it.
    state: &'static str,
}

impl Interface {
    /// Returns the row of an interface; `None` if IPv6 is disabled on it, and no feature needs the row.
    fn of(c: &Context, i: &InterfaceInfo) -> Option<Interface> {
        let router = &c.system.router;
        let unset = Attached::default();
        let settings = c.store.interface(&i.name).map_or(&unset, |wanted| &wanted.attached);
        let parts = c.system.abilities.catalog.in_show_ip6(settings, router, i);
        let state = |address| match i.standing(address) {
            Some(Standing::Tentative) => "tentative",
            Some(Standing::Unique) => "unique",
            Some(Standing::Duplicate) => "duplicate",
            None => "unused",
        };
        let stand = |a: net::ip::Address<Ipv6Addr>| Stand { address: a.to_string(), state: state(a.address) };
        (i.speaks_ip6() || parts.iter().any(|part| part.insists)).then(|| Interface {
            name: i.name.clone(),
            admin_up: i.admin_up,
            enabled: i.ip6,
            link_local: i.link_local(),
            addresses: i.all_ip6().into_iter().map(stand).collect(),
            lines: parts.iter().map(|part| &*part.text).collect(),
            of_features: parts.into_iter().flat_map(|part| part.fields).collect(),
            groups: router.groups(i.index).collect(),
        })
    }
}

/// The chosen interfaces.
struct Interfaces(Chosen);

impl Rows<Context> for Interfaces {
    type Row = Interface;

    fn next(&mut self, c: &Context, page: &mut Vec<Interface>) -> bool {
        let mut all = Vec::new();
        let more = self.0.page(c, &mut all, |i| Interface::of(c, i));
        page.extend(all.into_iter().flatten());
        more
    }

    fn text(&mut self, page: &[Interface], out: &mut String) {
        // If no interface has IPv6, the first page is empty.
        if page.is_empty() {
            out.push_str("IPv6 is not enabled on any interface\n");
        }
        for i in page {
            let _ = writeln!(out, "{} is admin {}", i.name, if i.admin_up { "up" } else { "down" });
            for a in &i.addresses {
                let _ = writeln!(out, "  {} ({})", a.address, a.state);
            }
            out.push_str(&i.lines);
            i.groups.iter().for_each(|group| *out += &format!("  joined {group}\n"));
        }
    }
}

fn show(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    if let Some(name) = a.get::<String>("interface")
        && c.system.router.interface_named(&name).is_some_and(|i| Interface::of(c, i).is_none())
    {
        return Err(a.fault("interface", no_ip6(&name)));
    }
    Ok(Output::rows(Interfaces(Chosen::new(c, a)?), a.json()))
}
