//! The packet generator, in VPP's syntax; [`describe`] parses the streams, [`recorded`] reads them from captures and records what the
//! generators send, [`settle`] waits for their packets.
//!
//! ```text
//! packet-generator new {
//!   name x  limit 5  rate 1000  size 64-64  interface pg0  node ethernet-input
//!   data { IP4: 02:00:00:00:00:01 -> 02:fe:00:00:00:00  UDP: 10.0.0.2 -> 10.0.1.2 - 10.0.1.254  UDP: 1234 -> 80 }
//! }
//! ```
//!
//! Streams and recordings are not part of the configuration: they last until the router ends, or their interface is deleted.

mod api;
mod describe;
mod recorded;
mod settle;
mod words;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use buf::TxCaps;
use drivers::pktgen;
use graph::{Builder, GraphError};
use model::schema::{Schema, pairs};
use net::Tables;
use net::feature::{
    self, App, Backed, Backing, Begun, Interfaces, Opened, Prepared, Registrar, Unopened, is_numbered,
    number_of, numbered,
};
use net::nodes::interface::install_input;
use net::router::Hooks;
use serde::Serialize;
use wire::ethernet::ethertype;

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

impl Generators {
    /// True if a stream is enabled.
    fn is_running(&self) -> bool {
        self.0.values().any(|(generator, _)| generator.is_running())
    }

    /// True if all recorded packets are in their files.
    fn is_written(&self) -> bool {
        self.0.values().all(|(_, sink)| sink.is_written())
    }

    /// Returns the generator and the sink of an interface.
    ///
    /// # Errors
    /// If the interface is not a packet generator.
    fn of(&self, interface: &str) -> Result<&(pktgen::Generator, pktgen::Sink), CliError> {
        self.0.get(interface).ok_or_else(|| {
            CliError::new(format!(
                "{interface} is not a packet generator: make one with \"create packet-generator interface pg0\""
            ))
        })
    }
}

/// A packet generator and sink.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generator {
    /// The first header of its packets.
    mode: Mode,
}

/// The first header of the packets on a generator's link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Ethernet.
    #[default]
    Ethernet,
    /// IPv4, without an Ethernet header: a link to one other host, without ARP.
    Ip4,
    /// IPv6, without an Ethernet header: a link to one other host, without Neighbor Discovery.
    Ip6,
}

impl Mode {
    const ALL: [(Mode, &str); 3] = [(Mode::Ethernet, "ethernet"), (Mode::Ip4, "ip4"), (Mode::Ip6, "ip6")];

    /// Returns the word for the mode.
    fn word(self) -> &'static str {
        Mode::ALL.iter().find(|(mode, _)| *mode == self).map_or("", |(_, word)| word)
    }

    /// Returns the IP version and the EtherType of the packets; `None` if they have Ethernet headers.
    fn ip(self) -> Option<(u8, u16)> {
        match self {
            Mode::Ethernet => None,
            Mode::Ip4 => Some((4, ethertype::IPV4)),
            Mode::Ip6 => Some((6, ethertype::IPV6)),
        }
    }
}

/// Returns the fields of `packet-generator`, the section of an interface `pgN` in configuration files.
fn schema() -> &'static Schema<Generator> {
    static SCHEMA: LazyLock<Schema<Generator>> = LazyLock::new(|| {
        Schema::new(Generator::default()).field(
            "mode",
            pairs(&Mode::ALL),
            |g| g.mode,
            |g, mode| g.mode = mode,
            "The first header of the packets on the link. With `ip4` and `ip6`, the link has one other station, and there is neither ARP nor \
             Neighbor Discovery.",
        )
    });
    &SCHEMA
}

impl Backing<System> for Generator {
    const DEVICE: bool = true;

    fn is_bare(&self) -> bool {
        self.mode.ip().is_some()
    }

    fn open(&self, name: &str, _: Prepared, system: &mut System) -> Result<Opened, Unopened> {
        let [high, low] = number_of::<u16>(name, PREFIX).unwrap_or_default().to_be_bytes();
        // Without offloads, so that recorded packets are those that would be on a link.
        let config = pktgen::Config {
            mac: [2, 0xfe, 0, 0, high, low],
            caps: TxCaps::default(),
            queues: system.router.workers(),
            bare: Backing::is_bare(self),
            ..Default::default()
        };
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
        let mode =
            if self.mode == Mode::default() { String::new() } else { format!(" mode {}", self.mode.word()) };
        format!("create packet-generator interface {name}{mode}")
    }
}

/// The feature `packet-generator`.
pub struct Feature;

