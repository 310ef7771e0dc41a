//! Benchmarks of the router as a process: time from its start until it forwards, memory when idle, and latency added to
//! a ping. `cargo bench -p scenarios --bench process` prints a table and writes `target/bench/process.json`, one object
//! a line.

use std::fs;
use std::time::Instant;

use scenarios::{Figure, Ping, Routed, TWO_PORTS, cabled};
use testkit::process::poll;
use testkit::router::{Router, START};

/// Repetitions of each measurement.
const REPETITIONS: usize = 12;

/// Measures the time from the start of the process to the first forwarded packet.
fn start() -> Option<Figure> {
    let (a, r, _b) = cabled()?;
    let mut samples = Vec::new();
    for _ in 0..REPETITIONS {
        let began = Instant::now();
        let router = Router::spawn(&r, TWO_PORTS);
        let forwarded = poll(START, || Ping::run(&a, "-c 1 -W 0.02 10.0.1.2").complete().then_some(()));
        forwarded.expect("the router forwards");
        samples.push(began.elapsed().as_secs_f64());
        router.stop();
    }
    Some(Figure { bench: "start", unit: "s", samples, target: 1.0 })
}

/// Measures the resident memory of an idle router, without buffers and lookup tables.
fn memory() -> Option<Figure> {
    let mut samples = Vec::new();
    for _ in 0..REPETITIONS {
        let net = Routed::new()?;
        let status =
            fs::read_to_string(format!("/proc/{}/status", net.router.id())).expect("the process runs");
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("Linux shows the resident memory");
        let resident =
            line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).expect("a number") / 1024.0;
        let buffers = net.router.json("show buffers");
        let pool = buffers["total"].as_f64().expect("total") * buffers["size_bytes"].as_f64().expect("size");
        let tables = net.router.json("show ip fib summary");
        let lookup = tables["lookup_memory_bytes"].as_f64().expect("lookup memory");
        samples.push(resident - (pool + lookup) / f64::from(1 << 20));
    }
    Some(Figure { bench: "idle-memory", unit: "MiB", samples, target: 150.0 })
}

/// Measures the latency that the router adds to the median of a ping, compared to a cable.
fn ping() -> Option<Figure> {
    let net = Routed::new()?;
    net.a.lab().link((&net.a, "eth1"), (&net.b, "eth1"));
    net.a.run("ip addr add 10.0.9.1/24 dev eth1");
    net.b.run("ip addr add 10.0.9.2/24 dev eth1");
    let median = |target| Ping::run(&net.a, &format!("-c 100 -i 0.005 -W 2 {target}")).median_us();
    let samples = (0..REPETITIONS).map(|_| median("10.0.1.2") - median("10.0.9.2")).collect();
    Some(Figure { bench: "ping-added", unit: "us", samples, target: 200.0 })
}

fn main() {
    Figure::report("process.json", &[start, memory, ping]);
}
