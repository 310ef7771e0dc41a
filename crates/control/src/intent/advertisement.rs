//! What the router says of itself to the hosts on a link.

use net::nd::{Advertisement, Preference};

/// The words for how much a router wants to be preferred.
pub(crate) const PREFERENCES: [(&str, Preference); 3] =
    [("low", Preference::Low), ("medium", Preference::Medium), ("high", Preference::High)];

/// The word for one.
pub(crate) fn word(preference: Preference) -> &'static str {
    PREFERENCES.into_iter().find(|(_, p)| *p == preference).map_or("medium", |(word, _)| word)
}

/// The commands that would say the same on the interface `name`.
pub(super) fn dump(name: &str, a: &Advertisement) -> Vec<String> {
    let usual = Advertisement::default();
    let mut words = vec!["no ra-suppress".to_string()];
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
    words.into_iter().map(|words| format!("ip6 nd {name} {words}")).collect()
}
