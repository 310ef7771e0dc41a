//! Published results beside measured ones.

use super::document::{Section, found};
use super::number::{NONE, kilo, maybe, number};
use super::table::Table;
use super::throughput::some;
use crate::campaign::{Key, Procedure, Results};
use crate::published::{Case, Metric, Path, cases};

/// A published throughput.
pub struct Throughput {
    /// What a legend says.
    pub short: String,
    /// Bytes of the frame, with its check sequence.
    pub bytes: u32,
    /// Frames a second in each direction.
    pub fps: f64,
}

/// Whether a paper measured a router of the same kind, with frames of the same size, on the same path: Volley stands beside VPP, the
/// kernel beside Linux.
fn is_beside(case: &Case, key: &Key) -> bool {
    let system = if key.dut.starts_with("volley") { "VPP" } else { "Linux" };
    let known = key.dut.starts_with("volley") || key.dut.starts_with("linux");
    let path = match key.traffic.as_str() {
        "rfc2544" | "rfc2544-256" | "slavik-2025" => Path::Ip4,
        "rfc5180" | "rfc5180-256" => Path::Ip6,
        _ => return false,
    };
    known
        && key.routes == 0
        && key.sessions == 0
        && case.system.starts_with(system)
        && case.path == path
        && case.frame_bytes as usize == key.size
}

/// Frames a second in each direction that a paper found to be forwarded.
fn fps(case: &Case) -> Option<f64> {
    case.forwarded_pps().map(|all| all / f64::from(case.traffic.directions()))
}

/// Published cases beside what was measured by some of the procedures, in the order of the file.
fn beside(results: &Results, procedures: &[Procedure]) -> Vec<Case> {
    let keys: Vec<&Key> =
        procedures.iter().flat_map(|p| found(results, *p)).map(|(cell, _)| &cell.key).collect();
    // A test reads the file, so it is there.
    let all = cases().unwrap_or_default().into_iter();
    all.filter(|case| keys.iter().any(|key| is_beside(case, key))).collect()
}

/// What papers found, to be drawn beside measured throughputs.
pub fn throughputs(results: &Results) -> Vec<Throughput> {
    let of = |case: Case| {
        let cores =
            format!("{} of {} core{}", case.system, case.cores, if case.cores == 1 { "" } else { "s" });
        let clock = case.clock_mhz.map_or_else(String::new, |mhz| format!(" at {mhz} MHz"));
        let short = format!("{}: {cores}{clock}", case.paper.citation());
        Some(Throughput { short, bytes: case.frame_bytes, fps: fps(&case)? })
    };
    // As single routers with one core are measured, so they are drawn; all others are in the table.
    beside(results, &[Procedure::Throughput]).into_iter().filter(|c| c.cores == 1).filter_map(of).collect()
}

/// A table of all of them.
pub fn sections(results: &Results) -> Vec<Section> {
    let heads = [
        "paper",
        "table",
        "system",
        "cores#",
        "placement",
        "processor",
        "clock, MHz#",
        "directions#",
        "routes#",
        "bytes#",
        "offered, Gbit/s#",
        "forwarded, kfps#",
        "clocks per packet#",
        "loss, %#",
        "mean latency, µs#",
        "remark",
    ];
    let mut table = Table::new("Published results", heads);
    let throughput = beside(results, &[Procedure::Throughput]).into_iter().filter(|c| fps(c).is_some());
    let latency = beside(results, &[Procedure::Latency, Procedure::Loads]);
    for case in throughput.chain(latency.into_iter().filter(|c| c.value(Metric::LatencyUs).is_some())) {
        let printed = |metric| case.figures.get(&metric).map_or_else(|| NONE.into(), |f| f.to_string());
        table.row([
            case.paper.citation().to_owned(),
            case.table.clone(),
            case.system.clone(),
            case.cores.to_string(),
            case.placement.clone().unwrap_or_default(),
            case.machine.clone().unwrap_or_else(|| "not said".into()),
            case.clock_mhz.map_or_else(|| NONE.into(), |mhz| mhz.to_string()),
            case.traffic.directions().to_string(),
            case.routes.map_or_else(|| "not said".into(), |n| n.to_string()),
            case.frame_bytes.to_string(),
            maybe(case.offered_gbps, 1),
            fps(&case).map_or_else(|| NONE.into(), kilo),
            case.clocks_per_packet().map_or_else(|| NONE.into(), |n| number(n, 0)),
            printed(Metric::LossPercent),
            printed(Metric::LatencyUs),
            case.remark.clone().unwrap_or_default(),
        ]);
    }
    let text = "What papers found with a router of the same kind, the same size of frames, and the same protocol: Volley stands beside \
                VPP, the kernel of this machine beside theirs. The conditions are not the same: processor, clock and number of cores are \
                theirs as given here, their links were physical with network cards, their tester was a machine of \
                its own, and their trials and repetitions are those of their papers (20 runs in Kosák and Lencse 2025, 6 in Okelmann \
                2019, 20 of 120 s in Slavík 2025). None of these numbers says which of two programs is the faster one.";
    some("Published results beside".into(), text, table).into_iter().collect()
}
