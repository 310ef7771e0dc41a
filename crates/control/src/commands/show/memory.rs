//! The router's use of memory.

use buf::Part;
use buf::layout::STRIDE;
use serde::Serialize;

use super::machine::{read, value};
use super::pages;
use crate::app::{Context, Output};
use crate::cli::{Registry, Table};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "show memory/mem [verbose] [main-heap] [map]",
        "Show the memory of the process, its buffers and its routes. VPP's options have no effect: there is one heap.",
        |c, _| Ok(memory(c)),
    );
    r.add("show physmem [map] [detail]", "Show the memory of packet buffers.", |c, _| Ok(physmem(c)));
}

#[derive(Serialize)]
struct Memory {
    /// Memory of the process in RAM; absent if the kernel does not report it.
    resident_bytes: Option<u64>,
    most_resident_bytes: Option<u64>,
    swapped_bytes: Option<u64>,
    virtual_bytes: Option<u64>,
    /// Memory of all packet buffers.
    buffers_bytes: u64,
    routes_bytes: u64,
    routes_limit_bytes: u64,
}

fn memory(c: &Context) -> Output {
    let status = read("/proc/self/status");
    let bytes = |name| {
        let kib = value(&status, name)?.split_whitespace().next()?.parse::<u64>().ok()?;
        kib.checked_mul(1024)
    };
    let (buffers, routes) = (c.system.router.pool().stats(), c.system.router.route_memory());
    let v = Memory {
        resident_bytes: bytes("VmRSS"),
        most_resident_bytes: bytes("VmHWM"),
        swapped_bytes: bytes("VmSwap"),
        virtual_bytes: bytes("VmSize"),
        buffers_bytes: (buffers.total * STRIDE) as u64,
        routes_bytes: routes.used,
        routes_limit_bytes: routes.limit,
    };
    let mut t = Table::new(&["Memory", "MiB", "What"]);
    let limit = format!("lookup tables and routes, at most {} MiB", mib(v.routes_limit_bytes));
    for (name, bytes, what) in [
        ("process", v.resident_bytes, "in memory now"),
        ("peak", v.most_resident_bytes, "the most in memory since the start"),
        ("swapped", v.swapped_bytes, "moved to disk by the kernel"),
        ("virtual", v.virtual_bytes, "reserved, in memory or not"),
        ("buffers", Some(v.buffers_bytes), "packet buffers: show physmem"),
        ("routes", Some(v.routes_bytes), limit.as_str()),
    ] {
        t.row(vec![name.into(), bytes.map_or("unknown".into(), mib), what.into()]);
    }
    Output::show(&v, t.to_string())
}

fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

#[derive(Serialize)]
struct Region {
    name: &'static str,
    buffers: usize,
    bytes: u64,
    pages: &'static str,
}

fn physmem(c: &Context) -> Output {
    let stats = c.system.router.pool().stats();
    let region = |name, part: Part| Region {
        name,
        buffers: part.total,
        bytes: (part.total * STRIDE) as u64,
        pages: pages(part.page),
    };
    let all: Vec<Region> =
        [Some(region("at start", stats.window)), stats.added.map(|part| region("added", part))]
            .into_iter()
            .flatten()
            .collect();
    let mut t = Table::new(&["Memory", "Buffers", "MiB", "Pages"]);
    for r in &all {
        t.row(vec![r.name.into(), r.buffers.to_string(), mib(r.bytes), r.pages.into()]);
    }
    Output::show(&all, t.to_string())
}

#[cfg(test)]
mod tests {
    use crate::testing::Cli;

    #[test]
    fn show_memory_lists_each_use() {
        let mut cli = Cli::new();
        let text = cli.ok("show memory");
        for name in ["process", "peak", "virtual", "buffers", "routes"] {
            assert!(text.lines().any(|line| line.starts_with(name)), "{name}: {text}");
        }
        let json = cli.json("show memory verbose main-heap map");
        assert!(json["resident_bytes"].as_u64() > Some(1 << 20), "{json}");
        assert!(json["routes_bytes"].as_u64() <= json["routes_limit_bytes"].as_u64(), "{json}");
        assert!(cli.ok("sh mem").contains("process"), "not memif");
        cli.refused("show memory nonsense", "nonsense");
    }

    #[test]
    fn the_memory_of_buffers_is_shown() {
        let mut cli = Cli::new();
        assert!(cli.ok("show physmem").contains("at start"));
        let json = cli.json("show physmem");
        assert_eq!(json[0]["buffers"], 64);
        assert_eq!(json[0]["bytes"].as_u64(), Some(64 * buf::layout::STRIDE as u64));
    }
}
