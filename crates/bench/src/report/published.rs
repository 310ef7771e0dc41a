//! Published results beside measured ones.

use super::document::{Section, found, router};
use super::number::{NONE, kilo, maybe, number};
use super::table::Table;
use super::throughput::some;
use crate::campaign::{Key, Procedure, Results};
use crate::dut::{Kind, Spec};
use crate::published::{Case, Metric, Path, Traffic, cases};

/// A published throughput.
pub struct Throughput {
    /// What a legend says.
    pub short: String,
    /// Bytes of the frame, with its check sequence.
    pub bytes: u32,
    /// Frames a second in each direction.
    pub fps: f64,
}

/// What papers measured a router beside: Volley and VPP itself stand beside VPP, the kernel beside Linux; no other does.
fn system(router: &Spec) -> Option<&'static str> {
    match router.kind {
        Kind::Volley | Kind::Vpp => Some("VPP"),
        Kind::Linux => Some("Linux"),
        Kind::Testpmd | Kind::Command | Kind::None => None,
    }
}

/// What a router did with packets, as papers have it; `None` for traffic that none of them has.
fn path(router: &Spec, key: &Key) -> Option<Path> {
    let nat = router.nat == Some(true);
    match key.traffic.as_str() {
        "rfc2544" | "rfc2544-256" | "slavik-2025" => Some(if nat { Path::Ip4Nat } else { Path::Ip4 }),
        "rfc5180" | "rfc5180-256" if !nat => Some(Path::Ip6),
        _ => None,
    }
}

/// Routes of which a table is still a small one.
const FEW: u64 = 1000;

/// Whether tables are about as large: both small, or neither twice the other. Where a paper says nothing of it, its table is small.
fn as_large(published: Option<u64>, measured: u64) -> bool {
    let published = published.unwrap_or(0);
    let (least, most) = (published.min(measured), published.max(measured));
    most < FEW || least > most / 2
}

/// Whether a paper measured a router of the same kind, with frames of the same size, on the same path, with a table about as large.
fn is_beside(case: &Case, router: &Spec, key: &Key) -> bool {
    system(router).is_some_and(|name| case.system.starts_with(name))
        && path(router, key) == Some(case.path)
        && key.sessions == 0
        && key.flows == 0
        && case.frame_bytes as usize == key.size
        && as_large(case.routes, key.routes.into())
}

/// Frames a second in each direction that a paper found to be forwarded.
fn fps(case: &Case) -> Option<f64> {
    case.forwarded_pps().map(|all| all / f64::from(case.traffic.directions()))
}

/// Published cases beside what was measured, in the order of the file.
fn beside<'a>(results: &Results, keys: impl IntoIterator<Item = &'a Key>) -> Vec<Case> {
    let router = |key: &'a Key| Some((router(results, &key.dut)?, key));
    let measured: Vec<(&Spec, &Key)> = keys.into_iter().filter_map(router).collect();
    // A test reads the file, so it is there.
    let all = cases().unwrap_or_default().into_iter();
    all.filter(|case| measured.iter().any(|(router, key)| is_beside(case, router, key))).collect()
}

/// What papers found, to be drawn beside measured throughputs.
pub fn throughputs<'a>(results: &Results, keys: impl IntoIterator<Item = &'a Key>) -> Vec<Throughput> {
    let of = |case: Case| {
        let clock = case.clock_mhz.map_or_else(String::new, |mhz| format!(" at {mhz} MHz"));
        let ways = if case.traffic == Traffic::OneWay { "one direction" } else { "both directions" };
        let routes = match case.routes {
            Some(routes) if routes >= FEW => format!(", {routes} routes"),
            _ => String::new(),
        };
        let short = format!("{}: {}, 1 core{clock}, {ways}{routes}", case.paper.citation(), case.system);
        Some(Throughput { short, bytes: case.frame_bytes, fps: fps(&case)? })
    };
    // As single routers with one core are measured, so they are drawn; all others are in the table.
    beside(results, keys).into_iter().filter(|c| c.cores == 1).filter_map(of).collect()
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
    let by = |procedures: &[Procedure]| {
        let keys = procedures.iter().flat_map(|p| found(results, *p)).map(|(cell, _)| &cell.key);
        beside(results, keys).into_iter()
    };
    let throughput = by(&[Procedure::Throughput]).filter(|c| fps(c).is_some());
    let latency = by(&[Procedure::Latency, Procedure::Loads]);
    for case in throughput.chain(latency.filter(|c| c.value(Metric::LatencyUs).is_some())) {
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
    let text = "What papers found with a router of the same kind, the same size of frames, the same protocol, and a table about as \
                large: Volley and VPP stand beside their VPP, the kernel of this machine beside theirs. The conditions are not the same: processor, clock and number of cores are \
                theirs as given here, their links were physical with network cards, their tester was a machine of \
                its own, and their trials and repetitions are those of their papers (20 runs in Kosák and Lencse 2025, 6 in Okelmann \
                2019, 20 of 120 s in Slavík 2025). None of these numbers says which of two programs is the faster one.";
    some("Published results beside".into(), text, table).into_iter().collect()
}
