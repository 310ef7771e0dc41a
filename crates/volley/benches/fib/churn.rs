//! Adds and removes routes without pause. Meanwhile a worker forwards packets to prefixes that do not change, at 80 % of the worker's
//! capacity. Reports lost and misrouted packets, and whether the memory use is constant. The worker's capacity is measured while the main
//! thread is busy with other work.
//!
//! The memory use settles in the first quarter of the time. The number of nodes that wait for readers depends on when the system preempts
//! the worker, and the last few of them may need another huge page of 2 MiB. The growth is the memory use in the last quarter minus the
//! memory use in the second quarter. Both are measured while the table contains none of the changing routes.
//!
//! The unchanged prefixes are /24s (/48s for IPv6), and packets go to their lower halves. The changing routes are the upper halves of these
//! prefixes, longer prefixes in these halves, shorter prefixes that cover several of them, and prefixes between them. They change the nodes
//! of the lookup table that the traffic reads, but must not change where the traffic goes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use drivers::pktgen::{self, Field, Generator, Mode, Sink, Stream, Template};
use net::ip::{Address, IpPrefix, Path};
use net::router::{Parts, Router, Sizes};
use wire::Mac;
use wire::builder::PacketBuilder;

use crate::{Figure, Result, resident};

/// Number of unchanged prefixes; about 257 times as many routes are added and removed.
const STABLE: u32 = 1000;
/// Default time in seconds for which routes change; `VOLLEY_CHURN_SECONDS` overrides it.
const SECONDS: u64 = 60;
/// The worker's load, as a share of its capacity.
const SHARE: f64 = 0.8;
/// Names of the ports: for received traffic, for the next hops of the unchanged routes, and for the next hops of the changing routes. The
/// last one must get no traffic.
const PORTS: [&str; 3] = ["in", "stable", "churned"];
/// Number of frames in a sample, whose next hops are checked.
const SAMPLE: usize = 64;

/// The prefixes of one family.
struct Family {
    name: &'static str,
    /// The first unchanged prefix; the next one is 16 prefixes higher.
    first: IpPrefix,
    gateway: fn(u8, u32) -> IpAddr,
    frame: fn(Mac) -> Template,
}

/// Returns the `n`th unchanged prefix.
fn stable(f: &Family, n: u32) -> IpPrefix {
    f.first.nth(16 * n).unwrap_or(f.first)
}

