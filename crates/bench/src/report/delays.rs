//! Frame delays: latency, delay variation, and delays at given loads.

use super::document::{Block, Section, found, heads, keyed, result, title};
use super::figures;
use super::number::{NONE, median, micro, percent, summary};
use super::table::Table;
use super::throughput::some;
use crate::campaign::{Cell, DIRECTIONS, DelayRun, Delays, DelaysAt, Found, Procedure, Results};
use crate::stats::jitter::JitterFigures;
use crate::stats::latency::LatencyFigures;

/// Returns the sections with latency, delay variation and given loads.
pub fn sections(results: &Results) -> Vec<Section> {
    let of = [
        (Procedure::Latency, "RFC 8219 section 7.2"),
        (Procedure::Variation, "RFC 8219 section 7.3"),
        (Procedure::Loads, "as in Slavík 2025"),
    ];
    of.into_iter()
        .flat_map(|(procedure, source)| [table(results, procedure, source), ipdv(results, procedure)])
        .flatten()
        .collect()
}

/// Returns all loads at which a procedure measured delays, each with its cell (router, traffic and frame size).
pub fn loads(results: &Results, procedure: Procedure) -> impl Iterator<Item = (&Cell, &DelaysAt)> {
    found(results, procedure).flat_map(|(cell, m)| {
        let all: &[DelaysAt] = match &m.found {
            Found::Latency(all) | Found::Variation(all) | Found::Loads(all) => all,
            _ => &[],
        };
        all.iter().map(move |at| (cell, at))
    })
}

/// Returns the 99th percentile of the delays of all frames, by nearest rank, in nanoseconds. Lost frames count with their penalty delay.
pub fn p99_ns(delays: &Delays) -> f64 {
    let rank = (u128::from(delays.figures.frames) * 99).div_ceil(100);
    let mut below = 0u128;
    let at = delays.bins.iter().find(|(_, frames)| {
        below += u128::from(*frames);
        below >= rank
    });
    // The edge of the last bin may be beyond the longest delay.
    at.map_or(delays.figures.lost.penalty_ns, |(delay, _)| (*delay).min(delays.figures.maximum_ns)) as f64
}

/// Returns the runs whose figures count: the valid ones. If no run is valid, returns all runs, and reports mark the result.
pub fn counted(at: &DelaysAt) -> impl Iterator<Item = &DelayRun> {
    let none = !at.runs.iter().any(|run| run.invalid().is_empty());
    at.runs.iter().filter(move |run| none || run.invalid().is_empty())
}

/// True if no run at a load is valid, although there are runs.
fn is_doubtful(at: &DelaysAt) -> bool {
    !at.runs.is_empty() && at.runs.iter().all(|run| !run.invalid().is_empty())
}

/// True if the tester may have limited the results of this procedure at this load, or if no run at this load is valid.
pub fn is_limited(cell: &Cell, at: &DelaysAt, procedure: Procedure) -> bool {
    cell.found(procedure).is_some_and(|m| m.is_limited_at(at)) || is_doubtful(at)
}

/// Returns the median of a figure at a load, in the figure's unit, over the runs that count ([`counted`]). `None` if none of them has
/// delays.
pub fn over_runs(at: &DelaysAt, figure: fn(&Delays) -> f64) -> Option<f64> {
    median(counted(at).filter_map(|run| run.delays.as_ref()).map(figure))
}

/// Returns the mean delay of the received frames in each run that counts ([`counted`]), in nanoseconds.
fn means(at: &DelaysAt) -> impl Iterator<Item = f64> {
    counted(at).filter_map(|run| run.delays.as_ref()?.figures.received_mean_ns())
}

/// Returns the mean delay of the received frames, in nanoseconds: the median over the runs that count ([`counted`]). `None` if no run
/// has delays.
pub fn mean_ns(at: &DelaysAt) -> Option<f64> {
    median(means(at))
}

/// Returns the median loss at a load, as a share, over the runs that count ([`counted`]). `None` without runs.
pub fn loss(at: &DelaysAt) -> Option<f64> {
    median(counted(at).map(|run| run.outcome.loss_ratio()))
}

/// Returns the number of runs, of invalid runs, and of runs without delays.
fn counts(runs: &[DelayRun]) -> [String; 3] {
    let count = |f: fn(&DelayRun) -> bool| runs.iter().filter(|run| f(run)).count().to_string();
    [runs.len().to_string(), count(|run| !run.invalid().is_empty()), count(|run| run.delays.is_none())]
}

fn table(results: &Results, procedure: Procedure, source: &str) -> Option<Section> {
    let own = [
        "load",
        "kfps#",
        "loss, %#",
        "least, µs#",
        "TL, median, µs#",
        "99 %, µs#",
        "WCL, 99.9 %, µs#",
        "max, µs#",
        "PDV, µs#",
        "mean of received, µs#",
        "runs#",
        "invalid#",
        "without delays#",
    ];
    let mut table = Table::new("Delays", heads(&own));
    let figures: [fn(&Delays) -> f64; 6] = [
        |d| d.figures.minimum_ns as f64,
        |d| d.figures.typical_ns,
        p99_ns,
        |d| d.figures.worst_case_ns as f64,
        |d| d.figures.maximum_ns as f64,
        |d| d.figures.pdv_ns as f64,
    ];
    for (cell, at) in loads(results, procedure) {
        let lost = loss(at).map_or_else(|| NONE.into(), percent);
        let delays = figures.map(|f| over_runs(at, f)).into_iter().chain([mean_ns(at)]);
        let delays = delays.map(|ns| ns.map_or_else(|| NONE.into(), micro));
        let own = [at.name.clone(), super::number::kilo(at.load_fps), lost]
            .into_iter()
            .chain(delays)
            .chain(counts(&at.runs));
        let limited = is_limited(cell, at, procedure);
        result(&mut table, &cell.key, limited, own);
    }
    let text = "Each figure is the median over the valid runs; if none is valid, over all runs, and the result is marked. A lost \
                frame counts with a delay of the trial's time plus the wait for late frames, except in the mean, which covers received \
                frames only. PDV is the 99.9th percentile less the minimum (RFC 5481 section 4.2).";
    let section = some(title(procedure, source), text, table);
    section.map(|s| {
        s.with(averages(results, procedure))
            .with(each_way(results, procedure))
            .with(figures::of_delays(results, procedure))
    })
}

