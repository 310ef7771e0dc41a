//! The graph benchmark: generator → graph → sink on one pinned worker. TSC clocks a packet, by node and in total; the
//! generator's own work is not counted, the transmit node's is.
//!
//! `cargo bench -p volley --bench graph [-- NAME…]` prints a table and writes `target/bench/graph.json`, one object a
//! line. Every repetition runs the same number of packets; figures are the median over the repetitions.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::time::Instant;

use drivers::pktgen::{self, Field, Mode, Stream, Template};
use infra::quiesce::Participant;
use net::ip::{Address, Path, PathList, Prefix4, Weighted};
use net::router::{Parts, Router, Sizes};
use wire::Mac;

/// Repetitions that count, and packets in each.
const REPETITIONS: usize = 15;
const PACKETS: usize = 400_000;
/// Bytes on the wire behind the frame that memory does not hold (the frame check sequence).
const FCS: usize = 4;

/// The path that a feature is compared with, and the benchmark that does so.
const PLAIN: &str = "ip4-1";
const FEATURE: &str = "ip4-1-feature";

/// What a benchmark does.
struct Bench {
    name: &'static str,
    what: &'static str,
    vector: usize,
    ports: u8,
    routes: u32,
    next_hops: u32,
    /// Paths of each route.
    paths: u32,
    sizes: &'static [usize],
    feature: bool,
    /// Clocks a packet to reach.
    target: f64,
}

const BENCHES: [Bench; 7] = [
    Bench {
        name: PLAIN,
        what: "one route",
        vector: 256,
        ports: 1,
        routes: 1,
        next_hops: 1,
        paths: 1,
        sizes: &[64],
        feature: false,
        target: 35.0,
    },
    Bench {
        name: "ip4-mix",
        what: "four ports, 1,000 next hops, sizes 64/576/1500",
        vector: 256,
        ports: 4,
        routes: 1000,
        next_hops: 1000,
        paths: 1,
        sizes: &[64, 576, 1500],
        feature: false,
        target: 45.0,
    },
    Bench {
        name: "ip4-1m",
        what: "1 M routes, 1,000 next hops, random destinations",
        vector: 256,
        ports: 1,
        routes: 1_000_000,
        next_hops: 1000,
        paths: 1,
        sizes: &[64],
        feature: false,
        target: 65.0,
    },
    Bench {
        name: "ip4-ecmp",
        what: "one route with 8 paths, random destinations",
        vector: 256,
        ports: 1,
        routes: 1,
        next_hops: 8,
        paths: 8,
        sizes: &[64],
        feature: false,
        target: 55.0,
    },
    Bench {
        name: "ip4-1-v1",
        what: "as ip4-1, 1 packet a vector",
        vector: 1,
        ports: 1,
        routes: 1,
        next_hops: 1,
        paths: 1,
        sizes: &[64],
        feature: false,
        target: 600.0,
    },
    Bench {
        name: "ip4-1-v16",
        what: "as ip4-1, 16 packets a vector",
        vector: 16,
        ports: 1,
        routes: 1,
        next_hops: 1,
        paths: 1,
        sizes: &[64],
        feature: false,
        target: 90.0,
    },
    Bench {
        name: FEATURE,
        what: "as ip4-1, with a counter on the unicast arc",
        vector: 256,
        ports: 1,
        routes: 1,
        next_hops: 1,
        paths: 1,
        sizes: &[64],
        feature: true,
        target: f64::NAN,
    },
];

