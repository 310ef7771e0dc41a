//! The commands for router advertisements.

use std::net::{IpAddr, Ipv6Addr};

use model::cli::{Args, CliError, Output};
use net::feature::{self, App, Registrar};
use net::ip::Prefix6;
use wire::nd::Preference;

use crate::advertisement::{Advertisement, Advice, BadAdvice, PrefixAdvice};
use crate::advertiser::Interval;

/// Declares the commands.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.command(
        "ip6 nd <interface:interface> [no] {ra-suppress | ra-managed-config-flag | ra-other-config-flag | ra-dns <server:ip>}",
        "Set the router advertisements on an interface. The first setting, or \"no ra-suppress\", starts them. \"ra-suppress\" \
         stops them and keeps the settings.",
        set,
    );
    r.command(
        "ip6 nd <interface:interface> ra-interval <max:u16> [<min:u16>]",
        "Set the longest and the shortest time between two router advertisements, in seconds.",
        |c, a| {
            let max: u16 = a.need("max")?;
            let min = a.get::<u16>("min").unwrap_or_else(|| (max / 3).max(3));
            let interval =
                Interval::new(min.into(), max.into()).map_err(|e| a.fault("max", e.to_string()))?;
            advertise(c, a, |says| says.interval = interval)
        },
    );
    r.command(
        "ip6 nd <interface:interface> ra-lifetime <lifetime:u16>",
        "Set how long hosts may use the router as a default router, in seconds; 0: not at all.",
        |c, a| {
            let lifetime = a.need("lifetime")?;
            advertise(c, a, |says| says.lifetime = lifetime)
        },
    );
    r.command(
        "ip6 nd <interface:interface> prefix <prefix:prefix6> [{<valid:u32> <preferred:u32> | infinite | default}] \
         [off-link] [no-onlink] [no-autoconfig] [no-advertise]",
        "Set how a prefix is advertised: its valid and preferred lifetimes in seconds. With off-link or no-onlink, it is not advertised as \
         on-link; with no-autoconfig, hosts form no addresses from it; with no-advertise, it is not advertised. Connected prefixes \
         are advertised with defaults even without this command.",
        prefix,
    );
    // As in VPP, the options are ignored.
    r.command(
        "ip6 nd <interface:interface> no prefix <prefix:prefix6> [{<valid:u32> <preferred:u32> | infinite | default}] \
         [off-link] [no-onlink] [no-autoconfig] [no-advertise]",
        "Remove this prefix's advertisement settings. Connected prefixes are still advertised with defaults.",
        no_prefix,
    );
    r.command(
        "ip6 nd <interface:interface> ra-preference {low | medium | high}",
        "Set the preference of the router among default routers (RFC 4191).",
        |c, a| {
            let preference = match (a.has("low"), a.has("high")) {
                (true, _) => Preference::Low,
                (_, true) => Preference::High,
                _ => Preference::Medium,
            };
            advertise(c, a, |says| says.preference = preference)
        },
    );
}

/// Changes the router advertisements. The first change starts them, unless they are suppressed.
fn advertise<C: App>(c: &mut C, a: &Args, f: impl FnOnce(&mut Advertisement)) -> Result<Output<C>, CliError> {
    feature::set(c, a, |advice: &mut Advice| f(advice.says.get_or_insert_default()))
}

fn set<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    let on = !a.has("no");
    if a.has("ra-suppress") {
        // `ra-suppress` also works before any other setting: later settings are kept, but nothing is sent.
        return feature::set(c, a, |advice: &mut Advice| {
            advice.says.get_or_insert_default();
            advice.suppressed = on;
        });
    }
    let server = match a.get::<IpAddr>("server") {
        Some(IpAddr::V6(server)) => Some(server),
        Some(IpAddr::V4(_)) => {
            return Err(a.fault("server", "a DNS server in router advertisements needs an IPv6 address"));
        }
        None => None,
    };
    let (managed, other) = (a.has("ra-managed-config-flag"), a.has("ra-other-config-flag"));
    advertise(c, a, |says| {
        if managed {
            says.managed = on;
        }
        if other {
            says.other = on;
        }
        if let Some(server) = server {
            says.dns.retain(|s: &Ipv6Addr| *s != server);
            says.dns.extend(on.then_some(server));
        }
    })
}

/// Returns the IPv6 prefix that a command gives.
fn named(a: &Args) -> Result<Prefix6, CliError> {
    let prefix = feature::exact_prefix(a, "prefix")?.of::<Ipv6Addr>();
    prefix.ok_or_else(|| a.fault("prefix", "only IPv6 prefixes can be advertised"))
}

fn prefix<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    let (prefix, usual) = (named(a)?, PrefixAdvice::default());
    let lifetime = |name: &str, usual| match a.has("infinite") {
        true => PrefixAdvice::INFINITE,
        false => a.get::<u32>(name).unwrap_or(usual),
    };
    let advice = PrefixAdvice {
        advertised: !a.has("no-advertise"),
        on_link: !a.has("off-link") && !a.has("no-onlink"),
        autonomous: !a.has("no-autoconfig"),
        valid: lifetime("valid", usual.valid),
        preferred: lifetime("preferred", usual.preferred),
    };
    let about = |e| if e == BadAdvice::Lifetimes { "preferred" } else { "prefix" };
    Advertisement::check(prefix, &advice).map_err(|e| a.fault(about(e), e.to_string()))?;
    advertise(c, a, |says| _ = says.prefixes.insert(prefix, advice))
}

fn no_prefix<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    let (prefix, name) = (named(a)?, a.need::<String>("interface")?);
    let Advice { says, .. } = c.configured(&name).map_err(|e| a.about("interface", e))?;
    if !says.is_some_and(|says| says.prefixes.contains_key(&prefix)) {
        return Err(a.fault("prefix", format!("{name} has no settings for {prefix}")));
    }
    advertise(c, a, |says| _ = says.prefixes.remove(&prefix))
}
