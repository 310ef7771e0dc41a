//! The packet generator, in VPP's syntax; [`describe`] parses the streams.
//!
//! ```text
//! packet-generator new {
//!   name x  limit 5  rate 1000  size 64-64  interface pg0  node ethernet-input
//!   data { IP4: 02:00:00:00:00:01 -> 02:fe:00:00:00:00  UDP: 10.0.0.2 -> 10.0.1.2 - 10.0.1.254  UDP: 1234 -> 80 }
//! }
//! ```
//!
//! Streams are not part of the configuration: they last until the router ends, or their interface is deleted.

mod describe;
mod words;

use std::collections::BTreeMap;

use drivers::pktgen;
use graph::{Builder, GraphError};
use net::Tables;
use net::feature::{
    self, App, Backed, Backing, Begun, Interfaces, Opened, Prepared, Registrar, Unopened, is_numbered,
    number_of, numbered,
};
use net::router::Hooks;
use serde::Serialize;

use self::describe::Description;
use super::numbered_name;
use crate::app::{Context, Output};
use crate::cli::{Args, CliError, Table};
use crate::system::System;

/// Prefix of the interface names, before the number.
const PREFIX: &str = "pg";

/// The router's generators and sinks, by interface name.
#[derive(Default)]
struct Generators(BTreeMap<String, (pktgen::Generator, pktgen::Sink)>);

/// A packet generator and sink.
#[derive(Clone, Debug, PartialEq)]
pub struct Generator;

impl Backing<System> for Generator {
    const DEVICE: bool = true;

    fn open(&self, name: &str, _: Prepared, system: &mut System) -> Result<Opened, Unopened> {
        let [high, low] = number_of::<u16>(name, PREFIX).unwrap_or_default().to_be_bytes();
        let config = pktgen::Config { mac: [2, 0xfe, 0, 0, high, low], ..Default::default() };
        let (device, generator, sink) = pktgen::open(&config);
        let generators = system.router.state_mut::<Generators>().map_err(Unopened::new)?;
        generators.0.insert(name.to_string(), (generator, sink));
        Ok(Opened::Device(device))
    }

    fn leaves(&self, name: &str, system: &mut System) {
        if let Ok(generators) = system.router.state_mut::<Generators>() {
            generators.0.remove(name);
        }
    }

    fn dump(&self, name: &str) -> String {
        format!("create packet-generator interface {name}")
    }
}

/// The feature.
pub struct Feature;

impl feature::Feature<Context> for Feature {
    fn name(&self) -> &'static str {
        "packet-generator"
    }

    fn about(&self) -> &'static str {
        "Generates streams of packets."
    }

    fn install(&self, _: &mut Builder, _: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        hooks.state(|_| Ok(Generators::default())).map(|_| ())
    }

    fn register(&self, r: &mut Registrar<'_, Context>) {
        r.interfaces(Interfaces {
            what: "a packet generator",
            named: numbered(PREFIX),
            section: None,
            names: Box::new(is_numbered::<u16>(PREFIX)),
            field: None,
            read: Box::new(|_, _, _, _| Some(Begun::by(Generator))),
            is: |backed| backed.get::<Generator>().is_some(),
            write: Box::new(|_, _| {}),
            title: String::new(),
            rows: Vec::new(),
            examples: Box::new(|| vec![(format!("{PREFIX}0"), Backed::by(Generator))]),
        });
        register(r);
    }
}

fn register(r: &mut Registrar<'_, Context>) {
    r.command(
        "create packet-generator interface <name:word> [index <index:u32>]",
        "Make a packet generator and sink: pg0, pg1, ….",
        |c, a| {
            let (name, _) = numbered_name(a, PREFIX, "packet generator")?;
            c.create_interface(a, "name", &name, Generator)
        },
    );
    r.command(
        "delete packet-generator interface <interface:interface>",
        "Remove a packet generator.",
        |c, a| c.delete_interface::<Generator>(a, "interface", &a.need::<String>("interface")?),
    );
    r.command("packet-generator new <stream:text>", "Add a stream of packets.", new);
    r.command("packet-generator enable-stream [<name:word>]", "Start a stream, or all.", |c, a| {
        switch(c, a, true)
    });
    r.command("packet-generator disable-stream [<name:word>]", "Stop a stream, or all.", |c, a| {
        switch(c, a, false)
    });
    r.command("packet-generator delete <name:word>", "Remove a stream.", |c, a| {
        let name: String = a.need("name")?;
        if c.system.router.state::<Generators>()?.0.values().any(|(g, _)| g.remove(&name)) {
            return Ok(Output::none());
        }
        Err(a.fault("name", format!("no such stream: {name}")))
    });
    r.command("show packet-generator", "Show the streams, and the packets that the sinks received.", show);
}

fn new(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let text: String = a.need("stream")?;
    let Description { mut stream, interface, bare } = describe::read(&text)?;
    let generators = c.system.router.state::<Generators>()?;
    let Some((generator, _)) = generators.0.get(&interface) else {
        return Err(CliError::new(format!(
            "{interface} is not a packet generator: make one with \"create packet-generator interface pg0\""
        )));
    };
    if let Some(i) = c.system.router.interface_named(&interface).filter(|_| bare) {
        stream.templates.iter_mut().for_each(|t| t.bytes[..6].copy_from_slice(&i.mac.0));
    }
    generator.add(stream).map_err(|e| CliError::new(e.to_string()))?;
    Ok(Output::none())
}

fn switch(c: &mut Context, a: &Args, on: bool) -> Result<Output, CliError> {
    let name: Option<String> = a.get("name");
    let mut found = false;
    for (generator, _) in c.system.router.state::<Generators>()?.0.values() {
        found |= generator.set_enabled(name.as_deref(), on);
    }
    if let (false, Some(name)) = (found, name) {
        return Err(a.fault("name", format!("no such stream: {name}")));
    }
    c.system.router.wake_workers();
    Ok(Output::none())
}

#[derive(Serialize)]
struct Shown {
    interface: String,
    sink_packets: u64,
    streams: Vec<ShownStream>,
}

#[derive(Serialize)]
struct ShownStream {
    name: String,
    enabled: bool,
    sent: u64,
    limit: Option<u64>,
}

fn show(c: &mut Context, _: &Args) -> Result<Output, CliError> {
    let generators = c.system.router.state::<Generators>()?;
    let all: Vec<Shown> = generators
        .0
        .iter()
        .map(|(name, (generator, sink))| Shown {
            interface: name.clone(),
            sink_packets: sink.packets(),
            streams: generator
                .streams()
                .into_iter()
                .map(|s| ShownStream { name: s.name, enabled: s.enabled, sent: s.sent, limit: s.limit })
                .collect(),
        })
        .collect();
    let mut t = Table::new(&["Interface", "Sink packets", "Stream", "Enabled", "Sent", "Limit"]);
    for i in &all {
        let mut head = vec![i.interface.clone(), i.sink_packets.to_string()];
        for s in &i.streams {
            head.push(s.name.clone());
            head.push(if s.enabled { "yes" } else { "no" }.into());
            head.push(s.sent.to_string());
            head.push(s.limit.map_or("-".into(), |l| l.to_string()));
            t.row(std::mem::replace(&mut head, vec![String::new(); 2]));
        }
        if i.streams.is_empty() {
            t.row(head);
        }
    }
    Ok(Output::show(&all, t.to_string()))
}

#[cfg(test)]
mod tests;
