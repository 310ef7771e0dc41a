//! `router-advertisement` of an interface.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use model::schema::{Bad, Form, Parsed, Schema, keyed, list, number, pairs, parsed, truth};
use model::yaml::{Node, Reader, ip};
use net::ip::Prefix6;
use net::nd::advertiser::Interval;
use net::nd::{Advertisement, PrefixAdvice};

use crate::intent::{INFINITE, PREFERENCES, lifetime};

/// The settings, and whether advertisements are suppressed.
pub(super) type Advice = (Advertisement, bool);

/// Returns the fields of `router-advertisement`.
pub(super) fn advertisement() -> &'static Schema<Advice> {
    static SCHEMA: LazyLock<Schema<Advice>> = LazyLock::new(|| {
        Schema::new((Advertisement::default(), false))
            .field("suppress", truth(), |a| a.1, |a, on| a.1 = on, "Sends no advertisements, but keeps these settings.")
            .field("interval", Times, |a| a.0.interval, |a, times| a.0.interval = times, "The time between two advertisements.")
            .always()
            .field(
                "lifetime",
                number(0..=u16::MAX).unit("seconds"),
                |a| a.0.lifetime,
                |a, seconds| a.0.lifetime = seconds,
                "The lifetime as a default router; 0: not a default router.",
            )
            .always()
            .field("managed", truth(), |a| a.0.managed, |a, on| a.0.managed = on, "Hosts get addresses by DHCPv6.")
            .field("other", truth(), |a| a.0.other, |a, on| a.0.other = on, "Hosts get other settings by DHCPv6.")
            .field(
                "preference",
                pairs(&PREFERENCES),
                |a| a.0.preference,
                |a, preference| a.0.preference = preference,
                "The default router preference (RFC 4191).",
            )
            .field(
                "dns",
                list(parsed("IPv6 addresses", &["2001:db8::53"], server, |server| ip(server))),
                |a| a.0.dns.clone(),
                |a, servers| a.0.dns = servers,
                "Recursive name servers (RFC 8106).",
            )
            .field(
                "prefixes",
                keyed("PREFIX", prefix(), advice, false),
                |a| a.0.prefixes.clone(),
                |a, prefixes| a.0.prefixes = prefixes,
                "Prefixes to advertise, with settings. The interface's networks are advertised with defaults even if absent here.",
            )
    });
    &SCHEMA
}

fn server(text: &str) -> Result<Ipv6Addr, String> {
    text.parse().map_err(|_| format!("\"{text}\" is not an IPv6 address"))
}

/// The shortest and the longest time between two advertisements.
struct Times;

impl Form for Times {
    type Value = Interval;

    fn read(&self, r: &mut Reader, node: &Node) -> Option<Interval> {
        let before = r.found();
        let times: Vec<u64> = r.list(node).iter().filter_map(|node| r.number(node, 0..=1800)).collect();
        let interval = match times[..] {
            [min, max] => Interval::new(min, max).map_err(|e| e.to_string()),
            _ => Err("expected two times in seconds: [ 200, 600 ]".into()),
        };
        match interval {
            Ok(interval) => Some(interval),
            // An invalid number already has a fault.
            Err(_) if r.found() > before => None,
            Err(why) => {
                r.fault(node.at, why);
                None
            }
        }
    }

    fn line(&self, interval: &Interval) -> String {
        format!("[ {}, {} ]", interval.shortest(), interval.longest())
    }

    fn values(&self) -> String {
        "`[ shortest, longest ]` in seconds, 3 to 1800".into()
    }

    fn examples(&self) -> Vec<Interval> {
        [(3, 4), (1350, 1800)].into_iter().filter_map(|(min, max)| Interval::new(min, max).ok()).collect()
    }
}

/// Returns the form of a prefix that can be advertised.
fn prefix() -> Parsed<Prefix6> {
    parsed(
        "an IPv6 prefix",
        &["2001:db8::/64", "2001:db8:1::/48"],
        |text| {
            let prefix = Prefix6::exact(text)?;
            Advertisement::check(prefix, &PrefixAdvice::default()).map_err(|e| e.to_string())?;
            Ok(prefix)
        },
        |prefix| ip(prefix),
    )
}

/// Returns the settings of a prefix.
fn advice() -> &'static Schema<PrefixAdvice> {
    static SCHEMA: LazyLock<Schema<PrefixAdvice>> = LazyLock::new(|| {
        Schema::new(PrefixAdvice::default())
            .field("valid", Lifetime, |a| a.valid, |a, seconds| a.valid = seconds, "The valid lifetime.")
            .field(
                "preferred",
                Lifetime,
                |a| a.preferred,
                |a, seconds| a.preferred = seconds,
                "The preferred lifetime.",
            )
            .field("on-link", truth(), |a| a.on_link, |a, on| a.on_link = on, "The prefix is on the link.")
            .field(
                "autoconfig",
                truth(),
                |a| a.autonomous,
                |a, on| a.autonomous = on,
                "Hosts form addresses with the prefix (SLAAC).",
            )
            .field(
                "advertise",
                truth(),
                |a| a.advertised,
                |a, on| a.advertised = on,
                "Advertises the prefix.",
            )
            .check(|advice| {
                if advice.preferred > advice.valid {
                    return Err(Bad::new("preferred", net::nd::BadAdvice::Lifetimes.to_string()));
                }
                Ok(())
            })
    });
    &SCHEMA
}

/// A time in seconds, or infinite.
struct Lifetime;

impl Form for Lifetime {
    type Value = u32;

    fn read(&self, r: &mut Reader, node: &Node) -> Option<u32> {
        match r.text(node)? {
            INFINITE => Some(PrefixAdvice::INFINITE),
            _ => r.number(node, 0..=u32::MAX),
        }
    }

    fn line(&self, seconds: &u32) -> String {
        lifetime(*seconds)
    }

    fn values(&self) -> String {
        format!("0 to {} seconds, or `{INFINITE}`", u32::MAX - 1)
    }

    fn examples(&self) -> Vec<u32> {
        vec![0, 600, PrefixAdvice::INFINITE]
    }
}
