//! Frame loss: at falling loads, in bursts, at the maximum offered load, and over time.

use super::document::{Section, found, heads, result, title};
use super::figures;
use super::number::{NONE, kilo, number, percent, summary};
use super::table::Table;
use super::throughput::{remarks, some};
use crate::campaign::{Found, Procedure, Results};

/// Returns the sections with frame loss rate, back-to-back frames, maximum receive rate and soak.
pub fn sections(results: &Results) -> Vec<Section> {
    [curve(results), bursts(results), maximum(results), soak(results)].into_iter().flatten().collect()
}

fn curve(results: &Results) -> Option<Section> {
    let own = ["load, % of the largest#", "offered, kfps#", "loss, %#", "forwarded, kfps#", "trial", ""];
    let mut table = Table::new("Loss over load", heads(&own));
    for (cell, m) in found(results, Procedure::LossRate) {
        let Found::LossRate(all) = &m.found else { continue };
        for point in &all.points {
            let own = [
                percent(point.share),
                kilo(point.outcome.request.load_fps),
                percent(point.loss_ratio),
                kilo(point.outcome.forwarding_fps()),
                if point.outcome.is_valid() { "valid".into() } else { "invalid".into() },
                remarks([&all.ended]),
            ];
            result(&mut table, &cell.key, m.limited_by_tester, own);
        }
        if all.points.is_empty() {
            let none = (0..4).map(|_| NONE.into());
            let own = none.chain(["no trial".into(), remarks([&all.ended])]);
            result(&mut table, &cell.key, m.limited_by_tester, own);
        }
    }
    let text = "Lost frames, as a share of the intended ones. The load starts at the maximum and is lowered until two successive loads \
                have no loss, with one trial at each load.";
    some(title(Procedure::LossRate, "section 26.3"), text, table).map(|s| s.with(figures::loss(results)))
}

fn bursts(results: &Results) -> Option<Section> {
    let own = [
        "mean, frames#",
        "min, frames#",
        "max, frames#",
        "deviation, frames#",
        "implied buffer, ms#",
        "corrected buffer, ms#",
        "runs#",
        "trials#",
        "invalid#",
        "",
    ];
    let mut table = Table::new("Longest bursts without loss", heads(&own));
    for (cell, m) in found(results, Procedure::BackToBack) {
        let Found::BackToBack(all) = &m.found else { continue };
        let figures = match &all.summary {
            Some(s) => [
                number(s.mean, 1),
                s.min.to_string(),
                s.max.to_string(),
                number(s.deviation, 1),
                number(s.implied_seconds * 1e3, 3),
                number(s.corrected_seconds * 1e3, 3),
            ],
            None => std::array::from_fn(|_| NONE.into()),
        };
        let counts = [
            all.bursts.len().to_string(),
            all.tally.trials.to_string(),
            all.tally.invalid.to_string(),
            remarks([&all.ended]),
        ];
        result(&mut table, &cell.key, m.limited_by_tester, figures.into_iter().chain(counts));
    }
    let text = "The implied time is the buffer time of the mean burst. The corrected time excludes the frames that the router forwarded while the \
                burst arrived (RFC 9004 section 6.4). If the largest load was forwarded, no buffer filled up, and the time has no meaning.";
    some(title(Procedure::BackToBack, "section 26.4, RFC 9004"), text, table)
}

fn maximum(results: &Results) -> Option<Section> {
    let own = [
        "offered, kfps#",
        "median, kfps#",
        "min, kfps#",
        "max, kfps#",
        "loss, %#",
        "trials#",
        "invalid#",
        "",
    ];
    let mut table = Table::new("Forwarded at the maximum offered load, in each direction", heads(&own));
    for (cell, m) in found(results, Procedure::MaximumReceiveRate) {
        let Found::MaximumReceiveRate(all) = &m.found else { continue };
        for point in &all.points {
            let of = summary(point.forwarding_fps.iter().copied());
            let figure = |f: fn(&crate::stats::Summary) -> f64| {
                of.as_ref().map_or_else(|| NONE.into(), |s| kilo(f(s)))
            };
            let own = [
                kilo(point.load_fps),
                figure(|s| s.median),
                figure(|s| s.minimum),
                figure(|s| s.maximum),
                point.loss_ratio.map_or_else(|| NONE.into(), percent),
                point.outcomes.len().to_string(),
                point.outcomes.iter().filter(|o| !o.is_valid()).count().to_string(),
                remarks([&all.ended]),
            ];
            result(&mut table, &cell.key, m.limited_by_tester, own);
        }
    }
    let text = "The rate received while the tester sends as fast as it can. Figures are of valid trials only; invalid trials are only \
                counted.";
    some(title(Procedure::MaximumReceiveRate, "RFC 2285 section 3.6.2"), text, table)
}

fn soak(results: &Results) -> Option<Section> {
    let own = [
        "from, s#",
        "sent for, s#",
        "offered, kfps#",
        "intended, frames#",
        "lost, frames#",
        "loss, %#",
        "trial",
        "",
    ];
    let mut table = Table::new("Loss over time", heads(&own));
    for (cell, m) in found(results, Procedure::Soak) {
        let Found::Soak(all) = &m.found else { continue };
        let mut from = 0.0;
        for outcome in all.points.iter().flat_map(|p| &p.outcomes) {
            let own = [
                number(from, 1),
                number(outcome.request.duration.as_secs_f64(), 1),
                kilo(outcome.request.load_fps),
                outcome.intended.to_string(),
                outcome.lost().to_string(),
                percent(outcome.loss_ratio()),
                if outcome.is_valid() { "valid".into() } else { "invalid".into() },
                remarks([&all.ended]),
            ];
            from += outcome.took.as_secs_f64();
            result(&mut table, &cell.key, m.limited_by_tester, own);
        }
    }
    let text = "Consecutive trials at one load. Between two trials the tester waits and sends nothing.";
    some(title(Procedure::Soak, "one load over a long time"), text, table)
        .map(|s| s.with(figures::soak(results)))
}
