//! The commands of a table of fragments.

use model::cli::{Args, CliError, Output, Table};
use model::object::Change;
use model::schema::Described;
use serde::Serialize;

use net::feature::{self, App, Entry, Registrar};
use net::router::{Router, RouterError};

use crate::bounds::Bounds;
use crate::kind::{KindInfo, SECOND};
use crate::shards::DatagramView;
use crate::state::Reassembly;

/// The limits in commands: keyword, argument, and field in files.
const PARAMETERS: [(&str, &str, &str); 4] = [
    ("timeout", "timeout", "timeout-seconds"),
    ("max-reassemblies", "datagrams", "max-reassemblies"),
    ("max-reassembly-length", "fragments", "max-reassembly-length"),
    ("max-buffers", "buffers", "max-buffers"),
];

/// Declares the commands of a table, and its limits in the section `settings` of a configuration file.
pub fn register<C: App>(r: &mut Registrar<'_, C>, info: &'static KindInfo) {
    let KindInfo { name, about, .. } = *info;
    r.entry(Entry::one::<Bounds>(
        name,
        "Limits of reassembly (`show ip4-full-reassembly` and the like).",
        Bounds::key(name),
    ));
    let syntax: String = PARAMETERS
        .iter()
        .map(|(word, argument, field)| format!(" [{word} {}]", Bounds::schema().syntax(field, argument)))
        .collect();
    r.command(
        &format!("set {name}{syntax}"),
        &format!(
            "Limit {about}: the timeout in seconds, the waiting datagrams, the fragments of one datagram, and the buffers of all fragments."
        ),
        move |c, a| set(c, a, name),
    );
    r.command(
        &format!("set {name} default"),
        &format!("Reset the limits of {about} to the defaults."),
        move |c, _| feature::unset(c, Bounds::key(name)),
    );
    r.command(
        &format!("show {name} [details]"),
        &format!("Show {about}. With \"details\", also show each datagram."),
        move |c, a| show(c, a, info).map_err(|e| CliError::new(e.to_string())),
    );
    r.supports(format!("show {name}"));
}

fn set<C: App>(c: &mut C, a: &Args, name: &str) -> Result<Output<C>, CliError> {
    let key = Bounds::key(name);
    let bounds = c.store().get(&key).and_then(|value| value.get::<Bounds>());
    let mut bounds = bounds.copied().unwrap_or_default();
    for (_, argument, _) in PARAMETERS {
        let Some(value) = a.get::<u32>(argument) else { continue };
        match argument {
            "timeout" => bounds.timeout = Some(value),
            "datagrams" => bounds.datagrams = Some(value),
            "fragments" => bounds.fragments = Some(value),
            _ => bounds.buffers = Some(value),
        }
        let can = |all: &Reassembly| all.check(bounds.over(all.usual(name)?));
        c.router().state().and_then(can).map_err(|e| a.fault(argument, e.to_string()))?;
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
    table: u32,
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

impl Datagram {
    fn new(v: DatagramView, router: &Router, now: u64) -> Datagram {
        Datagram {
            table: router.vrfs().table(v.fib),
            source: v.src.to_string(),
            destination: v.dst.to_string(),
            protocol: v.protocol,
            id: v.id,
            age_seconds: now.saturating_sub(v.since) as f64 / SECOND as f64,
            fragments: v.fragments,
            buffers: v.buffers,
            source_port: v.ports.map(|p| p.0),
            destination_port: v.ports.map(|p| p.1),
        }
    }

    fn cells(&self) -> Vec<String> {
        let ports = self.source_port.zip(self.destination_port);
        vec![
            self.table.to_string(),
            self.source.clone(),
            self.destination.clone(),
            self.protocol.map_or("-".into(), |p| p.to_string()),
            format!("0x{:04x}", self.id),
            ports.map_or("-".into(), |(s, d)| format!("{s} {d}")),
            format!("{:.1}", self.age_seconds),
            self.fragments.to_string(),
            self.buffers.to_string(),
        ]
    }
}

const HEADINGS: &[&str] =
    &["Table", "Source", "Destination", "Proto", "ID", "Ports", "Age", "Fragments", "Buffers"];

fn show<C: App>(c: &C, a: &Args, info: &KindInfo) -> Result<Output<C>, RouterError> {
    let all = c.router().state::<Reassembly>()?;
    let (limits, totals) = (all.limits(info.name)?, all.totals(info.name)?);
    let details = match a.has("details") {
        true => {
            let (views, router) = (all.views(info.name)?, c.router());
            let now = router.now();
            Some(views.into_iter().map(|view| Datagram::new(view, router, now)).collect())
        }
        false => None,
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
        details,
    };
    let mut text = format!(
        "datagrams {} of {}, fragments {} ({} of one datagram at most), buffers {} of {}\ntimeout {} s, {}: {}\n",
        shown.datagrams,
        shown.max_datagrams,
        shown.fragments,
        shown.max_fragments_per_datagram,
        shown.buffers,
        shown.max_buffers,
        shown.timeout_seconds,
        info.completed,
        shown.completed,
    );
    if let Some(all) = &shown.details {
        let mut t = Table::new(HEADINGS);
        all.iter().for_each(|datagram| t.row(datagram.cells()));
        text += &t.to_string();
    }
    Ok(Output::show(&shown, text))
}