impl feature::Feature<Context> for Feature {
    fn name(&self) -> &'static str {
        "packet-generator"
    }

    fn about(&self) -> &'static str {
        "Generates streams of packets."
    }

    fn install(&self, b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        install_input(b, t, pktgen::INPUT_NODE);
        hooks.state(|_| Ok(Generators::default())).map(|_| ())
    }

    fn register(&self, r: &mut Registrar<'_, Context>) {
        r.interfaces(Interfaces {
            what: "a packet generator",
            named: numbered(PREFIX),
            section: None,
            names: Box::new(is_numbered::<u16>(PREFIX)),
            field: Some("packet-generator"),
            device_type: None,
            read: Box::new(|r, _, _, fields| {
                let given = fields.take("packet-generator").and_then(|node| schema().read(r, node.at, node));
                Some(Begun::by(given.unwrap_or_default()))
            }),
            is: |backed| backed.get::<Generator>().is_some(),
            write: Box::new(|t, backed| {
                if let Some(generator) = backed.get::<Generator>().filter(|g| !schema().is_usual(g)) {
                    t.map("packet-generator", |t| schema().write(t, generator));
                }
            }),
            title: "`packet-generator`".into(),
            rows: schema().rows(""),
            examples: Box::new(|| {
                let all = schema().examples().into_iter();
                all.map(|generator| (format!("{PREFIX}0"), Backed::by(generator))).collect()
            }),
        });
        register(r);
        recorded::register(r);
    }

    fn messages(&self, table: &mut vapi::Table<Context>) {
        api::register(table);
    }
}

fn register(r: &mut Registrar<'_, Context>) {
    r.command(
        "create packet-generator interface <name:word> [mode {ethernet | ip4 | ip6}] [index <index:u32>]",
        "Make a packet generator and sink: pg0, pg1, …. With mode ip4 and ip6, its packets have no Ethernet header.",
        |c, a| {
            let (name, _) = numbered_name(a, PREFIX, "packet generator")?;
            let mode = Mode::ALL.iter().find(|(_, word)| a.has(word)).map(|(mode, _)| *mode);
            c.create_interface(a, "name", &name, Generator { mode: mode.unwrap_or_default() })
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
    r.command(
        "show packet-generator",
        "Show the streams, and the packets that the sinks received. Waits up to 0.2 s until the packets of finished streams have left the \
         router, and recorded packets are in their files.",
        |_, a| Ok(Output::job(settle::Settle::new(a, shown))),
    );
}

fn new(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let text: String = a.need("stream")?;
    let Description { mut stream, interface, bare } = describe::read(&text)?;
    let (generator, _) = c.system.router.state::<Generators>()?.of(&interface)?;
    if let Some(i) = c.system.router.interface_named(&interface).filter(|_| bare) {
        stream.templates.iter_mut().for_each(|t| t.bytes[..6].copy_from_slice(&i.mac.0));
    }
    generator.add(stream).map_err(|e| CliError::new(e.to_string()))?;
    Ok(Output::none())
}

fn switch(c: &mut Context, a: &Args, on: bool) -> Result<Output, CliError> {
    let name: Option<String> = a.get("name");
    match (enable(c, name.as_deref(), on)?, name) {
        (false, Some(name)) => Err(a.fault("name", format!("no such stream: {name}"))),
        _ => Ok(Output::none()),
    }
}

/// Enables or disables the stream called `name`; all streams if `name` is `None`. Returns false if there is no such stream.
fn enable(c: &mut Context, name: Option<&str>, on: bool) -> Result<bool, CliError> {
    let mut found = false;
    for (generator, _) in c.system.router.state::<Generators>()?.0.values() {
        found |= generator.set_enabled(name, on);
    }
    c.system.router.wake_workers();
    Ok(found)
}

#[derive(Serialize)]
struct Shown {
    interface: String,
    sink_packets: u64,
    /// The packets recorded in a file; absent without a recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<String>,
    streams: Vec<ShownStream>,
}

#[derive(Serialize)]
struct ShownStream {
    name: String,
    enabled: bool,
    sent: u64,
    limit: Option<u64>,
}

/// Returns the answer of `show packet-generator`.
fn shown(c: &Context) -> Result<Output, CliError> {
    let generators = c.system.router.state::<Generators>()?;
    let all: Vec<Shown> = generators
        .0
        .iter()
        .map(|(name, (generator, sink))| Shown {
            interface: name.clone(),
            sink_packets: sink.packets(),
            recorded: sink.recording(),
            streams: generator
                .streams()
                .into_iter()
                .map(|s| ShownStream { name: s.name, enabled: s.enabled, sent: s.sent, limit: s.limit })
                .collect(),
        })
        .collect();
    let mut t = Table::new(&["Interface", "Sink packets", "Recorded", "Stream", "Enabled", "Sent", "Limit"]);
    for i in &all {
        let recorded = i.recorded.clone().unwrap_or_else(|| "-".into());
        let mut head = vec![i.interface.clone(), i.sink_packets.to_string(), recorded];
        for s in &i.streams {
            head.push(s.name.clone());
            // As in VPP: its test suite waits until no "Yes" is left.
            head.push(if s.enabled { "Yes" } else { "No" }.into());
            head.push(s.sent.to_string());
            head.push(s.limit.map_or("-".into(), |l| l.to_string()));
            t.row(std::mem::replace(&mut head, vec![String::new(); 3]));
        }
        if i.streams.is_empty() {
            t.row(head);
        }
    }
    Ok(Output::show(&all, t.to_string()))
}

#[cfg(test)]
mod tests;
