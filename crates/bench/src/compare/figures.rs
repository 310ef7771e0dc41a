//! Comparable figures of a measurement, with one value for each repetition.

use super::{Effect, Measurement, Terms, Wanted};
use crate::campaign::{
    DIRECTIONS, DelayRun, DelaysAt, DirectionDelays, Found, Metered, Recovery, Reset, Teardown, conditional,
    throughputs,
};
use crate::energy;
use crate::host::TICKS;
use crate::search::back_to_back::BackToBackResult;
use crate::search::fixed::FixedResult;
use crate::search::profile::Profile;
use crate::search::throughput::Resolution;
use crate::sessions::rate::RateResult;
use crate::stats::latency::LatencyFigures;
use crate::trial::Outcome;

/// Relative width of the bins of the delay histogram.
const BIN: f64 = 0.001;
/// Selects a figure of a trial's delays, in nanoseconds.
type Delay = fn(&LatencyFigures) -> f64;
/// Resolution of outage times, in seconds.
const MOMENT: f64 = 0.001;

/// A figure of a measurement.
pub(super) struct Figure {
    /// Name, unique among the figures of a procedure.
    pub name: String,
    pub unit: &'static str,
    /// One value for each valid repetition.
    pub runs: Vec<f64>,
    /// Number of repetitions without a valid value.
    pub left_out: usize,
    pub terms: Terms,
    /// True if the tester, not the router, may have limited the figure.
    pub limited: bool,
}

impl Figure {
    fn new(name: impl Into<String>, unit: &'static str, terms: Terms) -> Figure {
        Figure { name: name.into(), unit, runs: Vec::new(), left_out: 0, terms, limited: true }
    }

    /// Sets the value of each repetition; `None` is a repetition without a valid value.
    fn of(mut self, values: impl IntoIterator<Item = Option<f64>>) -> Figure {
        let all: Vec<_> = values.into_iter().collect();
        self.runs = all.iter().copied().flatten().collect();
        self.left_out = all.len() - self.runs.len();
        self
    }
}

fn high(resolution: f64) -> Terms {
    Terms { wanted: Wanted::High, effect: Effect::Ratio, resolution }
}

fn low(effect: Effect, resolution: f64) -> Terms {
    Terms { wanted: Wanted::Low, effect, resolution }
}

/// Returns all figures of a measurement made with a profile.
pub(super) fn figures(measurement: &Measurement, profile: &Profile) -> Vec<Figure> {
    let mut all = match &measurement.found {
        Found::Throughput(searches) => {
            let runs = throughputs(searches);
            let terms = high(share(profile, &runs));
            let left_out = searches.len() - runs.len();
            vec![Figure { runs, left_out, ..Figure::new("throughput", "fps", terms) }]
        }
        Found::Latency(all) | Found::Loads(all) => all.iter().flat_map(delays).collect(),
        Found::Variation(all) => all.iter().flat_map(variation).collect(),
        Found::NdrPdr(searches) => searches.first().map_or_else(Vec::new, |first| {
            let goal = |g: &crate::search::mlr::GoalResult| {
                let name = format!("{}, conditional throughput", g.goal.name);
                Figure::new(name, "fps", high(g.goal.width)).of(conditional(searches, &g.goal.name))
            };
            first.goals.iter().map(goal).collect()
        }),
        Found::BackToBack(result) => vec![burst(result)],
        Found::MaximumReceiveRate(result) => vec![forwarded(result)],
        Found::Soak(result) => vec![soaked(result)],
        Found::Recovery(all) => vec![recovery(all)],
        Found::Reset(all) => vec![reset(all)],
        Found::SessionRate(all) => vec![established(all, profile)],
        Found::SessionCapacity(all) => {
            let held: Vec<_> = all.iter().map(|found| found.connections.unwrap_or(0) as f64).collect();
            let terms = high(share(profile, &held));
            vec![Figure::new("capacity", "connections", terms).of(held.into_iter().map(Some))]
        }
        Found::SessionTeardown(all) => {
            vec![Figure::new("tear-down rate", "cps", high(0.0)).of(all.iter().map(Teardown::per_second))]
        }
        // One trial for each load is too little for a verdict.
        Found::LossRate(_) => Vec::new(),
    };
    // Figures of delays have their own flag for each load.
    all.iter_mut().for_each(|figure| figure.limited &= measurement.limited_by_tester);
    all
}

/// Returns the resolution of the profile's searches as a share of the result. An absolute resolution is divided by the smallest result
/// above 0.
fn share(profile: &Profile, results: &[f64]) -> f64 {
    let least = results.iter().copied().filter(|result| *result > 0.0).fold(f64::INFINITY, f64::min);
    match profile.resolution {
        Resolution::Relative(share) => share,
        Resolution::Absolute(width) => width / least,
    }
}

