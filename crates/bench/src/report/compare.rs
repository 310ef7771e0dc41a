//! Comparison of routers: ratios of their throughputs, and scale-up over workers.

use super::document::{Section, found, marked, router, traffic};
use super::figures;
use super::number::{NONE, kilo, maybe, number, range, runs};
use super::rates::{Rate, Rated, rates};
use super::table::Table;
use super::throughput::some;
use crate::campaign::{Cell, Found, Key, Measurement, Procedure, Results, throughputs};
use crate::dut::{Spec, Table as Router};
use crate::stats::{Bootstrap, Runs, scaling};
use crate::testbed;

/// Returns the sections with ratios between routers, and with relative scale-up.
pub fn sections(results: &Results) -> Vec<Section> {
    [ratios(results), scale(results)].into_iter().flatten().collect()
}

/// Returns the cells (router, traffic and frame size) with a measured throughput, each with the throughputs of its repetitions.
pub fn measured(results: &Results) -> Vec<(&Cell, Runs)> {
    let of = |(cell, m): (_, &Measurement)| match &m.found {
        Found::Throughput(searches) => Some((cell, runs(throughputs(searches))?)),
        _ => None,
    };
    found(results, Procedure::Throughput).filter_map(of).collect()
}

/// True if the tester may have limited the cell's throughput.
pub(super) fn is_limited(cell: &Cell) -> bool {
    cell.found(Procedure::Throughput).is_some_and(|m| m.limited_by_tester)
}

/// Formats a ratio. `limited` states whether the tester may have limited the numerator, and the denominator. If one of them is
/// limited, the ratio is a bound (≥ or ≤); if both are, the text is [`NONE`].
pub(super) fn bounded(ratio: Option<f64>, digits: usize, limited: [bool; 2]) -> String {
    let written = maybe(ratio, digits);
    match (ratio, limited) {
        (None, _) | (_, [false, false]) => written,
        (_, [true, false]) => format!("≥ {written}"),
        (_, [false, true]) => format!("≤ {written}"),
        (_, [true, true]) => NONE.into(),
    }
}

fn ratios(results: &Results) -> Option<Section> {
    let heads = [
        "traffic",
        "bytes#",
        "router",
        "beside",
        "rate",
        "ratio of medians#",
        "95 % confidence interval",
        "runs",
    ];
    let mut table = Table::new("Ratios of rates", heads);
    for Rate { goal, all } in rates(results) {
        let rate = goal.as_deref().unwrap_or("throughput");
        for (at, new) in all.iter().enumerate() {
            let key = &new.cell.key;
            let same = |old: &&Rated<'_>| Key { dut: key.dut.clone(), ..old.cell.key.clone() } == *key;
            all[..at].iter().filter(same).for_each(|base| ratio(&mut table, rate, new, base));
        }
    }
    let text = "The median throughput of a router divided by that of another, with the same traffic and frame size; for goals, the median \
                conditional throughputs are divided. Above 1, the first one is faster. The interval is by bootstrap and needs six runs of each router, \
                all above 0. If the tester may have limited one router, the ratio is a bound (≥, ≤); if it may have limited both, there is \
                no ratio.";
    some("Comparison of routers".into(), text, table)
}

/// Adds the row that compares two routers, with the ratio `new` / `base` of their median rates.
fn ratio(table: &mut Table, rate: &str, new: &Rated<'_>, base: &Rated<'_>) {
    let plain = (base.runs.median() > 0.0).then(|| new.runs.median() / base.runs.median());
    let drawn = Bootstrap::default().ratio_of_medians(&new.runs, &base.runs).ok();
    let limited = [new.limited, base.limited];
    // An interval applies to a measured ratio, not to a bound.
    let drawn = drawn.filter(|_| limited == [false, false]);
    let key = &new.cell.key;
    let row = [
        traffic(key),
        key.size.to_string(),
        marked(table, &key.dut, limited[0]),
        marked(table, &base.cell.key.dut, limited[1]),
        rate.to_owned(),
        bounded(plain, 3, limited),
        range(drawn.map(|i| (i.low, i.high)), |v| number(v, 3)),
        format!("{} and {}", new.runs.len(), base.runs.len()),
    ];
    table.row(row);
}

