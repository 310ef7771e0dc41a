//! Routing tables of real routers, for benchmarks and scenarios.
//!
//! The files come from `VOLLEY_RIB` (IPv4) and `VOLLEY_RIB6`, or from the project's shared data directory. Each line
//! starts with a prefix and a tab; gzip is optional. Without a file, prefixes are made up with typical prefix
//! lengths. Tables can be extended to today's size.

use std::collections::HashSet;
use std::error::Error;
use std::fmt::LowerHex;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::Command;

use infra::hash::mix64;
use infra::lpm::Address;

/// Prefixes: first address and prefix length.
pub type Prefixes<A> = Vec<(A, u8)>;

/// Number of prefixes in today's tables: IPv4 and IPv6.
pub const TODAY: (usize, usize) = (1_050_000, 240_000);

/// A deterministic pseudo-random number generator.
pub struct Random(u64);

impl Random {
    /// Returns a generator with this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.0)
    }

    /// Returns a number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// Returns a number from 0 to below 1.
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Shuffles a slice.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for i in (1..all.len()).rev() {
            all.swap(i, self.below(i + 1));
        }
    }
}

/// Differences between the tables of the two address families.
pub trait Family: Address + LowerHex {
    /// Environment variable with the file of a real table.
    const FILE: &'static str;
    /// First part of the name of the file with a real routing table. The file is in the shared data directory.
    const BESIDE: &'static str;
    /// Typical prefix lengths, with their share per thousand prefixes.
    const LENGTHS: &'static [(u8, usize)];
    /// Returns a random address.
    fn random(r: &mut Random) -> Self;
    /// Parses an address.
    fn parse(text: &str) -> Option<Self>;
    /// Converts to the standard library's address type.
    fn to_ip(self) -> IpAddr;
    /// True if a router whose ports have addresses in 10/8 and fd00::/16 forwards packets to this address.
    fn forwarded(self) -> bool;
}

impl Family for u32 {
    const FILE: &'static str = "VOLLEY_RIB";
    const BESIDE: &'static str = "ipv4-";
    const LENGTHS: &'static [(u8, usize)] =
        &[(16, 20), (18, 20), (19, 40), (20, 60), (21, 60), (22, 120), (23, 90), (24, 590)];

    fn random(r: &mut Random) -> u32 {
        r.next_u64() as u32
    }

    fn parse(text: &str) -> Option<u32> {
        Some(text.parse::<Ipv4Addr>().ok()?.to_bits())
    }

    fn to_ip(self) -> IpAddr {
        Ipv4Addr::from_bits(self).into()
    }

    fn forwarded(self) -> bool {
        (1..224).contains(&(self >> 24)) && ![10, 127].contains(&(self >> 24)) && self >> 16 != 0xa9fe
    }
}

impl Family for u128 {
    const FILE: &'static str = "VOLLEY_RIB6";
    const BESIDE: &'static str = "ipv6-";
    const LENGTHS: &'static [(u8, usize)] = &[
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
    ];

    fn random(r: &mut Random) -> u128 {
        u128::from(r.next_u64()) << 64 | u128::from(r.next_u64())
    }

    fn parse(text: &str) -> Option<u128> {
        Some(text.parse::<Ipv6Addr>().ok()?.to_bits())
    }

    fn to_ip(self) -> IpAddr {
        Ipv6Addr::from_bits(self).into()
    }

    fn forwarded(self) -> bool {
        (0x2000..0x4000).contains(&(self >> 112))
    }
}

/// Returns `"real"` and the routing table of a real router. If there is no file with such a table, returns `"made up"` and a
/// made-up table.
///
/// # Errors
/// If the file cannot be read, or a line has no valid prefix.
pub fn real<A: Family>() -> Result<(&'static str, Prefixes<A>), Box<dyn Error>> {
    if let Some(file) = file::<A>() {
        let parse = |line: &str| {
            let (address, len) = line.split_once('\t')?.0.split_once('/')?;
            Some((A::parse(address)?, len.parse().ok()?))
        };
        let prefixes: Option<Prefixes<A>> = text(&file)?.lines().map(parse).collect();
        return Ok(("real", prefixes.ok_or("a line has no valid prefix")?));
    }
    println!(
        "{} is not set, and there is no routing table in the shared data directory: prefixes are made up",
        A::FILE
    );
    Ok(("made up", made_up()))
}

