//! The `show` commands. Each creates a value, which `--json` prints, and its text in VPP's columns.

mod accounting;
mod clock;
mod fib;
mod interface;
mod ip4;
mod ip6;
mod machine;
mod memory;
mod neighbor;
mod path;
mod runtime;
mod sessions;
mod table;

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use buf::Part;
use infra::mem::PageSize;
use serde::Serialize;

use super::config::CHANGED;
use crate::app::{Context, Feature, Output};
use crate::cli::{CliError, PAGE, Registry, Rows, Table};
use crate::intent::{Key, in_order};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    interface::register(r);
    fib::register(r);
    table::register(r);
    neighbor::register::<Ipv4Addr>(r);
    neighbor::register::<Ipv6Addr>(r);
    ip4::register(r);
    ip6::register(r);
    runtime::register(r);
    accounting::register(r);
    machine::register(r);
    memory::register(r);
    clock::register(r);
    sessions::register(r);
    r.add("show version [verbose]", "Show the version and the build.", |_, _| Ok(version()));
    r.add("show buffers", "Show the buffer pool.", |c, _| Ok(buffers(c)));
    r.add("show threads", "Show the threads.", |c, _| Ok(threads(c)));
    r.add("show config", "Show the configuration as commands.", |c, a| {
        Ok(Output::rows(
            Config {
                last: None,
                version: c.store.version(),
                indices: !in_order(c.store.tree()),
                secrets: a.call().role.is_admin(),
            },
            a.json(),
        ))
    });
}

/// The lines of the configuration, object by object.
struct Config {
    last: Option<Key>,
    /// The store's version when the first line was shown.
    version: u64,
    /// True if the interfaces' indices are shown.
    indices: bool,
    /// True if secrets are shown. Clients that are not admins get a placeholder.
    secrets: bool,
}

impl Rows<Context> for Config {
    type Row = String;

    fn next(&mut self, c: &Context, page: &mut Vec<String>) -> bool {
        let mut last = None;
        for (key, value) in c.store.behind(self.last.as_ref()).take(PAGE) {
            let value = if self.secrets { value.clone() } else { value.without_secrets() };
            page.extend(value.dump(key, self.indices));
            last = Some(key);
        }
        let more = last.is_some();
        self.last = last.cloned();
        more
    }

    fn text(&mut self, page: &[String], out: &mut String) {
        page.iter().for_each(|line| out.extend([line, "\n"]));
    }

    fn end(&mut self, c: &Context, out: &mut String) {
        if c.store.version() != self.version {
            out.push_str(CHANGED);
        }
    }
}

/// Declares the command that lists the features of this program. Those in `left_out` are disabled by startup.conf.
pub(crate) fn plugins(r: &mut Registry<Context>, features: &[&Feature], left_out: &[&Feature]) {
    let plugin =
        |enabled| move |feature: &&Feature| Plugin { name: feature.name(), enabled, about: feature.about() };
    let all: Vec<_> = features.iter().map(plugin(true)).chain(left_out.iter().map(plugin(false))).collect();
    r.add("show plugins", "Show the optional features of this program.", move |_, _| {
        let (mut table, mut text) = (Table::new(&["Plugin", "State", "What it does"]), String::new());
        for plugin in &all {
            let state = if plugin.enabled { "enabled" } else { "disabled" };
            table.row(vec![plugin.name.into(), state.into(), plugin.about.into()]);
        }
        table.flush(&mut text);
        Ok(Output::show(&all, text))
    });
}

#[derive(Serialize)]
struct Plugin {
    name: &'static str,
    /// False if startup.conf disables the feature.
    enabled: bool,
    about: &'static str,
}

#[derive(Serialize)]
struct Version {
    version: &'static str,
    build: &'static str,
    cpu_level: String,
}

fn version() -> Output {
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let cpu_level = format!("{:?}", infra::cpu::level());
    let v = Version { version: env!("CARGO_PKG_VERSION"), build, cpu_level };
    let text = format!(
        "volley v{} ({} build, CPU level x86-64-{})\n",
        v.version,
        v.build,
        v.cpu_level.to_lowercase()
    );
    Output::show(&v, text)
}

#[derive(Serialize)]
struct Buffers {
    size_bytes: usize,
    data_size_bytes: usize,
    total: usize,
    available: usize,
    cached: usize,
    lent: usize,
    used: usize,
    refused: u64,
    lost: u64,
    /// The buffers allocated at the start.
    at_start: BufferMemory,
    /// The buffers added later, if any.
    added: Option<BufferMemory>,
}

/// Buffers in one region of memory.
#[derive(Serialize)]
struct BufferMemory {
    total: usize,
    available: usize,
    pages: &'static str,
    /// True if devices that use the router's memory (AF_XDP, trusted memif) can use these buffers.
    for_devices: bool,
}

