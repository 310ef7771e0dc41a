//! Published results for comparison with measured ones.

use super::document::{Section, found, router};
use super::number::{NONE, kilo, maybe, number};
use super::table::Table;
use super::throughput::some;
use crate::campaign::{Key, Procedure, Results};
use crate::dut::{Kind, Spec};
use crate::published::{Case, Metric, Path, Traffic, cases};

/// A published throughput.
pub struct Throughput {
    /// Name in the legend.
    pub short: String,
    /// Frame size in bytes, including the FCS.
    pub bytes: u32,
    /// Throughput in frames per second, in each direction.
    pub fps: f64,
}

/// Returns the published system to compare a router with: VPP for Volley and VPP, Linux for the kernel; `None` for others.
fn system(router: &Spec) -> Option<&'static str> {
    match router.kind {
        Kind::Volley | Kind::Vpp => Some("VPP"),
        Kind::Linux => Some("Linux"),
        Kind::Testpmd | Kind::Command | Kind::None => None,
    }
}

/// Returns the router's operation on packets of this traffic; `None` for traffic that no paper used.
fn path(router: &Spec, key: &Key) -> Option<Path> {
    let nat = router.nat == Some(true);
    match key.traffic.as_str() {
        "rfc2544" | "rfc2544-256" | "slavik-2025" => Some(if nat { Path::Ip4Nat } else { Path::Ip4 }),
        "rfc5180" | "rfc5180-256" if !nat => Some(Path::Ip6),
        _ => None,
    }
}

/// Tables with fewer routes count as small.
const FEW: u64 = 1000;

/// True if two tables have a similar size: both small, or the larger one less than twice as large as the smaller. A published table of
/// unknown size counts as small.
fn as_large(published: Option<u64>, measured: u64) -> bool {
    let published = published.unwrap_or(0);
    let (least, most) = (published.min(measured), published.max(measured));
    most < FEW || least > most / 2
}

/// True if a paper's case is comparable to a measured one: the same kind of router, frame size and path, and a table of similar size. Tests
/// with sessions or a number of flows are never comparable.
fn is_beside(case: &Case, router: &Spec, key: &Key) -> bool {
    system(router).is_some_and(|name| case.system.starts_with(name))
        && path(router, key) == Some(case.path)
        && key.sessions == 0
        && key.flows == 0
        && case.frame_bytes as usize == key.size
        && as_large(case.routes, key.routes.into())
}

/// Returns the published forwarding rate, in frames per second in each direction; `None` if the paper gives none.
fn fps(case: &Case) -> Option<f64> {
    case.forwarded_pps().map(|all| all / f64::from(case.traffic.directions()))
}

/// Returns the published cases that are comparable to measured ones, in the order of the file.
fn beside<'a>(results: &Results, keys: impl IntoIterator<Item = &'a Key>) -> Vec<Case> {
    let router = |key: &'a Key| Some((router(results, &key.dut)?, key));
    let measured: Vec<(&Spec, &Key)> = keys.into_iter().filter_map(router).collect();
    // A test checks that the file is readable.
    let all = cases().unwrap_or_default().into_iter();
    all.filter(|case| measured.iter().any(|(router, key)| is_beside(case, router, key))).collect()
}

/// Returns the published throughputs of one core to draw with the measured ones.
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
    // The plot has single routers with one core; the table has all cases.
    beside(results, keys).into_iter().filter(|c| c.cores == 1).filter_map(of).collect()
}

/// Returns the section with a table of all comparable cases; empty if there are none.
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
            case.machine.clone().unwrap_or_else(|| "not given".into()),
            case.clock_mhz.map_or_else(|| NONE.into(), |mhz| mhz.to_string()),
            case.traffic.directions().to_string(),
            case.routes.map_or_else(|| "not given".into(), |n| n.to_string()),
            case.frame_bytes.to_string(),
            maybe(case.offered_gbps, 1),
            fps(&case).map_or_else(|| NONE.into(), kilo),
            case.clocks_per_packet().map_or_else(|| NONE.into(), |n| number(n, 0)),
            printed(Metric::LossPercent),
            printed(Metric::LatencyUs),
            case.remark.clone().unwrap_or_default(),
        ]);
    }
    let text = "Results that papers found with a router of the same kind, the same frame size, the same protocol, and a table of similar \
                size. Volley and VPP are listed with the papers' VPP, this machine's kernel with the papers' Linux. The conditions differ. \
                Processor, clock and number of cores are the papers', as given here. Their links were physical, with network cards, and \
                their tester was a separate machine. Their trials and repetitions also differ (20 runs in Kosák and Lencse 2025, 6 in \
                Okelmann 2019, 20 of 120 s in Slavík 2025). These numbers do not show which of two programs is faster.";
    some("Published results for comparison".into(), text, table).into_iter().collect()
}
