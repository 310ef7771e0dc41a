//! The latency of packets, and the CPU use of a worker, at a fraction of the worker's capacity.
//!
//! The tester writes the time into each packet, and sends at a steady rate. The worker has its own thread, and sleeps
//! according to its receive mode. A latency is the time until the tester has received the packet again. It includes
//! two rings, the router, the tester's own loop, and interruptions of either core by the machine.
//!
//! Surplus workers should cost nothing. So the same small load is also offered by four queues to one, two and four
//! workers. All workers are on the same core, because a machine with two cores has only one besides the tester's.
//! Results count once the router has adapted to the small load, and the CPU time is that of all workers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use drivers::memif::Tester;
use graph::RxMode;
use infra::clock::{Clock, tsc};
use net::router::Receive;
use wire::Mac;
use wire::builder::PacketBuilder;

use super::setup::{LEN, Result, Setup, set_up};
use super::{Row, Target};

/// Assumed capacity of a worker in packets per second: the target of `memif-ip4-1`.
const CAPACITY: f64 = 35e6;
/// Number of counted repetitions.
const REPETITIONS: usize = 9;
/// Duration of a repetition.
const TIME: Duration = Duration::from_millis(500);
/// Number of repetitions before those that count, with one worker and one queue: caches get warm in them.
const WARM_UP: usize = 1;
/// Number of repetitions before those that count, with several workers or queues: the router also distributes the work over the workers,
/// which takes three seconds.
const WARM_UP_OF_SEVERAL: usize = 10;
/// Time between two turns of the main thread.
const TURN: Duration = Duration::from_millis(100);
/// Maximum number of packets that the tester sends at once when it is behind.
const BURST: usize = 64;
/// Place of the time in a packet, in bytes: after the UDP header.
const STAMP: std::ops::Range<usize> = 42..50;

/// A load, and the targets for it.
pub struct Load {
    pub name: &'static str,
    /// Load as a share of the capacity.
    share: f64,
    mode: RxMode,
    workers: usize,
    queues: usize,
    /// Maximum latency of a share of the packets: the share in per mille, and the latency in microseconds.
    late: [(u32, f64); 2],
    /// Maximum use of a core in percent.
    cpu: Option<f64>,
}

pub const LOADS: [Load; 6] = [
    Load {
        name: "adaptive-1pct",
        share: 0.01,
        mode: RxMode::Adaptive,
        workers: 1,
        queues: 1,
        late: [(500, 60.0), (999, 300.0)],
        cpu: Some(15.0),
    },
    Load {
        name: "adaptive-10pct",
        share: 0.1,
        mode: RxMode::Adaptive,
        workers: 1,
        queues: 1,
        late: [(500, f64::INFINITY), (990, 250.0)],
        cpu: Some(35.0),
    },
    Load {
        name: "polling-1pct",
        share: 0.01,
        mode: RxMode::Polling,
        workers: 1,
        queues: 1,
        late: [(500, 10.0), (999, 100.0)],
        cpu: None,
    },
    with_workers("workers-1", 1),
    with_workers("workers-2", 2),
    with_workers("workers-4", 4),
];

/// Returns a load of one percent of the capacity by four queues, for comparing numbers of workers.
const fn with_workers(name: &'static str, workers: usize) -> Load {
    let late = [(500, f64::INFINITY), (990, f64::INFINITY)];
    Load { name, share: 0.01, mode: RxMode::Adaptive, workers, queues: 4, late, cpu: None }
}

/// The tester's results of one repetition.
#[derive(Default)]
struct Seen {
    sent: u64,
    /// Latencies, in clocks of the time stamp counter.
    late: Vec<u64>,
}