impl BufferMemory {
    fn of(part: Part, for_devices: bool) -> BufferMemory {
        BufferMemory { total: part.total, available: part.free, pages: pages(part.page), for_devices }
    }
}

/// Returns a page size in words.
fn pages(of: PageSize) -> &'static str {
    match of {
        PageSize::Huge2M => "2 MiB",
        PageSize::Transparent => "2 MiB, transparent",
        PageSize::Small => "4 KiB",
    }
}

fn buffers(c: &Context) -> Output {
    let s = c.system.router.pool().stats();
    let v = Buffers {
        size_bytes: buf::layout::STRIDE,
        data_size_bytes: buf::layout::DATA_ROOM,
        total: s.total,
        available: s.free,
        cached: s.cached,
        lent: s.lent,
        used: s.used,
        refused: s.refused,
        lost: buf::pool::lost(),
        at_start: BufferMemory::of(s.window, true),
        added: s.added.map(|part| BufferMemory::of(part, false)),
    };
    let mut t = Table::new(&[
        "Pool Name",
        "Index",
        "Size",
        "Data Size",
        "Total",
        "Avail",
        "Cached",
        "Lent",
        "Used",
        "Refused",
    ]);
    let cells = [v.size_bytes, v.data_size_bytes, v.total, v.available, v.cached, v.lent, v.used];
    let mut row = vec!["default".to_string(), "0".to_string()];
    row.extend(cells.iter().map(ToString::to_string));
    row.push(v.refused.to_string());
    t.row(row);
    let mut text = t.to_string();
    let mut t = Table::new(&["Memory", "Total", "Avail", "Pages", "For"]);
    for (name, part) in [("at start", Some(&v.at_start)), ("added", v.added.as_ref())] {
        let Some(part) = part else { continue };
        let (total, available) = (part.total.to_string(), part.available.to_string());
        let whom = if part.for_devices { "packets, AF_XDP, trusted memif" } else { "packets" };
        t.row(vec![name.into(), total, available, part.pages.into(), whom.into()]);
    }
    text += &t.to_string();
    if v.lost > 0 {
        let _ =
            writeln!(text, "{} packets were lost without a drop reason: a defect, please report it", v.lost);
    }
    Output::show(&v, text)
}

#[derive(Serialize)]
struct Thread {
    id: usize,
    name: String,
    kind: &'static str,
    /// The kernel's thread ID.
    lwp: Option<i32>,
    core: Option<usize>,
    #[serde(flatten)]
    work: Option<Work>,
}

/// How a worker spends its time.
#[derive(Serialize)]
struct Work {
    /// The worker's load over about the last tenth of a second, in percent.
    busy_percent: Option<f64>,
    busy_seconds: f64,
    idle_seconds: f64,
    turns: u64,
    naps: u64,
    sleeps: u64,
}

fn threads(c: &Context) -> Output {
    let (r, main) = (&c.system.router, std::process::id() as i32);
    let name = "volley_main".into();
    let mut all = vec![Thread { id: 0, name, kind: "main", lwp: Some(main), core: c.main_core, work: None }];
    for (w, core) in r.cores().iter().copied().enumerate() {
        let spent = r.graph().stats().worker_totals(w);
        let work = Work {
            busy_percent: r.load(w).map(|load| (1000.0 * load).round() / 10.0),
            busy_seconds: spent.busy_ns as f64 / 1e9,
            idle_seconds: spent.idle_ns as f64 / 1e9,
            turns: spent.turns,
            naps: spent.naps,
            sleeps: spent.sleeps,
        };
        let (name, lwp) = (format!("volley_wk_{w}"), r.thread_id(w));
        all.push(Thread { id: w + 1, name, kind: "workers", lwp, core, work: Some(work) });
    }
    let mut t =
        Table::new(&["ID", "Name", "Type", "LWP", "lcore", "Busy %", "Busy s", "Idle s", "Naps", "Sleeps"]);
    for th in &all {
        let core = th.core.map_or("any".into(), |c| c.to_string());
        let lwp = th.lwp.map_or("-".into(), |lwp| lwp.to_string());
        let mut row = vec![th.id.to_string(), th.name.clone(), th.kind.into(), lwp, core];
        if let Some(w) = &th.work {
            row.push(w.busy_percent.map_or("-".into(), |p| format!("{p:.1}")));
            row.extend([w.busy_seconds, w.idle_seconds].map(|s| format!("{s:.1}")));
            row.extend([w.naps, w.sleeps].map(|n| n.to_string()));
        } else {
            row.resize(10, "-".into());
        }
        t.row(row);
    }
    Output::show(&all, t.to_string())
}

/// Returns an empty output.
fn none() -> Result<Output, CliError> {
    Ok(Output::none())
}
