//! How late packets are, and what of a core a worker takes, at a fraction of what it could forward.
//!
//! The tester writes the time into each packet and sends at a steady rate; the worker is on a thread of its own, and rests as its
//! receive mode says. A latency is the time from there to where the packet came back: two rings, the router, and the tester's own
//! loop. What the machine takes away from either core is in it.
//!
//! Workers that are not needed are not to cost anything: so the same little is also offered by four queues to one, two and four
//! workers, all on the same core, which is what a machine with two of them has beside the tester's. What counts is what they do
//! when the router has seen how little it is, and then the processor time of all of them.

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

/// What counts as a worker's capacity, packets a second: what `memif-ip4-1` is to reach.
const CAPACITY: f64 = 35e6;
/// Repetitions, and how long each takes.
const REPETITIONS: usize = 9;
const TIME: Duration = Duration::from_millis(500);
/// Repetitions before those: caches get warm, and several workers are given their work, which takes three seconds.
const WARM_UP: usize = 1;
const WARM_UP_OF_SEVERAL: usize = 10;
/// How often the main thread has a turn at least.
const TURN: Duration = Duration::from_millis(100);
/// Packets that the tester sends at once at most, when it has fallen behind.
const BURST: usize = 64;
/// Where the time lies in a packet: behind the UDP header.
const STAMP: std::ops::Range<usize> = 42..50;

/// A load, and what is to be reached at it.
pub struct Load {
    pub name: &'static str,
    /// Of the capacity.
    share: f64,
    mode: RxMode,
    workers: usize,
    queues: usize,
    /// Most microseconds for a share of the packets: per mille, and the time.
    late: [(u32, f64); 2],
    /// Most of a core, in per cent.
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

/// One per cent of the capacity by four queues: for comparison with each other.
const fn with_workers(name: &'static str, workers: usize) -> Load {
    let late = [(500, f64::INFINITY), (990, f64::INFINITY)];
    Load { name, share: 0.01, mode: RxMode::Adaptive, workers, queues: 4, late, cpu: None }
}

/// What the tester saw in one repetition.
#[derive(Default)]
struct Seen {
    sent: u64,
    /// In time stamp clocks.
    late: Vec<u64>,
}

/// Sends at a rate and looks at what comes back, until told to stop; one [`Seen`] for each `TIME`.
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
            // What there is no room for is lost, and counted as such: it is not made up for.
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

/// Nanoseconds for which a thread of this process had a core.
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
            return Err("no packet came through".into());
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
