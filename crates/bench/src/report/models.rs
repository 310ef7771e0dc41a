//! Fits of performance models to the results.

use super::compare::{ScaledPoint, scaled};
use super::delays::{loads, mean_ns};
use super::document::{Section, cells, keyed, traffic};
use super::number::{kilo, maybe, number};
use super::sweep::Count;
use super::table::Table;
use super::throughput::some;
use crate::campaign::{Cell, Procedure, Results};
use crate::dut::lookup_share;
use crate::model::cores::CoreModel;
use crate::model::latency::LatencyModel;
use crate::model::lookup::LookupModel;
use crate::model::{Point, Quality};

/// Returns the section with the models that fit the results; empty if no model has enough points. The models are latency as a
/// function of the load, and throughput as a function of the share of lookups and of the number of workers.
pub fn sections(results: &Results) -> Vec<Section> {
    let heads =
        ["traffic", "bytes#", "router", "model", "residual of each point", "root mean square#", "R²#"];
    let mut table = Table::new("Fits of the models of Okelmann 2019", heads);
    let of = |model: String, unit: &str, points: &[String], quality: &Quality| {
        let each = points.iter().zip(&quality.residuals);
        let residuals: Vec<String> = each.map(|(x, r)| format!("{x}: {}", number(*r, 2))).collect();
        [
            model,
            format!("{} {unit}", residuals.join("; ")),
            format!("{} {unit}", number(quality.root_mean_square, 2)),
            maybe(quality.r_squared, 3),
        ]
    };
    for cell in cells(results) {
        let Some(most) = cell.throughput_fps() else { continue };
        let same = [Procedure::Latency, Procedure::Loads].into_iter().flat_map(|p| loads(results, p));
        let mut points: Vec<Point> = same
            .filter(|(at, load)| at.key == cell.key && load.load_fps < most)
            .filter_map(|(_, load)| Some((load.load_fps, mean_ns(load)? / 1e3)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if let Ok(fit) = LatencyModel::fit(&points, most) {
            let LatencyModel { end_us, span_us, bend, .. } = fit.model;
            let [end, span, bend] = [end_us, span_us, bend].map(|v| number(v, 2));
            let model =
                format!("mean latency = {end} − {span} (1 − t/T)^(T/({bend} t)) µs, load t, throughput T");
            let at: Vec<String> = points.iter().map(|(fps, _)| format!("{} kfps", kilo(*fps))).collect();
            table.row(keyed(&cell.key, of(model, "µs", &at, &fit.quality)));
        }
    }
    for (cell, shares) in shares(results) {
        let points: Vec<Point> = shares.iter().map(|(_, share, fps)| (*share, fps / 1e3)).collect();
        if let Ok(fit) = LookupModel::fit(&points) {
            let most = number(fit.model.max_throughput, 1);
            let model = format!("throughput = {most} (1 − s) kfps, share s of the nodes' time in lookups");
            let at: Vec<String> = shares.iter().map(at_share).collect();
            table.row(keyed(&Count::Routes.any(&cell.key), of(model, "kfps", &at, &fit.quality)));
        }
    }
    for group in scaled(results) {
        let points: Vec<Point> = group.points.iter().map(|p| (f64::from(p.workers), p.fps / 1e3)).collect();
        let Ok(fit) = CoreModel::fit(&points, None) else { continue };
        let key = [traffic(&group.key), group.key.size.to_string(), group.names()];
        // The model does not know the tester's limits, so the reader must see which points may be affected.
        let sign = |limited: bool| if limited { " †" } else { "" };
        let at = |p: &ScaledPoint| format!("{} workers{}", p.workers, sign(p.limited));
        let at: Vec<String> = group.points.iter().map(at).collect();
        table.row(key.into_iter().chain(of(per_worker(&fit.model), "kfps", &at, &fit.quality)));
    }
    let text = "The models are fitted by least squares. The residual of a point is its measured value less the modeled value. The fit of \
                latency needs four loads below the throughput. The fit of lookups needs two table sizes, and a router that reports the \
                time of its nodes. The fit of workers needs two numbers of workers. A point with † was limited by the tester.";
    some("Models".into(), text, table).into_iter().collect()
}

/// Routes, share of time in lookups, and throughput in frames per second.
type Shared = (u32, f64, f64);

/// Returns one cell for each router, traffic and frame size that was measured with several table sizes, if the router reports the time
/// spent on lookups. Each cell comes with a point for each table size.
fn shares(results: &Results) -> Vec<(&Cell, Vec<Shared>)> {
    let mut all: Vec<(&Cell, Vec<Shared>)> = Vec::new();
    for (cell, runs) in Count::Routes.swept(results) {
        let counters = cell.found(Procedure::Throughput).map(|m| &m.counters[..]);
        let Some(share) = counters.and_then(lookup_share) else { continue };
        let point = (cell.key.routes, share, runs.median());
        let same = |other: &Cell| Count::Routes.any(&other.key) == Count::Routes.any(&cell.key);
        match all.iter_mut().find(|(other, _)| same(other)) {
            Some((_, points)) => points.push(point),
            None => all.push((cell, vec![point])),
        }
    }
    all.retain(|(_, points)| points.len() > 1);
    all
}

fn at_share((routes, share, _): &Shared) -> String {
    format!("{routes} routes ({} %)", number(share * 100.0, 1))
}

fn per_worker(model: &CoreModel) -> String {
    format!("throughput = {} kfps for each worker", number(model.per_worker, 1))
}
