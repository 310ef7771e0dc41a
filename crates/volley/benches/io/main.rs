//! The benchmark of drivers: a tester on one core, a router's worker on another, and packets between them by memif.
//!
//! `cargo bench -p volley --bench io [NAME…]` prints a table and writes `target/bench/io.json`, one object per line:
//! clocks per packet and throughput of a saturated router ([`flood`]), latency at low load ([`latency`]), and
//! throughput under overload ([`overload`]). Figures are the median over the repetitions.

mod flood;
mod latency;
mod overload;
mod setup;

use std::fmt::Write as _;
use std::io::Write as _;

use setup::Result;
use testkit::skip::skipped;

/// The target of a median.
enum Target {
    None,
    AtMost(f64),
    AtLeast(f64),
}

/// A measured figure, with one value for each repetition.
struct Row {
    name: String,
    unit: &'static str,
    samples: Vec<f64>,
    target: Target,
}

impl Row {
    /// Prints the figure, and returns it as a JSON object that includes `more`.
    fn report(mut self, more: &str) -> String {
        let Row { name, unit, samples, target } = &mut self;
        samples.sort_by(f64::total_cmp);
        let n = samples.len();
        let [median, min, max] = match &samples[..] {
            [] => [f64::NAN; 3],
            all => [all[n / 2], all[0], all[n - 1]],
        };
        let (target, verdict) = match *target {
            Target::None => (String::new(), ""),
            Target::AtMost(t) => (format!("{t:.0}"), if median <= t { "ok" } else { "MISSED" }),
            Target::AtLeast(t) => (format!("{t:.0}"), if median >= t { "ok" } else { "MISSED" }),
        };
        println!("{name:<28} {median:>8.1} {min:>8.1} {max:>8.1} {target:>8}  {unit:<16} {verdict}");
        format!(
            "{{\"bench\": \"{name}\", \"unit\": \"{unit}\", \"median\": {median:.2}, \"min\": {min:.2}, \"max\": {max:.2}, \
             \"samples\": {n}{more}}}"
        )
    }
}

fn main() -> Result<()> {
    let cores = infra::cpu::online_cores();
    let [first, .., last] = cores[..] else {
        skipped("needs two cores");
        return Ok(());
    };
    // Cargo passes `--bench`; other words are the names to run.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&directory)?;
    let mut file = std::fs::File::create(directory.join("io.json"))?;
    println!("{:<28} {:>8} {:>8} {:>8} {:>8}", "bench", "median", "min", "max", "target");
    for b in flood::BENCHES.iter().filter(|b| wants(b.name)) {
        let (rows, nodes) = flood::run(b, [first, last]).map_err(|e| format!("{}: {e}", b.name))?;
        let mut by_node = String::new();
        for (name, clocks) in &nodes {
            let _ = write!(by_node, "{}\"{name}\": {clocks:.2}", if by_node.is_empty() { "" } else { ", " });
        }
        let mut more = format!(", \"nodes\": {{{by_node}}}");
        for row in rows {
            writeln!(file, "{}", row.report(&std::mem::take(&mut more)))?;
        }
        nodes.iter().for_each(|(name, clocks)| println!("  {name:<26} {clocks:>8.1}"));
    }
    for load in latency::LOADS.iter().filter(|l| wants(l.name)) {
        for row in latency::run(load, [first, last]).map_err(|e| format!("{}: {e}", load.name))? {
            writeln!(file, "{}", row.report(""))?;
        }
    }
    for b in overload::OVERLOADS.iter().filter(|b| wants(b.name)) {
        for row in overload::run(b, &cores).map_err(|e| format!("{}: {e}", b.name))? {
            writeln!(file, "{}", row.report(""))?;
        }
    }
    Ok(())
}
