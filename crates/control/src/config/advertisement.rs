//! `router-advertisement` of an interface.

use std::net::Ipv6Addr;

use net::ip::Prefix6;
use net::nd::advertiser::Interval;
use net::nd::{Advertisement, BadAdvice, PrefixAdvice};

use crate::intent::{INFINITE, PREFERENCES, lifetime, preference_word};
use model::yaml::Text;
use model::yaml::{At, Node, Reader};

/// A map; `{}` for what is usual. Also says whether it is suppressed.
pub(super) fn read(r: &mut Reader, node: &Node) -> Option<(Advertisement, bool)> {
    let mut fields = r.fields(node);
    let suppressed = fields.take("suppress").and_then(|n| r.truth(n)).unwrap_or(false);
    let mut says = Advertisement::default();
    if let Some(node) = fields.take("interval") {
        let times: Vec<u64> = r.list(node).iter().filter_map(|n| r.number(n, 0..=1800)).collect();
        match times[..] {
            [min, max] => match Interval::new(min, max) {
                Ok(interval) => says.interval = interval,
                Err(e) => r.fault(node.at, e.to_string()),
            },
            _ => r.fault(node.at, "an interval has two times in seconds: [ 200, 600 ]"),
        }
    }
    says.lifetime = fields.take("lifetime").and_then(|n| r.number(n, 0..=u16::MAX)).unwrap_or(says.lifetime);
    says.managed = fields.take("managed").and_then(|n| r.truth(n)).unwrap_or(false);
    says.other = fields.take("other").and_then(|n| r.truth(n)).unwrap_or(false);
    let word = fields.take("preference").and_then(|n| r.word(n, &PREFERENCES.map(|(word, _)| word)));
    let preference = PREFERENCES.into_iter().find(|(w, _)| Some(*w) == word);
    says.preference = preference.map_or(says.preference, |(_, preference)| preference);
    if let Some(node) = fields.take("dns") {
        says.dns = r.list(node).iter().filter_map(|n| r.parsed::<Ipv6Addr>(n, "an IPv6 address")).collect();
    }
    if let Some(node) = fields.take("prefixes") {
        for (text, at, node) in r.entries(node) {
            says.prefixes.extend(prefix(r, text, at, node));
        }
    }
    fields.end(r);
    Some((says, suppressed))
}

/// What is said of a prefix: a map, `{}` for what is usual.
fn prefix(r: &mut Reader, text: &str, at: At, node: &Node) -> Option<(Prefix6, PrefixAdvice)> {
    let prefix = Prefix6::exact(text).map_err(|e| r.fault(at, e)).ok();
    let (mut fields, mut advice) = (r.fields(node), PrefixAdvice::default());
    let mut preferred = at;
    for (name, seconds) in [("valid", &mut advice.valid), ("preferred", &mut advice.preferred)] {
        if let Some(node) = fields.take(name) {
            preferred = node.at;
            *seconds = match r.text(node) {
                Some(INFINITE) => PrefixAdvice::INFINITE,
                _ => r.number(node, 0..=u32::MAX).unwrap_or(*seconds),
            };
        }
    }
    for (name, flag) in [
        ("on-link", &mut advice.on_link),
        ("autoconfig", &mut advice.autonomous),
        ("advertise", &mut advice.advertised),
    ] {
        *flag = fields.take(name).and_then(|n| r.truth(n)).unwrap_or(true);
    }
    fields.end(r);
    if let Err(e) = Advertisement::check(prefix?, &advice) {
        r.fault(if e == BadAdvice::Lifetimes { preferred } else { at }, e.to_string());
        return None;
    }
    Some((prefix?, advice))
}

/// The same as text.
pub(super) fn write(t: &mut Text<'_>, says: &Advertisement, suppressed: bool) {
    t.map("router-advertisement", |t| {
        t.field("suppress", suppressed.then_some(true));
        t.field("interval", Some(format!("[ {}, {} ]", says.interval.shortest(), says.interval.longest())));
        t.field("lifetime", Some(says.lifetime));
        t.field("managed", says.managed.then_some(true));
        t.field("other", says.other.then_some(true));
        let usual = Advertisement::default().preference;
        t.field("preference", (says.preference != usual).then(|| preference_word(says.preference)));
        let servers: Vec<String> = says.dns.iter().map(|server| format!("\"{server}\"")).collect();
        t.field("dns", (!servers.is_empty()).then(|| format!("[ {} ]", servers.join(", "))));
        t.map("prefixes", |t| {
            for (prefix, advice) in &says.prefixes {
                t.field(&format!("\"{prefix}\""), Some(prefix_fields(advice)));
            }
        });
    });
}

/// What is said of a prefix, on one line.
fn prefix_fields(advice: &PrefixAdvice) -> String {
    let usual = PrefixAdvice::default();
    let mut fields = Vec::new();
    for (name, seconds, usual) in
        [("valid", advice.valid, usual.valid), ("preferred", advice.preferred, usual.preferred)]
    {
        fields.extend((seconds != usual).then(|| format!("{name}: {}", lifetime(seconds))));
    }
    for (name, flag) in
        [("on-link", advice.on_link), ("autoconfig", advice.autonomous), ("advertise", advice.advertised)]
    {
        fields.extend((!flag).then(|| format!("{name}: false")));
    }
    if fields.is_empty() { "{}".into() } else { format!("{{ {} }}", fields.join(", ")) }
}
