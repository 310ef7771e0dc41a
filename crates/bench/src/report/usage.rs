//! What forwarding cost. Energy belongs here, beside processor time and never in its place.

use super::delays::loads;
use super::document::{Section, heads, keyed};
use super::figures;
use super::number::{kilo, maybe, median};
use super::table::Table;
use super::throughput::some;
use crate::campaign::{DelayRun, DelaysAt, Metered, Procedure, Results};
use crate::energy;

/// Processor time.
pub fn sections(results: &Results) -> Vec<Section> {
    [processors(results), energy(results)].into_iter().flatten().collect()
}

/// What a meter of energy says of a trial.
#[derive(Clone, Copy)]
struct Used {
    watt_hours: f64,
    watts: Option<f64>,
    idle_watts: Option<f64>,
    packets: Option<f64>,
    bytes: Option<f64>,
}

impl Used {
    fn of(metered: &Metered) -> Option<Used> {
        match metered.figures.as_ref()? {
            energy::Results::Energy {
                watt_hours,
                average_watts,
                packets_per_watt_hour,
                bytes_per_watt_hour,
                idle_watts,
                ..
            } => Some(Used {
                watt_hours: *watt_hours,
                watts: *average_watts,
                idle_watts: *idle_watts,
                packets: *packets_per_watt_hour,
                bytes: *bytes_per_watt_hour,
            }),
            energy::Results::CpuTime { .. } => None,
        }
    }
}

/// What meters of energy say: of the thesis (Slavik 2025, section 2.2).
fn energy(results: &Results) -> Option<Section> {
    let own = [
        "procedure",
        "load",
        "kfps#",
        "meter",
        "mWh a trial#",
        "W#",
        "W without traffic#",
        "million packets per Wh#",
        "MB per Wh#",
        "runs#",
        "without a reading#",
    ];
    let mut table = Table::new("Energy", heads(&own));
    for procedure in [Procedure::Latency, Procedure::Variation, Procedure::Loads] {
        for (cell, at) in loads(results, procedure) {
            let meters = at.runs.first().map(|run| run.usage.meters.len()).unwrap_or_default();
            for n in 0..meters {
                let said: Vec<&Metered> = at.runs.iter().filter_map(|run| run.usage.meters.get(n)).collect();
                let Some(name) = said.first().filter(|m| m.kind == energy::Kind::Energy) else { continue };
                let used: Vec<Used> = said.iter().filter_map(|m| Used::of(m)).collect();
                let of = |f: fn(&Used) -> Option<f64>| median(used.iter().filter_map(f));
                table.row(keyed(
                    &cell.key,
                    [
                        procedure.name().to_owned(),
                        at.name.clone(),
                        kilo(at.load_fps),
                        name.meter.clone(),
                        maybe(of(|u| Some(u.watt_hours * 1e3)), 3),
                        maybe(of(|u| u.watts), 1),
                        maybe(of(|u| u.idle_watts), 1),
                        maybe(of(|u| Some(u.packets? / 1e6)), 3),
                        maybe(of(|u| Some(u.bytes? / 1e6)), 1),
                        at.runs.len().to_string(),
                        (at.runs.len() - used.len()).to_string(),
                    ],
                ));
            }
        }
    }
    let text = "Of the whole of what the meter is at, share without traffic included; packets and bytes (check sequence included) are those \
                that were delivered. Medians of the runs, waits of the trials included.";
    some("Energy".into(), text, table)
}

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
    for procedure in [Procedure::Latency, Procedure::Variation, Procedure::Loads] {
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
