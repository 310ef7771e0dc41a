//! Cost of forwarding: processor time, and energy as a separate figure.

use super::delays::loads;
use super::document::{Section, heads, keyed, router};
use super::figures;
use super::meters;
use super::number::{kilo, maybe, median};
use super::table::Table;
use super::throughput::some;
use crate::campaign::{Cell, DelayRun, DelaysAt, Procedure, Results};
use crate::dut::{Kind, Spec};
use crate::idle::BUSY;

/// Returns the sections with processor time and meter readings.
pub fn sections(results: &Results) -> Vec<Section> {
    [processors(results), meters::times(results), meters::energy(results)].into_iter().flatten().collect()
}

/// Procedures whose results include processor time and meter readings.
pub const PROCEDURES: [Procedure; 3] = [Procedure::Latency, Procedure::Variation, Procedure::Loads];

/// True if the router's processor time may include that of other programs: it counts all work on the router's cores, and the
/// machine was not idle.
pub fn is_shared(results: &Results, cell: &Cell) -> bool {
    let is_charged = |spec: &Spec| matches!(spec.kind, Kind::Linux | Kind::Command);
    router(results, &cell.key.dut).is_some_and(is_charged)
        && results.conditions.iter().any(|condition| condition.starts_with(BUSY))
}

/// Returns how many frames were received for each second of the router's processor time: the median of the runs. `None` if the
/// processor time is unknown.
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
        "thousand frames per CPU second of the router#",
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
            let efficiency = frames_per_second_of_processor(at).filter(|_| !is_shared(results, cell));
            let own = [
                procedure.name().to_owned(),
                at.name.clone(),
                kilo(at.load_fps),
                maybe(busy, 2),
                maybe(own, 2),
                maybe(efficiency.map(|n| n / 1e3), 1),
                at.runs.len().to_string(),
            ];
            table.row(keyed(&cell.key, own));
        }
    }
    let text = "Processor time, not energy. Values are medians of the runs. Each run is measured from before its first frame is sent \
                until its last frame has arrived. The whole machine includes the tester. The table of routers lists the source of each \
                router's processor time. A router that polls is busy with and without packets. If a router's processor time includes all \
                work on its cores, and the machine was not idle, its frames per CPU second are left out: other programs may have used \
                these cores.";
    some("Processor time".into(), text, table).map(|s| s.with(figures::efficiency(results)))
}
