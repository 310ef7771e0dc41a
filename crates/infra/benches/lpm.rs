//! The lookup tables: clocks for an address in vectors of 256, changes a second, memory.
//!
//! `cargo bench -p infra --bench lpm [-- NAME…]` prints a table and writes `target/bench/lpm.json`, one object a line.
//! Tables of real routers are read from the files that `VOLLEY_RIB` (IPv4) and `VOLLEY_RIB6` name: lines of a prefix
//! and a tab. They are extended to the size of today's by prefixes of the same lengths, each with the first bits of a
//! real one; without the files, made up of the lengths that are usual. Everything runs on one pinned thread. Of lookups
//! it is the fastest of some rounds that counts for each vector, so that others on the machine do not; changes are
//! counted in the thread's processor time.

use std::collections::{HashMap, HashSet};
use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

use infra::clock::tsc;
use infra::hash::{Seeded, mix64};
use infra::lpm::{Address, Lpm, LpmFull, LpmLookup, NO_ROUTE, dir24, trie};
use infra::mem::Pages;
use infra::quiesce::Domain;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
type Routes<A> = Vec<(A, u8)>;

/// Destinations of each case.
const DESTINATIONS: usize = 1 << 18;
/// How often each vector is looked up.
const ROUNDS: usize = 15;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.0)
    }

    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// Between 0 and 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What the two families do not have in common.
trait Family: Address + std::fmt::LowerHex {
    /// The variable that names the file of a real table, and the lengths that are usual, with how many of a thousand
    /// have them.
    const REAL: (&'static str, &'static [(u8, usize)]);
    fn random(r: &mut Random) -> Self;
    fn parse(text: &str) -> Option<Self>;
}

impl Family for u32 {
    const REAL: (&'static str, &'static [(u8, usize)]) =
        ("VOLLEY_RIB", &[(16, 20), (18, 20), (19, 40), (20, 60), (21, 60), (22, 120), (23, 90), (24, 590)]);

    fn random(r: &mut Random) -> u32 {
        r.next() as u32
    }

    fn parse(text: &str) -> Option<u32> {
        Some(text.parse::<std::net::Ipv4Addr>().ok()?.to_bits())
    }
}

impl Family for u128 {
    const REAL: (&'static str, &'static [(u8, usize)]) = (
        "VOLLEY_RIB6",
        &[
            (29, 31),
            (32, 263),
            (36, 36),
            (40, 44),
            (44, 41),
            (48, 440),
            (46, 15),
            (64, 30),
            (33, 50),
            (56, 50),
        ],
    );

    fn random(r: &mut Random) -> u128 {
        u128::from(r.next()) << 64 | u128::from(r.next())
    }

    fn parse(text: &str) -> Option<u128> {
        Some(text.parse::<std::net::Ipv6Addr>().ok()?.to_bits())
    }
}

/// The table of a real router, or one of as many /20s or so as there are; and what to call it.
fn real<A: Family>() -> Result<(&'static str, Routes<A>)> {
    let (variable, lengths) = A::REAL;
    if let Some(file) = std::env::var_os(variable) {
        let parse = |line: &str| {
            let (address, len) = line.split_once('\t')?.0.split_once('/')?;
            Some((A::parse(address)?, len.parse().ok()?))
        };
        let routes: Option<Routes<A>> = std::fs::read_to_string(file)?.lines().map(parse).collect();
        return Ok(("real", routes.ok_or("a line is no prefix")?));
    }
    println!("{variable} does not name the file of a real routing table: prefixes are made up");
    let mut r = Random(7);
    let unicast = A::parse("2000::").unwrap_or(A::ZERO);
    let top = u8::from(unicast != A::ZERO) * 12;
    let each = |len: u8| (unicast | A::random(&mut r).down(top)) & A::mask(len);
    let all = lengths.iter().flat_map(|(len, n)| std::iter::repeat_n(*len, 30 * n));
    let mut each = each;
    let set: HashSet<_> = all.map(|len| (each(len), len)).collect();
    Ok(("made up", set.into_iter().collect()))
}

