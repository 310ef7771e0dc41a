//! Which plots there are, and of what.

use super::compare::scaled;
use super::delays::{self, loads, over_runs, p99_ns};
use super::document::{Block, found, traffic};
use super::number::{runs, summary};
use super::plot::{Axis, Dot, Kind, Plot, Series};
use super::published;
use super::usage::frames_per_second_of_processor;
use crate::campaign::{Cell, Delays, DelaysAt, Found, Procedure, Results, throughputs};

/// What is read from the delays of a run, in nanoseconds.
type Figure = fn(&Delays) -> f64;

/// Series by their names, each with its points.
struct Named(Vec<Series>);

impl Named {
    fn add(&mut self, name: String, kind: Kind, dot: Dot) {
        match self.0.iter_mut().find(|s| s.name == name) {
            Some(series) => series.points.push(dot),
            None => self.0.push(Series { name, kind, points: vec![dot] }),
        }
    }

    /// In rising order of x.
    fn plot(mut self, title: &str, x: Axis, y: Axis) -> Option<Block> {
        self.0.iter_mut().for_each(|s| s.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
        Plot::new(title, x, y, self.0).map(Block::Plot)
    }
}

/// Router and traffic.
fn name(cell: &Cell) -> String {
    format!("{}, {}", cell.key.dut, traffic(&cell.key))
}

/// Router, traffic and size.
fn sized(cell: &Cell) -> String {
    format!("{}, {} bytes", name(cell), cell.key.size)
}

/// Throughput over the size of frames, with what was published.
pub fn throughput(results: &Results) -> Option<Block> {
    let mut all = Named(Vec::new());
    for (cell, m) in found(results, Procedure::Throughput) {
        let Found::Throughput(searches) = &m.found else { continue };
        let Some(runs) = runs(throughputs(searches)) else { continue };
        let range = (runs.len() > 1).then(|| (runs.minimum() / 1e3, runs.maximum() / 1e3));
        all.add(name(cell), Kind::Measured, Dot { x: cell.key.size as f64, y: runs.median() / 1e3, range });
    }
    if !all.0.is_empty() {
        for one in published::throughputs(results) {
            all.add(one.short, Kind::Published, Dot::new(f64::from(one.bytes), one.fps / 1e3));
        }
    }
    let y = Axis::linear("kfps, each direction");
    all.plot(
        "Throughput over frame size; bars from the least to the greatest run",
        Axis::linear("frame size, bytes"),
        y,
    )
}

/// Throughput over the number of workers.
pub fn workers(results: &Results) -> Option<Block> {
    let mut all = Named(Vec::new());
    for group in scaled(results) {
        for (n, fps) in &group.points {
            let name = format!("{}, {}, {} bytes", group.kind, traffic(&group.key), group.key.size);
            all.add(name, Kind::Measured, Dot::new(f64::from(*n), fps / 1e3));
        }
    }
    all.plot("Throughput over workers", Axis::linear("workers"), Axis::linear("kfps, each direction"))
}

/// Loss over the offered load.
pub fn loss(results: &Results) -> Option<Block> {
    let mut all = Named(Vec::new());
    for (cell, m) in found(results, Procedure::LossRate) {
        let Found::LossRate(result) = &m.found else { continue };
        for point in &result.points {
            let dot = Dot::new(point.outcome.request.load_fps / 1e3, point.loss_ratio * 100.0);
            all.add(sized(cell), Kind::Measured, dot);
        }
    }
    all.plot("Loss over the offered load", Axis::linear("offered, kfps"), Axis::linear("lost, %"))
}

/// What went through over time, at one load.
pub fn soak(results: &Results) -> Option<Block> {
    let mut all = Named(Vec::new());
    for (cell, m) in found(results, Procedure::Soak) {
        let Found::Soak(result) = &m.found else { continue };
        let mut from = 0.0;
        for outcome in result.points.iter().flat_map(|p| &p.outcomes) {
            all.add(sized(cell), Kind::Measured, Dot::new(from, outcome.loss_ratio() * 100.0));
            from += outcome.took.as_secs_f64();
        }
    }
    all.plot("Loss over time", Axis::linear("from, s"), Axis::linear("lost, %"))
}

/// Three percentiles over the load, PDV, and the distribution of the delays, for a procedure that measures delays.
pub fn of_delays(results: &Results, procedure: Procedure) -> Vec<Block> {
    let percentiles: [(&str, Figure); 3] = [
        ("median", |d| d.figures.typical_ns),
        ("99 %", p99_ns),
        ("99.9 %", |d| d.figures.worst_case_ns as f64),
    ];
    let (mut over_load, mut pdv, mut shares) = (Named(Vec::new()), Named(Vec::new()), Named(Vec::new()));
    for (cell, at) in loads(results, procedure) {
        let x = at.load_fps / 1e3;
        for (what, figure) in percentiles {
            if let Some(ns) = over_runs(at, figure) {
                over_load.add(format!("{}: {what}", sized(cell)), Kind::Measured, Dot::new(x, ns / 1e3));
            }
        }
        let of = at.runs.iter().filter_map(|run| run.delays.as_ref());
        if let Some(s) = summary(of.map(|d| d.figures.pdv_ns as f64 / 1e3)) {
            let range = (s.runs > 1).then_some((s.minimum, s.maximum));
            pdv.add(sized(cell), Kind::Measured, Dot { x, y: s.median, range });
        }
        for dot in distribution(at) {
            shares.add(format!("{}: {}", sized(cell), at.name), Kind::Curve, dot);
        }
    }
    let load = || Axis::linear("load, kfps");
    let delay = || Axis::logarithmic("delay, µs");
    [
        over_load.plot("Delay over load: medians of the runs", load(), delay()),
        pdv.plot(
            "PDV over load; bars from the least to the greatest run",
            load(),
            Axis::logarithmic("PDV, µs"),
        ),
        shares.plot(
            "Distribution of the delays of frames that came, all runs together",
            delay(),
            Axis::linear("frames that took no longer, %"),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// How many points of a distribution are drawn, about: more would not be seen.
const STEPS: u128 = 300;

/// The share of frames, in percent, that took no longer than so many microseconds.
fn distribution(at: &DelaysAt) -> Vec<Dot> {
    let of = at.runs.iter().filter_map(|run| run.delays.as_ref());
    let mut bins: Vec<(u64, u64)> = of.flat_map(|d| d.bins.iter().copied()).collect();
    bins.sort_unstable();
    let all: u128 = bins.iter().map(|(_, n)| u128::from(*n)).sum();
    let (mut below, mut drawn, mut dots) = (0u128, 0u128, Vec::new());
    for (index, (delay, n)) in bins.iter().enumerate() {
        below += u128::from(*n);
        let step = below * STEPS / all.max(1);
        // The tail matters most, and its last hundred bins are there one by one.
        if *n > 0 && (step > drawn || dots.is_empty() || index + 100 > bins.len()) {
            drawn = step;
            dots.push(Dot::new(*delay as f64 / 1e3, below as f64 / all as f64 * 100.0));
        }
    }
    dots
}

/// Frames for each second of the router's processors, over the load.
pub fn efficiency(results: &Results) -> Option<Block> {
    let mut all = Named(Vec::new());
    for procedure in [Procedure::Latency, Procedure::Variation, Procedure::Loads] {
        for (cell, at) in delays::loads(results, procedure) {
            if let Some(frames) = frames_per_second_of_processor(at) {
                all.add(sized(cell), Kind::Measured, Dot::new(at.load_fps / 1e3, frames / 1e3));
            }
        }
    }
    let y = Axis::linear("kiloframes per processor second");
    all.plot("Frames for the router's processor time (not energy)", Axis::linear("load, kfps"), y)
}