/// A router of a [`Scaled`] group.
pub struct ScaledPoint {
    /// The router's name.
    pub dut: String,
    /// The router's number of cores.
    pub workers: u32,
    /// The router's median throughput, in frames per second.
    pub fps: f64,
    /// The minimum and maximum of the router's runs, if there are several.
    pub range: Option<(f64, f64)>,
    /// True if the tester may have limited the throughput.
    pub limited: bool,
}

/// A group of routers that differ only in their number of cores.
pub struct Scaled {
    /// Traffic and frame size; the router's name is empty.
    pub key: Key,
    /// The group's routers.
    pub points: Vec<ScaledPoint>,
    /// The description that all routers of the group share: the spec without the number of cores.
    router: Router,
}

impl Scaled {
    /// Returns the names of all routers; † marks those that the tester may have limited.
    pub fn names(&self) -> String {
        let name = |p: &ScaledPoint| if p.limited { format!("{} †", p.dut) } else { p.dut.clone() };
        self.points.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

/// Returns groups of routers that differ only in their number of cores, for each traffic and frame size. If several routers of a group have
/// the same number of cores, only the first is used. Leaves out routers that forward nothing or whose number of cores is unknown, and
/// groups of one router.
pub fn scaled(results: &Results) -> Vec<Scaled> {
    let mut groups: Vec<Scaled> = Vec::new();
    for (cell, runs) in measured(results) {
        let spec = router(results, &cell.key.dut).filter(|_| runs.median() > 0.0);
        let Some((workers, router)) = spec.and_then(|spec| apart(spec, results.campaign.testbed.kind)) else {
            continue;
        };
        let key = Key { dut: String::new(), ..cell.key.clone() };
        let point = ScaledPoint {
            dut: cell.key.dut.clone(),
            workers,
            fps: runs.median(),
            range: (runs.len() > 1).then(|| (runs.minimum(), runs.maximum())),
            limited: is_limited(cell),
        };
        match groups.iter_mut().find(|group| group.key == key && group.router == router) {
            Some(group) if group.points.iter().any(|p| p.workers == workers) => {}
            Some(group) => group.points.push(point),
            None => groups.push(Scaled { key, router, points: vec![point] }),
        }
    }
    groups.retain(|group| group.points.len() > 1);
    groups
}

/// Splits a router's spec into its number of cores and its other keys, without the name. `None` if the number of cores is unknown.
fn apart(spec: &Spec, bed: testbed::Kind) -> Option<(u32, Router)> {
    let workers = u32::try_from(spec.workers_on(bed)?).unwrap_or(u32::MAX);
    Some((workers, Router { name: None, workers: None, ..spec.clone().into() }))
}

fn scale(results: &Results) -> Option<Section> {
    let heads = [
        "traffic",
        "bytes#",
        "router",
        "workers#",
        "median, kfps#",
        "relative scale-up#",
        "relative to half the workers#",
    ];
    let mut table = Table::new("Throughput over workers", heads);
    for group in scaled(results) {
        let points: Vec<(u32, f64)> = group.points.iter().map(|p| (p.workers, p.fps)).collect();
        let with = |cores: u32| group.points.iter().find(|p| p.workers == cores);
        let limited = |cores: u32| with(cores).is_some_and(|p| p.limited);
        for one in scaling::scaling(&points).unwrap_or_default() {
            let n = one.cores;
            // The ratio of one worker to itself is 1, whether the tester limited it or not.
            let beside = |cores: u32| if n == cores { [false; 2] } else { [limited(n), limited(cores)] };
            let row = [
                traffic(&group.key),
                group.key.size.to_string(),
                marked(&mut table, with(n).map_or("", |p| p.dut.as_str()), limited(n)),
                n.to_string(),
                kilo(one.performance),
                bounded(one.scale_up, 4, beside(1)),
                bounded(one.ratio_to_half, 4, beside(n / 2)),
            ];
            table.row(row);
        }
    }
    let text = "Relative scale-up is S(n) = P(n) / P(1) / n, at best 1. The throughput relative to half the workers is P(n) / P(n / 2), \
                at best 2.";
    some("Throughput over workers".into(), text, table).map(|s| s.with(figures::workers(results)))
}
