//! IPv6 on interfaces.

use std::fmt::Write;
use std::net::Ipv6Addr;

use net::interface::Kind;
use net::nd::{PrefixAdvice, PrefixInformation, Standing};
use net::router::{InterfaceInfo, Router};
use serde::Serialize;

use super::super::{Context, Output};
use super::interface::Chosen;
use crate::cli::{Args, CliError, Registry, Rows};
use crate::intent::{Find, INFINITE};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "show ip6 interface [<interface:interface>]",
        "Show the interfaces that speak IPv6: their addresses, how these stand, what hosts are told there, and the groups that \
         they have joined.",
        show,
    );
}

#[derive(Serialize)]
struct Interface {
    name: String,
    admin_up: bool,
    /// Whether IPv6 is spoken even without an address that was given.
    enabled: bool,
    link_local: Option<Ipv6Addr>,
    addresses: Vec<Stand>,
    /// What hosts are told, if they are.
    advertises: Option<Advertises>,
    /// Why they are told nothing, if something is configured.
    not_advertised: Option<String>,
    groups: Vec<Ipv6Addr>,
}

#[derive(Serialize)]
struct Stand {
    address: String,
    /// `tentative`, `unique`, `duplicate`, or `unused` while the interface is.
    state: &'static str,
}

/// What a router advertisement says.
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
    /// 4294967295: without end.
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

/// A lifetime for people.
fn seconds(lifetime: u32) -> String {
    match lifetime {
        PrefixAdvice::INFINITE => INFINITE.into(),
        seconds => format!("{seconds} s"),
    }
}

impl Interface {
    /// What there is to say of an interface that speaks IPv6, or on which more is configured for the case that it did.
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

/// Why hosts on the link of an interface are not told of the router, although that is configured.
fn why_silent(c: &Context, i: &InterfaceInfo) -> Option<String> {
    let wanted = c.store.interface(&i.name)?;
    wanted.advertisement.as_ref()?;
    let why = match i.link_local().map(|address| i.standing(address)) {
        _ if wanted.ra_suppressed => "router advertisements are suppressed",
        None => return Some(speaks_none(&i.name)),
        _ if i.kind == Kind::Loopback => "a loopback interface has no link",
        _ if !i.kind.has_neighbors() => "there are no neighbours on its link",
        _ if !i.admin_up => "the interface is down",
        _ if !c.system.router.usable(i.index) => "its link is down",
        Some(Some(Standing::Duplicate)) => "another station has its link-local address",
        Some(Some(Standing::Unique)) => return None,
        Some(_) => "its link-local address is not in use yet",
    };
    Some(why.into())
}

fn speaks_none(name: &str) -> String {
    format!("it speaks no IPv6: give it an IPv6 address, or say enable ip6 interface {name}")
}

/// Interfaces from an index on.
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
            out.push_str("no interface speaks IPv6\n");
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