/// The figures of one benchmark.
struct Figures {
    totals: Vec<f64>,
    nodes: Vec<(&'static str, f64)>,
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The first destination of the routed networks.
const FIRST: u32 = 0x1400_0000;

/// The router of a benchmark: port `i` has 10.i.0.1/16, next hops are spread over the ports, routes over the next hops.
fn router(b: &Bench) -> Result<Parts, Box<dyn std::error::Error>> {
    let mut parts = Router::build(volley::features::install, &Sizes::default())?;
    let r = &mut parts.router;
    let mut ports = Vec::new();
    for i in 0..=b.ports {
        let mac = Mac([2, 0xfe, 0, 0, 0, i]);
        let (device, generator, _) = pktgen::open(&pktgen::Config { mac: mac.0, ..Default::default() });
        let index = r.add_device(&format!("pg{i}"), device)?;
        r.set_mtu(index, 1500)?;
        r.set_admin(index, true)?;
        r.add_address(index, Address::new(Ipv4Addr::new(10, i, 0, 1), 16))?;
        ports.push((index, mac, generator));
    }
    for n in 0..b.next_hops {
        let (port, ip) = next_hop(b, n);
        r.add_neighbor(ports[usize::from(port)].0, ip, Mac::from_u64(0x0200_0000_0000 | u64::from(n)), true)?;
    }
    let mut prefix = Prefix4::new(Ipv4Addr::from_bits(FIRST), 24);
    for i in 0..b.routes {
        let via = |n| Path::Via { next_hop: next_hop(b, n % b.next_hops).1.into(), interface: None };
        let paths = (i..i + b.paths).map(|n| Weighted { path: via(n), weight: 1 });
        r.add_route(0, prefix, PathList::new(paths.collect())?)?;
        prefix = prefix.next().ok_or("there are not so many prefixes")?;
    }
    if b.feature {
        for (index, ..) in &ports {
            r.arcs().enable("ip4-unicast", "ip4-count", *index, true)?;
        }
    }
    // With one port, traffic enters by a port of its own; with several, every port sends to all.
    let inputs = if b.ports == 1 { &ports[..1] } else { &ports[1..] };
    for (index, mac, generator) in inputs {
        generator.add(stream(b, *mac))?;
        generator.set_enabled(None, true);
        let _ = index;
    }
    Ok(parts)
}

/// Port and address of a next hop.
fn next_hop(b: &Bench, n: u32) -> (u8, Ipv4Addr) {
    let port = 1 + (n % u32::from(b.ports)) as u8;
    let host = 2 + n / u32::from(b.ports);
    (port, Ipv4Addr::from_bits(0x0a00_0000 | u32::from(port) << 16 | host))
}

fn stream(b: &Bench, router: Mac) -> Stream {
    let template = |size: &usize| {
        let payload = size - FCS - 14 - 20 - 8;
        let packet =
            wire::builder::PacketBuilder::ipv4(Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::from_bits(FIRST))
                .ethernet(Mac([2, 0, 0, 0, 9, 9]), router)
                .udp(1024, 1024)
                .payload(&vec![0; payload])
                .build();
        let mut t = Template::fixed(packet);
        // Truly random destinations: the whole address below the routed networks varies.
        let span = u64::from(b.routes) * 256 - 1;
        t.fields.push(Field {
            offset: 30,
            width: 4,
            mode: Mode::Random { min: u64::from(FIRST), max: u64::from(FIRST) + span },
            ip4_checksum: true,
        });
        t
    };
    Stream {
        name: "bench".into(),
        templates: b.sizes.iter().map(template).collect(),
        vector: b.vector,
        ..Stream::default()
    }
}

fn run(b: &Bench) -> Result<Figures, Box<dyn std::error::Error>> {
    let started = Instant::now();
    eprint!("{:<14} building … ", b.name);
    let Parts { router, mut workers } = router(b)?;
    let Some(mut worker) = workers.pop() else { return Err("no worker".into()) };
    eprint!("{:.1} s, running … ", started.elapsed().as_secs_f64());
    let mut participant: Participant = router.participant();
    let mut section = participant.enter();
    let stats = router.graph().stats();
    let turns = PACKETS.div_ceil(b.vector * usize::from(b.ports));
    let mut figures = Figures { totals: Vec::new(), nodes: Vec::new() };
    let mut by_node: Vec<(&'static str, Vec<f64>)> = Vec::new();
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
            // A node's share: what it takes a packet, by how many of the packets pass it.
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
        // What a feature costs is measured against the path without it, in one run.
        wanted.is_empty() || named(b.name) || (b.name == PLAIN && named(FEATURE))
    };
    let core = infra::cpu::online_cores().last().copied().unwrap_or(0);
    infra::cpu::pin_current(core)?;
    let core_per_tsc = infra::clock::core_per_tsc();
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&directory)?;
    // What this run does not measure stays in the file.
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
