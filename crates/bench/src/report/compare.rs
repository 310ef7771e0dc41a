//! Routers beside each other: ratios of their throughputs, and what more workers bring.

use super::document::{Section, found, traffic};
use super::number::{kilo, maybe, number, range, runs};
use super::table::Table;
use super::throughput::some;
use crate::campaign::{Cell, Found, Procedure, Results, throughputs};
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
        let same = |(old, _): &&(&Cell, Runs)| {
            let (old, new) = (&old.key, &new.key);
            (&old.traffic, old.size, old.bidirectional) == (&new.traffic, new.size, new.bidirectional)
        };
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

/// Routers that are the same but for their workers: those whose names differ in the digits at their end.
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
    let mut groups: Vec<((String, usize, &str), Vec<(u32, f64)>)> = Vec::new();
    for (cell, runs) in measured(results) {
        let Some(dut) = results.duts.iter().find(|dut| dut.name == cell.key.dut) else { continue };
        let Some(n) = workers(dut) else { continue };
        let kind = dut.name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        let (key, point) = ((traffic(&cell.key), cell.key.size, kind), (n, runs.median()));
        match groups.iter_mut().find(|(k, _)| *k == key) {
            Some((_, points)) => points.push(point),
            None => groups.push((key, vec![point])),
        }
    }
    for ((traffic, size, kind), points) in groups.iter().filter(|(_, points)| points.len() > 1) {
        for one in scaling::scaling(points).unwrap_or_default() {
            table.row([
                traffic.clone(),
                size.to_string(),
                (*kind).to_owned(),
                one.cores.to_string(),
                kilo(one.performance),
                maybe(one.scale_up, 4),
                maybe(one.ratio_to_half, 4),
            ]);
        }
    }
    let text =
        "Relative scale-up is S(n) = P(n) / P(1) / n, 1 at best; beside half as many workers, 2 is the best.";
    some("Throughput over workers".into(), text, table)
}
