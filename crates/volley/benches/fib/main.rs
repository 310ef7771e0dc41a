//! The routing table benchmark: rates of adding and removing routes and sub-interfaces, the longest time for which
//! the main thread is busy without a pause, and the memory of routes.
//!
//! `cargo bench -p volley --bench fib [-- NAME…]` prints a table and writes `target/bench/fib.json`, one object per line. Everything but
//! `churn` runs on one pinned thread, without workers; most repetitions begin with a new router. Times are CPU times of the thread, so
//! other programs on the machine do not count. The routing table of a real router is read from the file that `VOLLEY_RIB` names: lines with
//! a prefix, a tab, and a number that stands for the next hop.

mod churn;
mod stalls;

use std::collections::HashSet;
use std::io::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use control::app::Context;
use control::cli::{Call, CliError, Registry, Step};
use control::config;
use control::system::{Abilities, System};
use drivers::{Guardian, pktgen};
use infra::hash::mix64;
use net::ip::{Address, IpPrefix, Path, Prefix4, Prefix6};
use net::router::{Parts, Router, Sizes};
use rustix::time::{ClockId, Timespec, clock_gettime};
use testkit::rib;
use testkit::skip::skipped;
use volley::features::declared;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Repetitions of each measurement, except those of memory and of `churn`.
const REPETITIONS: usize = 5;
/// Number of next hops of generated routes.
const NEXT_HOPS: u32 = 1000;
/// The port of all next hops. It has the address 10.0.0.1/8.
const PORT: u32 = 0;

/// A reading of the CPU time of this thread.
struct Cpu(Timespec);

impl Cpu {
    fn now() -> Cpu {
        Cpu(clock_gettime(ClockId::ThreadCPUTime))
    }

    /// Returns the CPU time since this point, in seconds.
    fn seconds(&self) -> f64 {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        (now.tv_sec - self.0.tv_sec) as f64 + (now.tv_nsec - self.0.tv_nsec) as f64 / 1e9
    }
}

/// A measured figure, with one value for each repetition.
struct Figure {
    bench: String,
    unit: &'static str,
    samples: Vec<f64>,
    /// The target: `true` and a minimum, or `false` and a maximum.
    target: Option<(bool, f64)>,
}

impl Figure {
    fn new(bench: impl Into<String>, unit: &'static str, target: Option<(bool, f64)>) -> Figure {
        Figure { bench: bench.into(), unit, samples: Vec::new(), target }
    }

    fn sorted(&self) -> (f64, f64, f64) {
        let mut s = self.samples.clone();
        s.sort_by(f64::total_cmp);
        (s[s.len() / 2], s[0], s[s.len() - 1])
    }

    fn json(&self) -> String {
        let (median, min, max) = self.sorted();
        format!(
            "{{\"bench\": \"{}\", \"unit\": \"{}\", \"median\": {median:.3}, \"min\": {min:.3}, \"max\": {max:.3}, \
             \"samples\": {}}}",
            self.bench,
            self.unit,
            self.samples.len()
        )
    }

    fn line(&self) -> String {
        let (median, min, max) = self.sorted();
        let (target, verdict) = match self.target {
            None => (String::new(), ""),
            Some((least, t)) => {
                (format!("{t:.3}"), if (median >= t) == least || median == t { "ok" } else { "MISSED" })
            }
        };
        format!(
            "{:<24} {median:>10.3} {min:>10.3} {max:>10.3} {target:>8}  {:<9} {verdict}",
            self.bench, self.unit
        )
    }
}

/// Returns a router with one port, which is up and has 10.0.0.1/8 and fd00::1/64.
fn router() -> Result<Router> {
    let Parts { mut router, .. } =
        Router::build(volley::features::install, &Sizes { buffers: 1024, workers: 1 })?;
    let (device, ..) = pktgen::open(&pktgen::Config { mac: [2, 0xfe, 0, 0, 0, 0], ..Default::default() });
    assert_eq!(router.add_device("pg0", device)?, PORT);
    router.set_admin(PORT, true)?;
    router.add_address(PORT, Address::new(Ipv4Addr::new(10, 0, 0, 1), 8))?;
    router.add_address(PORT, Address::new(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1), 64))?;
    Ok(router)
}

fn via(n: u32) -> Path {
    Path::Via { next_hop: Ipv4Addr::from_bits(0x0a00_0002 + n).into(), interface: None }
}

