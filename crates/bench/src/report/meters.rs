//! Readings of the campaign's meters: energy, and processor time, which is not energy.

use super::delays::loads;
use super::document::{Section, heads, keyed};
use super::figures;
use super::number::{kilo, maybe, median};
use super::table::Table;
use super::throughput::some;
use super::usage::PROCEDURES;
use crate::campaign::{Cell, DelaysAt, Metered, Procedure, Results};
use crate::energy::{self, Kind, Reading};

/// A meter's readings of the runs at a load.
pub struct Metering<'a> {
    /// The cell: router, traffic and frame size.
    pub cell: &'a Cell,
    /// The procedure that measured at the load.
    pub procedure: Procedure,
    /// The load.
    pub at: &'a DelaysAt,
    /// The meter's name.
    pub name: &'a str,
    /// The readings, one for each run.
    runs: Vec<&'a Metered>,
}

impl Metering<'_> {
    /// Returns the median of the figure that `figure` selects, over the runs that have this figure. `None` if no run has it.
    pub fn of(&self, figure: fn(&energy::Results) -> Option<f64>) -> Option<f64> {
        median(self.runs.iter().filter_map(|m| figure(m.figures.as_ref()?)))
    }

    /// Returns the median of the value that `figure` selects from a reading, over the runs that have this value. `None` if no run has it.
    fn read(&self, figure: fn(&Reading) -> Option<f64>) -> Option<f64> {
        median(self.runs.iter().filter_map(|m| figure(m.reading.as_ref().ok()?)))
    }

    /// Returns a row of a table: traffic, frame size, router, procedure, load, meter, figures, number of runs, number of runs without a
    /// reading, and the first reason for a missing reading.
    fn row(&self, figures: impl IntoIterator<Item = String>) -> impl Iterator<Item = String> {
        let load = [self.procedure.name().to_owned(), self.at.name.clone(), kilo(self.at.load_fps)];
        let faults: Vec<String> =
            self.runs.iter().filter_map(|m| m.reading.as_ref().err()).map(ToString::to_string).collect();
        let why = faults.first().cloned().unwrap_or_default();
        let counts = [self.at.runs.len().to_string(), faults.len().to_string(), why];
        let own = load.into_iter().chain([self.name.to_owned()]).chain(figures).chain(counts);
        keyed(&self.cell.key, own.collect::<Vec<_>>())
    }
}

/// Returns the readings of all meters of a kind, by load.
pub fn metered(results: &Results, kind: Kind) -> impl Iterator<Item = Metering<'_>> {
    let all = PROCEDURES.into_iter().flat_map(|p| loads(results, p).map(move |(cell, at)| (p, cell, at)));
    all.flat_map(move |(procedure, cell, at)| {
        let meters = at.runs.first().map_or(&[][..], |run| &run.usage.meters).iter().enumerate();
        meters.filter(move |(_, m)| m.kind == kind).map(move |(n, first)| {
            let runs = at.runs.iter().filter_map(|run| run.usage.meters.get(n)).collect();
            Metering { cell, procedure, at, name: &first.meter, runs }
        })
    })
}

/// Columns before a meter's figures.
const BEFORE: [&str; 4] = ["procedure", "load", "kfps#", "meter"];
/// Columns after a meter's figures.
const BEHIND: [&str; 3] = ["runs#", "without a reading#", "why"];

fn table(caption: &str, own: &[&'static str]) -> Table {
    Table::new(caption, heads(&[&BEFORE, own, &BEHIND].concat()))
}

/// Returns packets per watt-hour; `None` if unknown, and for processor time.
pub fn packets_per_watt_hour(of: &energy::Results) -> Option<f64> {
    match of {
        energy::Results::Energy { packets_per_watt_hour, .. } => *packets_per_watt_hour,
        energy::Results::CpuTime { .. } => None,
    }
}

/// Returns the section with the energy figures that Slavík 2025 defines in section 2.2; `None` without an energy meter.
pub fn energy(results: &Results) -> Option<Section> {
    use energy::Results::Energy;
    let own = ["mWh a trial#", "W#", "W without traffic#", "million packets per Wh#", "MB per Wh#"];
    let mut table = table("Energy", &own);
    for one in metered(results, Kind::Energy) {
        let watt_hours = |of: &_| if let Energy { watt_hours, .. } = of { Some(*watt_hours) } else { None };
        let watts = |of: &_| if let Energy { average_watts, .. } = of { *average_watts } else { None };
        let idle = |of: &_| if let Energy { idle_watts, .. } = of { *idle_watts } else { None };
        let bytes =
            |of: &_| if let Energy { bytes_per_watt_hour, .. } = of { *bytes_per_watt_hour } else { None };
        table.row(one.row([
            maybe(one.of(watt_hours).map(|wh| wh * 1e3), 3),
            maybe(one.of(watts), 1),
            maybe(one.of(idle), 1),
            maybe(one.of(packets_per_watt_hour).map(|n| n / 1e6), 3),
            maybe(one.of(bytes).map(|n| n / 1e6), 1),
        ]));
    }
    let text = "The energy is that of all devices behind the meter, idle consumption included. Packets and bytes (with FCS) are \
                those delivered. Values are medians of the runs. Each run is measured from before its first frame is sent until \
                its last frame has arrived.";
    some("Energy".into(), text, table).map(|s| s.with(figures::energy(results)))
}

/// Returns the section with processor time meters; `None` without such a meter.
pub fn times(results: &Results) -> Option<Section> {
    use energy::Results::CpuTime;
    let own = [
        "s a trial#",
        "s for a million packets#",
        "busy processors without traffic#",
        "user, s#",
        "system, s#",
        "interrupt, s#",
        "softirq, s#",
        "stolen, s#",
    ];
    let mut table = table("Processor time by meters", &own);
    for one in metered(results, Kind::CpuTime) {
        let seconds = |of: &_| if let CpuTime { cpu_seconds, .. } = of { Some(*cpu_seconds) } else { None };
        let idle = |of: &_| if let CpuTime { idle_cpus, .. } = of { *idle_cpus } else { None };
        let each = |of: &_| match of {
            CpuTime { cpu_seconds_per_million_packets, .. } => *cpu_seconds_per_million_packets,
            energy::Results::Energy { .. } => None,
        };
        table.row(one.row([
            maybe(one.of(seconds), 3),
            maybe(one.of(each), 3),
            maybe(one.of(idle), 2),
            maybe(one.read(|r| cores(r, |core| core.user)), 2),
            maybe(one.read(|r| cores(r, |core| core.system)), 2),
            maybe(one.read(|r| cores(r, |core| core.irq)), 2),
            maybe(one.read(|r| cores(r, |core| core.softirq)), 2),
            maybe(one.read(|r| cores(r, |core| core.steal)), 2),
        ]));
    }
    let text = "Processor time, not energy. The first three columns cover the router's processes or its control group. For a router \
                without either, such as the kernel, they cover its cores. The other columns cover all metered cores, including other programs there. Resolution: 10 ms. \
                Values are medians of the runs. Each run is measured from before its first frame is sent until its last frame has arrived.";
    some("Processor time by meters".into(), text, table)
}

/// Returns the time that `time` selects, summed over all cores of a reading. `None` if the reading is an energy.
fn cores(of: &Reading, time: fn(&energy::CoreTime) -> f64) -> Option<f64> {
    match of {
        Reading::CpuTime(cpu) => Some(cpu.cores.iter().map(time).sum()),
        Reading::Energy(_) => None,
    }
}
