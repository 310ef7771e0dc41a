//! `router-advertisement` of an interface.

use std::net::Ipv6Addr;

use net::nd::Advertisement;
use net::nd::advertiser::Interval;

use super::document::{Node, Reader};
use super::write::Text;
use crate::intent::{PREFERENCES, preference_word};

/// A map; `{}` for what is usual.
pub(super) fn read(r: &mut Reader, node: &Node) -> Option<Advertisement> {
    let mut fields = r.fields(node);
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
    fields.end(r);
    Some(says)
}

/// The same as text.
pub(super) fn write(t: &mut Text<'_>, says: &Advertisement) {
    t.map("router-advertisement", |t| {
        t.field("interval", Some(format!("[ {}, {} ]", says.interval.shortest(), says.interval.longest())));
        t.field("lifetime", Some(says.lifetime));
        t.field("managed", says.managed.then_some(true));
        t.field("other", says.other.then_some(true));
        let usual = Advertisement::default().preference;
        t.field("preference", (says.preference != usual).then(|| preference_word(says.preference)));
        let servers: Vec<String> = says.dns.iter().map(|server| format!("\"{server}\"")).collect();
        t.field("dns", (!servers.is_empty()).then(|| format!("[ {} ]", servers.join(", "))));
    });
}