/// Returns routes to `n` different random /24s outside 0.0.0.0/8, 10.0.0.0/8, 127.0.0.0/8 and 224.0.0.0/3.
fn random(n: usize, next_hops: u32) -> Vec<(Prefix4, Path)> {
    let mut seen = HashSet::new();
    let all = (0u64..).map(|i| mix64(i) as u32 & 0xffff_ff00);
    let usable = all.filter(|bits| (1..224).contains(&(bits >> 24)) && ![10, 127].contains(&(bits >> 24)));
    let new = usable.filter(|bits| seen.insert(*bits)).take(n);
    new.enumerate()
        .map(|(i, bits)| (Prefix4::new(Ipv4Addr::from_bits(bits), 24), via(i as u32 % next_hops)))
        .collect()
}

/// Returns the routing table of a real router, if `VOLLEY_RIB` names a file with one.
fn real() -> Result<Option<Vec<(Prefix4, Path)>>> {
    let Some(file) = std::env::var_os("VOLLEY_RIB") else { return Ok(None) };
    let mut routes = Vec::new();
    for line in std::fs::read_to_string(file)?.lines() {
        let (prefix, hop) = line.split_once('\t').ok_or("a line of VOLLEY_RIB has no tab")?;
        // Folds the 32-bit numbers, so that all next hops are on the port's network.
        let hop: u32 = hop.parse()?;
        routes.push((prefix.parse()?, via((hop ^ hop >> 16) & 0xf_ffff)));
    }
    Ok(Some(routes))
}

/// Returns `n` prefixes in random order. They are those of a real IPv6 table, or of a generated one if there is no real one. If they are
/// fewer than `n`, similar prefixes are added.
fn random6(n: usize) -> Result<Vec<(Prefix6, Path)>> {
    let (_, prefixes) = rib::real::<u128>()?;
    let mut all = rib::extend(&prefixes, n);
    all.truncate(n);
    all.sort_unstable_by_key(|(prefix, len)| mix64((prefix >> 64) as u64 ^ *prefix as u64 ^ u64::from(*len)));
    let via = |i: usize| Path::Via {
        next_hop: Ipv6Addr::from_bits(0xfd00 << 112 | (i as u128 % u128::from(NEXT_HOPS) + 2)).into(),
        interface: None,
    };
    let route =
        |(i, (prefix, len)): (usize, (u128, u8))| (Prefix6::new(Ipv6Addr::from_bits(prefix), len), via(i));
    Ok(all.into_iter().enumerate().map(route).collect())
}

/// Adds all routes, then removes them. Returns both rates in millions of routes per second; the target for additions
/// is at least `least`.
fn rates<P: Into<IpPrefix> + Copy>(name: &str, routes: &[(P, Path)], least: f64) -> Result<Vec<Figure>> {
    let mut add = Figure::new(format!("add-{name}"), "M/s", Some((true, least)));
    let mut remove = Figure::new(format!("remove-{name}"), "M/s", Some((true, 1.0)));
    let rate = |start: Cpu| routes.len() as f64 / start.seconds() / 1e6;
    for _ in 0..REPETITIONS {
        let mut r = router()?;
        let start = Cpu::now();
        for (prefix, path) in routes {
            r.add_route(0, *prefix, *path)?;
        }
        add.samples.push(rate(start));
        let start = Cpu::now();
        for (prefix, _) in routes {
            r.remove_route(0, *prefix)?;
        }
        remove.samples.push(rate(start));
    }
    Ok(vec![add, remove])
}

/// Returns the resident memory of this process in MiB.
fn resident() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).ok_or("/proc/self/status has no VmRSS")?;
    let kb: f64 = line.split_whitespace().nth(1).ok_or("VmRSS has no number")?.parse()?;
    Ok(kb / 1024.0)
}

/// Returns the memory of these routes in MiB, without that of an empty router. The target is at most `most`.
fn memory<P: Into<IpPrefix> + Copy>(name: &str, routes: &[(P, Path)], most: f64) -> Result<Vec<Figure>> {
    let mut figure = Figure::new(name, "MiB", Some((false, most)));
    let mut r = router()?;
    let before = resident()?;
    for (prefix, path) in routes {
        r.add_route(0, *prefix, *path)?;
    }
    figure.samples.push(resident()? - before);
    Ok(vec![figure])
}

/// The longest step of the main thread, in milliseconds.
#[derive(Default)]
struct Longest(f64);

impl Longest {
    fn step<T>(&mut self, f: impl FnOnce() -> T) -> T {
        let start = Cpu::now();
        let result = f();
        self.0 = self.0.max(start.seconds() * 1e3);
        result
    }

    /// Runs the router's turns until no work is left.
    fn turns(&mut self, r: &mut Router) {
        while self.step(|| r.poll(0)) {}
    }
}