/// Returns the changing prefixes, sorted: the upper halves of the unchanged prefixes, longer prefixes in these halves, shorter prefixes
/// that cover 1, 4 or 16 unchanged ones, and the prefixes between unchanged ones.
fn churned(f: &Family) -> Vec<IpPrefix> {
    let len = f.first.len();
    let mut all = Vec::new();
    for n in 0..STABLE {
        let prefix = stable(f, n);
        all.extend(IpPrefix::new(prefix.address(), len + 1).nth(1));
        all.extend((4..=8).step_by(2).map(|up| IpPrefix::new(prefix.address(), len - up)));
        all.extend((1..16).filter_map(|between| prefix.nth(between)));
    }
    // Longer prefixes, in the upper halves.
    for n in 0..STABLE {
        let half = IpPrefix::new(stable(f, n).address(), len + 1).nth(1);
        for longer in 4..=7 {
            let first = half.map(|half| IpPrefix::new(half.address(), len + 1 + longer));
            all.extend((0..1 << longer).filter_map(|i| first?.nth(i)));
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

const FOUR: Family = Family {
    name: "ip4",
    first: IpPrefix::V4(net::ip::Prefix4::DEFAULT),
    gateway: |port, n| Ipv4Addr::from_bits((0x0a00_0002 | u32::from(port) << 16) + n).into(),
    frame: |to| {
        let dst = Ipv4Addr::from_bits(0x1400_0000);
        let b = PacketBuilder::ipv4(Ipv4Addr::new(198, 18, 0, 2), dst);
        let mut t = Template::fixed(b.ethernet(Mac([2; 6]), to).udp(1, 2).payload(&[0; 18]).build());
        // Destinations 20.x.y.z: the 16 bits of x and y count through the 1,000 unchanged prefixes in steps of 16, and z is below 128.
        let number = Field {
            offset: 31,
            width: 2,
            mode: Mode::Increment { min: 0, max: u64::from(STABLE - 1) * 16, step: 16 },
            ip4_checksum: true,
        };
        let host =
            Field { offset: 33, width: 1, mode: Mode::Random { min: 0, max: 127 }, ip4_checksum: true };
        t.fields = vec![number, host];
        t
    },
};

const SIX: Family = Family {
    name: "ip6",
    first: IpPrefix::V6(net::ip::Prefix6::DEFAULT),
    gateway: |port, n| Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(port) << 64 | u128::from(n + 2)).into(),
    frame: |to| {
        let b = PacketBuilder::ipv6(
            Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0),
        );
        let mut t = Template::fixed(b.ethernet(Mac([2; 6]), to).udp(1, 2).payload(&[0; 18]).build());
        let number = Field {
            offset: 38 + 4,
            width: 2,
            mode: Mode::Increment { min: 0, max: u64::from(STABLE - 1) * 16, step: 16 },
            ip4_checksum: false,
        };
        let subnet = Field {
            offset: 38 + 6,
            width: 2,
            mode: Mode::Random { min: 0, max: 0x7fff },
            ip4_checksum: false,
        };
        t.fields = vec![number, subnet];
        t
    },
};

/// The router with its running worker, the generator, and the counters.
struct Lab {
    router: Router,
    generator: Generator,
    sinks: [Sink; 2],
    hops: u32,
    looks: u64,
    now: Instant,
}

impl Lab {
    fn new(f: &Family) -> Result<Lab> {
        let Parts { mut router, workers } =
            Router::build(volley::features::install, &Sizes { buffers: 16_384, workers: 1 })?;
        let mut ends = Vec::new();
        for (n, name) in (0u8..).zip(PORTS) {
            let mac = [2, 0xfe, 0, 0, 0, n];
            let (device, generator, sink) = pktgen::open(&pktgen::Config { mac, ..Default::default() });
            let index = router.add_device(name, device)?;
            router.set_admin(index, true)?;
            router.add_address(index, Address::new(Ipv4Addr::new(10, n, 0, 1), 16))?;
            router.add_address(index, Address::new(Ipv6Addr::new(0xfd00, 0, 0, n.into(), 0, 0, 0, 1), 64))?;
            ends.push((generator, sink));
        }
        for port in 1..3 {
            for n in 0..STABLE {
                let mac = Mac::from_u64(0x0200_0000_0000 | u64::from(port) << 24 | u64::from(n));
                router.add_neighbor(port, (f.gateway)(port as u8, n), mac, true)?;
            }
        }
        for n in 0..STABLE {
            let path = Path::Via { next_hop: (f.gateway)(1, n), interface: None };
            router.add_route(0, stable(f, n), path)?;
        }
        let [(generator, _), (_, sink), (_, other)]: [_; 3] = ends.try_into().map_err(|_| "three ports")?;
        let core = infra::cpu::online_cores().first().copied();
        router.start(workers, &[core])?;
        Ok(Lab { router, generator, sinks: [sink, other], hops: STABLE, looks: 0, now: Instant::now() })
    }

    /// Runs a turn of the main thread.
    fn turn(&mut self) {
        self.router.poll(self.now.elapsed().as_nanos() as u64);
    }

    fn wait(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.turn();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Keeps the main thread busy for `time`. All measurements do this, so that they are comparable: the main thread's CPU may share a
    /// core, caches or memory bandwidth with the worker's CPU.
    fn spin(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.turn();
            std::hint::black_box((0..50_000u64).map(std::hint::black_box).sum::<u64>());
        }
    }

    /// Returns the packets per second that arrive while the main thread is kept busy.
    fn rate(&mut self) -> f64 {
        self.wait(Duration::from_millis(500));
        let (start, before) = (Instant::now(), self.sinks[0].packets());
        self.spin(Duration::from_secs(2));
        (self.sinks[0].packets() - before) as f64 / start.elapsed().as_secs_f64()
    }

    /// Sends at `rate_pps` packets per second; if this is `None`, sends as fast as the worker receives.
    fn send(&self, f: &Family, rate_pps: Option<f64>) -> Result<()> {
        let templates = vec![(f.frame)(Mac([2, 0xfe, 0, 0, 0, 0]))];
        self.generator.remove("churn");
        self.generator.add(Stream { name: "churn".into(), templates, rate_pps, ..Stream::default() })?;
        self.generator.set_enabled(None, true);
        Ok(())
    }

    /// Stops sending, and waits until no packet is in transit. Returns the numbers of packets that entered the router, and
    /// that arrived.
    fn stop(&mut self) -> (u64, u64) {
        self.generator.set_enabled(None, false);
        self.wait(Duration::from_millis(100));
        let runtime = self.router.graph().stats().runtime(None);
        let sent = runtime.iter().filter(|n| n.name == pktgen::INPUT_NODE).map(|n| n.packets).sum();
        (sent, self.sinks[0].packets())
    }

    /// Returns the number of frames in a sample that went to a wrong next hop for their destination.
    fn misrouted(&mut self) -> usize {
        let hop = |bytes: &[u8]| {
            let at = if bytes[12] == 0x86 { 38 + 4 } else { 31 };
            u64::from(u16::from_be_bytes([bytes[at], bytes[at + 1]])) / 16
        };
        let mac = |bytes: &[u8]| Mac([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]]);
        let right = |bytes: &[u8]| {
            mac(bytes) == Mac::from_u64(0x0200_0000_0000 | 1 << 24 | (hop(bytes) % u64::from(self.hops)))
        };
        let sample = self.sinks[0].take();
        // Keeping frames takes a worker more time than forwarding them, so it keeps frames for one millisecond in a hundred.
        self.looks += 1;
        self.sinks[0].keep(if self.looks.is_multiple_of(100) { SAMPLE } else { 0 });
        let forwarded = sample.iter().filter(|c| is_forwarded(&c.bytes));
        forwarded.filter(|c| !right(&c.bytes)).count()
    }
}

