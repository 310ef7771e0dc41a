//! The router advertisements of an interface, as the operator configures them: the field `router-advertisement` in configuration
//! files, and the commands in a dump of the configuration.

use std::net::Ipv6Addr;
use std::sync::{Arc, LazyLock};

use model::schema::{
    Bad, Described, Form, Parsed, Schema, block, keyed, list, number, optional, pairs, parsed, truth,
};
use model::yaml::{Node, Reader, ip};
use net::feature::{Configured, Part};
use net::ip::Prefix6;
use net::router::{InterfaceInfo, Router, RouterError};
use wire::nd::Preference;

use crate::advertisement::{Advertisement, Advice, BadAdvice, INFINITE, PrefixAdvice};
use crate::advertiser::Interval;
use crate::links::Advertised;
use crate::show;

/// The words for the default router preferences.
const PREFERENCES: [(Preference, &str); 3] =
    [(Preference::Low, "low"), (Preference::Medium, "medium"), (Preference::High, "high")];

impl Described for Advice {
    fn schema() -> &'static Schema<Advice> {
        static SCHEMA: LazyLock<Schema<Advice>> = LazyLock::new(|| {
            Schema::new(Advice::default()).field(
                "router-advertisement",
                optional(block(fields)),
                |a| a.says.as_deref().map(|says| (says.clone(), a.suppressed)),
                |a, fields| {
                    if let Some((says, suppressed)) = fields {
                        *a = Advice { says: Some(Box::new(says)), suppressed };
                    }
                },
                "Sends router advertisements to hosts on the link. `{}` sends them with the default settings; without this field, none are sent.",
            )
        });
        &SCHEMA
    }
}

impl Configured for Advice {
    type Setting = Advertised;

    fn resolve(&self, _: &Router) -> Result<Advertised, RouterError> {
        let says = self.says.as_deref().filter(|_| !self.suppressed);
        Ok(Advertised(says.map(|says| Arc::new(says.clone()))))
    }

    fn validate(&self) -> Result<(), String> {
        let mut prefixes = self.says.iter().flat_map(|says| &says.prefixes);
        let bad = prefixes.find_map(|(p, advice)| Some((p, Advertisement::check(*p, advice).err()?)));
        bad.map_or(Ok(()), |(prefix, why)| Err(format!("{prefix}: {why}")))
    }

    fn must_send(&self) -> bool {
        self.says.is_some()
    }

    fn dump(&self, interface: &str) -> Vec<String> {
        let words = self.says.iter().flat_map(|says| words(says, self.suppressed));
        words.map(|words| format!("ip6 nd {interface} {words}")).collect()
    }

    fn way(_: &str, _: &str) -> Option<String> {
        None
    }

    fn in_show_ip6(&self, router: &Router, interface: &InterfaceInfo) -> Option<Part> {
        Some(show::part(self, router, interface))
    }
}

/// Returns the fields of `router-advertisement`: the settings, and whether advertisements are suppressed.
fn fields() -> &'static Schema<(Advertisement, bool)> {
    static SCHEMA: LazyLock<Schema<(Advertisement, bool)>> = LazyLock::new(|| {
        Schema::new((Advertisement::default(), false))
            .field("suppress", truth(), |a| a.1, |a, on| a.1 = on, "Sends no advertisements, but keeps these settings.")
            .field("interval", Times, |a| a.0.interval, |a, times| a.0.interval = times, "The time between two advertisements.")
            .always()
            .field(
                "lifetime",
                number(0..=u16::MAX).unit("seconds"),
                |a| a.0.lifetime,
                |a, seconds| a.0.lifetime = seconds,
                "How long hosts may use the router as a default router; 0: not at all.",
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

/// The field for the minimum and the maximum time between two advertisements, in seconds.
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
            // The fault of an invalid number is already reported.
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

/// Returns the field type for prefixes that can be advertised.
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

/// Returns the fields for the settings of a prefix.
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
                    return Err(Bad::new("preferred", BadAdvice::Lifetimes.to_string()));
                }
                Ok(())
            })
    });
    &SCHEMA
}

/// The field type for a lifetime: a number of seconds, or `infinite`.
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

/// Returns the word for a preference.
fn preference(wanted: Preference) -> &'static str {
    PREFERENCES.into_iter().find(|(p, _)| *p == wanted).map_or("medium", |(_, word)| word)
}

/// Returns a lifetime in the form of the commands: seconds, or `infinite`.
fn lifetime(seconds: u32) -> String {
    if seconds == PrefixAdvice::INFINITE { INFINITE.into() } else { seconds.to_string() }
}

/// Returns the part of a command that makes these settings of a prefix, for example `prefix 2001:db8::/64 off-link`.
fn prefix_words(prefix: Prefix6, advice: &PrefixAdvice) -> String {
    let usual = PrefixAdvice::default();
    let mut words = format!("prefix {prefix}");
    match (advice.valid, advice.preferred) {
        (valid, preferred) if (valid, preferred) == (usual.valid, usual.preferred) => {}
        (PrefixAdvice::INFINITE, PrefixAdvice::INFINITE) => words += " infinite",
        // Write both as numbers, even if one of them means infinite.
        (valid, preferred) => words += &format!(" {valid} {preferred}"),
    }
    for (said, word) in [
        (!advice.on_link, " off-link"),
        (!advice.autonomous, " no-autoconfig"),
        (!advice.advertised, " no-advertise"),
    ] {
        words += if said { word } else { "" };
    }
    words
}

/// Returns the commands for these settings, without the interface.
fn words(a: &Advertisement, suppressed: bool) -> Vec<String> {
    let usual = Advertisement::default();
    // This command is first, because the commands after it do not change the suppression.
    let mut words = vec![if suppressed { "ra-suppress" } else { "no ra-suppress" }.to_string()];
    if a.interval != usual.interval {
        words.push(format!("ra-interval {} {}", a.interval.longest(), a.interval.shortest()));
    }
    if a.lifetime != usual.lifetime {
        words.push(format!("ra-lifetime {}", a.lifetime));
    }
    words.extend(a.managed.then(|| "ra-managed-config-flag".into()));
    words.extend(a.other.then(|| "ra-other-config-flag".into()));
    if a.preference != usual.preference {
        words.push(format!("ra-preference {}", preference(a.preference)));
    }
    words.extend(a.dns.iter().map(|server| format!("ra-dns {server}")));
    words.extend(a.prefixes.iter().map(|(prefix, advice)| prefix_words(*prefix, advice)));
    words
}
