//! Fragments that wait for others.

use net::ip::reassembly::Kind;
use serde::Serialize;

use super::{Context, Output};
use crate::cli::{Args, CliError, Registry, Table};
use crate::intent::{Change, Reassembly};

const SECOND: u64 = 1_000_000_000;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    for kind in Kind::ALL {
        let name = kind.name();
        let what = match kind {
            Kind::Full4 => "the reassembly of IPv4 datagrams for this router",
            Kind::Full6 => "the reassembly of IPv6 datagrams for this router",
            Kind::Shallow4 => {
                "shallow virtual reassembly, which holds fragments back until the first one came"
            }
        };
        r.add(
            &format!(
                "set {name} [timeout <timeout:u32>] [max-reassemblies <datagrams:u32>] \
                 [max-reassembly-length <fragments:u32>] [max-buffers <buffers:u32>]"
            ),
            &format!(
                "Bound {what}: seconds, datagrams that wait, fragments of one, buffers in all fragments."
            ),
            set,
        );
        let help = format!("Give {what} the router's own bounds again.");
        r.add(&format!("set {name} default"), &help, |c, a| c.unset(Reassembly::key(kind_of(a)?)));
        let help = format!("Show {what}; with \"details\" each datagram.");
        r.add(&format!("show {name} [details]"), &help, |c, a| Ok(show(c, a, kind_of(a)?)));
    }
}

/// The kind that a command is about.
fn kind_of(a: &Args) -> Result<Kind, CliError> {
    let named = Kind::ALL.into_iter().find(|kind| a.has(kind.name()));
    named.ok_or_else(|| CliError::new("the kind of reassembly is missing"))
}

fn set(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let kind = kind_of(a)?;
    let key = Reassembly::key(kind);
    let bounds = c.store.get(&key).and_then(|value| value.get::<Reassembly>());
    let mut bounds = bounds.copied().unwrap_or_default();
    for name in ["timeout", "datagrams", "fragments", "buffers"] {
        let Some(value) = a.get::<u32>(name) else { continue };
        match name {
            "timeout" => bounds.timeout = Some(value),
            "datagrams" => bounds.datagrams = Some(value),
            "fragments" => bounds.fragments = Some(value),
            _ => bounds.buffers = Some(value),
        }
        let limits = bounds.limits(kind, &c.system.abilities);
        c.system.abilities.check_reassembly(limits).map_err(|e| a.fault(name, e.to_string()))?;
    }
    c.transact(vec![Change::set(key, bounds)])?;
    Ok(Output::none())
}

#[derive(Serialize)]
struct Shown {
    datagrams: u32,
    max_datagrams: u32,
    fragments: u32,
    max_fragments_per_datagram: u32,
    buffers: u32,
    max_buffers: u32,
    timeout_seconds: u64,
    completed: u64,
    details: Option<Vec<Datagram>>,
}

#[derive(Serialize)]
struct Datagram {
    table: u16,
    source: String,
    destination: String,
    protocol: Option<u8>,
    id: u32,
    age_seconds: f64,
    fragments: u32,
    buffers: u32,
    source_port: Option<u16>,
    destination_port: Option<u16>,
}

fn show(c: &Context, a: &Args, kind: Kind) -> Output {
    let reassembly = &c.system.router.tables().reassembly;
    let (limits, totals) = (reassembly.limits(kind), reassembly.totals(kind));
    let now = c.now();
    let datagrams = || {
        let all = reassembly.views(kind).into_iter();
        all.map(|v| Datagram {
            table: v.fib,
            source: v.src.to_string(),
            destination: v.dst.to_string(),
            protocol: v.protocol,
            id: v.id,
            age_seconds: now.saturating_sub(v.since) as f64 / SECOND as f64,
            fragments: v.fragments,
            buffers: v.buffers,
            source_port: v.ports.map(|p| p.0),
            destination_port: v.ports.map(|p| p.1),
        })
        .collect()
    };
    let shown = Shown {
        datagrams: totals.fill.datagrams,
        max_datagrams: limits.datagrams,
        fragments: totals.fill.fragments,
        max_fragments_per_datagram: limits.fragments,
        buffers: totals.fill.buffers,
        max_buffers: limits.buffers,
        timeout_seconds: limits.timeout / SECOND,
        completed: totals.completed,
        details: a.has("details").then(datagrams),
    };
    let mut text = format!(
        "datagrams {} of {}, fragments {} ({} of one datagram at most), buffers {} of {}\ntimeout {} s, {} {}\n",
        shown.datagrams,
        shown.max_datagrams,
        shown.fragments,
        shown.max_fragments_per_datagram,
        shown.buffers,
        shown.max_buffers,
        shown.timeout_seconds,
        if kind == Kind::Shallow4 { "first fragments came:" } else { "became whole:" },
        shown.completed,
    );
    if let Some(all) = &shown.details {
        let mut t = Table::new(&[
            "Table",
            "Source",
            "Destination",
            "Proto",
            "ID",
            "Ports",
            "Age",
            "Fragments",
            "Buffers",
        ]);
        for d in all {
            let ports = d.source_port.zip(d.destination_port);
            t.row(vec![
                d.table.to_string(),
                d.source.clone(),
                d.destination.clone(),
                d.protocol.map_or("-".into(), |p| p.to_string()),
                format!("0x{:04x}", d.id),
                ports.map_or("-".into(), |(s, d)| format!("{s} {d}")),
                format!("{:.1}", d.age_seconds),
                d.fragments.to_string(),
                d.buffers.to_string(),
            ]);
        }
        text += &t.to_string();
    }
    Output::show(&shown, text)
}