fn established(all: &[RateResult], profile: &Profile) -> Figure {
    let searches: Vec<_> = all.iter().map(|found| found.search.clone()).collect();
    let runs = throughputs(&searches);
    let (left_out, terms) = (searches.len() - runs.len(), high(share(profile, &runs)));
    Figure { runs, left_out, ..Figure::new("establishment rate", "cps", terms) }
}

/// Returns the value of each trial, `None` for invalid trials.
fn valid<'a>(
    runs: &'a [DelayRun],
    value: impl Fn(&DelayRun) -> Option<f64> + 'a,
) -> impl Iterator<Item = Option<f64>> + 'a {
    runs.iter().map(move |run| if run.outcome.is_valid() { value(run) } else { None })
}

/// Returns the figure that `ns` selects from each trial's delays, in microseconds, under the name `what`.
fn delay(at: &DelaysAt, what: &str, ns: Delay) -> Figure {
    let us = move |run: &DelayRun| run.delays.as_ref().map(|d| ns(&d.figures) / 1e3);
    Figure::new(format!("{what} at {}", at.name), "µs", low(Effect::Ratio, BIN)).of(valid(&at.runs, us))
}

/// Returns a figure for each direction of bidirectional trials. `what` names the quantity, such as `PDV`.
fn each_way(
    at: &DelaysAt,
    what: &str,
    (unit, terms): (&'static str, Terms),
    value: impl Fn(&DirectionDelays) -> Option<f64> + Copy,
) -> Vec<Figure> {
    let figure = |(way, name): (usize, &&str)| {
        let of = move |run: &DelayRun| value(run.delays.as_ref()?.directions.get(way)?);
        Figure::new(one_way(&format!("{what} at {}", at.name), name), unit, terms).of(valid(&at.runs, of))
    };
    let has = |way: usize| {
        at.runs.iter().any(|run| run.delays.as_ref().is_some_and(|d| d.directions.get(way).is_some()))
    };
    DIRECTIONS.iter().enumerate().filter(|(way, _)| has(*way)).map(figure).collect()
}

/// Returns the name of a figure in one direction.
fn one_way(figure: &str, direction: &str) -> String {
    format!("{figure}, {direction}")
}

/// True if `names` contains the figure's name for a single direction. Comparisons then leave out the figure for both directions
/// together, because it is less precise.
pub(super) fn is_split<'a>(figure: &str, mut names: impl Iterator<Item = &'a str>) -> bool {
    names.any(|name| DIRECTIONS.iter().any(|direction| name == one_way(figure, direction)))
}

/// Returns the delays and the loss as separate figures for each direction. Each figure's name ends with its direction.
fn ways(at: &DelaysAt, delays: &[(&str, Delay)]) -> Vec<Figure> {
    let us = ("µs", low(Effect::Ratio, BIN));
    let mut all: Vec<Figure> = Vec::new();
    for (what, ns) in delays {
        all.extend(each_way(at, what, us, |way| Some(ns(&way.figures) / 1e3)));
    }
    let share = |way: &DirectionDelays| {
        let LatencyFigures { frames, lost, .. } = &way.figures;
        (*frames > 0).then(|| lost.frames as f64 * 100.0 / *frames as f64)
    };
    // This figure does not replace the loss of all frames, so it has another name.
    all.extend(each_way(at, "loss of stamped frames", ("%", low(Effect::Difference, 0.0)), share));
    all
}

fn lost(at: &DelaysAt) -> Figure {
    let share = |run: &DelayRun| Some(run.outcome.loss_ratio() * 100.0);
    Figure::new(format!("loss at {}", at.name), "%", low(Effect::Difference, 0.0)).of(valid(&at.runs, share))
}

fn delays(at: &DelaysAt) -> Vec<Figure> {
    let mut all = vec![
        delay(at, "median delay", |f| f.typical_ns),
        delay(at, "99.9 % delay", |f| f.worst_case_ns as f64),
        lost(at),
    ];
    all.extend(ways(at, &[("median delay", |f| f.typical_ns), ("99.9 % delay", |f| f.worst_case_ns as f64)]));
    // Leave out figures of delays without values: flood traffic carries no time stamps.
    all.retain(|figure| !figure.runs.is_empty() || at.runs.iter().any(|run| run.delays.is_some()));
    // Prefer the router's own processors: the tester's are always busy.
    let own = at.runs.iter().any(|run| run.usage.dut_busy.is_some());
    let name = if own { "processors of the router" } else { "processors of the machine" };
    let busy = move |run: &DelayRun| if own { run.usage.dut_busy } else { run.usage.busy };
    let shortest = at.runs.iter().map(|run| run.usage.seconds).fold(f64::INFINITY, f64::min);
    // The kernel counts ticks, so one may be missing at either end.
    let terms = low(Effect::Difference, 2.0 / TICKS / shortest.max(1.0 / TICKS));
    if at.runs.iter().any(|run| busy(run).is_some()) {
        all.push(Figure::new(format!("{name} at {}", at.name), "busy", terms).of(valid(&at.runs, busy)));
    }
    all.extend(energy(at));
    all.iter_mut().for_each(|figure| figure.limited = at.limited_by_tester.unwrap_or(true));
    all
}

