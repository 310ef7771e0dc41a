//! Tests workers on their own threads.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use buf::{Frame, Held, Pool};
use infra::doorbell::Doorbell;
use infra::quiesce::Domain;
use infra::wait;

use super::toys::{Batches, End, Log, specs};
use crate::{
    Blueprint, Builder, Cx, Eager, EdgeId, InputNode, More, NoNext, NoReason, Out, Punted, Runner, RxMode,
    WaitSet, WorkerPort,
};

const LONG: Duration = Duration::from_secs(10);

/// A graph that punts all packets from the main thread, so that they return there.
struct Echo {
    blueprint: Blueprint,
    domain: Domain,
    pool: Pool,
    bell: Arc<Doorbell>,
    edge: EdgeId,
    source: Batches,
}

impl Echo {
    fn new() -> Echo {
        let (mut b, source) = (Builder::new(), Batches::default());
        let edge = b.inject_to("error-punt").expect("an edge");
        source.install(&mut b, "source");
        b.edge("source", "end").expect("an edge");
        End::install(&mut b, &Log::default(), "end");
        b.punt_reason("echo", u32::MAX);
        let domain = Domain::new();
        let (blueprint, _) = b.build(&domain).expect("a graph");
        let pool = Pool::new(4096).expect("a pool");
        Echo { blueprint, domain, pool, bell: Arc::new(Doorbell::new().expect("a doorbell")), edge, source }
    }

    fn start(&self, number: usize) -> (Runner, WorkerPort) {
        let (worker, port) = self.blueprint.worker(number, &self.pool, &self.bell).expect("a worker");
        (Runner::start(worker, &port, None).expect("a thread"), port)
    }

    /// Waits for the bell until a packet returns, and returns the packet.
    fn punted(&self, port: &mut WorkerPort) -> Punted {
        let start = Instant::now();
        while start.elapsed() < LONG {
            self.bell.clear();
            if let Some(p) = port.punted() {
                return p;
            }
            // Longer than a worker's maximum sleep, and than any pause of the machine: a lost wake-up shows
            // as a timeout.
            let woken = wait::any(&[self.bell.as_fd()], Duration::from_secs(5)).expect("a wait");
            assert!(woken || port.punted().is_none(), "a packet waited without a bell");
        }
        panic!("the packet did not return");
    }
}

fn packet(pool: &Pool, id: u32) -> Held {
    let mut held = Held::alloc(&mut pool.cache()).expect("a buffer");
    held.packet().set_hash(id);
    held
}

/// Returns the CPU time of the thread with this name, in nanoseconds.
fn cpu_time(name: &str) -> u64 {
    for task in std::fs::read_dir("/proc/self/task").expect("tasks").flatten() {
        let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").trim() == name {
            let fields = read("schedstat");
            return fields.split(' ').next().and_then(|f| f.parse().ok()).expect("a schedstat");
        }
    }
    panic!("there is no thread {name}");
}

#[test]
fn an_idle_worker_sleeps_and_wakes_when_it_is_sent_something() {
    let echo = Echo::new();
    let (runner, mut port) = echo.start(90);
    for id in 0..3 {
        std::thread::sleep(Duration::from_millis(5));
        assert!(port.inject(echo.edge, packet(&echo.pool, id)).is_ok());
        let mut p = echo.punted(&mut port);
        assert_eq!(p.packet.packet().hash(), id);
        p.packet.discard();
    }
    let (before, start) = (cpu_time("volley_wk_90"), Instant::now());
    std::thread::sleep(Duration::from_millis(400));
    let share = (cpu_time("volley_wk_90") - before) as f64 / start.elapsed().as_nanos() as f64;
    assert!(share < 0.02, "an idle worker took {:.1} % of a core", share * 100.0);
    let worker = runner.stop().expect("the worker is returned");
    assert_eq!(worker.number(), 90);
    drop((worker, port));
    assert_eq!((echo.pool.stats().used, echo.pool.stats().lost), (0, 0));
}

#[test]
fn no_wakeup_is_lost() {
    let echo = Echo::new();
    let (runner, mut port) = echo.start(0);
    // The main thread sends the next packet after each returned packet, and sleeps when none has returned. So it falls asleep while the
    // worker is about to send again.
    const ALL: u32 = 100_000;
    const ON_THEIR_WAY: u32 = 3;
    for id in 0..ALL + ON_THEIR_WAY {
        if id < ALL {
            assert!(port.inject(echo.edge, packet(&echo.pool, id)).is_ok());
        }
        if let Some(expected) = id.checked_sub(ON_THEIR_WAY) {
            let mut p = echo.punted(&mut port);
            assert_eq!(p.packet.packet().hash(), expected);
            p.packet.discard();
        }
    }
    drop((runner.stop(), port));
    assert_eq!((echo.pool.stats().used, echo.pool.stats().lost), (0, 0));
}

#[test]
fn a_worker_can_be_stopped_and_restarted() {
    let echo = Echo::new();
    let (worker, mut port) = echo.blueprint.worker(1, &echo.pool, &echo.bell).expect("a worker");
    let mut worker = Some(worker);
    for id in 0..20 {
        let runner = Runner::start(worker.take().expect("a worker"), &port, None).expect("a thread");
        runner.pin(if id % 2 == 0 { Some(0) } else { None }).expect("a core");
        assert!(port.inject(echo.edge, packet(&echo.pool, id)).is_ok());
        echo.punted(&mut port).packet.discard();
        worker = runner.stop();
    }
    // A stopped worker is no reader, so writers do not wait for it.
    assert!(echo.domain.synchronize(Duration::from_secs(5)));
    let inject = echo.blueprint.stats().runtime(Some(1)).into_iter().find(|n| n.name == "inject");
    assert_eq!(inject.map(|n| n.packets), Some(20));
    drop((worker, port));
    assert_eq!((echo.pool.stats().used, echo.pool.stats().lost), (0, 0));
}

