//! The packet generator, in VPP's words:
//!
//! ```text
//! packet-generator new {
//!   name x  limit 5  rate 1000  size 64-64  interface pg0  node ethernet-input
//!   data { IP4: 02:00:00:00:00:01 -> 02:fe:00:00:00:00  UDP: 10.0.0.2 -> 10.0.1.2 - 10.0.1.254  UDP: 1234 -> 80 }
//! }
//! ```
//!
//! `A - B` counts up from A to B; `A ~ B` draws at random between them. `maxframe N` bounds the vector.

use std::net::Ipv4Addr;
use std::str::FromStr;

use drivers::pktgen::{Field, Mode, Stream, Template};
use serde::Serialize;
use wire::Mac;
use wire::builder::PacketBuilder;

use super::{Context, Output};
use crate::cli::{Args, CliError, Registry, Table};

/// Where the fields of a packet without VLAN tags lie, in bytes.
const SRC_IP: usize = 26;
const DST_IP: usize = 30;
const SRC_PORT: usize = 34;
const DST_PORT: usize = 36;
/// Bytes of all headers, and of the frame check sequence, which sizes count and memory does not hold.
const HEADERS: usize = 42;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add("packet-generator new <stream:text>", "Describe a stream of packets.", new);
    r.add("packet-generator enable-stream [<name:word>]", "Start a stream, or all.", |c, a| {
        switch(c, a, true)
    });
    r.add("packet-generator disable-stream [<name:word>]", "Stop a stream, or all.", |c, a| {
        switch(c, a, false)
    });
    r.add("packet-generator delete <name:word>", "Forget a stream.", |c, a| {
        let name: String = a.need("name")?;
        if c.system.generators.values().any(|(g, _)| g.remove(&name)) {
            return Ok(Output::none());
        }
        Err(a.fault("name", format!("there is no stream {name}")))
    });
    r.add("show packet-generator", "Show the streams, and what the sinks got.", show);
}

/// The words of a description; braces stand alone.
struct Words<'t>(Vec<&'t str>);

impl<'t> Words<'t> {
    fn new(text: &'t str) -> Words<'t> {
        let mut words: Vec<&str> = Vec::new();
        for word in text.split_whitespace() {
            let mut rest = word;
            while let Some(at) = rest.find(['{', '}']) {
                if at > 0 {
                    words.push(&rest[..at]);
                }
                words.push(&rest[at..=at]);
                rest = &rest[at + 1..];
            }
            if !rest.is_empty() {
                words.push(rest);
            }
        }
        words.reverse();
        Words(words)
    }

    fn next(&mut self) -> Option<&'t str> {
        self.0.pop()
    }

    fn peek(&self) -> Option<&'t str> {
        self.0.last().copied()
    }

    fn need<T: FromStr>(&mut self, what: &str) -> Result<T, CliError> {
        let word = self.next().unwrap_or("the end");
        word.parse().map_err(|_| {
            CliError::new(format!("expected {what} in the description of the stream, not {word}"))
        })
    }

    fn expect(&mut self, word: &str) -> Result<(), CliError> {
        match self.next() {
            Some(w) if w == word => Ok(()),
            other => Err(CliError::new(format!(
                "expected \"{word}\" in the description of the stream, not {}",
                other.unwrap_or("the end")
            ))),
        }
    }

    /// A value that may vary.
    fn varying<T: FromStr + Copy>(&mut self, what: &str) -> Result<(T, Option<(T, bool)>), CliError> {
        let first = self.need(what)?;
        let random = match self.peek() {
            Some("-") => false,
            Some("~") => true,
            _ => return Ok((first, None)),
        };
        self.next();
        Ok((first, Some((self.need(what)?, random))))
    }
}

/// What `data { … }` says.
struct Data {
    builder: PacketBuilder,
    fields: Vec<Field>,
}

fn field(offset: usize, width: usize, from: u64, to: Option<(u64, bool)>, in_ip: bool) -> Option<Field> {
    let (max, random) = to?;
    let mode =
        if random { Mode::Random { min: from, max } } else { Mode::Increment { min: from, max, step: 1 } };
    Some(Field { offset, width, mode, ip4_checksum: in_ip })
}

