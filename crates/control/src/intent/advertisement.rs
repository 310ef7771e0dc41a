//! Router advertisements on an interface.

use net::ip::Prefix6;
use net::nd::{Advertisement, Preference, PrefixAdvice};

use super::{Refused, refuse};

/// The word for an infinite lifetime.
pub(crate) const INFINITE: &str = "infinite";

/// The words for the default router preferences.
pub(crate) const PREFERENCES: [(Preference, &str); 3] =
    [(Preference::Low, "low"), (Preference::Medium, "medium"), (Preference::High, "high")];

/// Returns the word for a preference.
pub(crate) fn word(preference: Preference) -> &'static str {
    PREFERENCES.into_iter().find(|(p, _)| *p == preference).map_or("medium", |(_, word)| word)
}

/// Returns a lifetime in the form of the commands: seconds, or `infinite`.
pub(crate) fn lifetime(seconds: u32) -> String {
    if seconds == PrefixAdvice::INFINITE { INFINITE.into() } else { seconds.to_string() }
}

pub(super) fn validate(a: &Advertisement) -> Result<(), Refused> {
    let bad = a.prefixes.iter().find_map(|(p, advice)| Some((p, Advertisement::check(*p, advice).err()?)));
    bad.map_or(Ok(()), |(prefix, why)| refuse(format!("{prefix}: {why}")))
}

/// Returns the words of the command that makes these settings of a prefix.
fn prefix_words(prefix: Prefix6, advice: &PrefixAdvice) -> String {
    let usual = PrefixAdvice::default();
    let mut words = format!("prefix {prefix}");
    match (advice.valid, advice.preferred) {
        (valid, preferred) if (valid, preferred) == (usual.valid, usual.preferred) => {}
        (PrefixAdvice::INFINITE, PrefixAdvice::INFINITE) => words += " infinite",
        // Numbers for both, even if one of them means infinite.
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

/// Returns the commands for these settings on the interface `name`.
pub(super) fn dump(name: &str, a: &Advertisement, suppressed: bool) -> Vec<String> {
    let usual = Advertisement::default();
    // First, because the following commands do not change it.
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
