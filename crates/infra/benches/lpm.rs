//! Benchmark of the lookup tables: clocks per address for vectors of 256 addresses, changes per second, and memory.
//!
//! `cargo bench -p infra --bench lpm [-- NAME…]` prints a table and writes `target/bench/lpm.json`, one object per line. Tables of real
//! routers are read from the files in `VOLLEY_RIB` (IPv4) and `VOLLEY_RIB6` (IPv6): each line starts with a prefix and a tab. The
//! benchmark extends them to larger tables with prefixes of the same lengths, which share their first bits with real ones. Without the
//! files, it generates prefixes of typical lengths. Everything runs on one pinned thread. For lookups, the fastest of several rounds
//! counts for each vector, which excludes other load on the machine. Rates of changes are measured in CPU time of the thread, the longest
//! changes in elapsed time.

use std::collections::HashMap;
use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

use infra::clock::tsc;
use infra::hash::{Seeded, mix64};
use infra::lpm::{Address, Lpm, LpmFull, LpmLookup, NO_ROUTE, dir24, trie};
use infra::mem::Pages;
use infra::quiesce::Domain;
use testkit::rib::{Family, Prefixes, Random, extend, real};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Number of destinations in each measurement, except those with [`MANY`].
const DESTINATIONS: usize = 1 << 18;
/// Number of destinations in measurements whose lookups must read more memory than the CPU caches hold.
const MANY: usize = 1 << 20;
/// Number of rounds: how often each vector is looked up.
const ROUNDS: usize = 15;

/// Returns `n` addresses, each covered by one of the routes. All routes are equally likely, or with `zipf` some are likelier than others
/// (Zipf's law).
fn destinations<A: Family>(routes: &Prefixes<A>, n: usize, zipf: bool) -> Vec<A> {
    let mut r = Random::new(3);
    let mut pick = || match zipf {
        true => (((routes.len() as f64).ln() * r.fraction()).exp() as usize).min(routes.len() - 1),
        false => r.below(routes.len()),
    };
    let picked: Vec<_> = (0..n).map(|_| routes[mix64(pick() as u64) as usize % routes.len()]).collect();
    picked.into_iter().map(|(prefix, len)| prefix | A::random(&mut r) & !A::mask(len)).collect()
}

/// Returns the time-stamp counter's ticks per address, for lookups of these destinations in vectors of 256.
fn clocks<A: Address>(table: &impl LpmLookup<Addr = A>, destinations: &[A]) -> f64 {
    let (mut vector, mut leaves) = ([A::ZERO; 256], [0; 256]);
    let mut least = vec![u64::MAX; destinations.len() / 256];
    for _ in 0..ROUNDS {
        for (of, least) in destinations.chunks_exact(256).zip(&mut least) {
            vector.copy_from_slice(of);
            let start = tsc();
            table.lookup_many(black_box(&vector), &mut leaves);
            *least = (*least).min(tsc() - start);
            black_box(&leaves);
        }
    }
    least.iter().sum::<u64>() as f64 / (256 * least.len()) as f64
}

/// Returns the CPU time of this thread in seconds.
fn used() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call only writes to `t`, which is a timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// A lookup table for comparison: a hash table for each prefix length in use, searched from the longest to the shortest.
struct Hashes<A: Address>(Vec<(u8, HashMap<A, u32, Seeded>)>);

impl<A: Address> Hashes<A> {
    fn new(routes: &Prefixes<A>) -> Self {
        let mut of = vec![HashMap::with_hasher(Seeded::default()); 129];
        for (n, (prefix, len)) in routes.iter().enumerate() {
            of[usize::from(*len)].insert(*prefix, 1 + n as u32);
        }
        Self(
            (0..=A::BITS)
                .rev()
                .zip(of.drain(..=usize::from(A::BITS)).rev())
                .filter(|(_, h)| !h.is_empty())
                .collect(),
        )
    }
}

impl<A: Address> LpmLookup for Hashes<A> {
    type Addr = A;

    fn routes(&self) -> usize {
        self.0.iter().map(|(_, routes)| routes.len()).sum()
    }

    fn fetch(&self, _: A) {}

    fn lookup(&self, addr: A) -> u32 {
        let find = |(len, hash): &(u8, HashMap<A, u32, Seeded>)| hash.get(&(addr & A::mask(*len))).copied();
        self.0.iter().find_map(find).unwrap_or(NO_ROUTE)
    }
}

struct Report(std::fs::File);

impl Report {
    fn line(&mut self, table: &str, case: &str, what: &str, unit: &str, value: f64) -> Result<()> {
        println!("{table:<8} {case:<18} {what:<20} {value:>10.3}  {unit}");
        writeln!(
            self.0,
            "{{\"bench\": \"{table}-{case}-{what}\", \"unit\": \"{unit}\", \"value\": {value:.4}}}"
        )?;
        Ok(())
    }