fn data(w: &mut Words<'_>) -> Result<Data, CliError> {
    w.expect("{")?;
    w.expect("IP4:")?;
    let src_mac: Mac = w.need("an Ethernet address")?;
    w.expect("->")?;
    let dst_mac: Mac = w.need("an Ethernet address")?;
    w.expect("UDP:")?;
    let src = w.varying::<Ipv4Addr>("an IPv4 address")?;
    w.expect("->")?;
    let dst = w.varying::<Ipv4Addr>("an IPv4 address")?;
    let mut ports = ((1024, None), (1024, None));
    if w.peek() == Some("UDP:") {
        w.next();
        ports.0 = w.varying::<u16>("a port")?;
        w.expect("->")?;
        ports.1 = w.varying::<u16>("a port")?;
    }
    if w.peek() == Some("incrementing") {
        w.next();
        let _: u32 = w.need("a number of bytes")?;
    }
    w.expect("}")?;
    let bits = |v: Option<(Ipv4Addr, bool)>| v.map(|(ip, r)| (u64::from(ip.to_bits()), r));
    let wide = |v: Option<(u16, bool)>| v.map(|(p, r)| (u64::from(p), r));
    let fields = [
        field(SRC_IP, 4, u64::from(src.0.to_bits()), bits(src.1), true),
        field(DST_IP, 4, u64::from(dst.0.to_bits()), bits(dst.1), true),
        field(SRC_PORT, 2, u64::from(ports.0.0), wide(ports.0.1), false),
        field(DST_PORT, 2, u64::from(ports.1.0), wide(ports.1.1), false),
    ];
    let builder = PacketBuilder::ipv4(src.0, dst.0).ethernet(src_mac, dst_mac).udp(ports.0.0, ports.1.0);
    Ok(Data { builder, fields: fields.into_iter().flatten().collect() })
}

fn new(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let text: String = a.need("stream")?;
    let mut w = Words::new(&text);
    let mut stream = Stream::default();
    let (mut sizes, mut interface, mut description) = ((64usize, 64usize), String::from("pg0"), None);
    w.expect("{")?;
    loop {
        match w.next() {
            Some("}") => break,
            Some("name") => stream.name = w.need("a name")?,
            Some("limit") => stream.limit = Some(w.need("a number of packets")?).filter(|n| *n > 0),
            Some("rate") => stream.rate_pps = Some(w.need("packets a second")?),
            Some("maxframe") => stream.vector = w.need("packets a vector")?,
            Some("size") => {
                let word: String = w.need("a size like 64-64")?;
                let (from, to) = word.split_once('-').unwrap_or((&word, &word));
                let number = |s: &str| {
                    s.parse().map_err(|_| CliError::new(format!("\"{word}\" is no size like 64-64")))
                };
                sizes = (number(from)?, number(to)?);
            }
            Some("interface") => interface = w.need("an interface")?,
            Some("node") => w.expect("ethernet-input")?,
            Some("data") => description = Some(data(&mut w)?),
            other => {
                let word = other.unwrap_or("the end");
                return Err(CliError::new(format!(
                    "expected name, limit, rate, maxframe, size, interface, node or data, not {word}"
                )));
            }
        }
    }
    let Some(d) = description else { return Err(CliError::new("the stream has no data { … }")) };
    let (least, most) = (sizes.0.max(HEADERS), sizes.1);
    if least > most {
        return Err(CliError::new(format!("sizes are from {HEADERS} bytes on, and the first is not larger")));
    }
    // The header tells the length, so each size is a template of its own; a range is stood for by its two ends.
    let mut ends = vec![least, most];
    ends.dedup();
    stream.templates = ends
        .into_iter()
        .map(|size| {
            let bytes = d.builder.clone().payload(&vec![0; size - HEADERS]).build();
            Template { fields: d.fields.clone(), ..Template::fixed(bytes) }
        })
        .collect();
    let Some((generator, _)) = c.system.generators.get(&interface) else {
        return Err(CliError::new(format!(
            "{interface} is no packet generator: make one with \"create packet-generator interface pg0\""
        )));
    };
    generator.add(stream).map_err(|e| CliError::new(e.to_string()))?;
    Ok(Output::none())
}

fn switch(c: &mut Context, a: &Args, on: bool) -> Result<Output, CliError> {
    let name: Option<String> = a.get("name");
    let mut found = false;
    for (generator, _) in c.system.generators.values() {
        found |= generator.set_enabled(name.as_deref(), on);
    }
    if let (false, Some(name)) = (found, name) {
        return Err(a.fault("name", format!("there is no stream {name}")));
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
    let all: Vec<Shown> = c
        .system
        .generators
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
