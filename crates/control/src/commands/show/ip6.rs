//! IPv6 on interfaces.

use std::fmt::Write;
use std::net::Ipv6Addr;

use net::interface::Kind;
use net::nd::{PrefixAdvice, PrefixInformation, Standing};
use net::router::{InterfaceInfo, Router};
use serde::Serialize;

use super::interface::Chosen;
use crate::app::{Context, Output};
use crate::cli::{Args, CliError, Registry, Rows};
use crate::intent::{Find, INFINITE};

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
    /// True if IPv6 is enabled even without a configured address.
    enabled: bool,
    link_local: Option<Ipv6Addr>,
    addresses: Vec<Stand>,
    /// The router advertisements, if they are sent.
    advertises: Option<Advertises>,
    /// Why configured router advertisements are not sent.
    not_advertised: Option<String>,
    groups: Vec<Ipv6Addr>,
}

#[derive(Serialize)]
struct Stand {
    address: String,
    /// `tentative`, `unique`, `duplicate`, or `unused` while the address is not in use.
    state: &'static str,
}

/// The contents of router advertisements.
#[derive(Serialize)]
struct Advertises {
    shortest_interval_seconds: u32,
    longest_interval_seconds: u32,
    lifetime_seconds: u16,
    prefixes: Vec<Advised>,
}

#[derive(Serialize)]
struct Advised {
    prefix: String,
    /// Valid lifetime in seconds; 4294967295 means infinite.
    valid_seconds: u32,
    preferred_seconds: u32,
    on_link: bool,
    autonomous: bool,
}

impl Advertises {
    fn of(router: &Router, i: &InterfaceInfo) -> Option<Advertises> {
        let says = i.advertisement.as_ref()?;
        let advised = |p: PrefixInformation| Advised {
            prefix: format!("{}/{}", p.prefix, p.len),
            valid_seconds: p.valid,
            preferred_seconds: p.preferred,
            on_link: p.on_link,
            autonomous: p.autonomous,
        };
        Some(Advertises {
            shortest_interval_seconds: says.interval.shortest(),
            longest_interval_seconds: says.interval.longest(),
            lifetime_seconds: says.lifetime,
            prefixes: router.advertised_prefixes(i.index).into_iter().map(advised).collect(),
        })
    }

    fn text(&self, out: &mut String) {
        let (from, to) = (self.shortest_interval_seconds, self.longest_interval_seconds);
        let _ = write!(out, "  advertises itself every {from} to {to} s, ");
        let _ = match self.lifetime_seconds {
            0 => writeln!(out, "no default router"),
            lifetime => writeln!(out, "a default router for {lifetime} s"),
        };
        for p in &self.prefixes {
            let [valid, preferred] = [p.valid_seconds, p.preferred_seconds].map(seconds);
            let _ = write!(out, "    {}: valid {valid}, preferred {preferred}", p.prefix);
            *out += if p.on_link { ", on-link" } else { "" };
            *out += if p.autonomous { ", autoconfig\n" } else { "\n" };
        }
    }
}

/// Formats a lifetime.
fn seconds(lifetime: u32) -> String {
    match lifetime {
        PrefixAdvice::INFINITE => INFINITE.into(),
        seconds => format!("{seconds} s"),
    }
}

impl Interface {
    /// Returns the row of an interface; `None` unless IPv6 is enabled or router advertisements are configured.
    fn of(c: &Context, i: &InterfaceInfo) -> Option<Interface> {
        let router = &c.system.router;
        let not_advertised = why_silent(c, i);
        let state = |address| match i.standing(address) {
            Some(Standing::Tentative) => "tentative",
            Some(Standing::Unique) => "unique",
            Some(Standing::Duplicate) => "duplicate",
            None => "unused",
        };
        let stand = |a: net::ip::Address<Ipv6Addr>| Stand { address: a.to_string(), state: state(a.address) };
        (i.speaks_ip6() || not_advertised.is_some()).then(|| Interface {
            name: i.name.clone(),
            admin_up: i.admin_up,
            enabled: i.ip6,
            link_local: i.link_local(),
            addresses: i.all_ip6().into_iter().map(stand).collect(),
            advertises: Advertises::of(router, i),
            not_advertised,
            groups: router.groups(i.index).collect(),
        })
    }
}

/// Returns why an interface sends no router advertisements although they are configured.
fn why_silent(c: &Context, i: &InterfaceInfo) -> Option<String> {
    let wanted = c.store.interface(&i.name)?;
    wanted.advertisement.as_ref()?;
    let why = match i.link_local().map(|address| i.standing(address)) {
        _ if wanted.ra_suppressed => "router advertisements are suppressed",
        None => return Some(speaks_none(&i.name)),
        _ if i.kind == Kind::Loopback => "a loopback interface has no link",
        _ if !i.kind.has_neighbors() => "there are no neighbors on its link",
        _ if !i.admin_up => "the interface is down",
        _ if !c.system.router.usable(i.index) => "its link is down",
        Some(Some(Standing::Duplicate)) => "another station has its link-local address",
        Some(Some(Standing::Unique)) => return None,
        Some(_) => "its link-local address is not in use yet",
    };
    Some(why.into())
}

fn speaks_none(name: &str) -> String {
    format!("IPv6 is not enabled: add an IPv6 address, or run enable ip6 interface {name}")
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
        // The first page is empty if there are none.
        if page.is_empty() {
            out.push_str("IPv6 is not enabled on any interface\n");
        }
        for i in page {
            let _ = writeln!(out, "{} is admin {}", i.name, if i.admin_up { "up" } else { "down" });
            for a in &i.addresses {
                let _ = writeln!(out, "  {} ({})", a.address, a.state);
            }
            i.advertises.iter().for_each(|says| says.text(out));
            i.not_advertised.iter().for_each(|why| *out += &format!("  advertises nothing: {why}\n"));
            i.groups.iter().for_each(|group| *out += &format!("  joined {group}\n"));
        }
    }
}

fn show(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    if let Some(name) = a.get::<String>("interface")
        && c.system.router.interface_named(&name).is_some_and(|i| Interface::of(c, i).is_none())
    {
        return Err(a.fault("interface", speaks_none(&name)));
    }
    Ok(Output::rows(Interfaces(Chosen::new(c, a)?), a.json()))
}