    /// Measures a table: fills it, looks addresses up in it, changes routes, and empties it.
    fn measure<W: Lpm>(
        &mut self,
        table: &str,
        case: &str,
        routes: &Prefixes<W::Addr>,
        (mut writer, reader): (W, impl LpmLookup<Addr = W::Addr>),
    ) -> Result<()>
    where
        W::Addr: Family,
    {
        let (start, mut longest) = (used(), 0.0f64);
        for (n, (prefix, len)) in routes.iter().enumerate() {
            let one = Instant::now();
            writer.insert(*prefix, *len, 1 + n as u32 % 1000).map_err(|e: LpmFull| e.to_string())?;
            longest = longest.max(one.elapsed().as_secs_f64());
        }
        let rate = routes.len() as f64 / (used() - start) / 1e6;
        for (what, n, zipf) in
            [("random", DESTINATIONS, false), ("random-1m", MANY, false), ("zipf", DESTINATIONS, true)]
        {
            self.line(table, case, what, "clocks", clocks(&reader, &destinations(routes, n, zipf)))?;
        }
        self.line(table, case, "memory", "MiB", writer.memory_bytes() as f64 / 1048576.0)?;
        self.line(table, case, "add", "M/s", rate)?;
        self.line(table, case, "add-longest", "ms", longest * 1e3)?;
        for (what, len) in [("change-default", 0), ("change-3", 3), ("change-20", 20), ("change-32", 32)] {
            let mut longest = 0.0f64;
            for n in 0..20 {
                let (one, prefix) = (Instant::now(), routes[routes.len() / 2].0);
                if n % 2 == 0 {
                    writer.insert(prefix, len, 1).map_err(|e| e.to_string())?;
                } else {
                    writer.remove(prefix, len);
                }
                longest = longest.max(one.elapsed().as_secs_f64());
            }
            self.line(table, case, what, "ms", longest * 1e3)?;
        }
        let start = used();
        for (prefix, len) in routes {
            writer.remove(*prefix, *len);
        }
        self.line(table, case, "remove", "M/s", routes.len() as f64 / (used() - start) / 1e6)
    }
}

fn main() -> Result<()> {
    // Cargo passes `--bench`; other words are names of cases.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let is_wanted = |case: &str| wanted.is_empty() || wanted.iter().any(|w| w == case);
    infra::cpu::pin_current(infra::cpu::online_cores().last().copied().unwrap_or(0))?;
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&directory)?;
    let mut report = Report(std::fs::File::create(directory.join("lpm.json"))?);
    let domain = Domain::new();

    let (origin, six) = real::<u128>()?;
    let mut r = Random::new(2);
    let mut below = |bits: u8, len: u8| (0x2001 << 112 | u128::random(&mut r) >> bits) & u128::mask(len);
    let mixed: Prefixes<u128> =
        (0..255_000).map(|i| [128, 112, 64, 48][i % 4]).map(|len| (below(16, len), len)).collect();
    let hosts: Prefixes<u128> = (0..100_000).map(|_| (below(40, 128), 128)).collect();
    let cases = [
        ("one", vec![(0x2001_0db8 << 96, 32)]),
        (origin, six.clone()),
        ("240k", extend(&six, 240_000)),
        ("1m", extend(&six, 1_000_000)),
        ("mixed-255k", mixed),
        ("hosts-100k", hosts),
    ];
    for (case, routes) in cases.iter().filter(|(case, _)| is_wanted(case)) {
        report.measure("trie", case, routes, trie(&domain)?)?;
        let hashes = Hashes::new(routes);
        report.line(
            "hashes",
            case,
            "random",
            "clocks",
            clocks(&hashes, &destinations(routes, DESTINATIONS, false)),
        )?;
    }

    let (origin, four) = real::<u32>()?;
    let mut r = Random::new(6);
    let networks: Prefixes<u32> = (0..1_000_000).map(|_| (u32::random(&mut r) & !255, 24)).collect();
    let hosts: Prefixes<u32> =
        (0..1_000_000u32).map(|n| (n.wrapping_mul(0x9e37_7900) | n & 255, 32)).collect();
    let cases = [
        ("one-4", vec![(0x0a00_0000, 16)]),
        (if origin == "real" { "real-4" } else { "made up-4" }, four.clone()),
        ("1.05m-4", extend(&four, 1_050_000)),
        ("4m-4", extend(&four, 4_000_000)),
        ("random-24s-1m-4", networks),
        ("hosts-1m-4", hosts),
    ];
    for (case, routes) in cases.iter().filter(|(case, _)| is_wanted(case)) {
        report.measure("dir24", case, routes, dir24(&domain, 1 << 20, Pages::Huge)?)?;
    }

    if is_wanted("vrfs") {
        let (mut tables, mut r) = (Vec::new(), Random::new(5));
        let mut bytes = 0;
        for _ in 0..100 {
            let (mut writer, reader) = trie(&domain)?;
            for n in 0..10 {
                let prefix = 0x2001 << 112 | u128::random(&mut r) >> 16;
                writer.insert(prefix, [48, 64][n % 2], 1).map_err(|e| e.to_string())?;
            }
            bytes += writer.memory_bytes();
            tables.push((writer, reader));
        }
        report.line("trie", "100-vrfs", "memory", "MiB", bytes as f64 / 1048576.0)?;
    }
    Ok(())
}
