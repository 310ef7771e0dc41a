//! The benchmark of drivers: a tester on one core, a router's worker on another, and packets between them by memif.
//!
//! `cargo bench -p volley --bench io` prints a table and writes `target/bench/io.json`, one object a line. The tester fills the
//! ring that leads to the router, and empties the one that comes back, as fast as it can. So the router is always behind, its
//! vectors are full, and what comes back is its rate. Clocks are those of all nodes, the driver's included, a packet that came
//! in; figures are the median over the repetitions.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use buf::{FRAME_SIZE, Frame};
use drivers::memif::{Config, Role, Sockets, Tester};
use graph::stats::NodeRuntime;
use graph::{Builder, Cx, FrameNode, GraphError, NoReason, Out, Verdict, edges};
use infra::clock::tsc;
use net::Tables;
use net::ip::{Path, Prefix4};
use net::router::{Address, Hooks, Parts, Router, Sizes};
use wire::Mac;
use wire::builder::PacketBuilder;

/// Repetitions that count, and how long each takes.
const REPETITIONS: usize = 15;
const TIME: Duration = Duration::from_millis(200);
/// Bytes of a frame in memory: 64 on the wire, less the frame check sequence.
const LEN: usize = 60;
const RING: u16 = 1024;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What the router does with the packets.
struct Bench {
    name: &'static str,
    /// Whether it looks up a route; else all that comes in by one interface leaves by the other.
    routes: bool,
    /// Whether packets lie in the router's own buffers. It is the client then.
    lends: bool,
    /// Most clocks a packet, and least Mpps.
    target: (f64, f64),
}

const BENCHES: [Bench; 4] = [
    Bench { name: "memif-port", routes: false, lends: false, target: (52.0, 35.0) },
    Bench { name: "memif-port-trusted", routes: false, lends: true, target: (52.0, 35.0) },
    Bench { name: "memif-ip4-1", routes: true, lends: false, target: (70.0, 35.0) },
    Bench { name: "memif-ip4-1-trusted", routes: true, lends: true, target: (70.0, 35.0) },
];

edges! { enum Next { Output = "interface-output", Continue = "next-feature" } }

/// What comes in by an interface leaves by the one that was added after it. A frame with what is not the tester's goes the usual
/// way.
struct Port;

impl FrameNode for Port {
    const NAME: &'static str = "bench-port";
    type Next = Next;
    type Drop = NoReason;

    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, NoReason>) {
        for mut p in frame.packets() {
            let from = p.rx_if();
            p.set_tx_if(from + 1);
        }
        let testers = frame.total_len() == frame.len() * LEN;
        out.all(Verdict::Next(if testers { Next::Output } else { Next::Continue }));
    }
}

fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> std::result::Result<(), GraphError> {
    volley::features::install(b, t, hooks)?;
    b.frame(|_| Ok(Port));
    b.feature("device-input", Port::NAME, &[], &[]);
    Ok(())
}

/// The router with two interfaces, of which the second leads to everywhere, and a tester at each.
struct Setup {
    parts: Parts,
    testers: [Tester; 2],
    /// They keep the connections.
    _sockets: [Sockets; 2],
}

