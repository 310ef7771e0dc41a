//! Routers beside each other: ratios of their throughputs, and what more workers bring.

use super::document::{Section, found, traffic};
use super::figures;
use super::number::{kilo, maybe, number, range, runs};
use super::table::Table;
use super::throughput::some;
use crate::campaign::{Cell, Found, Key, Procedure, Results, throughputs};
use crate::dut::Facts;
use crate::stats::{Bootstrap, Runs, scaling};

/// Ratios between routers, and relative scale-up.
pub fn sections(results: &Results) -> Vec<Section> {
    [ratios(results), scale(results)].into_iter().flatten().collect()
}

/// The workers of a router, if its configuration names their cores.
pub fn workers(dut: &Facts) -> Option<u32> {
    let list =
        |line: &String| Some(line.split_once("corelist-workers")?.1.split_whitespace().next()?.to_owned());
    let list = dut.configuration.iter().find_map(list)?;
    u32::try_from(list.split(',').filter(|core| core.parse::<usize>().is_ok()).count())
        .ok()
        .filter(|n| *n > 0)
}

/// The throughputs of each cell that has any.
fn measured(results: &Results) -> Vec<(&Cell, Runs)> {
    let of = |(cell, m): (_, &crate::campaign::Measurement)| match &m.found {
        Found::Throughput(searches) => Some((cell, runs(throughputs(searches))?)),
        _ => None,
    };
    found(results, Procedure::Throughput).filter_map(of).collect()
}

fn ratios(results: &Results) -> Option<Section> {
    let heads = ["traffic", "bytes#", "router", "beside", "ratio of medians#", "95 % interval", "runs"];
    let mut table = Table::new("Ratios of throughputs", heads);
    let all = measured(results);
    for (at, (new, new_runs)) in all.iter().enumerate() {
        let same = |(old, _): &&(&Cell, Runs)| Key { dut: new.key.dut.clone(), ..old.key.clone() } == new.key;
        for (base, base_runs) in all[..at].iter().filter(same) {
            let plain = (base_runs.median() > 0.0).then(|| new_runs.median() / base_runs.median());
            let drawn = Bootstrap::default().ratio_of_medians(new_runs, base_runs).ok();
            table.row([
                traffic(&new.key),
                new.key.size.to_string(),
                new.key.dut.clone(),
                base.key.dut.clone(),
                maybe(plain, 3),
                range(drawn.map(|i| (i.low, i.high)), |v| number(v, 3)),
                format!("{} and {}", new_runs.len(), base_runs.len()),
            ]);
        }
    }
    let text = "The median throughput of a router over that of another, with the same traffic and size: above 1 it is the faster one. \
                The interval is by bootstrap, and needs six runs of each, all above 0.";
    some("Routers beside each other".into(), text, table)
}

/// Routers that are the same but for their workers.
pub struct Scaled {
    /// Traffic and size, of the first of them.
    pub key: Key,
    /// What their names have in common.
    pub kind: String,
    /// Workers, and the median throughput in frames a second.
    pub points: Vec<(u32, f64)>,
}

/// Routers that are the same but for their workers: those whose names differ in the digits at their end. Two at least.
pub fn scaled(results: &Results) -> Vec<Scaled> {
    let mut groups: Vec<Scaled> = Vec::new();
    for (cell, runs) in measured(results) {
        let Some(dut) = results.duts.iter().find(|dut| dut.name == cell.key.dut) else { continue };
        let Some(n) = workers(dut) else { continue };
        let kind = dut.name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        let key = Key { dut: String::new(), ..cell.key.clone() };
        let point = (n, runs.median());
        match groups.iter_mut().find(|group| group.key == key && group.kind == kind) {
            Some(group) => group.points.push(point),
            None => groups.push(Scaled { key, kind: kind.into(), points: vec![point] }),
        }
    }
    groups.retain(|group| group.points.len() > 1);
    groups
}

fn scale(results: &Results) -> Option<Section> {
    let heads = [
        "traffic",
        "bytes#",
        "router",
        "workers#",
        "median, kfps#",
        "relative scale-up#",
        "relative to half as many#",
    ];
    let mut table = Table::new("Throughput over workers", heads);
    for group in scaled(results) {
        for one in scaling::scaling(&group.points).unwrap_or_default() {
            table.row([
                traffic(&group.key),
                group.key.size.to_string(),
                group.kind.clone(),
                one.cores.to_string(),
                kilo(one.performance),
                maybe(one.scale_up, 4),
                maybe(one.ratio_to_half, 4),
            ]);
        }
    }
    let text =
        "Relative scale-up is S(n) = P(n) / P(1) / n, 1 at best; beside half as many workers, 2 is the best.";
    some("Throughput over workers".into(), text, table).map(|s| s.with(figures::workers(results)))
}
