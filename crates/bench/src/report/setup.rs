//! Test conditions, provenance, and notes on the results.

use super::document::{Block, KEY, Section, cells, keyed, router, trials};
use super::number::{NONE, kilo};
use super::table::Table;
use crate::campaign::{Disorder, Results};
use crate::dut::{Kind, Spec};
use crate::engine::limits::Absence;
use crate::engine::receiver::Damaged;
use crate::testbed;

/// Returns the sections with conditions, routers, provenance, and the limits of tester and link.
pub fn sections(results: &Results) -> Vec<Section> {
    let mut routers = Table::new("Routers", ["router", "version", "workers#", "source of processor time"]);
    for dut in &results.duts {
        let spec = router(results, &dut.name).filter(|spec| spec.kind != Kind::None);
        let workers = spec.map_or_else(String::new, |spec| workers(spec, results.campaign.testbed.kind));
        routers.row([dut.name.clone(), dut.version.clone(), workers, dut.processor_time.clone()]);
    }
    let mut facts = Table::new("Provenance", ["fact", "value"]);
    if !results.provenance.begun.is_empty() {
        facts.row(["begun".into(), results.provenance.begun.clone()]);
    }
    results.provenance.facts.iter().for_each(|(name, value)| facts.row([name.clone(), value.clone()]));
    let heads = KEY.into_iter().chain([
        "tester alone, kfps#",
        "its delay, median, µs#",
        "99.9 %, µs#",
        "link, kfps#",
    ]);
    let mut ceilings = Table::new("Limits of tester and link, in each direction", heads);
    for cell in cells(results) {
        let us = |ns: Option<f64>| ns.map_or_else(|| NONE.into(), |ns| format!("{:.1}", ns / 1e3));
        let delays = cell.tester_delays.as_ref();
        let [median, worst] = [delays.map(|d| d.typical_ns), delays.map(|d| d.worst_case_ns as f64)].map(us);
        ceilings.row(keyed(&cell.key, [kilo(cell.tester_fps), median, worst, kilo(cell.link_fps)]));
    }
    // Folded: the conclusion is above these sections, and the results are below.
    let section = |head: &str, blocks| Section { folded: true, ..Section::new(head, blocks) };
    vec![
        section("Conditions", list(&[&results.conditions[..], &results.caveats].concat())),
        section("Routers", table(routers)),
        section("Provenance", table(facts)),
        section("Limits of tester and link, in each direction", table(ceilings)),
    ]
}

/// Returns a router's number of cores, with a note if the campaign only declares the number and the tester does not assign the cores.
fn workers(spec: &Spec, bed: testbed::Kind) -> String {
    match spec.workers_on(bed) {
        Some(n) if spec.kind == Kind::Command && bed == testbed::Kind::Physical => {
            format!("{n}, declared by the campaign")
        }
        Some(n) => n.to_string(),
        None => "not known".into(),
    }
}

/// Explanation of the table of invalid trials.
const INVALID: &str = "A trial is invalid if the tester, not the router, may have caused its result. An invalid trial is \
    repeated, and only the result of the repeat is used. If the last repeat is invalid, too, the trial counts as failed. So a \
    throughput can be too low, but never too high. For bursts, non-drop rates and connection attempts, the numbers of trials and of \
    invalid trials are in the tables of their procedures.";

/// Explanation of the table of duplicates, damage and disorder.
const DISORDER: &str = "Covers all trials, including repeated ones. A reordered frame arrived after a frame that was sent later (RFC 4737 section \
    3.3). A damaged frame counts as lost (RFC 2544 section 10). All other received frames arrived once, \
    intact, in order, and on the right port.";

/// Explanation of the table of the tester's own delays.
const ABSENCES: &str = "Delays that the tester itself caused. Frame late: the longest delay between a frame's due time and its departure. \
    Receiver away: the longest time between two polls, the second of which returned frames. Waited: the share of the time in which \
    the tester was ready to run but had no processor. While the receiver was away, frames waited: their measured delays can be too \
    long by this time, and by slightly more if over 256 frames waited. After a late frame, the frames that became due meanwhile \
    follow in one burst.";