/// Makes up about 30,000 prefixes with the typical lengths. About one in three lies within a shorter prefix.
fn made_up<A: Family>() -> Prefixes<A> {
    let mut r = Random(7);
    let unicast = A::parse("2000::").unwrap_or(A::ZERO);
    let top = u8::from(unicast != A::ZERO) * 12;
    let mut lengths: Vec<_> =
        A::LENGTHS.iter().flat_map(|(len, n)| std::iter::repeat_n(*len, 30 * n)).collect();
    lengths.sort_unstable();
    let (mut all, mut seen) = (Prefixes::new(), HashSet::new());
    for len in lengths {
        let any = unicast | A::random(&mut r).down(top);
        let within =
            if all.is_empty() || r.below(3) > 0 { any } else { below(all[r.below(all.len())], &mut r) };
        if seen.insert((within & A::mask(len), len)) {
            all.push((within & A::mask(len), len));
        }
    }
    all
}

/// Returns the file of a real table: from the environment variable, or from the shared data directory. `None` if there is no
/// such file.
fn file<A: Family>() -> Option<PathBuf> {
    let beside = || {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/rib");
        let files = std::fs::read_dir(folder).ok()?.flatten();
        // If there are several files, the same one is chosen each time.
        files
            .map(|f| f.path())
            .filter(|f| f.file_name().is_some_and(|name| name.to_string_lossy().starts_with(A::BESIDE)))
            .max()
    };
    std::env::var_os(A::FILE).map(PathBuf::from).or_else(beside)
}

fn text(file: &Path) -> Result<String, Box<dyn Error>> {
    if file.extension().is_none_or(|extension| extension != "gz") {
        return Ok(std::fs::read_to_string(file)?);
    }
    let out = Command::new("gzip").arg("-dc").arg(file).output()?;
    match out.status.success() {
        true => Ok(String::from_utf8(out.stdout)?),
        false => Err(String::from_utf8_lossy(&out.stderr).into()),
    }
}

/// Adds prefixes until there are `n`. Each has the length and the first bits of an existing prefix.
pub fn extend<A: Family>(prefixes: &Prefixes<A>, n: usize) -> Prefixes<A> {
    let mut r = Random(1);
    let mut all = prefixes.clone();
    let mut seen: HashSet<(A, u8)> = all.iter().copied().collect();
    for tries in 0.. {
        if all.len() >= n {
            break;
        }
        let (prefix, len) = prefixes[r.below(prefixes.len())];
        // The more prefixes there are, the fewer bits of an existing one are kept.
        let keep = A::mask(len.saturating_sub((4 + r.below(13) + tries / (4 * n)) as u8));
        let new = (prefix & keep | A::random(&mut r) & !keep) & A::mask(len);
        if seen.insert((new, len)) {
            all.push((new, len));
        }
    }
    all
}

/// Returns a random address that the prefix covers.
pub fn below<A: Family>((prefix, len): (A, u8), r: &mut Random) -> A {
    prefix | A::random(r) & !A::mask(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_that_some_are_within_others<A: Family>() {
        let all = made_up::<A>();
        let set: HashSet<_> = all.iter().copied().collect();
        assert_eq!(set.len(), all.len());
        let within = |&&(prefix, len): &&(A, u8)| (0..len).any(|l| set.contains(&(prefix & A::mask(l), l)));
        let share = all.iter().filter(within).count() * 100 / all.len();
        assert!((20..60).contains(&share), "{share} %");
    }

    #[test]
    fn generated_prefixes_are_nested_like_real_ones() {
        check_that_some_are_within_others::<u32>();
        check_that_some_are_within_others::<u128>();
    }
}
