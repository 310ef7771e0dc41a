//! The maximum rate: the tester keeps the ring to the router full, and empties the ring from the router. So the router always has more
//! packets than it can process, its vectors are full, and the rate of returned packets is its capacity. Clocks are per received packet,
//! over all nodes including the driver's.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use buf::FRAME_SIZE;
use drivers::memif::Tester;
use graph::stats::NodeRuntime;
use infra::clock::tsc;
use wire::Mac;
use wire::builder::PacketBuilder;

use super::setup::{LEN, Result, Setup, set_up};
use super::{Row, Target};

/// Number of counted repetitions.
const REPETITIONS: usize = 15;
/// Duration of a repetition.
const TIME: Duration = Duration::from_millis(200);

/// A benchmark: a router setup, and its targets.
pub struct Bench {
    pub name: &'static str,
    /// True if the router looks up routes; otherwise packets received on the first interface leave by the second.
    routes: bool,
    /// True if packets are in the router's own buffers, for which the router must be the memif client. Otherwise the router is the server.
    lends: bool,
    /// Maximum clocks per packet, and minimum Mpps.
    target: (f64, f64),
}

pub const BENCHES: [Bench; 4] = [
    Bench { name: "memif-port", routes: false, lends: false, target: (52.0, 35.0) },
    Bench { name: "memif-port-trusted", routes: false, lends: true, target: (52.0, 35.0) },
    Bench { name: "memif-ip4-1", routes: true, lends: false, target: (70.0, 35.0) },
    Bench { name: "memif-ip4-1-trusted", routes: true, lends: true, target: (70.0, 35.0) },
];

/// The tester's counts, which other threads can read.
#[derive(Default)]
struct Seen {
    sent: AtomicU64,
    came: AtomicU64,
    /// Received packets whose length or last byte differs from that of the sent ones.
    wrong: AtomicU64,
    stop: AtomicBool,
}

/// Sends on one interface, and checks the packets received on the other, until stopped. Returns the tester's clocks
/// per packet (sent and received) for each round in which [`FRAME_SIZE`] packets were sent and as many received.
fn test([mut into, mut from]: [Tester; 2], seen: &Seen) -> Vec<f64> {
    let packet = PacketBuilder::ipv4(Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(20, 0, 0, 1))
        .ethernet(Mac([2, 0, 0, 0, 9, 8]), Mac([2, 0xfe, 0, 0, 0, 0]))
        .udp(1024, 1024)
        .payload(&[0x5a; LEN - 14 - 20 - 8])
        .build();
    let mut clocks = Vec::new();
    while !seen.stop.load(Ordering::Relaxed) {
        let start = tsc();
        let sent = into.send(0, FRAME_SIZE, std::iter::repeat(&packet[..])).unwrap_or(0);
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

/// The measured figures, with one value for each repetition, except for two fields: `tester` has one value for each round of the tester
/// that sent and received [`FRAME_SIZE`] packets, and `nodes` has the values of the last repetition.
#[derive(Default)]
struct Figures {
    clocks: Vec<f64>,
    mpps: Vec<f64>,
    vector: Vec<f64>,
    loss: Vec<f64>,
    tester: Vec<f64>,
    nodes: Nodes,
}

fn measure(b: &Bench, [first, last]: [usize; 2]) -> Result<Figures> {
    let Setup { mut parts, testers, _sockets } = set_up(b.routes, b.lends, 1, 1)?;
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
        // The first repetition warms the caches, and does not count.
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
        (true, _) => Err("the router returned no packet".into()),
        (_, 0) => Ok(f),
        (_, wrong) => Err(format!("{wrong} received packets differ from the sent ones").into()),
    }
}

/// Clocks of each node per received packet.
type Nodes = Vec<(&'static str, f64)>;

/// Runs one benchmark.
pub(super) fn run(b: &Bench, cores: [usize; 2]) -> Result<(Vec<Row>, Nodes)> {
    let f = measure(b, cores)?;
    let row =
        |suffix, unit, samples, target| Row { name: format!("{}{suffix}", b.name), unit, samples, target };
    let rows = vec![
        row("", "clocks/packet", f.clocks, Target::AtMost(b.target.0)),
        row("-rate", "Mpps", f.mpps, Target::AtLeast(b.target.1)),
        row("-vector", "packets/vector", f.vector, Target::AtLeast(200.0)),
        row("-loss", "percent", f.loss, Target::None),
        row("-tester", "clocks/packet", f.tester, Target::AtMost(70.0)),
    ];
    Ok((rows, f.nodes))
}