/// Adds routes of the same lengths, each with the first bits of one that is there.
fn extend<A: Family>(routes: &Routes<A>, n: usize) -> Routes<A> {
    let mut r = Random(1);
    let mut all = routes.clone();
    let mut seen: HashSet<(A, u8)> = all.iter().copied().collect();
    for tries in 0.. {
        if all.len() >= n {
            break;
        }
        let (prefix, len) = routes[r.below(routes.len())];
        // The more there are, the further from a real one.
        let keep = A::mask(len.saturating_sub((4 + r.below(13) + tries / (4 * n)) as u8));
        let new = (prefix & keep | A::random(&mut r) & !keep) & A::mask(len);
        if seen.insert((new, len)) {
            all.push((new, len));
        }
    }
    all
}

/// Addresses below routes, each route as likely as any other, or with Zipf's law the first ones likelier.
fn destinations<A: Family>(routes: &Routes<A>, zipf: bool) -> Vec<A> {
    let mut r = Random(3);
    let mut pick = || match zipf {
        true => (((routes.len() as f64).ln() * r.fraction()).exp() as usize).min(routes.len() - 1),
        false => r.below(routes.len()),
    };
    let picked: Vec<_> =
        (0..DESTINATIONS).map(|_| routes[mix64(pick() as u64) as usize % routes.len()]).collect();
    picked.into_iter().map(|(prefix, len)| prefix | A::random(&mut r) & !A::mask(len)).collect()
}

/// Clocks for an address.
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

/// Seconds of the processor that this thread has used.
fn used() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes a timespec to where one is.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// A hash table for each length that is in use, asked from the longest to the shortest.
struct Hashes<A: Address>(Vec<(u8, HashMap<A, u32, Seeded>)>);

impl<A: Address> Hashes<A> {
    fn new(routes: &Routes<A>) -> Self {
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

    /// Fills a table, looks up in it, and empties it.
    fn measure<W: Lpm>(
        &mut self,
        table: &str,
        case: &str,
        routes: &Routes<W::Addr>,
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
        self.line(table, case, "random", "clocks", clocks(&reader, &destinations(routes, false)))?;
        self.line(table, case, "zipf", "clocks", clocks(&reader, &destinations(routes, true)))?;
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
    // Cargo passes `--bench`; other words are the cases to run.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let is_wanted = |case: &str| wanted.is_empty() || wanted.iter().any(|w| w == case);
    infra::cpu::pin_current(infra::cpu::online_cores().last().copied().unwrap_or(0))?;
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&directory)?;
    let mut report = Report(std::fs::File::create(directory.join("lpm.json"))?);
    let domain = Domain::new();

    let (origin, six) = real::<u128>()?;
    let mut r = Random(2);
    let mut below = |bits: u8, len: u8| (0x2001 << 112 | u128::random(&mut r) >> bits) & u128::mask(len);
    let mixed: Routes<u128> =
        (0..255_000).map(|i| [128, 112, 64, 48][i % 4]).map(|len| (below(16, len), len)).collect();
    let hosts: Routes<u128> = (0..100_000).map(|_| (below(40, 128), 128)).collect();
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
        report.line("hashes", case, "random", "clocks", clocks(&hashes, &destinations(routes, false)))?;
    }

    let (origin, four) = real::<u32>()?;
    let hosts: Routes<u32> = (0..1_000_000u32).map(|n| (n.wrapping_mul(0x9e37_7900) | n & 255, 32)).collect();
    let cases = [
        ("one-4", vec![(0x0a00_0000, 16)]),
        (if origin == "real" { "real-4" } else { "made up-4" }, four.clone()),
        ("1.05m-4", extend(&four, 1_050_000)),
        ("4m-4", extend(&four, 4_000_000)),
        ("hosts-1m-4", hosts),
    ];
    for (case, routes) in cases.iter().filter(|(case, _)| is_wanted(case)) {
        report.measure("dir24", case, routes, dir24(&domain, 1 << 20, Pages::Huge)?)?;
    }

    if is_wanted("vrfs") {
        let (mut tables, mut r) = (Vec::new(), Random(5));
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
