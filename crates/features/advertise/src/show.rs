//! The part of `show ip6 interface` about router advertisements.

use std::fmt::Write;

use net::feature::{Part, no_ip6};
use net::interface::Kind;
use net::nd::Standing;
use net::router::{InterfaceInfo, Router};
use serde::Serialize;
use wire::nd::PrefixInformation;

use crate::advertisement::{Advice, INFINITE, PrefixAdvice};
use crate::links::{Advertised, advertised_prefixes};

/// Returns an interface's part of the output of a show command: the advertisements that the interface sends, or why it does not
/// send the configured advertisements.
pub(crate) fn part(wanted: &Advice, router: &Router, i: &InterfaceInfo) -> Part {
    let (advertises, silent) = (Advertises::of(router, i), why_silent(wanted, router, i));
    let mut part = Part { insists: silent.is_some(), ..Part::default() };
    advertises.iter().for_each(|says| says.text(&mut part.text));
    silent.iter().for_each(|why| part.text += &format!("  advertises nothing: {why}\n"));
    part.fields.insert("advertises".into(), serde_json::to_value(advertises).unwrap_or_default());
    part.fields.insert("not_advertised".into(), silent.into());
    part
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
        let Advertised(says) = router.setting(i.index);
        let says = says?;
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
            prefixes: advertised_prefixes(router, i).into_iter().map(advised).collect(),
        })
    }

    fn text(&self, out: &mut String) {
        let (from, to) = (self.shortest_interval_seconds, self.longest_interval_seconds);
        let _ = write!(out, "  advertises itself every {from} to {to} s, ");
        let _ = match self.lifetime_seconds {
            0 => writeln!(out, "not as a default router"),
            lifetime => writeln!(out, "as a default router for {lifetime} s"),
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

/// Returns why an interface sends no router advertisements although they are configured; `None` if it sends them, or none are
/// configured.
fn why_silent(wanted: &Advice, router: &Router, i: &InterfaceInfo) -> Option<String> {
    wanted.says.as_ref()?;
    let why = match i.link_local().map(|address| i.standing(address)) {
        _ if wanted.suppressed => "router advertisements are suppressed",
        None => return Some(no_ip6(&i.name)),
        _ if i.kind == Kind::Loopback(None) => "a loopback interface has no link",
        _ if !i.kind.has_neighbors() => "there are no neighbors on its link",
        _ if !i.admin_up => "the interface is down",
        _ if !router.usable(i.index) => "its link is down",
        Some(Some(Standing::Duplicate)) => "another station has the interface's link-local address",
        Some(Some(Standing::Unique)) => return None,
        Some(_) => "the interface's link-local address is not in use yet",
    };
    Some(why.into())
}