/// Returns the sections with duplicated, reordered, damaged and misdirected frames, delays of the tester, router configurations and
/// counters, invalid trials, and failed measurements.
pub fn notes(results: &Results) -> Vec<Section> {
    let mut counters =
        Table::new("Counters of the routers", KEY.into_iter().chain(["procedure", "counters"]));
    let mut invalid = Table::new(
        "Invalid trials",
        KEY.into_iter().chain([
            "procedure",
            "trials#",
            "repeated#",
            "still invalid#",
            "reason of the first invalid one",
        ]),
    );
    let mut disorder = Table::new(
        "Duplicated, reordered, damaged and misdirected frames",
        KEY.into_iter().chain([
            "procedure",
            "received#",
            "duplicated#",
            "reordered#",
            "wrong length#",
            "wrong checksum#",
            "wrong TTL#",
            "wrong payload#",
            "on the wrong port#",
        ]),
    );
    let mut absences = Table::new(
        "Longest delays caused by the tester, in valid trials",
        KEY.into_iter().chain(["procedure", "frame late, ms#", "receiver away, ms#", "waited, %#"]),
    );
    for (cell, m) in cells(results).into_iter().flat_map(|c| c.measurements.iter().map(move |m| (c, m))) {
        let procedure = m.found.procedure().name().to_owned();
        let said: Vec<String> = m.counters.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        if !said.is_empty() {
            counters.row(keyed(&cell.key, [procedure.clone(), said.join("; ")]));
        }
        if !m.disorder.is_none() {
            let Disorder { received, duplicated, reordered, damaged, astray } = m.disorder;
            let Damaged { length, checksum, ttl, payload } = damaged;
            let counts = [received, duplicated, reordered, length, checksum, ttl, payload, astray];
            let counts = counts.map(|frames| frames.to_string());
            disorder.row(keyed(&cell.key, [procedure.clone()].into_iter().chain(counts)));
        }
        if let Some(Absence { behind, away, waited }) = m.absence {
            let waited = waited.map_or_else(|| NONE.into(), |share| format!("{:.3}", share * 100.0));
            let ms = [behind, away].map(|seconds| format!("{:.3}", seconds * 1e3));
            absences.row(keyed(&cell.key, [procedure.clone()].into_iter().chain(ms).chain([waited])));
        }
        let all = trials(&m.found);
        let bad: Vec<_> = all.iter().filter(|o| !o.is_valid()).collect();
        if !bad.is_empty() || m.repeated > 0 {
            let count = |n: usize| if all.is_empty() { NONE.into() } else { n.to_string() };
            let why = bad.first().and_then(|o| o.invalid.first());
            let why = why.map_or_else(String::new, ToString::to_string);
            let counts = [procedure, count(all.len()), m.repeated.to_string(), count(bad.len()), why];
            invalid.row(keyed(&cell.key, counts));
        }
    }
    vec![
        Section::new("Duplicates, damage and disorder", explained(disorder, DISORDER)),
        Section::new("The tester's own delays", explained(absences, ABSENCES)),
        Section::new("How the routers were set up", configurations(results)),
        Section::new("What the routers counted", table(counters)),
        Section::new("Invalid trials", explained(invalid, INVALID)),
        Section::new("What could not be measured", list(&results.failures)),
    ]
}

/// Returns the configuration of each router, as a list of lines.
fn configurations(results: &Results) -> Vec<Block> {
    let said = results.duts.iter().filter(|dut| !dut.configuration.is_empty());
    said.flat_map(|dut| [Block::Text(format!("{}:", dut.name)), Block::List(dut.configuration.clone())])
        .collect()
}

fn list(items: &[String]) -> Vec<Block> {
    if items.is_empty() { Vec::new() } else { vec![Block::List(items.to_vec())] }
}

/// Returns a table with its explanation above it; nothing if the table has no rows.
fn explained(of: Table, why: &str) -> Vec<Block> {
    let mut blocks = table(of);
    if !blocks.is_empty() {
        blocks.insert(0, Block::Text(why.into()));
    }
    blocks
}

fn table(table: Table) -> Vec<Block> {
    if table.rows().is_empty() { Vec::new() } else { vec![Block::Table(table)] }
}

#[cfg(test)]
mod tests {
    use super::super::compare::scaled;
    use super::super::fixture;
    use super::*;

    #[test]
    fn the_source_of_the_number_of_workers_is_shown() -> serde_json::Result<()> {
        let of = |spec: &str, bed| Ok::<_, serde_json::Error>(workers(&serde_json::from_str(spec)?, bed));
        let physical = testbed::Kind::Physical;
        assert_eq!(of(r#"{"kind":"linux","workers":4}"#, physical)?, "4");
        assert_eq!(of(r#"{"kind":"linux"}"#, physical)?, "not known");
        assert_eq!(of(r#"{"kind":"linux"}"#, testbed::Kind::Veth)?, "1");
        let command = r#"{"kind":"command","start":"x","workers":4}"#;
        assert_eq!(of(command, physical)?, "4, declared by the campaign");
        assert_eq!(of(command, testbed::Kind::Veth)?, "4");
        Ok(())
    }

    #[test]
    fn routers_with_unknown_cores_are_not_scaled() -> serde_json::Result<()> {
        let mut all = fixture::results(&[1.0], &["volley", "b"], 1, "x");
        let duts = r#"[{"kind":"linux","name":"volley"}, {"kind":"linux","name":"b","workers":2}]"#;
        all.campaign.duts = serde_json::from_str(duts)?;
        let here = scaled(&all).len();
        all.campaign.testbed.kind = testbed::Kind::Physical;
        assert!(here > 0 && scaled(&all).is_empty(), "{here}");
        Ok(())
    }
}