#[test]
fn two_workers_share_a_graph() {
    let echo = Echo::new();
    // Both poll the same source; the first one takes the batch.
    let (one, mut port_one) = echo.start(0);
    let (two, mut port_two) = echo.start(1);
    for _ in 0..500 {
        echo.source.push(specs(64, b"x"));
        port_one.wake();
        port_two.wake();
    }
    for port in [&mut port_one, &mut port_two] {
        assert!(port.inject(echo.edge, packet(&echo.pool, 7)).is_ok());
        echo.punted(port).packet.discard();
    }
    let of = |worker| {
        let all = echo.blueprint.stats().runtime(worker);
        all.iter().find(|n| n.name == "end").map_or(0, |n| n.packets)
    };
    let start = Instant::now();
    while of(None) < 32_000 && start.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!((of(None), of(Some(0)) + of(Some(1))), (32_000, 32_000));
    drop((one.stop(), two.stop(), port_one, port_two));
    assert_eq!((echo.pool.stats().used, echo.pool.stats().lost), (0, 0));
}

/// An input node that counts its polls, and asks for sleeps of a given length.
struct Counting {
    polls: Arc<AtomicU64>,
    /// Nanoseconds from one poll to the next; `None` if the worker must not sleep.
    nap: Option<u64>,
    now: u64,
}

impl InputNode for Counting {
    type Next = NoNext;
    type Drop = NoReason;
    fn poll(&mut self, cx: &mut Cx<'_>, _: &mut Frame, _: &mut Out<'_, NoNext, NoReason>) -> More {
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.now = cx.now;
        More::No
    }
    fn wait<'a>(&'a self, wait: &mut WaitSet<'a>) {
        match self.nap {
            None => wait.poll(),
            Some(nap) => {
                wait.until(self.now + 1000 * nap);
                wait.until(self.now + nap);
            }
        }
    }
    fn eager(&self) -> Eager {
        Eager { mode: RxMode::Adaptive, depth: 1024 }
    }
}

#[test]
fn a_worker_sleeps_as_long_as_its_inputs_allow() {
    // An input node that asks for nothing is polled 64 times, and from then on once in a tenth of a second.
    for (nap, at_least, in_a_tenth) in [(None, 5_000, 128), (Some(2_000_000), 200, 4)] {
        let polls = Arc::new(AtomicU64::new(0));
        let (mut b, counter) = (Builder::new(), polls.clone());
        b.input("counting", move |_| Ok(Counting { polls: counter.clone(), nap, now: 0 }));
        let (blueprint, _) = b.build(&Domain::new()).expect("a graph");
        let pool = Pool::new(64).expect("a pool");
        let bell = Arc::new(Doorbell::new().expect("a doorbell"));
        let (worker, port) = blueprint.worker(0, &pool, &bell).expect("a worker");
        let (runner, start) = (Runner::start(worker, &port, None).expect("a thread"), Instant::now());
        while polls.load(Ordering::Relaxed) < at_least && start.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(1));
        }
        let tenths = start.elapsed().as_millis() as u64 / 100 + 1;
        assert!(polls.load(Ordering::Relaxed) > tenths * in_a_tenth, "{nap:?}: slept too long");
        drop(runner.stop());
    }
}

#[test]
fn a_sleeping_worker_does_not_delay_writers() {
    let echo = Echo::new();
    let (runner, port) = echo.start(0);
    let mut waits: Vec<Duration> = (0..21)
        .map(|_| {
            // Long enough for the worker to fall asleep.
            std::thread::sleep(Duration::from_millis(2));
            let start = Instant::now();
            assert!(echo.domain.synchronize(Duration::from_secs(5)));
            start.elapsed()
        })
        .collect();
    waits.sort_unstable();
    assert!(waits[10] < Duration::from_millis(50), "writers must not wait for a sleeping worker: {waits:?}");
    drop((runner.stop(), port));
}

#[test]
fn a_worker_counts_busy_and_idle_time() {
    let echo = Echo::new();
    let (runner, mut port) = echo.start(0);
    let totals = || echo.blueprint.stats().worker_totals(0);
    let start = Instant::now();
    while totals().idle_ns < 50_000_000 {
        assert!(start.elapsed() < LONG, "idle for {} ns", totals().idle_ns);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(totals().busy_ns, 0, "no packet came");
    let before = totals().turns;
    assert!(port.inject(echo.edge, packet(&echo.pool, 1)).is_ok());
    drop(echo.punted(&mut port));
    while totals().busy_ns == 0 {
        assert!(start.elapsed() < LONG, "a packet arrived, but no busy time was counted");
        std::thread::sleep(Duration::from_millis(1));
    }
    let (spent, elapsed) = (totals(), start.elapsed().as_nanos() as u64);
    assert!(spent.turns > before);
    assert!(spent.busy_ns + spent.idle_ns <= elapsed + 1_000_000_000, "{spent:?} within {elapsed} ns");
    drop(runner);
}
