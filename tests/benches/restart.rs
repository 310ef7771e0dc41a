//! Measures the gap in forwarding when the router restarts under traffic: the longest time between two replies to a ping
//! of 1,000 requests a second. `cargo bench -p scenarios --bench restart` prints a table and writes
//! `target/bench/restart.json`, one object a line.
//!
//! The gap contains everything that a host notices: the end of the old process, the start of the new one, opening its
//! ports, applying the configuration that `config save` wrote, and ARP for the hosts on both sides.

use std::time::Duration;

use scenarios::{Figure, Ping, TWO_PORTS, cabled};
use testkit::process::until;
use testkit::router::{Router, START};

/// Restarts of each kind.
const REPETITIONS: usize = 9;
/// Largest gap that is acceptable to an operator, in milliseconds.
const TARGET: f64 = 300.0;

/// A host of the connected network behind the router.
const CONNECTED: &str = "10.0.1.2";
/// An address behind that host, in the last of 100,000 routes.
const ROUTED: &str = "21.134.159.1";

/// Measures `REPETITIONS` restarts of a router with this configuration, by pings to `to`. `end` ends the old process.
fn restarts(bench: &'static str, commands: &str, to: &str, end: fn(Router)) -> Option<Figure> {
    let (a, r, b) = cabled()?;
    b.run(&format!("ip addr add {ROUTED}/32 dev lo"));
    let first = Router::start(&r, commands);
    let saved = first.socket().with_file_name("saved.yaml");
    first.ctl(&format!("config save {}", saved.display()));
    first.stop();
    let mut samples = Vec::new();
    for _ in 0..REPETITIONS {
        let old = Router::spawn_from(&r, &saved).wait_ready();
        Ping::until_answered(&a, to, START);
        let mut flow = a.spawn(&format!("ping -n -D -i 0.001 -W 1 -c 3000 {to}"));
        until("packets flow", START, || flow.stdout().lines().count() > 300);
        end(old);
        let again = Router::spawn_from(&r, &saved);
        let said = flow.finish(Duration::from_secs(30)).stdout;
        let times: Vec<f64> =
            said.lines().filter_map(|line| line.strip_prefix('[')?.split(']').next()?.parse().ok()).collect();
        let gap = times.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
        assert!(times.len() > 1000 && gap > 0.01, "the pings show no restart:\n{said}");
        samples.push(gap * 1000.0);
        again.stop();
    }
    Some(Figure { bench, unit: "ms", samples, target: TARGET })
}

fn restart() -> Option<Figure> {
    restarts("restart", TWO_PORTS, CONNECTED, Router::stop)
}

fn crash() -> Option<Figure> {
    restarts("crash", TWO_PORTS, CONNECTED, Router::kill)
}

/// Two ports and 100,000 routes.
fn with_100k() -> String {
    format!("{TWO_PORTS}ip route add 20.0.0.0/24 via {CONNECTED} count 100000\n")
}

fn restart_100k() -> Option<Figure> {
    restarts("restart-100k", &with_100k(), CONNECTED, Router::stop)
}

fn restart_100k_routed() -> Option<Figure> {
    restarts("restart-100k-routed", &with_100k(), ROUTED, Router::stop)
}

fn main() {
    Figure::report("restart.json", &[restart, crash, restart_100k, restart_100k_routed]);
}
