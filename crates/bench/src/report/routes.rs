//! Throughput over the size of the table, with the caches that a table can be in.

use super::compare::measured;
use super::document::{Section, heads, keyed};
use super::figures;
use super::number::{NONE, kilo, maybe};
use super::table::Table;
use super::throughput::some;
use crate::campaign::{Cell, Key, Results};
use crate::model::cache::{Caches, Entry, Level};
use crate::stats::Runs;
use crate::testbed::Kind;
use crate::traffic::Family;

/// The throughputs of routers that were measured with tables of several sizes.
pub fn routed(results: &Results) -> Vec<(&Cell, Runs)> {
    let all = measured(results);
    let several = |key: &Key| {
        let other = |cell: &Cell| {
            Key { routes: key.routes, ..cell.key.clone() } == *key && cell.key.routes != key.routes
        };
        all.iter().any(|(cell, _)| other(cell))
    };
    all.iter().filter(|(cell, _)| several(&cell.key)).map(|(cell, runs)| (*cell, runs.clone())).collect()
}

/// Throughput over routes.
pub fn section(results: &Results) -> Option<Section> {
    let own = ["routes#", "median, kfps#", "of that with the fewest#", "fits"];
    let mut table = Table::new("Throughput over routes, in each direction", heads(&own));
    let (all, caches) = (routed(results), caches(results));
    for (cell, runs) in &all {
        let same =
            |other: &&(&Cell, Runs)| Key { routes: cell.key.routes, ..other.0.key.clone() } == cell.key;
        let fewest = all.iter().filter(same).min_by_key(|(other, _)| other.key.routes);
        let fewest = fewest.map(|(_, runs)| runs.median()).filter(|fps| *fps > 0.0);
        let fits = caches.filter(|_| is_ipv6(results, &cell.key)).map(|caches| {
            match caches.level_of(Entry::IP6FIB, cell.key.routes.into()) {
                Level::L1 => "L1",
                Level::L2 => "L2",
                Level::L3 => "L3",
                Level::Memory => "no cache",
            }
        });
        let own = [
            cell.key.routes.to_string(),
            kilo(runs.median()),
            maybe(fewest.map(|fps| runs.median() / fps), 3),
            fits.unwrap_or(NONE).to_owned(),
        ];
        table.row(keyed(&Key { routes: 0, ..cell.key.clone() }, own));
    }
    let marks = caches.and_then(|caches| caches.marks(Entry::IP6FIB)).map(|m| {
        format!(" The caches here hold {}, {} and {} of them at most (L1, L2, L3).", m.l1, m.l2, m.l3)
    });
    let text = format!(
        "0 routes stand for the few networks of the traffic itself, and are not in the plot. What a table of IPv6 fits is by 20 bytes \
         for each route, the least that VPP's takes (Okelmann 2019, section 6.3.2, with 1/20 where it prints 1/24): throughput falls \
         before a mark, for a table is never alone in a cache.{}",
        marks.unwrap_or_default()
    );
    some("Throughput over routes".into(), &text, table).map(|s| s.with(figures::routes(results)))
}

/// Whether all routes are of IPv6, whose table the thesis has marks for.
fn is_ipv6(results: &Results, key: &Key) -> bool {
    let traffic = results.campaign.traffic(&key.traffic, key.size);
    traffic.is_some_and(|traffic| traffic.families() == [Family::Ipv6])
}

/// The caches of the machine that the routers were on, as its provenance has them; `None` where that was another machine.
fn caches(results: &Results) -> Option<Caches> {
    let size = |name: &str| {
        let (_, value) = results.provenance.facts.iter().find(|(fact, _)| fact == name)?;
        bytes(value.split(',').next()?)
    };
    let here = results.campaign.testbed.kind != Kind::Physical;
    here.then_some(())?;
    Some(Caches { l1: size("cache L1 data")?, l2: size("cache L2 unified")?, l3: size("cache L3 unified")? })
}

/// A size as the kernel writes it: `48K`.
fn bytes(text: &str) -> Option<u64> {
    let kib = text.trim().strip_suffix('K')?.parse::<u64>().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_caches_are_as_the_kernel_writes_them() {
        assert_eq!(bytes("48K"), Some(49_152));
        for bad in ["", "K", "48", "48M", "18446744073709551615K"] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
    }
}