/// Sets an interface with 100,000 routes over 100 next hops down and up. Measures the longest time for which the main thread is busy
/// without a pause, and the CPU time until all routes are updated.
fn flip() -> Result<Vec<Figure>> {
    let routes = random(100_000, 100);
    let mut figures = Vec::new();
    for word in ["down", "up"] {
        figures.push(Figure::new(format!("{word}-step"), "ms", Some((false, 1.0))));
        figures.push(Figure::new(format!("{word}-all"), "ms", None));
    }
    let mut r = router()?;
    for (prefix, path) in &routes {
        r.add_route(0, *prefix, *path)?;
    }
    for _ in 0..REPETITIONS {
        for (up, at) in [(false, 0), (true, 2)] {
            let (start, mut longest) = (Cpu::now(), Longest::default());
            longest.step(|| r.set_admin(PORT, up))?;
            longest.turns(&mut r);
            figures[at].samples.push(longest.0);
            figures[at + 1].samples.push(start.seconds() * 1e3);
        }
    }
    Ok(figures)
}

/// Changes, removes and adds a route that resolves the next hops of many other routes. Measures the longest time for which the main thread
/// is busy without a pause, and the CPU time until the last dependent route is updated.
fn recursive() -> Result<Vec<Figure>> {
    const HOPS: u32 = 50_000;
    let mut figures = Vec::new();
    for word in ["follow", "lose", "find"] {
        figures.push(Figure::new(format!("{word}-50k-hops-step"), "ms", Some((false, 1.0))));
        figures.push(Figure::new(format!("{word}-50k-hops-all"), "ms", None));
    }
    let mut r = router()?;
    let route: Prefix4 = "11.0.0.0/8".parse()?;
    r.add_route(0, route, via(1))?;
    for (n, (prefix, _)) in (0..).zip(random(HOPS as usize, 1)) {
        let next_hop = Ipv4Addr::from_bits(0x0b00_0001 + n);
        r.add_route(0, prefix, Path::Via { next_hop: next_hop.into(), interface: None })?;
    }
    r.remove_route(0, route)?;
    Longest::default().turns(&mut r);
    r.add_route(0, route, via(1))?;
    Longest::default().turns(&mut r);
    for _ in 0..REPETITIONS {
        for at in [0, 2, 4] {
            let (start, mut longest) = (Cpu::now(), Longest::default());
            longest.step(|| match at {
                0 => r.add_route(0, route, via(2)),
                2 => r.remove_route(0, route).map(|_| ()),
                _ => r.add_route(0, route, via(1)),
            })?;
            longest.turns(&mut r);
            figures[at].samples.push(longest.0);
            figures[at + 1].samples.push(start.seconds() * 1e3);
        }
    }
    Ok(figures)
}

/// Adds and removes routes with short prefixes in a full table. Measures the longest time for which the main thread is busy.
fn wide() -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut r = router()?;
    for (prefix, path) in random(250_000, NEXT_HOPS) {
        r.add_route(0, prefix, path)?;
    }
    for prefix in ["0.0.0.0/0", "128.0.0.0/1", "16.0.0.0/4", "16.0.0.0/9"] {
        let (prefix, mut figure) =
            (prefix.parse::<Prefix4>()?, Figure::new(format!("wide-{prefix}"), "ms", Some((false, 1.0))));
        for _ in 0..REPETITIONS {
            let mut longest = Longest::default();
            longest.step(|| r.add_route(0, prefix, via(1)))?;
            longest.step(|| r.remove_route(0, prefix))?;
            figure.samples.push(longest.0);
        }
        figures.push(figure);
    }
    // Each /24 with a longer prefix in it has 256 entries of its own.
    for n in 0..0x8000 {
        r.add_route(0, Prefix4::new(Ipv4Addr::from_bits(0x1000_0080 + (n << 8)), 25), via(1))?;
    }
    let (prefix, mut figure) =
        ("16.0.0.0/9".parse::<Prefix4>()?, Figure::new("wide-16.0.0.0/9-of-/25s", "ms", None));
    for _ in 0..REPETITIONS {
        let mut longest = Longest::default();
        longest.step(|| r.add_route(0, prefix, via(1)))?;
        longest.step(|| r.remove_route(0, prefix))?;
        figure.samples.push(longest.0);
    }
    figures.push(figure);
    Ok(figures)
}