/// Returns the millions of packets per watt-hour of each energy meter. The figure's resolution is the largest relative error that the
/// meter's resolution can cause in a run.
fn energy(at: &DelaysAt) -> Vec<Figure> {
    let meters = at.runs.first().map_or(&[][..], |run| &run.usage.meters).iter().enumerate();
    let metered = meters.filter(|(_, meter)| meter.kind == energy::Kind::Energy);
    let figure = |(n, meter): (usize, &Metered)| {
        let of = move |run: &DelayRun| match run.usage.meters.get(n)?.figures.as_ref()? {
            energy::Results::Energy { packets_per_watt_hour, step_share, .. } => {
                Some(((*packets_per_watt_hour)? / 1e6, step_share.unwrap_or(0.0)))
            }
            energy::Results::CpuTime { .. } => None,
        };
        let coarsest = at.runs.iter().filter_map(of).map(|(_, share)| share).fold(0.0, f64::max);
        let name = format!("packets per Wh by {} at {}", meter.meter, at.name);
        Figure::new(name, "M/Wh", high(coarsest)).of(valid(&at.runs, move |run| Some(of(run)?.0)))
    };
    metered.map(figure).collect()
}

fn variation(at: &DelaysAt) -> Vec<Figure> {
    let ipdv = |run: &DelayRun| {
        let figures = run.delays.as_ref()?.ipdv.as_ref()?;
        Some((figures.maximum_ns - figures.minimum_ns) as f64 / 1e3)
    };
    let terms = low(Effect::Ratio, BIN);
    let ipdv = Figure::new(format!("range of IPDV at {}", at.name), "µs", terms).of(valid(&at.runs, ipdv));
    let mut all = vec![delay(at, "PDV", |f| f.pdv_ns as f64), ipdv, lost(at)];
    all.extend(ways(at, &[("PDV", |f| f.pdv_ns as f64)]));
    all.extend(each_way(at, "range of IPDV", ("µs", terms), |way| {
        way.ipdv.as_ref().map(|figures| (figures.maximum_ns - figures.minimum_ns) as f64 / 1e3)
    }));
    all.extend(energy(at));
    all.iter_mut().for_each(|figure| figure.limited = at.limited_by_tester.unwrap_or(true));
    all
}

fn burst(result: &BackToBackResult) -> Figure {
    let bursts = result.bursts.iter().map(|frames| *frames as f64);
    let shortest = bursts.clone().fold(f64::INFINITY, f64::min).max(1.0);
    let runs = bursts.map(Some);
    Figure::new("longest burst", "frames", high(result.asked.resolution as f64 / shortest)).of(runs)
}

fn forwarded(result: &FixedResult) -> Figure {
    let trials = result.points.iter().flat_map(|point| &point.outcomes);
    let fps = |o: &Outcome| o.is_valid().then(|| o.forwarding_fps());
    Figure::new("maximum receive rate", "fps", high(BIN)).of(trials.map(fps))
}

fn soaked(result: &FixedResult) -> Figure {
    let trials = result.points.iter().flat_map(|point| &point.outcomes);
    let share = |o: &Outcome| o.is_valid().then(|| o.loss_ratio() * 100.0);
    Figure::new("loss of each interval", "%", low(Effect::Difference, 0.0)).of(trials.map(share))
}

/// Returns the outage in seconds. If the router did not recover in the last trial (`seconds` is `None`), the outage is the whole duration
/// of that trial. `None` if a trial was invalid.
fn outage(seconds: Option<f64>, trials: &[Outcome]) -> Option<f64> {
    let watched = trials.last().filter(|_| trials.iter().all(Outcome::is_valid))?;
    Some(seconds.unwrap_or(watched.request.duration.as_secs_f64()))
}

fn recovery(all: &[Recovery]) -> Figure {
    let seconds = all.iter().map(|r| outage(r.seconds, &r.outcomes));
    Figure::new("recovery from overload", "s", low(Effect::Difference, MOMENT)).of(seconds)
}

fn reset(all: &[Reset]) -> Figure {
    let seconds = all.iter().map(|r| outage(r.seconds, std::slice::from_ref(&r.outcome)));
    Figure::new("outage of a restart", "s", low(Effect::Difference, MOMENT)).of(seconds)
}