/// Returns the table with the average of the runs' mean delays, and jitter, as in Slavík 2025. `None` if no trial has delays.
fn averages(results: &Results, procedure: Procedure) -> Option<Block> {
    let own = ["load", "kfps#", "average delay, µs#", "jitter at the end, µs#", "mean jitter, µs#", "runs#"];
    let caption = "Average of the runs' mean delays (RFC 2544 section 26.2) and jitter (RFC 3550 section 6.4.1), both of received frames only";
    let mut table = Table::new(caption, heads(&own));
    for (cell, at) in loads(results, procedure) {
        let Some(average) = summary(means(at)) else { continue };
        let jitter = |figure: fn(&JitterFigures) -> f64| {
            let all = counted(at).filter_map(|run| run.delays.as_ref()?.jitter.as_ref());
            median(all.map(figure)).map_or_else(|| NONE.into(), micro)
        };
        let own = [
            at.name.clone(),
            super::number::kilo(at.load_fps),
            micro(average.mean),
            jitter(|j| j.smoothed_ns),
            jitter(|j| j.mean_ns),
            average.runs.to_string(),
        ];
        result(&mut table, &cell.key, is_limited(cell, at, procedure), own);
    }
    (!table.rows().is_empty()).then_some(Block::Table(table))
}

/// Returns the median of one direction's figure at a load, in the figure's unit, over the runs that count ([`counted`]). `None` if no
/// run has this figure.
fn of_way(at: &DelaysAt, way: usize, figure: impl Fn(&LatencyFigures) -> Option<f64>) -> Option<f64> {
    let of = counted(at).filter_map(|run| run.delays.as_ref()?.directions.get(way));
    median(of.filter_map(|way| figure(&way.figures)))
}

/// Returns the table with the delays of each direction; `None` if no trial had two directions.
fn each_way(results: &Results, procedure: Procedure) -> Option<Block> {
    let own = [
        "load",
        "kfps#",
        "direction",
        "loss of stamped frames, %#",
        "least, µs#",
        "TL, median, µs#",
        "WCL, 99.9 %, µs#",
        "max, µs#",
        "PDV, µs#",
        "mean of received, µs#",
    ];
    let mut table = Table::new("Delays of each direction (left: the tester's first port)", heads(&own));
    let figures: [fn(&LatencyFigures) -> Option<f64>; 6] = [
        |f| Some(f.minimum_ns as f64),
        |f| Some(f.typical_ns),
        |f| Some(f.worst_case_ns as f64),
        |f| Some(f.maximum_ns as f64),
        |f| Some(f.pdv_ns as f64),
        LatencyFigures::received_mean_ns,
    ];
    let mut is_empty = true;
    for (cell, at) in loads(results, procedure) {
        for (way, name) in DIRECTIONS.iter().enumerate() {
            let Some(lost) = of_way(at, way, |f| Some(f.lost.frames as f64 / f.frames.max(1) as f64)) else {
                continue;
            };
            let own = [at.name.clone(), super::number::kilo(at.load_fps), (*name).to_owned(), percent(lost)];
            let delays = figures.map(|f| of_way(at, way, f).map_or_else(|| NONE.into(), micro));
            let limited = is_limited(cell, at, procedure);
            result(&mut table, &cell.key, limited, own.into_iter().chain(delays));
            is_empty = false;
        }
    }
    (!is_empty).then_some(Block::Table(table))
}

fn ipdv(results: &Results, procedure: Procedure) -> Option<Section> {
    let own = [
        "load",
        "kfps#",
        "least, µs#",
        "median, µs#",
        "max, µs#",
        "pairs, median#",
        "undefined, median#",
        "runs#",
        "with IPDV#",
    ];
    let mut table = Table::new("Differences of successive frames", heads(&own));
    for (cell, at) in loads(results, procedure) {
        let all: Vec<_> = counted(at).filter_map(|run| run.delays.as_ref()?.ipdv.as_ref()).collect();
        if all.is_empty() {
            continue;
        }
        let of = |f: fn(&crate::stats::ipdv::IpdvFigures) -> f64| median(all.iter().map(|i| f(i)));
        let time = |f| of(f).map_or_else(|| NONE.into(), micro);
        let own = [
            at.name.clone(),
            super::number::kilo(at.load_fps),
            time(|i| i.minimum_ns as f64),
            time(|i| i.median_ns),
            time(|i| i.maximum_ns as f64),
            super::number::maybe(of(|i| i.pairs as f64), 0),
            super::number::maybe(of(|i| i.undefined as f64), 0),
            at.runs.len().to_string(),
            all.len().to_string(),
        ];
        table.row(keyed(&cell.key, own));
    }
    let text = "The delay of a frame less the delay of the frame before it. Each figure is the median over the runs. If one of \
                the two frames was lost, the difference is undefined.";
    some("Inter-packet delay variation (RFC 8219 section 7.3.2)".into(), text, table)
}