/// Runs a command as the daemon does: in steps, between which the router's main thread does its other work. Returns the number of bytes
/// printed.
fn command(
    registry: &Rc<Registry<Context>>,
    c: &mut Context,
    line: &str,
    longest: &mut Longest,
) -> Result<usize> {
    let failed = |e: CliError| e.render();
    let answer = longest.step(|| registry.run(c, line, Call::default())).map_err(failed)?;
    let (mut printed, mut job) = (answer.text.len(), answer.job);
    while let Some(running) = &mut job {
        let mut text = String::new();
        let step = longest.step(|| running.step(c, &mut text));
        printed += text.len();
        match step {
            Step::Again | Step::Data { .. } => longest.turns(&mut c.system.router),
            Step::After(time) => {
                longest.turns(&mut c.system.router);
                std::thread::sleep(time);
            }
            Step::Done => job = None,
            Step::Failed(e) => return Err(failed(e).into()),
        }
    }
    Ok(printed)
}

/// Measures commands for sub-interfaces on one port: creating them, setting them up with an address each, and setting
/// the port down and up.
fn sub_interfaces() -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for n in [1000, 4094] {
        let name = format!("sub-interfaces/{n}");
        let mut all = [("", 0.5), ("-up", 1.0), ("-flip", 1.0)]
            .map(|(what, most)| Figure::new(format!("{name}{what}"), "s", Some((false, most))));
        for _ in 0..REPETITIONS {
            let (registry, mut c) = (
                Rc::new(declared().0),
                Context::new(System::new(router()?, declared().1, Guardian::default())),
            );
            let mut run = |lines: &mut dyn Iterator<Item = String>| -> Result<f64> {
                let start = Cpu::now();
                for line in lines {
                    command(&registry, &mut c, &line, &mut Longest::default())?;
                }
                Ok(start.seconds())
            };
            run(&mut ["create packet-generator interface pg1", "set interface state pg1 up"]
                .map(String::from)
                .into_iter())?;
            all[0].samples.push(run(&mut (1..=n).map(|i| format!("create sub-interfaces pg1 {i}")))?);
            let up = (1..=n).flat_map(|i| {
                let address = Ipv4Addr::from_bits(0x1400_0001 + (i << 8));
                [
                    format!("set interface state pg1.{i} up"),
                    format!("set interface ip address pg1.{i} {address}/24"),
                ]
            });
            all[1].samples.push(run(&mut { up })?);
            let flip = ["down", "up"].map(|state| format!("set interface state pg1 {state}"));
            all[2].samples.push(run(&mut flip.into_iter())?);
        }
        figures.extend(all);
    }
    Ok(figures)
}

/// Adds a million routes by one command, then shows them and removes them.
fn cli() -> Result<Vec<Figure>> {
    const ROUTES: u32 = 1_000_000;
    let route = format!("20.0.0.0/24 count {ROUTES} via 10.0.0.2");
    let lines = [
        ("add", format!("ip route add {route}"), 1.0),
        ("show-fib", "show ip fib".into(), 0.5),
        ("show-fib-json", "show ip fib --json".into(), 0.25),
        ("show-config", "show config".into(), 0.5),
        ("del", format!("ip route del {route}"), 1.0),
    ];
    let mut figures = Vec::new();
    for (word, _, least) in &lines {
        figures.push(Figure::new(format!("cli-{word}-1m"), "M/s", Some((true, *least))));
        figures.push(Figure::new(format!("cli-{word}-1m-step"), "ms", None));
    }
    for _ in 0..REPETITIONS {
        let Parts { router, .. } =
            Router::build(volley::features::install, &Sizes { buffers: 1024, workers: 1 })?;
        let (registry, mut c) =
            (Rc::new(declared().0), Context::new(System::new(router, declared().1, Guardian::default())));
        for line in [
            "create packet-generator interface pg0",
            "set interface state pg0 up",
            "set interface ip address pg0 10.0.0.1/8",
        ] {
            command(&registry, &mut c, line, &mut Longest::default())?;
        }
        for ((word, line, _), figures) in lines.iter().zip(figures.chunks_mut(2)) {
            let (start, mut longest) = (Cpu::now(), Longest::default());
            let printed = command(&registry, &mut c, line, &mut longest)?;
            assert!(!word.starts_with("show") || printed > 20 * ROUTES as usize, "{line}: {printed} bytes");
            figures[0].samples.push(f64::from(ROUTES) / start.seconds() / 1e6);
            figures[1].samples.push(longest.0);
        }
    }
    Ok(figures)
}