/// Sends at a rate and measures the latency of the returned packets, until stopped. Reports one [`Seen`] for each `TIME`.
fn test([mut into, mut from]: [Tester; 2], clock: &Clock, load: &Load, stop: &AtomicBool) -> Vec<Seen> {
    let rate = CAPACITY * load.share;
    let packet = PacketBuilder::ipv4([198, 18, 0, 2].into(), [20, 0, 0, 1].into())
        .ethernet(Mac([2, 0, 0, 0, 9, 8]), Mac([2, 0xfe, 0, 0, 0, 0]))
        .udp(1024, 1024)
        .payload(&[0x5a; LEN - 42])
        .build();
    let mut packets = vec![packet; BURST];
    let (mut all, mut seen) = (Vec::new(), Seen::default());
    let (mut began, mut due, mut queue) = (clock.now_ns(), 0.0, 0);
    let mut last = began;
    while !stop.load(Ordering::Relaxed) {
        let now = clock.now_ns();
        due += (now - last) as f64 * rate / 1e9;
        last = now;
        let n = (due as usize).min(BURST);
        if n > 0 {
            let stamp = tsc().to_be_bytes();
            packets[..n].iter_mut().for_each(|p| p[STAMP].copy_from_slice(&stamp));
            let sent = into.send(queue, n, packets.iter().map(|p| &p[..])).unwrap_or(0);
            queue = (queue + 1) % load.queues;
            // Packets without room in the ring count as lost, and are not sent later.
            due -= n as f64;
            seen.sent += n as u64;
            debug_assert!(sent <= n);
        }
        let _ = from.receive(|p| {
            if let Some(stamp) = p.get(STAMP) {
                let stamp = u64::from_be_bytes(stamp.try_into().unwrap_or_default());
                seen.late.push(tsc().wrapping_sub(stamp));
            }
        });
        if now - began > TIME.as_nanos() as u64 {
            all.push(std::mem::take(&mut seen));
            began = now;
        }
    }
    all
}

/// Returns the CPU time of a thread of this process, in nanoseconds.
fn cpu_time(thread: i32) -> u64 {
    let spent = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap_or_default();
    spent.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Measures one load.
pub(super) fn run(load: &Load, [first, last]: [usize; 2]) -> Result<Vec<Row>> {
    let Setup { parts, testers, _sockets } = set_up(true, false, load.workers, load.queues)?;
    let (mut r, clock) = (parts.router, Clock::new());
    r.start(parts.workers, &vec![Some(last); load.workers])?;
    for index in [0, 1] {
        r.set_receive(index, Receive { mode: load.mode, ..Receive::default() })?;
    }
    let threads: Option<Vec<i32>> = (0..load.workers).map(|worker| r.thread_id(worker)).collect();
    let threads = threads.ok_or("a worker has no thread")?;
    let spent = || threads.iter().copied().map(cpu_time).sum::<u64>();
    let warm_up = if load.workers == 1 && load.queues == 1 { WARM_UP } else { WARM_UP_OF_SEVERAL };
    let stop = AtomicBool::new(false);
    let mut cpu = Vec::new();
    let seen = std::thread::scope(|scope| -> Result<Vec<Seen>> {
        let tester = scope.spawn(|| {
            let _ = infra::cpu::pin_current(first);
            test(testers, &clock, load, &stop)
        });
        for _ in 0..warm_up + REPETITIONS {
            let (start, before) = (Instant::now(), spent());
            while start.elapsed() < TIME {
                std::thread::sleep(TURN);
                r.poll(clock.now_ns());
            }
            cpu.push(100.0 * (spent() - before) as f64 / start.elapsed().as_nanos() as f64);
        }
        stop.store(true, Ordering::Relaxed);
        tester.join().map_err(|_| "the tester panicked".into())
    })?;
    cpu.drain(..warm_up);
    let mut late: Vec<Vec<f64>> = vec![Vec::new(); load.late.len()];
    let mut loss = Vec::new();
    let per_us = clock.tsc_hz() / 1e6;
    for mut seen in seen.into_iter().skip(warm_up) {
        if seen.late.is_empty() {
            return Err("the router returned no packet".into());
        }
        seen.late.sort_unstable();
        for (samples, (permille, _)) in late.iter_mut().zip(load.late) {
            let at = seen.late.len() * permille as usize / 1000;
            samples.push(seen.late[at.min(seen.late.len() - 1)] as f64 / per_us);
        }
        loss.push(100.0 * (1.0 - seen.late.len() as f64 / seen.sent.max(1) as f64).max(0.0));
    }
    let mut rows = Vec::new();
    for (samples, (permille, most)) in late.into_iter().zip(load.late) {
        let name = format!(
            "{}-{}",
            load.name,
            if permille == 500 { "median".into() } else { format!("p{permille}") }
        );
        let target = if most.is_finite() { Target::AtMost(most) } else { Target::None };
        rows.push(Row { name, unit: "us", samples, target });
    }
    let target = load.cpu.map_or(Target::None, Target::AtMost);
    rows.push(Row { name: format!("{}-cpu", load.name), unit: "percent", samples: cpu, target });
    rows.push(Row {
        name: format!("{}-loss", load.name),
        unit: "percent",
        samples: loss,
        target: Target::None,
    });
    Ok(rows)
}
