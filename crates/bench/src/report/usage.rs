//! What forwarding cost: processor time, and energy beside it, never in its place.

use super::delays::loads;
use super::document::{Section, heads, keyed};
use super::figures;
use super::meters;
use super::number::{kilo, maybe, median};
use super::table::Table;
use super::throughput::some;
use crate::campaign::{DelayRun, DelaysAt, Procedure, Results};

/// Processor time, and what meters say.
pub fn sections(results: &Results) -> Vec<Section> {
    [processors(results), meters::times(results), meters::energy(results)].into_iter().flatten().collect()
}

/// In whose results is what they took.
pub const PROCEDURES: [Procedure; 3] = [Procedure::Latency, Procedure::Variation, Procedure::Loads];

/// Frames that came back for each second of the router's processors, or `None` where its time is not known; median of the runs.
pub fn frames_per_second_of_processor(at: &DelaysAt) -> Option<f64> {
    median(at.runs.iter().filter_map(|run| {
        let seconds = run.usage.dut_busy? * run.usage.seconds;
        (seconds > 0.0).then(|| run.outcome.received as f64 / seconds)
    }))
}

fn processors(results: &Results) -> Option<Section> {
    let own = [
        "procedure",
        "load",
        "kfps#",
        "busy, whole machine, processors#",
        "busy, router, processors#",
        "kiloframes per processor second of the router#",
        "runs#",
    ];
    let mut table = Table::new("Processor time", heads(&own));
    for procedure in PROCEDURES {
        for (cell, at) in loads(results, procedure) {
            let of = |f: fn(&DelayRun) -> Option<f64>| median(at.runs.iter().filter_map(f));
            let (busy, own) = (of(|run| run.usage.busy), of(|run| run.usage.dut_busy));
            if busy.is_none() && own.is_none() {
                continue;
            }
            let own = [
                procedure.name().to_owned(),
                at.name.clone(),
                kilo(at.load_fps),
                maybe(busy, 2),
                maybe(own, 2),
                maybe(frames_per_second_of_processor(at).map(|n| n / 1e3), 1),
                at.runs.len().to_string(),
            ];
            table.row(keyed(&cell.key, own));
        }
    }
    let text = "Processor time, not energy. Medians of the runs, waits of the trials included. The whole machine includes the tester. How \
                the router's was found stands beside its version; one that polls is busy whether packets come or not.";
    some("Processor time".into(), text, table).map(|s| s.with(figures::efficiency(results)))
}
