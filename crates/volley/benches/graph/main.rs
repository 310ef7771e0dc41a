//! The graph benchmark: generator → graph → sink on one pinned worker. Reports TSC clocks per packet, by node and in
//! total. The transmit node's work is included, but the generator's own work is not.
//!
//! `cargo bench -p volley --bench graph [-- NAME…]` prints a table and writes `target/bench/graph.json`, one object
//! per line. The tables of real routers are read from the files that `VOLLEY_RIB` and `VOLLEY_RIB6` name. Every
//! repetition runs the same number of packets; figures are the median over the repetitions.

mod bridge;
mod policers;
mod table;

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use drivers::pktgen::{self, Mode, Stream};
use infra::clock::Clock;
use infra::quiesce::Participant;
use net::ip::{Address, IpPrefix, Path, PathList, Weighted};
use net::router::{Parts, Router, Sizes};
use policer::{Kind, Policers, Policing};
use wire::Mac;

use table::{Load, Table};

/// Number of counted repetitions.
const REPETITIONS: usize = 15;
/// Number of packets in each repetition.
const PACKETS: usize = 400_000;

/// Name of the benchmark that the benchmarks of features are compared with.
const PLAIN: &str = "ip4-1";

/// What a benchmark adds to the forwarding path, or runs instead of it.
#[derive(Clone, Copy)]
enum Extra {
    /// No addition.
    Nothing,
    /// A counter on the unicast arc.
    Count,
    /// No routing: what one port receives is sent on another.
    CrossConnect,
    /// No routing: a bridge domain of the ports, with so many stations on each side.
    Bridge(u32),
    /// A bridge domain of the receiving port, whose BVI routes.
    Bvi,
    /// A policer of this kind on each port, for sent packets if `true`, otherwise for received packets.
    Policer(Kind, bool),
    /// No forwarding path: only a table full of policers of this kind.
    ManyPolicers(Kind),
}

/// A benchmark: its path, routes and packets.
#[derive(Clone, Copy)]
struct Bench {
    name: &'static str,
    what: &'static str,
    vector: usize,
    ports: u8,
    table: Table,
    next_hops: u32,
    /// Number of paths of each route.
    paths: u32,
    sizes: &'static [usize],
    extra: Extra,
    /// Target in clocks per packet. NaN: the target is 12 more than the result of [`PLAIN`].
    target: f64,
}

/// The base benchmark. Other benchmarks copy it and change some fields.
const ONE: Bench = Bench {
    name: PLAIN,
    what: "one route",
    vector: 256,
    ports: 1,
    table: Table::Consecutive4(1),
    next_hops: 1,
    paths: 1,
    sizes: &[64],
    extra: Extra::Nothing,
    target: 35.0,
};

/// The base benchmark for IPv6.
const ONE6: Bench =
    Bench { name: "ip6-1", what: "one IPv6 route", table: Table::One6, sizes: &[84], target: 45.0, ..ONE };

/// Frame sizes of the mixed benchmarks, in bytes.
const SIZES: &[usize] = &[64, 576, 1500];

