//! CPU caches that hold the tables of routes.

use super::number::NONE;
use crate::campaign::{Key, Results};
use crate::model::cache::{Caches, Entry, Level};
use crate::testbed::Kind;
use crate::traffic::Family;

/// Returns the smallest cache that holds the router's table, or "no cache" if none does. [`NONE`] if some of the traffic is not IPv6, or
/// the caches are unknown.
pub fn fits(results: &Results, key: &Key) -> &'static str {
    let caches = caches(results).filter(|_| is_ipv6(results, key));
    match caches.map(|caches| caches.level_of(Entry::IP6FIB, key.routes.into())) {
        Some(Level::L1) => "L1",
        Some(Level::L2) => "L2",
        Some(Level::L3) => "L3",
        Some(Level::Memory) => "no cache",
        None => NONE,
    }
}

/// Returns the explanation of the "fits" column.
pub fn text(results: &Results) -> String {
    let marks = caches(results).and_then(|caches| caches.marks(Entry::IP6FIB)).map(|m| {
        format!(
            " The caches of the routers' machine hold at most {}, {} and {} routes (L1, L2, L3).",
            m.l1, m.l2, m.l3
        )
    });
    format!(
        " \"Fits\" assumes 20 bytes per IPv6 route, the minimum in VPP (Okelmann 2019, section 6.3.2; the formula printed there \
         divides by 24, which does not fit its 20 bytes, so 20 is used here). Throughput already falls before a cache is full, because other data shares the cache.{}",
        marks.unwrap_or_default()
    )
}

/// True if all traffic is IPv6. Only then is a cache named, because Okelmann 2019 names caches for IPv6 tables only.
fn is_ipv6(results: &Results, key: &Key) -> bool {
    let traffic = results.campaign.traffic(&key.traffic, key.size);
    traffic.is_some_and(|traffic| traffic.families() == [Family::Ipv6])
}

/// Returns the caches of the routers' machine, from the provenance; `None` if they are unknown, or the routers were on another machine.
fn caches(results: &Results) -> Option<Caches> {
    let size = |name: &str| {
        let (_, value) = results.provenance.facts.iter().find(|(fact, _)| fact == name)?;
        bytes(value.split(',').next()?)
    };
    let here = results.campaign.testbed.kind != Kind::Physical;
    here.then_some(())?;
    Some(Caches { l1: size("cache L1 data")?, l2: size("cache L2 unified")?, l3: size("cache L3 unified")? })
}

/// Parses a size as written by the kernel, such as `48K`, into bytes. `None` for other text and sizes over 64 bits.
fn bytes(text: &str) -> Option<u64> {
    let kib = text.trim().strip_suffix('K')?.parse::<u64>().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_sizes_are_parsed_from_the_kernels_format() {
        assert_eq!(bytes("48K"), Some(49_152));
        for bad in ["", "K", "48", "48M", "18446744073709551615K"] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
    }
}