/// Applies a file to an empty router, writes the configuration, removes it, and rolls the removal back: 1,000 VLANs with addresses, and
/// 100,000 routes, each with its own next hop. Measures the CPU time of the main thread, the longest time for which it is busy without a
/// pause, and the check of the file, which a running router does on another thread.
fn apply() -> Result<Vec<Figure>> {
    let mut text = String::from("interfaces:\n  pg0:\n    addresses: [ 10.0.0.1/8 ]\n    sub-interfaces:\n");
    for vlan in 1..=1000 {
        let address = Ipv4Addr::from_bits(0xe000_0001 - (vlan << 8));
        text += &format!("      {vlan}: {{ addresses: [ {address}/24 ] }}\n");
    }
    text += "routes:\n";
    for (n, (prefix, _)) in (2..).zip(random(100_000, 1)) {
        let next_hop = Ipv4Addr::from_bits(0x0a00_0000 + n);
        text += &format!("  - {{ prefix: {prefix}, via: {next_hop} }}\n");
    }
    let directory = std::env::temp_dir().join(format!("volley-bench-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let path = |name: &str| directory.join(name).display().to_string();
    std::fs::write(path("all.yaml"), &text)?;
    std::fs::write(path("none.yaml"), "{}")?;
    let commands = [
        ("apply", format!("config apply {}", path("all.yaml"))),
        ("save", format!("config save {}", path("saved.yaml"))),
        ("show", "show config yaml".into()),
        ("remove", format!("config apply {}", path("none.yaml"))),
        ("rollback", "config rollback".into()),
    ];
    let mut check = Figure::new("file-check-100k", "s", Some((false, 1.0)));
    let mut times = commands.each_ref().map(|(word, _)| {
        let of = |what: &str, unit, most| {
            Figure::new(format!("file-{word}-100k{what}"), unit, Some((false, most)))
        };
        [of("", "s", 1.0), of("-longest", "ms", 2.0)]
    });
    for _ in 0..REPETITIONS {
        let Parts { router, .. } =
            Router::build(volley::features::install, &Sizes { buffers: 1024, workers: 1 })?;
        let start = Cpu::now();
        assert!(
            config::read(&text, "file", &declared().1)
                .faults(&Abilities::of(&router, declared().1))
                .is_empty()
        );
        check.samples.push(start.seconds());
        let (registry, mut c) =
            (Rc::new(declared().0), Context::new(System::new(router, declared().1, Guardian::default())));
        for ((_, line), [time, stall]) in commands.iter().zip(&mut times) {
            let (start, mut longest) = (Cpu::now(), Longest::default());
            command(&registry, &mut c, line, &mut longest)?;
            time.samples.push(start.seconds());
            stall.samples.push(longest.0);
        }
    }
    std::fs::remove_dir_all(&directory)?;
    Ok([check].into_iter().chain(times.into_iter().flatten()).collect())
}

/// A function that runs one benchmark.
type Measure<'m> = &'m dyn Fn() -> Result<Vec<Figure>>;

fn main() -> Result<()> {
    // Cargo passes `--bench`; other words are the names to run.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    infra::cpu::pin_current(infra::cpu::online_cores().last().copied().unwrap_or(0))?;
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&directory)?;
    let mut file = std::fs::File::create(directory.join("fib.json"))?;
    println!("{:<24} {:>10} {:>10} {:>10} {:>8}", "bench", "median", "min", "max", "target");
    // Memory is measured first: the other benchmarks leave freed memory in the allocator.
    let benches: [(&str, Measure<'_>); 14] = [
        ("mem-240k-ip6", &|| memory("mem-240k-ip6", &random6(240_000)?, 60.0)),
        ("mem-1m-ip4", &|| memory("mem-1m-ip4", &random(1_000_000, NEXT_HOPS), 150.0)),
        ("255k", &|| rates("255k", &random(255_000, NEXT_HOPS), 1.0)),
        ("1m-ip4", &|| rates("1m-ip4", &random(1_000_000, NEXT_HOPS), 2.0)),
        ("255k-ip6", &|| rates("255k-ip6", &random6(255_000)?, 1.0)),
        ("real", &|| match real()? {
            Some(routes) => rates("real", &routes, 1.0),
            None => {
                skipped("real: needs VOLLEY_RIB, the file of a real routing table");
                Ok(Vec::new())
            }
        }),
        ("flip", &flip),
        ("recursive", &recursive),
        ("wide", &wide),
        ("cli", &cli),
        ("sub-interfaces", &sub_interfaces),
        ("apply", &apply),
        ("stalls", &stalls::stalls),
        ("churn", &churn::churn),
    ];
    for (name, bench) in benches {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            for figure in bench().map_err(|e| format!("{name}: {e}"))? {
                writeln!(file, "{}", figure.json())?;
                println!("{}", figure.line());
            }
        }
    }
    Ok(())
}