const BENCHES: [Bench; 26] = [
    ONE,
    Bench {
        name: "ip4-mix",
        what: "four ports, 1,000 next hops, sizes 64/576/1500",
        ports: 4,
        table: Table::Consecutive4(1000),
        next_hops: 1000,
        sizes: SIZES,
        target: 45.0,
        ..ONE
    },
    Bench {
        name: "ip4-255k",
        what: "255 k routes, 1,000 next hops, random destinations",
        table: Table::Consecutive4(255_000),
        next_hops: 1000,
        target: 45.0,
        ..ONE
    },
    Bench {
        name: "ip4-1m",
        what: "1 M routes, 1,000 next hops, random destinations",
        table: Table::Consecutive4(1_000_000),
        next_hops: 1000,
        target: 50.0,
        ..ONE
    },
    Bench {
        name: "ip4-real",
        what: "1.05 M routes of a real table, 1,000 next hops, random prefixes",
        table: Table::Real4,
        next_hops: 1000,
        target: 50.0,
        ..ONE
    },
    Bench {
        name: "ip4-ecmp",
        what: "one route with 8 paths, random destinations",
        next_hops: 8,
        paths: 8,
        target: 55.0,
        ..ONE
    },
    ONE6,
    Bench {
        name: "ip6-255k",
        what: "255 k IPv6 routes (/128, /112, /64, /48), 1,000 next hops",
        table: Table::Mixed6(255_000),
        next_hops: 1000,
        target: 80.0,
        ..ONE6
    },
    Bench {
        name: "ip6-real",
        what: "240 k IPv6 routes of a real table, 1,000 next hops, random prefixes",
        table: Table::Real6,
        next_hops: 1000,
        target: 80.0,
        ..ONE6
    },
    Bench {
        name: "mix",
        what: "IPv4 and IPv6 3:1, real tables, four ports, sizes 84/576/1500",
        ports: 4,
        table: Table::Both,
        next_hops: 1000,
        sizes: &[84, 576, 1500],
        target: 70.0,
        ..ONE
    },
    Bench { name: "ip4-1-v1", what: "as ip4-1, 1 packet a vector", vector: 1, target: 600.0, ..ONE },
    Bench { name: "ip4-1-v16", what: "as ip4-1, 16 packets a vector", vector: 16, target: 90.0, ..ONE },
    Bench {
        name: "ip6-1-v16",
        what: "as ip6-1, 16 packets a vector",
        vector: 16,
        target: f64::INFINITY,
        ..ONE6
    },
    Bench {
        name: "ip4-1-feature",
        what: "as ip4-1, with a counter on the unicast arc",
        extra: Extra::Count,
        target: f64::NAN,
        ..ONE
    },
    Bench {
        name: "l2-xconnect",
        what: "a cross-connect of two ports",
        extra: Extra::CrossConnect,
        target: 12.0,
        ..ONE
    },
    Bench {
        name: "l2-xconnect-v4",
        what: "as l2-xconnect, 4 packets a vector",
        vector: 4,
        extra: Extra::CrossConnect,
        target: f64::INFINITY,
        ..ONE
    },
    Bench {
        name: "l2-bridge-1",
        what: "a bridge of two ports with one station each, learning and ageing on",
        extra: Extra::Bridge(1),
        target: 20.0,
        ..ONE
    },
    Bench {
        name: "l2-bridge-10k",
        what: "as l2-bridge-1, 10,000 stations on each side, random frames",
        extra: Extra::Bridge(10_000),
        target: 40.0,
        ..ONE
    },
    Bench {
        name: "l2-bridge-1m",
        what: "as l2-bridge-1, 500,000 stations on each side, random frames",
        extra: Extra::Bridge(500_000),
        target: 75.0,
        ..ONE
    },
    Bench {
        name: "l2-bvi-ip4",
        what: "as ip4-1, received by the BVI of a bridge domain",
        extra: Extra::Bvi,
        target: 60.0,
        ..ONE
    },
    policed("policer-1", "as ip4-1, with a 1r2c policer for received packets", Kind::OneRateTwoColors, false),
    policed("policer-1-out", "as ip4-1, with a 1r2c policer for sent packets", Kind::OneRateTwoColors, true),
    policed(
        "policer-1-3c",
        "as ip4-1, with a 2r3c-2698 policer for received packets",
        Kind::TwoRates2698,
        false,
    ),
    Bench {
        vector: 16,
        target: f64::INFINITY,
        ..policed("policer-1-v16", "as policer-1, 16 packets a vector", Kind::OneRateTwoColors, false)
    },
    many("policer-64k", "65,536 1r2c policers in random order, without the graph", Kind::OneRateTwoColors),
    many(
        "policer-64k-3c",
        "65,536 2r3c-2698 policers in random order, without the graph",
        Kind::TwoRates2698,
    ),
];

const fn policed(name: &'static str, what: &'static str, kind: Kind, outward: bool) -> Bench {
    Bench { name, what, extra: Extra::Policer(kind, outward), target: f64::NAN, ..ONE }
}

const fn many(name: &'static str, what: &'static str, kind: Kind) -> Bench {
    Bench { name, what, extra: Extra::ManyPolicers(kind), target: 20.0, ..ONE }
}