fn set_up(b: &Bench) -> Result<Setup> {
    let directory = std::env::temp_dir().join(format!("volley-bench-io-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let path = directory.join("memif.sock");
    let (mut near, mut far) = (Sockets::new()?, Sockets::new()?);
    near.add_socket(1, &path)?;
    far.add_socket(1, &path)?;
    let mut parts = Router::build(install, &Sizes::default())?;
    let r = &mut parts.router;
    let (own, other) = if b.lends { (Role::Client, Role::Server) } else { (Role::Server, Role::Client) };
    let config = |id, role| Config { ring_size: RING, trusted: b.lends, ..Config::new(1, id, role) };
    let mut indexes = [0; 2];
    for (id, index) in (0..).zip(&mut indexes) {
        let device = near.open(&config(id, own), r.pool())?;
        *index = r.add_device(&format!("memif1/{id}"), device)?;
        r.set_mac(*index, Some(Mac([2, 0xfe, 0, 0, 0, id as u8])))?;
        r.set_mtu(*index, 1500)?;
        r.set_admin(*index, true)?;
        r.add_address(*index, Address { address: Ipv4Addr::new(10, id as u8, 0, 1), len: 16 })?;
    }
    let [first, second] = indexes;
    let next_hop = Ipv4Addr::new(10, 1, 0, 2);
    r.add_neighbor(second, next_hop, Mac([2, 0, 0, 0, 9, 9]), true)?;
    r.add_route(0, Prefix4::new(Ipv4Addr::new(20, 0, 0, 0), 24), Path::Via { next_hop, interface: None })?;
    if !b.routes {
        r.arcs().enable("device-input", Port::NAME, first, true)?;
    }
    let mut tester = |id| -> Result<Tester> {
        let mut t = far.open_tester(&config(id, other))?;
        t.set_admin(true)?;
        Ok(t)
    };
    let testers = [tester(0)?, tester(1)?];
    let start = Instant::now();
    let connected = |sockets: &Sockets| sockets.interfaces(None, false).iter().all(|i| i.connected);
    while !(connected(&near) && connected(&far)) {
        let now = start.elapsed().as_nanos() as u64;
        near.turn(now);
        far.turn(now);
        if start.elapsed() > Duration::from_secs(10) {
            return Err("the two sides did not connect".into());
        }
    }
    parts.router.poll_links();
    std::fs::remove_dir_all(directory)?;
    Ok(Setup { parts, testers, _sockets: [near, far] })
}

/// What the tester counts, for others to see.
#[derive(Default)]
struct Seen {
    sent: AtomicU64,
    came: AtomicU64,
    /// That were not what was sent.
    wrong: AtomicU64,
    stop: AtomicBool,
}

/// Sends by one interface, and looks at what comes by the other, until told to stop. Gives the clocks that a packet cost, there
/// and back, in rounds with full frames both ways.
fn test([mut into, mut from]: [Tester; 2], seen: &Seen) -> Vec<f64> {
    let packet = PacketBuilder::ipv4(Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(20, 0, 0, 1))
        .ethernet(Mac([2, 0, 0, 0, 9, 8]), Mac([2, 0xfe, 0, 0, 0, 0]))
        .udp(1024, 1024)
        .payload(&[0x5a; LEN - 14 - 20 - 8])
        .build();
    let mut clocks = Vec::new();
    while !seen.stop.load(Ordering::Relaxed) {
        let start = tsc();
        let sent = into.send(FRAME_SIZE, std::iter::repeat(&packet[..])).unwrap_or(0);
        let mut wrong = 0;
        let came =
            from.receive(|p| wrong += u64::from(p.len() != LEN || p.last() != Some(&0x5a))).unwrap_or(0);
        if sent == FRAME_SIZE && came == FRAME_SIZE && clocks.len() < 1 << 20 {
            clocks.push((tsc() - start) as f64 / FRAME_SIZE as f64);
        }
        for (counter, n) in [(&seen.sent, sent as u64), (&seen.came, came as u64), (&seen.wrong, wrong)] {
            counter.fetch_add(n, Ordering::Relaxed);
        }
    }
    clocks
}

/// What was measured, one value a repetition.
#[derive(Default)]
struct Figures {
    clocks: Vec<f64>,
    mpps: Vec<f64>,
    vector: Vec<f64>,
    loss: Vec<f64>,
    tester: Vec<f64>,
    nodes: Vec<(&'static str, f64)>,
}

fn run(b: &Bench, [first, last]: [usize; 2]) -> Result<Figures> {
    let Setup { mut parts, testers, _sockets } = set_up(b)?;
    let Some(mut worker) = parts.workers.pop() else { return Err("no worker".into()) };
    let (mut f, seen) = (Figures::default(), Seen::default());
    std::thread::scope(|scope| -> Result<()> {
        let seen = &seen;
        let tester = scope.spawn(move || {
            let _ = infra::cpu::pin_current(first);
            test(testers, seen)
        });
        infra::cpu::pin_current(last)?;
        let mut participant = parts.router.participant();
        let mut section = participant.enter();
        let stats = parts.router.graph().stats();
        let count = || (seen.sent.load(Ordering::Relaxed), seen.came.load(Ordering::Relaxed));
        // The first repetition warms caches, and does not count.
        for repetition in 0..=REPETITIONS {
            stats.clear_runtime();
            let (start, before) = (Instant::now(), count());
            while start.elapsed() < TIME {
                for _ in 0..64 {
                    worker.turn(section.guard());
                    section.quiescent();
                }
            }
            let (time, after) = (start.elapsed().as_secs_f64(), count());
            let runtime = stats.runtime(None);
            let input = runtime.iter().find(|n| n.name == "memif-input").map_or(0, |n| n.packets);
            let next = runtime.iter().filter(|n| n.name != "memif-input").max_by_key(|n| n.packets);
            let (Some(next), true) = (next, repetition > 0 && input > 0) else { continue };
            let share = |n: &NodeRuntime| n.clocks_per_packet * n.packets as f64 / input as f64;
            f.clocks.push(runtime.iter().map(share).sum());
            f.mpps.push((after.1 - before.1) as f64 / time / 1e6);
            f.vector.push(next.packets_per_call());
            f.loss.push(
                100.0 - 100.0 * ((after.1 - before.1) as f64 / (after.0 - before.0).max(1) as f64).min(1.0),
            );
            f.nodes = runtime.iter().filter(|n| n.packets > 0).map(|n| (n.name, share(n))).collect();
        }
        seen.stop.store(true, Ordering::Relaxed);
        f.tester = tester.join().map_err(|_| "the tester panicked")?;
        Ok(())
    })?;
    match (f.clocks.is_empty(), seen.wrong.into_inner()) {
        (true, _) => Err("no packet came through".into()),
        (_, 0) => Ok(f),
        (_, wrong) => Err(format!("{wrong} packets came that were not sent").into()),
    }
}

/// Median, least and most.
fn spread(samples: &mut [f64]) -> [f64; 3] {
    samples.sort_by(f64::total_cmp);
    match samples {
        [] => [f64::NAN; 3],
        all => [all[all.len() / 2], all[0], all[all.len() - 1]],
    }
}

fn main() -> Result<()> {
    let cores = infra::cpu::online_cores();
    let [first, .., last] = cores[..] else {
        println!("SKIPPED: it needs two cores");
        return Ok(());
    };
    // Cargo passes `--bench`; other words are the names to run.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&directory)?;
    let mut file = std::fs::File::create(directory.join("io.json"))?;
    println!("{:<28} {:>8} {:>8} {:>8} {:>8}", "bench", "median", "min", "max", "target");
    for b in BENCHES.iter().filter(|b| wanted.is_empty() || wanted.iter().any(|w| w == b.name)) {
        let mut f = run(b, [first, last]).map_err(|e| format!("{}: {e}", b.name))?;
        let mut nodes = String::new();
        for (name, clocks) in &f.nodes {
            let _ = write!(nodes, "{}\"{name}\": {clocks:.2}", if nodes.is_empty() { "" } else { ", " });
        }
        let more = format!(", \"nodes\": {{{nodes}}}");
        let rows = [
            ("", "clocks/packet", &mut f.clocks, Some((b.target.0, false)), more.as_str()),
            ("-rate", "Mpps", &mut f.mpps, Some((b.target.1, true)), ""),
            ("-vector", "packets/vector", &mut f.vector, Some((200.0, true)), ""),
            ("-loss", "percent", &mut f.loss, None, ""),
            ("-tester", "clocks/packet", &mut f.tester, Some((70.0, false)), ""),
        ];
        for (suffix, unit, samples, target, more) in rows {
            let (n, [median, min, max]) = (samples.len(), spread(samples));
            let name = format!("{}{suffix}", b.name);
            if n == 0 {
                println!("{name:<28}        -                            {unit}");
                continue;
            }
            writeln!(
                file,
                "{{\"bench\": \"{name}\", \"unit\": \"{unit}\", \"median\": {median:.2}, \"min\": {min:.2}, \"max\": {max:.2}, \
                 \"samples\": {n}{more}}}"
            )?;
            let (target, verdict) = match target {
                Some((target, at_least)) if (median >= target) == at_least => (format!("{target:.0}"), "ok"),
                Some((target, _)) => (format!("{target:.0}"), "MISSED"),
                None => (String::new(), ""),
            };
            println!("{name:<28} {median:>8.1} {min:>8.1} {max:>8.1} {target:>8}  {unit:<16} {verdict}");
        }
        f.nodes.iter().for_each(|(name, clocks)| println!("  {name:<26} {clocks:>8.1}"));
    }
    Ok(())
}