/// True if a frame goes to a neighbor; the router's own messages go to multicast and broadcast addresses.
fn is_forwarded(bytes: &[u8]) -> bool {
    bytes.starts_with(&[2, 0])
}

/// Runs the benchmark for both families.
pub fn churn() -> Result<Vec<Figure>> {
    let four = Family { first: IpPrefix::new(Ipv4Addr::from_bits(0x1400_0000).into(), 24), ..FOUR };
    let six = Family { first: IpPrefix::new(Ipv6Addr::from_bits(0x2001_0db8 << 96).into(), 48), ..SIX };
    let mut figures = of(&four)?;
    figures.extend(of(&six)?);
    Ok(figures)
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

fn of(f: &Family) -> Result<Vec<Figure>> {
    let seconds = std::env::var("VOLLEY_CHURN_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(SECONDS);
    let mut lab = Lab::new(f)?;
    lab.send(f, None)?;
    let capacity = lab.rate();
    lab.stop();

    let routes = churned(f);
    let via = |n: u32| Path::Via { next_hop: (f.gateway)(2, n % STABLE), interface: None };
    // Adds and removes all routes once, so that the tables have their later size before the measurement.
    for (n, prefix) in (0..).zip(&routes) {
        lab.router.add_route(0, *prefix, via(n))?;
    }
    for prefix in &routes {
        lab.router.remove_route(0, *prefix)?;
    }
    lab.wait(Duration::from_millis(200));
    lab.send(f, Some(capacity * SHARE))?;
    let alone = lab.rate();

    let (sent_before, arrived_before) = lab.stop();
    let memory = resident()?;
    eprintln!(
        "{}: {:.2} Mpps at most, {:.2} at 80 %, {} routes are added and removed for {seconds} s",
        f.name,
        capacity / 1e6,
        alone / 1e6,
        routes.len()
    );
    lab.sinks[1].keep(1 << 16);
    lab.send(f, Some(capacity * SHARE))?;
    let start = Instant::now();
    let (mut changes, mut misrouted, mut turn) = (0u64, 0, Instant::now());
    let mut quarters = [const { Vec::new() }; 4];
    while start.elapsed() < Duration::from_secs(seconds) {
        let quarter = 4 * start.elapsed().as_millis() / Duration::from_secs(seconds).as_millis();
        quarters[quarter.min(3) as usize].push(resident()?);
        // The order of removal differs from the order of addition.
        for (adds, step) in [(true, 1), (false, 7919)] {
            for i in 0..routes.len() {
                let at = i * step % routes.len();
                match adds {
                    true => lab.router.add_route(0, routes[at], via(at as u32))?,
                    false => drop(lab.router.remove_route(0, routes[at])?),
                }
                changes += 1;
                if turn.elapsed() > Duration::from_millis(1) {
                    lab.turn();
                    misrouted += lab.misrouted();
                    turn = Instant::now();
                }
            }
        }
    }
    let lasted = start.elapsed().as_secs_f64();
    let (sent, arrived) = lab.stop();
    let (sent, arrived) = (sent - sent_before, arrived - arrived_before);
    lab.wait(Duration::from_millis(200));
    let [_, second, _, last] = quarters.map(median);
    let figure = |what: &str, unit, target, value: f64| {
        let mut figure = Figure::new(format!("churn-{}-{what}", f.name), unit, target);
        figure.samples.push(value);
        figure
    };
    let elsewhere = lab.sinks[1].take().iter().filter(|c| is_forwarded(&c.bytes)).count();
    let elsewhere = (elsewhere + misrouted) as f64;
    Ok(vec![
        figure("lost", "packets", Some((false, 0.0)), sent.saturating_sub(arrived) as f64),
        figure("misrouted", "packets", Some((false, 0.0)), elsewhere),
        figure("rate", "of alone", Some((true, 0.95)), arrived as f64 / lasted / alone),
        figure("changes", "M/s", None, changes as f64 / lasted / 1e6),
        figure("memory-first", "MiB", None, second - memory),
        figure("memory-growth", "MiB", Some((false, 1.0)), last - second),
    ])
}