/// The figures of one benchmark.
struct Figures {
    totals: Vec<f64>,
    nodes: Vec<(&'static str, f64)>,
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the router of a benchmark. Port `i` has 10.i.0.1/16 and fd00:0:0:i::1/64. Next hops are spread over the
/// ports, and routes over the next hops.
fn router(b: &Bench) -> Result<Parts, Box<dyn std::error::Error>> {
    // The load is made first: its packets need only the Ethernet address of the port that receives them.
    let mac = |i: u8| Mac([2, 0xfe, 0, 0, 0, i]);
    let load = Load::new(b.table, b.sizes, mac(0))?;
    let mut parts = Router::build(volley::features::install, &Sizes::default())?;
    let r = &mut parts.router;
    let mut ports = Vec::new();
    for i in 0..=b.ports {
        let (device, generator, _) = pktgen::open(&pktgen::Config { mac: mac(i).0, ..Default::default() });
        let index = r.add_device(&format!("pg{i}"), device)?;
        r.set_mtu(index, 1500)?;
        r.set_admin(index, true)?;
        r.add_address(index, Address::new(Ipv4Addr::new(10, i, 0, 1), 16))?;
        r.add_address(index, Address::new(Ipv6Addr::new(0xfd00, 0, 0, i.into(), 0, 0, 0, 1), 64))?;
        ports.push((index, generator));
    }
    for n in 0..b.next_hops {
        for is_v6 in [false, true] {
            let (port, ip) = next_hop(b, n, is_v6);
            let mac = Mac::from_u64(0x0200_0000_0000 | u64::from(n));
            r.add_neighbor(ports[usize::from(port)].0, ip, mac, true)?;
        }
    }
    for (i, prefix) in (0..).zip(load.prefixes) {
        let is_v6 = matches!(prefix, IpPrefix::V6(_));
        let via = |n: u32| Path::Via { next_hop: next_hop(b, n % b.next_hops, is_v6).1, interface: None };
        let paths = (i..i + b.paths).map(|n| Weighted { path: via(n), weight: 1 });
        r.add_route(0, prefix, PathList::new(paths.collect())?)?;
    }
    for (index, ..) in &ports {
        match b.extra {
            Extra::Nothing | Extra::ManyPolicers(_) => {}
            Extra::CrossConnect if *index == ports[0].0 => {
                l2::connect(r, l2::Way::CrossConnect, *index, ports[1].0)?
            }
            Extra::CrossConnect => {}
            Extra::Bvi if *index == ports[0].0 => bridge::join(r, *index)?,
            Extra::Bvi => {}
            Extra::Bridge(_) => bridge::join(r, *index)?,
            Extra::Count => r.arcs().enable("ip4-unicast", "ip4-count", *index, true)?,
            Extra::Policer(kind, outward) => {
                let now = r.now();
                let policer = Some(r.state_mut::<Policers>()?.add(policers::wide(kind), now)?);
                let (input, output) = if outward { (None, policer) } else { (policer, None) };
                r.set(*index, Policing { input, output })?;
            }
        }
    }
    match b.extra {
        Extra::Bridge(stations) => bridge::fill(r, ports[1].0, stations)?,
        Extra::Bvi => bridge::route(r, mac(0))?,
        _ => {}
    }
    // With one port for next hops, traffic arrives on an additional port; with several, each of them receives traffic for all.
    let inputs = if b.ports == 1 { &ports[..1] } else { &ports[1..] };
    for (port, (_, generator)) in inputs.iter().enumerate() {
        let mut templates = load.templates.clone();
        // Each port has its own destinations. If ports shared them, lookups for one port would load the caches for the others.
        for field in templates.iter_mut().flat_map(|t| &mut t.fields) {
            if let Mode::List(all) = &mut field.mode {
                *all = all.iter().skip(port).step_by(inputs.len()).copied().collect();
            }
        }
        let to = if b.ports == 1 { mac(0) } else { mac(port as u8 + 1) };
        templates.iter_mut().for_each(|t| t.bytes[..6].copy_from_slice(&to.0));
        if let Extra::Bridge(stations) = b.extra {
            templates.iter_mut().for_each(|t| bridge::vary(t, stations));
        }
        generator.add(Stream { name: "bench".into(), templates, vector: b.vector, ..Stream::default() })?;
        generator.set_enabled(None, true);
    }
    Ok(parts)
}

/// Returns the port and the address of a next hop.
fn next_hop(b: &Bench, n: u32, is_v6: bool) -> (u8, IpAddr) {
    let port = 1 + (n % u32::from(b.ports)) as u8;
    let host = 2 + n / u32::from(b.ports);
    let ip = if is_v6 {
        Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(port) << 64 | u128::from(host)).into()
    } else {
        Ipv4Addr::from_bits(0x0a00_0000 | u32::from(port) << 16 | host).into()
    };
    (port, ip)
}

fn run(b: &Bench) -> Result<Figures, Box<dyn std::error::Error>> {
    if let Extra::ManyPolicers(kind) = b.extra {
        return policers::run(kind);
    }
    let started = Instant::now();
    eprint!("{:<14} building … ", b.name);
    let Parts { mut router, mut workers } = router(b)?;
    let Some(mut worker) = workers.pop() else { return Err("no worker".into()) };
    eprint!("{:.1} s, running … ", started.elapsed().as_secs_f64());
    let mut participant: Participant = router.participant();
    let mut section = participant.enter();
    let turns = PACKETS.div_ceil(b.vector * usize::from(b.ports));
    // A bridge learns its stations, and the main thread enlarges its table.
    let learns = if let Extra::Bridge(stations) = b.extra { stations as usize * 16 / b.vector } else { 0 };
    let clock = Clock::new();
    for turn in 0..learns {
        worker.turn(section.guard());
        section.quiescent();
        if turn % 16 == 0 {
            router.poll(clock.now_ns());
        }
    }
    let stats = router.graph().stats();
    let mut figures = Figures { totals: Vec::new(), nodes: Vec::new() };
    let mut by_node: Vec<(&'static str, Vec<f64>)> = Vec::new();
    // While the router was built, packets of its main thread were dropped, because no worker ran.
    stats.clear_errors();
    // The first repetition warms caches and tables, and does not count.
    for repetition in 0..=REPETITIONS {
        stats.clear_runtime();
        for _ in 0..turns {
            worker.turn(section.guard());
            section.quiescent();
        }
        if repetition == 0 {
            continue;
        }
        let runtime = stats.runtime(None);
        let came: u64 = runtime.iter().filter(|n| n.name == pktgen::INPUT_NODE).map(|n| n.packets).sum();
        let mut total = 0.0;
        for n in runtime.iter().filter(|n| n.name != pktgen::INPUT_NODE && n.packets > 0) {
            // The node's clocks, divided by the number of all received packets.
            let share = n.clocks_per_packet * n.packets as f64 / came as f64;
            total += share;
            match by_node.iter_mut().find(|(name, _)| *name == n.name) {
                Some((_, shares)) => shares.push(share),
                None => by_node.push((n.name, vec![share])),
            }
        }
        figures.totals.push(total);
    }
    let dropped: Vec<String> = stats
        .dropped()
        .iter()
        .filter(|d| d.packets > 0)
        .map(|d| format!("{} {} {}", d.packets, d.node, d.reason.name))
        .collect();
    if !dropped.is_empty() {
        return Err(format!("packets were dropped: {}", dropped.join(", ")).into());
    }
    figures.nodes = by_node.into_iter().map(|(name, mut shares)| (name, median(&mut shares))).collect();
    eprintln!("{:.1} s", started.elapsed().as_secs_f64());
    Ok(figures)
}

fn json(b: &Bench, f: &mut Figures, core_per_tsc: f64) -> String {
    let (middle, min, max) = (median(&mut f.totals), f.totals[0], f.totals[f.totals.len() - 1]);
    let mut nodes = String::new();
    for (name, clocks) in &f.nodes {
        let _ = write!(nodes, "{}\"{name}\": {clocks:.2}", if nodes.is_empty() { "" } else { ", " });
    }
    format!(
        "{{\"bench\": \"{}\", \"unit\": \"clocks/packet\", \"median\": {middle:.2}, \"min\": {min:.2}, \"max\": {max:.2}, \
         \"samples\": {}, \"core_per_tsc\": {core_per_tsc:.3}, \"nodes\": {{{nodes}}}}}",
        b.name,
        f.totals.len()
    )
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Cargo passes `--bench`; other words are the names to run.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let runs = |b: &Bench| {
        let named = |name: &str| wanted.iter().any(|w| w == name);
        // The cost of a feature is compared with the path without it, measured in the same run.
        let compared = BENCHES.iter().any(|b| b.target.is_nan() && named(b.name));
        wanted.is_empty() || named(b.name) || (b.name == PLAIN && compared)
    };
    let core = infra::cpu::online_cores().last().copied().unwrap_or(0);
    infra::cpu::pin_current(core)?;
    let core_per_tsc = infra::clock::core_per_tsc();
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&directory)?;
    // The file keeps the results of benchmarks that this run does not measure.
    let path = directory.join("graph.json");
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let of = |line: &str, b: &Bench| line.starts_with(&format!("{{\"bench\": \"{}\",", b.name));
    let kept = before.lines().filter(|line| BENCHES.iter().any(|b| of(line, b) && !runs(b)));
    let kept: String = kept.map(|line| format!("{line}\n")).collect();
    let mut file = std::fs::File::create(path)?;
    file.write_all(kept.as_bytes())?;
    println!(
        "graph benchmark: TSC clocks a packet on core {core}, {core_per_tsc:.2} core clocks a TSC clock"
    );
    let mut lines = Vec::new();
    let mut plain = f64::NAN;
    for b in BENCHES.iter().filter(|b| runs(b)) {
        let mut f = run(b).map_err(|e| format!("{}: {e}", b.name))?;
        writeln!(file, "{}", json(b, &mut f, core_per_tsc))?;
        let middle = median(&mut f.totals);
        if b.name == PLAIN {
            plain = middle;
        }
        let target = if b.target.is_nan() { plain + 12.0 } else { b.target };
        let verdict = if middle <= target { "ok" } else { "MISSED" };
        lines.push(format!(
            "{:<14} {middle:>8.1} {:>8.1} {:>8.1} {target:>8.1}  {verdict:<6} {}",
            b.name,
            f.totals[0],
            f.totals[f.totals.len() - 1],
            b.what
        ));
        lines.extend(f.nodes.iter().map(|(name, clocks)| format!("  {name:<20} {clocks:>6.1}")));
    }
    println!("{:<14} {:>8} {:>8} {:>8} {:>8}", "bench", "median", "min", "max", "target");
    lines.iter().for_each(|l| println!("{l}"));
    Ok(())
}
