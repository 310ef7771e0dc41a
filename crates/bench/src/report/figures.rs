//! The plots of a report.

use super::compare::{self, scaled};
use super::delays::{counted, is_limited, loads, over_runs, p99_ns};
use super::document::{Block, found, traffic};
use super::meters;
use super::number::{runs, summary};
use super::plot::{Axis, Dot, Kind, Plot, Series};
use super::published;
use super::sweep::Count;
use super::usage::{PROCEDURES, frames_per_second_of_processor, is_shared};
use crate::campaign::{Delays, DelaysAt, Found, Key, Procedure, Results, throughputs};
use crate::dut::Spec;
use crate::energy;

/// Selects a figure of a run's delays, in nanoseconds.
type Figure = fn(&Delays) -> f64;

/// The series of all plots, grouped by case, such as a traffic and frame size. Each case gets its own plot: one plot with all cases
/// would be unreadable.
struct Cases<'a> {
    /// All routers of the report. A router's index in this list is its color.
    routers: Vec<&'a str>,
    all: Vec<(String, Vec<Series>)>,
}

impl<'a> Cases<'a> {
    fn new(results: &'a Results) -> Cases<'a> {
        let names = results.campaign.duts.iter().map(Spec::name);
        let mut routers: Vec<&str> = Vec::new();
        for name in names.chain(results.cells.iter().map(|cell| cell.key.dut.as_str())) {
            if !routers.contains(&name) {
                routers.push(name);
            }
        }
        Cases { routers, all: Vec::new() }
    }

    /// Adds a point of a router to the router's series with this name.
    fn add(&mut self, case: String, router: &str, name: String, kind: Kind, dot: Dot) {
        let position = self.routers.iter().position(|known| *known == router);
        self.point(case, position, name, kind, dot);
    }

    /// Adds a published result. Its series has a color of its own.
    fn published(&mut self, case: String, name: String, dot: Dot) {
        self.point(case, None, name, Kind::Published, dot);
    }

    fn point(&mut self, case: String, color: Option<usize>, name: String, kind: Kind, dot: Dot) {
        if !self.all.iter().any(|(known, _)| *known == case) {
            self.all.push((case.clone(), Vec::new()));
        }
        let Some((_, all)) = self.all.iter_mut().find(|(known, _)| *known == case) else { return };
        match all.iter_mut().find(|s| s.name == name) {
            Some(series) => series.points.push(dot),
            None => {
                let next = all.iter().map(|s| s.color + 1).max().unwrap_or_default();
                let color = color.unwrap_or(next.max(self.routers.len()));
                all.push(Series { name, kind, color, points: vec![dot] });
            }
        }
    }

    /// Makes one plot for each case (see [`Cases`]), with the points in ascending order of x.
    fn plots(self, title: &str, x: Axis, y: Axis) -> Vec<Block> {
        self.plots_in(title, x, |_| y.clone())
    }

    /// Like [`plots`](Self::plots), but with a separate y axis for each plot.
    fn plots_in(self, title: &str, x: Axis, y: impl Fn(&[Series]) -> Axis) -> Vec<Block> {
        let plot = |(case, mut all): (String, Vec<Series>)| {
            all.iter_mut().for_each(|s| s.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
            Plot::new(format!("{title}: {case}"), x.clone(), y(&all), all).map(Block::Plot)
        };
        self.all.into_iter().filter_map(plot).collect()
    }
}

/// Returns the case of a key: traffic and frame size.
fn case(key: &Key) -> String {
    format!("{}, {} bytes", traffic(key), key.size)
}

/// Plots throughput over frame size, with published results if the campaign asks for them.
pub fn throughput(results: &Results) -> Vec<Block> {
    let mut all = Cases::new(results);
    for (cell, m) in found(results, Procedure::Throughput) {
        let Found::Throughput(searches) = &m.found else { continue };
        let Some(runs) = runs(throughputs(searches)) else { continue };
        let range = (runs.len() > 1).then(|| (runs.minimum() / 1e3, runs.maximum() / 1e3));
        let dot =
            Dot { x: cell.key.size as f64, y: runs.median() / 1e3, range, limited: m.limited_by_tester };
        all.add(traffic(&cell.key), &cell.key.dut, cell.key.dut.clone(), Kind::Measured, dot);
    }
    let mut cases: Vec<String> = all.all.iter().map(|(case, _)| case.clone()).collect();
    cases.retain(|_| results.campaign.published);
    for case in cases {
        let measured = found(results, Procedure::Throughput).map(|(cell, _)| &cell.key);
        for one in published::throughputs(results, measured.filter(|key| traffic(key) == case)) {
            let dot = Dot::new(f64::from(one.bytes), one.fps / 1e3);
            all.published(case.clone(), one.short, dot);
        }
    }
    // Published results can be far above what virtual links carry; both must remain visible.
    let y = |all: &[Series]| {
        let dots = all.iter().flat_map(|s| &s.points);
        Axis::spanning("kfps, each direction", dots.flat_map(|d| [d.y, d.range.map_or(d.y, |(low, _)| low)]))
    };
    let x = Axis::linear("frame size, bytes");
    all.plots_in("Throughput over frame size (bars: minimum to maximum of the runs)", x, y)
}

/// Plots throughput over the number of workers.
pub fn workers(results: &Results) -> Vec<Block> {
    let mut all = Cases::new(results);
    for group in scaled(results) {
        for point in &group.points {
            let range = point.range.map(|(least, greatest)| (least / 1e3, greatest / 1e3));
            let dot = Dot { x: f64::from(point.workers), y: point.fps / 1e3, range, limited: point.limited };
            let first = group.points.first().map_or("", |first| first.dut.as_str());
            all.add(case(&group.key), first, group.names(), Kind::Measured, dot);
        }
    }
    all.plots(
        "Throughput over workers (bars: minimum to maximum of the runs)",
        Axis::linear("workers"),
        Axis::linear("kfps, each direction"),
    )
}

/// Plots loss over the offered load.
pub fn loss(results: &Results) -> Vec<Block> {
    let mut all = Cases::new(results);
    for (cell, m) in found(results, Procedure::LossRate) {
        let Found::LossRate(result) = &m.found else { continue };
        for point in &result.points {
            let dot = Dot::new(point.outcome.request.load_fps / 1e3, point.loss_ratio * 100.0);
            let dot = dot.marked(m.limited_by_tester);
            all.add(case(&cell.key), &cell.key.dut, cell.key.dut.clone(), Kind::Measured, dot);
        }
    }
    all.plots("Loss over the offered load", Axis::linear("offered, kfps"), Axis::linear("lost, %"))
}

/// Plots loss over time, at one load.
pub fn soak(results: &Results) -> Vec<Block> {
    let mut all = Cases::new(results);
    for (cell, m) in found(results, Procedure::Soak) {
        let Found::Soak(result) = &m.found else { continue };
        let mut from = 0.0;
        for outcome in result.points.iter().flat_map(|p| &p.outcomes) {
            let dot = Dot::new(from, outcome.loss_ratio() * 100.0).marked(m.limited_by_tester);
            all.add(case(&cell.key), &cell.key.dut, cell.key.dut.clone(), Kind::Measured, dot);
            from += outcome.took.as_secs_f64();
        }
    }
    all.plots("Loss over time", Axis::linear("from, s"), Axis::linear("lost, %"))
}

/// Plots the delays that a procedure measured: three percentiles over the load, PDV over the load, and the distribution of delays.
pub fn of_delays(results: &Results, procedure: Procedure) -> Vec<Block> {
    let percentiles: [(&str, Figure); 3] = [
        ("median", |d| d.figures.typical_ns),
        ("99 %", p99_ns),
        ("99.9 %", |d| d.figures.worst_case_ns as f64),
    ];
    let [mut over_load, mut pdv, mut shares] = [(); 3].map(|()| Cases::new(results));
    for (cell, at) in loads(results, procedure) {
        let limited = is_limited(cell, at, procedure);
        let (x, dut, case) = (at.load_fps / 1e3, &cell.key.dut, || case(&cell.key));
        for (what, figure) in percentiles {
            if let Some(ns) = over_runs(at, figure) {
                let dot = Dot::new(x, ns / 1e3).marked(limited);
                over_load.add(case(), dut, format!("{dut}: {what}"), Kind::Measured, dot);
            }
        }
        let of = counted(at).filter_map(|run| run.delays.as_ref());
        if let Some(s) = summary(of.map(|d| d.figures.pdv_ns as f64 / 1e3)) {
            let range = (s.runs > 1).then_some((s.minimum, s.maximum));
            pdv.add(case(), dut, dut.clone(), Kind::Measured, Dot { x, y: s.median, range, limited });
        }
        for dot in distribution(at) {
            shares.add(case(), dut, format!("{dut}: {}", at.name), Kind::Curve, dot.marked(limited));
        }
    }
    let load = || Axis::linear("load, kfps");
    let delay = || Axis::logarithmic("delay, µs");
    [
        over_load.plots("Delay over load (medians of the runs)", load(), delay()),
        pdv.plots(
            "PDV over load (bars: minimum to maximum of the runs)",
            load(),
            Axis::logarithmic("PDV, µs"),
        ),
        shares.plots(
            "Distribution of the delays of received frames (all valid runs together)",
            delay(),
            Axis::linear("frames with at most this delay, %"),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Approximate number of points drawn for a distribution. More would not be visible.
const STEPS: u128 = 300;

/// Returns the distribution of the delays at a load: the share of received frames (y, in percent) whose delay is at most x, in
/// microseconds.
fn distribution(at: &DelaysAt) -> Vec<Dot> {
    let of = counted(at).filter_map(|run| run.delays.as_ref());
    let mut bins: Vec<(u64, u64)> = of.flat_map(|d| d.bins.iter().copied()).collect();
    bins.sort_unstable();
    let all: u128 = bins.iter().map(|(_, n)| u128::from(*n)).sum();
    let (mut below, mut drawn, mut dots) = (0u128, 0u128, Vec::new());
    for (index, (delay, n)) in bins.iter().enumerate() {
        below += u128::from(*n);
        let step = below * STEPS / all.max(1);
        // The tail matters most: its last hundred bins are all drawn.
        if *n > 0 && (step > drawn || dots.is_empty() || index + 100 > bins.len()) {
            drawn = step;
            dots.push(Dot::new(*delay as f64 / 1e3, below as f64 / all as f64 * 100.0));
        }
    }
    dots
}

/// Plots the efficiency over the load: the frames forwarded for each second of the router's processor time.
pub fn efficiency(results: &Results) -> Vec<Block> {
    let mut all = Cases::new(results);
    for procedure in PROCEDURES {
        for (cell, at) in loads(results, procedure) {
            if let Some(frames) = frames_per_second_of_processor(at).filter(|_| !is_shared(results, cell)) {
                let dot = Dot::new(at.load_fps / 1e3, frames / 1e3).marked(is_limited(cell, at, procedure));
                all.add(case(&cell.key), &cell.key.dut, cell.key.dut.clone(), Kind::Measured, dot);
            }
        }
    }
    let y = Axis::linear("thousand frames per CPU second");
    all.plots("Frames per processor time of the router (not energy)", Axis::linear("load, kfps"), y)
}

/// Plots packets per watt-hour, over the load.
pub fn energy(results: &Results) -> Vec<Block> {
    let mut all = Cases::new(results);
    for one in meters::metered(results, energy::Kind::Energy) {
        if let Some(packets) = one.of(meters::packets_per_watt_hour) {
            let name = format!("{}, by {}", one.cell.key.dut, one.name);
            let limited = is_limited(one.cell, one.at, one.procedure);
            let dot = Dot::new(one.at.load_fps / 1e3, packets / 1e6).marked(limited);
            all.add(case(&one.cell.key), &one.cell.key.dut, name, Kind::Measured, dot);
        }
    }
    let (x, y) = (Axis::linear("load, kfps"), Axis::linear("million packets per Wh"));
    all.plots("Packets per Wh", x, y)
}

/// Plots throughput over the number of routes, sessions or flows.
pub fn swept(results: &Results, count: Count) -> Vec<Block> {
    let mut all = Cases::new(results);
    for (cell, runs) in count.swept(results) {
        let range = (runs.len() > 1).then(|| (runs.minimum() / 1e3, runs.maximum() / 1e3));
        let limited = compare::is_limited(cell);
        let dot = Dot { x: f64::from(count.of(&cell.key)), y: runs.median() / 1e3, range, limited };
        all.add(case(&count.any(&cell.key)), &cell.key.dut, cell.key.dut.clone(), Kind::Measured, dot);
    }
    all.plots(
        &format!("Throughput over {} (bars: minimum to maximum of the runs)", count.name()),
        Axis::logarithmic(count.name()),
        Axis::linear("kfps, each direction"),
    )
}
