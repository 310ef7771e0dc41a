//! What the router says of itself to the hosts on a link.

use net::ip::Prefix6;
use net::nd::{Advertisement, Preference, PrefixAdvice};

use super::{Refused, refuse};

/// The word for a lifetime without end.
pub(crate) const INFINITE: &str = "infinite";

/// The words for how much a router wants to be preferred.
pub(crate) const PREFERENCES: [(Preference, &str); 3] =
    [(Preference::Low, "low"), (Preference::Medium, "medium"), (Preference::High, "high")];

/// The word for one.
pub(crate) fn word(preference: Preference) -> &'static str {
    PREFERENCES.into_iter().find(|(p, _)| *p == preference).map_or("medium", |(_, word)| word)
}

/// A lifetime in seconds, as the commands have it.
pub(crate) fn lifetime(seconds: u32) -> String {
    if seconds == PrefixAdvice::INFINITE { INFINITE.into() } else { seconds.to_string() }
}

pub(super) fn validate(a: &Advertisement) -> Result<(), Refused> {
    let bad = a.prefixes.iter().find_map(|(p, advice)| Some((p, Advertisement::check(*p, advice).err()?)));
    bad.map_or(Ok(()), |(prefix, why)| refuse(format!("{prefix}: {why}")))
}

/// The words that say this of a prefix.
fn prefix_words(prefix: Prefix6, advice: &PrefixAdvice) -> String {
    let usual = PrefixAdvice::default();
    let mut words = format!("prefix {prefix}");
    match (advice.valid, advice.preferred) {
        (valid, preferred) if (valid, preferred) == (usual.valid, usual.preferred) => {}
        (PrefixAdvice::INFINITE, PrefixAdvice::INFINITE) => words += " infinite",
        // A number in both places, whatever it means.
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

/// The commands that would say the same on the interface `name`.
pub(super) fn dump(name: &str, a: &Advertisement, suppressed: bool) -> Vec<String> {
    let usual = Advertisement::default();
    // First: what follows does not change it.
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
        words.push(format!("ra-preference {}", word(a.preference)));
    }
    words.extend(a.dns.iter().map(|server| format!("ra-dns {server}")));
    words.extend(a.prefixes.iter().map(|(prefix, advice)| prefix_words(*prefix, advice)));
    words.into_iter().map(|words| format!("ip6 nd {name} {words}")).collect()
}
