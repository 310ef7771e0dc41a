//! Overload: the rate at which the router still forwards when packets arrive at much more than its capacity, and three in ten packets cause
//! ICMP errors.
//!
//! The same mix is offered at several rates, up to the tester's maximum. The best result is the highest rate of returned packets. The
//! result at the highest offered rate should be nearly as good. It is worse if the router spends time on packets and drops them afterwards.
//!
//! The benchmark runs with one worker, and with two workers that share the flows. The two workers have their own cores if there are three
//! cores. Otherwise three busy threads share two cores, and only the ratio of the result at the highest offered rate to the best result is
//! meaningful.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use drivers::memif::Tester;
use infra::clock::Clock;
use net::interface::Handoff;
use net::router::Receive;
use wire::Mac;
use wire::builder::PacketBuilder;

use super::setup::{LEN, Result, Setup, set_up};
use super::{Row, Target};

const REPETITIONS: usize = 5;
const TIME: Duration = Duration::from_millis(200);
/// Offered packets per second; the last rate is the tester's maximum.
const RATES: [f64; 8] = [5e6, 10e6, 15e6, 20e6, 25e6, 30e6, 35e6, f64::INFINITY];
/// Maximum number of packets sent at once, each of another flow.
const BURST: usize = 250;
/// Number of packets after which the mix repeats.
const ROUND: usize = 10;
/// Number of packets in each round of the mix whose TTL expires at the router.
const EXPIRED: usize = 3;

/// One measurement.
pub(super) struct Overload {
    pub(super) name: &'static str,
    workers: usize,
}

pub(super) const OVERLOADS: [Overload; 2] =
    [Overload { name: "overload", workers: 1 }, Overload { name: "overload-handoff", workers: 2 }];

/// The offered rate, and the numbers of sent and returned packets.
struct Shared {
    /// Index into [`RATES`].
    rate: AtomicU64,
    sent: AtomicU64,
    came: AtomicU64,
    stop: AtomicBool,
}

fn packet(n: usize) -> Vec<u8> {
    let ttl = if n % ROUND < EXPIRED { 1 } else { 64 };
    PacketBuilder::ipv4([198, 18, 0, 2].into(), [20, 0, 0, 1].into())
        .ethernet(Mac([2, 0, 0, 0, 9, 8]), Mac([2, 0xfe, 0, 0, 0, 0]))
        .ttl(ttl)
        .udp(1024 + n as u16, 1024)
        .payload(&[0x5a; LEN - 42])
        .build()
}

fn test([mut into, mut from]: [Tester; 2], clock: &Clock, shared: &Shared) {
    let mix: Vec<Vec<u8>> = (0..BURST).map(packet).collect();
    let mix: Vec<&[u8]> = mix.iter().map(|p| &p[..]).collect();
    let (mut due, mut last) = (0.0, clock.now_ns());
    while !shared.stop.load(Ordering::Relaxed) {
        let rate = RATES[shared.rate.load(Ordering::Relaxed) as usize % RATES.len()];
        let now = clock.now_ns();
        due = if rate.is_finite() {
            f64::min(due + (now - last) as f64 * rate / 1e9, BURST as f64)
        } else {
            BURST as f64
        };
        last = now;
        // Sends whole rounds only, so that the mix stays the same.
        let n = due as usize / ROUND * ROUND;
        let sent = if n > 0 { into.send(0, n, mix.iter().copied()).unwrap_or(0) } else { 0 };
        due -= n as f64;
        // ICMP errors return to the sending interface. They are discarded.
        let _ = into.receive(|_| ());
        let came = from.receive(|_| ()).unwrap_or(0);
        shared.sent.fetch_add(sent as u64, Ordering::Relaxed);
        shared.came.fetch_add(came as u64, Ordering::Relaxed);
    }
}

/// Runs the measurement.
pub(super) fn run(b: &Overload, cores: &[usize]) -> Result<Vec<Row>> {
    let Setup { parts, testers, _sockets } = set_up(true, false, b.workers, 1)?;
    let (mut r, clock) = (parts.router, Clock::new());
    let (first, others) = cores.split_first().ok_or("it needs two cores")?;
    let own: Vec<Option<usize>> = others.iter().rev().copied().map(Some).collect();
    r.start(parts.workers, if own.len() < b.workers { &[] } else { &own })?;
    let devices: Vec<u32> = r.interfaces().map(|i| i.index).collect();
    for index in devices.into_iter().filter(|_| b.workers > 1) {
        r.set_receive(index, Receive { handoff: Handoff::On, ..Receive::default() })?;
    }
    let shared = Shared {
        rate: AtomicU64::new(0),
        sent: AtomicU64::new(0),
        came: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let (mut best, mut most, mut ratio, mut slowest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = infra::cpu::pin_current(*first);
            test(testers, &clock, &shared);
        });
        for repetition in 0..=REPETITIONS {
            let mut came = [0.0; RATES.len()];
            let mut late = Duration::ZERO;
            for (at, came) in came.iter_mut().enumerate() {
                shared.rate.store(at as u64, Ordering::Relaxed);
                std::thread::sleep(TIME / 4);
                let (start, before) = (Instant::now(), shared.came.load(Ordering::Relaxed));
                while start.elapsed() < TIME {
                    let turn = Instant::now();
                    r.poll(clock.now_ns());
                    late = late.max(turn.elapsed());
                    std::thread::sleep(Duration::from_millis(5));
                }
                let packets = shared.came.load(Ordering::Relaxed) - before;
                *came = packets as f64 / start.elapsed().as_secs_f64() / 1e6;
            }
            if repetition > 0 {
                let top = came.iter().copied().fold(0.0, f64::max);
                best.push(top);
                most.push(came[RATES.len() - 1]);
                ratio.push(100.0 * came[RATES.len() - 1] / top);
                slowest.push(late.as_secs_f64() * 1e3);
            }
        }
        shared.stop.store(true, Ordering::Relaxed);
    });
    let row = |what, unit, samples, target| Row { name: format!("{}-{what}", b.name), unit, samples, target };
    Ok(vec![
        row("best", "Mpps", best, Target::None),
        row("flood", "Mpps", most, Target::None),
        row("ratio", "percent", ratio, Target::AtLeast(95.0)),
        row("main-turn", "ms", slowest, Target::None),
    ])
}
