use infra::{
    hash::mix64,
    lpm::{Address, Lpm, LpmLookup, trie},
    quiesce::Domain,
};
use std::collections::HashSet;
use std::hint::black_box;
use std::time::Instant;

struct Rng(u64);
impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.0)
    }
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
    fn address(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }
}

type Routes = Vec<(u128, u8)>;

fn real(file: &str) -> Routes {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines()
        .map(|l| {
            let (p, _) = l.split_once('\t').unwrap();
            let (a, n) = p.split_once('/').unwrap();
            (a.parse::<std::net::Ipv6Addr>().unwrap().to_bits(), n.parse().unwrap())
        })
        .collect()
}

fn extend(real: &Routes, n: usize) -> Routes {
    let mut rng = Rng(1);
    let mut all = real.clone();
    let mut seen: HashSet<(u128, u8)> = all.iter().copied().collect();
    while all.len() < n {
        let (p, len) = real[rng.below(real.len())];
        let vary = (4 + rng.below(13)) as u8;
        let keep = u128::mask(len.saturating_sub(vary));
        let new = ((p & keep) | (rng.address() & !keep)) & u128::mask(len);
        if seen.insert((new, len)) {
            all.push((new, len));
        }
    }
    all
}

fn mixed(n: usize) -> Routes {
    let mut rng = Rng(2);
    (0..n)
        .map(|i| {
            let len = [128u8, 112, 64, 48][i % 4];
            let a = 0x2001 << 112 | rng.address() >> 16;
            (a & u128::mask(len), len)
        })
        .collect()
}

fn dests(routes: &Routes, rng: &mut Rng) -> Vec<u128> {
    (0..1 << 18)
        .map(|_| {
            let (p, l) = routes[rng.below(routes.len())];
            p | rng.address() & !u128::mask(l)
        })
        .collect()
}

fn clocks(reader: &impl LpmLookup<Addr = u128>, dests: &[u128]) -> f64 {
    let mut leaves = [0; 256];
    let mut v = [0; 256];
    let mut least = vec![u64::MAX; dests.len() / 256];
    for _ in 0..25 {
        for (d, least) in dests.chunks_exact(256).zip(&mut least) {
            v.copy_from_slice(d);
            let start = infra::clock::tsc();
            reader.lookup_many(black_box(&v), &mut leaves);
            *least = (*least).min(infra::clock::tsc() - start);
            black_box(&leaves);
        }
    }
    least.iter().sum::<u64>() as f64 / dests.len() as f64
}

fn main() {
    println!("core per tsc {:.2}", infra::clock::core_per_tsc());
    infra::cpu::pin_current(infra::cpu::online_cores().last().copied().unwrap_or(0)).unwrap();
    let file = std::env::var("VOLLEY_RIB6").unwrap();
    let real = real(&file);
    let cases: Vec<(&str, Routes)> = vec![
        ("one", vec![(0x2001_0db8 << 96, 32)]),
        ("real", real.clone()),
        ("240k", extend(&real, 240_000)),
        ("1m", extend(&real, 1_000_000)),
        ("mixed", mixed(255_000)),
    ];
    for (name, routes) in &cases {
        let (mut w, r) = trie(&Domain::new()).unwrap();
        let start = Instant::now();
        let mut longest = 0.0f64;
        for (i, (p, l)) in routes.iter().enumerate() {
            let t = Instant::now();
            w.insert(*p, *l, 1 + (i as u32 * 7) % 1000).unwrap();
            longest = longest.max(t.elapsed().as_secs_f64());
        }
        let rate = routes.len() as f64 / start.elapsed().as_secs_f64() / 1e6;
        let d = dests(routes, &mut Rng(3));
        let c = clocks(&r, &d);
        if name == &"240k" {
            println!(
                "{}",
                std::fs::read_to_string("/proc/self/smaps_rollup")
                    .unwrap()
                    .lines()
                    .filter(|l| l.contains("Huge") || l.contains("Rss"))
                    .collect::<Vec<_>>()
                    .join(" ")
            );
        }
        println!(
            "{name:8} {:8} routes {c:7.1} clocks {rate:6.2} M/s longest {:.3} ms  {:6.1} MiB",
            w.len(),
            longest * 1e3,
            w.memory_bytes() as f64 / 1048576.0
        );
        let start = Instant::now();
        for (p, l) in routes {
            w.remove(*p, *l).unwrap();
        }
        println!("         removed {:6.2} M/s", routes.len() as f64 / start.elapsed().as_secs_f64() / 1e6);
    }
}
