//! Routers beside each other: ratios of their throughputs, and what more workers bring.

use super::document::{Section, found, marked, router, traffic};
use super::figures;
use super::number::{NONE, kilo, maybe, number, range, runs};
use super::table::Table;
use super::throughput::some;
use crate::campaign::{Cell, Found, Key, Measurement, Procedure, Results, throughputs};
use crate::dut::{Spec, Table as Router};
use crate::stats::{Bootstrap, Runs, scaling};
use crate::testbed;

/// Ratios between routers, and relative scale-up.
pub fn sections(results: &Results) -> Vec<Section> {
    [ratios(results), scale(results)].into_iter().flatten().collect()
}

/// The throughputs of each cell that has any.
pub fn measured(results: &Results) -> Vec<(&Cell, Runs)> {
    let of = |(cell, m): (_, &Measurement)| match &m.found {
        Found::Throughput(searches) => Some((cell, runs(throughputs(searches))?)),
        _ => None,
    };
    found(results, Procedure::Throughput).filter_map(of).collect()
}

/// Whether the throughput of a cell may be the tester's.
pub(super) fn is_limited(cell: &Cell) -> bool {
    cell.found(Procedure::Throughput).is_some_and(|m| m.limited_by_tester)
}

/// A ratio of which the tester may have held back either side: a bound then, and nothing where it may have been both.
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
    let heads = ["traffic", "bytes#", "router", "beside", "ratio of medians#", "95 % interval", "runs"];
    let mut table = Table::new("Ratios of throughputs", heads);
    let all = measured(results);
    for (at, (new, new_runs)) in all.iter().enumerate() {
        let same = |(old, _): &&(&Cell, Runs)| Key { dut: new.key.dut.clone(), ..old.key.clone() } == new.key;
        for (base, base_runs) in all[..at].iter().filter(same) {
            let plain = (base_runs.median() > 0.0).then(|| new_runs.median() / base_runs.median());
            let drawn = Bootstrap::default().ratio_of_medians(new_runs, base_runs).ok();
            let limited = [is_limited(new), is_limited(base)];
            // What was drawn is of what was measured: of a bound it says nothing.
            let drawn = drawn.filter(|_| limited == [false, false]);
            let row = [
                traffic(&new.key),
                new.key.size.to_string(),
                marked(&mut table, &new.key.dut, limited[0]),
                marked(&mut table, &base.key.dut, limited[1]),
                bounded(plain, 3, limited),
                range(drawn.map(|i| (i.low, i.high)), |v| number(v, 3)),
                format!("{} and {}", new_runs.len(), base_runs.len()),
            ];
            table.row(row);
        }
    }
    let text = "The median throughput of a router over that of another, with the same traffic and size: above 1 it is the faster one. \
                The interval is by bootstrap, and needs six runs of each, all above 0. Where the tester may have held one of them back, \
                the ratio is a bound (≥, ≤), and where it may have been both, there is none.";
    some("Routers beside each other".into(), text, table)
}

/// In what routers differ that are else the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// How many cores they have.
    Workers,
    /// The clock that these have, in MHz.
    Clocks,
}

impl Over {
    /// What a router has of it, if the campaign says so, and all else of the router.
    fn apart(self, spec: &Spec, bed: testbed::Kind) -> Option<(u32, Router)> {
        let all = Router { name: None, ..spec.clone().into() };
        match self {
            Over::Workers => {
                let workers = u32::try_from(spec.workers_on(bed)?).unwrap_or(u32::MAX);
                Some((workers, Router { workers: None, ..all }))
            }
            Over::Clocks => Some((spec.clock_mhz?, Router { clock_mhz: None, ..all })),
        }
    }
}

/// One of the routers that are the same but for one thing.
pub struct ScaledPoint {
    /// Its name.
    pub dut: String,
    /// What it has of that.
    pub value: u32,
    /// Its median throughput, frames a second.
    pub fps: f64,
    /// The least and the greatest of its runs, where there are several.
    pub range: Option<(f64, f64)>,
    /// Whether that may be the tester's.
    pub limited: bool,
}

/// Routers that are the same but for one thing.
pub struct Scaled {
    /// Traffic and size, without a router.
    pub key: Key,
    /// The routers, each with what it has of that.
    pub points: Vec<ScaledPoint>,
    /// What they have in common.
    router: Router,
}

impl Scaled {
    /// The names of all routers, with a mark of those that the tester may have limited.
    pub fn names(&self) -> String {
        let name = |p: &ScaledPoint| if p.limited { format!("{} †", p.dut) } else { p.dut.clone() };
        self.points.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

/// Routers that the campaign has with several values of something, and else the same. Where two have the same value, the first one
/// stands for both; one that forwards nothing says nothing.
pub fn scaled(results: &Results, over: Over) -> Vec<Scaled> {
    let mut groups: Vec<Scaled> = Vec::new();
    for (cell, runs) in measured(results) {
        let spec = router(results, &cell.key.dut).filter(|_| runs.median() > 0.0);
        let Some((value, router)) = spec.and_then(|spec| over.apart(spec, results.campaign.testbed.kind))
        else {
            continue;
        };
        let key = Key { dut: String::new(), ..cell.key.clone() };
        let point = ScaledPoint {
            dut: cell.key.dut.clone(),
            value,
            fps: runs.median(),
            range: (runs.len() > 1).then(|| (runs.minimum(), runs.maximum())),
            limited: is_limited(cell),
        };
        match groups.iter_mut().find(|group| group.key == key && group.router == router) {
            Some(group) if group.points.iter().any(|p| p.value == value) => {}
            Some(group) => group.points.push(point),
            None => groups.push(Scaled { key, router, points: vec![point] }),
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
    for group in scaled(results, Over::Workers) {
        let points: Vec<(u32, f64)> = group.points.iter().map(|p| (p.value, p.fps)).collect();
        let with = |cores: u32| group.points.iter().find(|p| p.value == cores);
        let limited = |cores: u32| with(cores).is_some_and(|p| p.limited);
        for one in scaling::scaling(&points).unwrap_or_default() {
            let n = one.cores;
            // One worker beside itself is 1, whoever held it back.
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
    let text =
        "Relative scale-up is S(n) = P(n) / P(1) / n, 1 at best; beside half as many workers, 2 is the best.";
    some("Throughput over workers".into(), text, table).map(|s| s.with(figures::workers(results)))
}
