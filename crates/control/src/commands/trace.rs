//! Packet traces.

use std::fmt::Write;

use graph::trace::Fate;
use serde::Serialize;

use super::{Context, Output};
use crate::cli::{Args, CliError, Registry};

/// Packets that `show trace` shows unless it is told otherwise.
const SHOWN: u32 = 50;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add("trace add <node:node> <n:u32>", "Trace the next N packets that an input node brings in.", add);
    r.add("show trace [max <n:u32>]", "Show traced packets, node by node.", show);
    r.add("clear trace", "Forget all traces, and trace no more.", |c, _| {
        c.system.router.graph().tracer().clear();
        Ok(Output::none())
    });
}

fn add(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let name: String = a.need("node")?;
    let graph = c.system.router.graph();
    let inputs = || graph.nodes().iter().filter(|n| n.input).map(|n| n.name).collect::<Vec<_>>().join(", ");
    match graph.node(&name) {
        Some(node) if graph.tracer().add(node, a.need("n")?) => Ok(Output::none()),
        Some(_) => Err(a.fault("node", format!("{name} brings no packets in; these nodes do: {}", inputs()))),
        None => Err(a.fault("node", format!("there is no node {name}; packets come in by: {}", inputs()))),
    }
}

#[derive(Serialize)]
struct Step {
    node: &'static str,
    time_ns: u64,
    next: Option<&'static str>,
    dropped: Option<&'static str>,
    text: String,
}

#[derive(Serialize)]
struct Packet {
    packet: u32,
    steps: Vec<Step>,
}

fn show(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let tracer = c.system.router.graph().tracer();
    let mut packets: Vec<Packet> = Vec::new();
    for e in tracer.entries() {
        if packets.last().is_none_or(|p| p.packet != e.trace) {
            packets.push(Packet { packet: e.trace, steps: Vec::new() });
        }
        let (next, dropped) = match e.fate {
            Fate::Next(node) => (Some(tracer.node_name(node)), None),
            Fate::Dropped(reason) => (None, Some(reason.name)),
            Fate::Held | Fate::Taken => (None, None),
        };
        let text = tracer.describe(&e);
        let step = Step { node: tracer.node_name(e.node), time_ns: e.time, next, dropped, text };
        if let Some(p) = packets.last_mut() {
            p.steps.push(step);
        }
    }
    let all = packets.len();
    packets.truncate(a.get::<u32>("n").unwrap_or(SHOWN) as usize);
    let mut text = String::new();
    for p in &packets {
        let _ = writeln!(text, "Packet {}\n", p.packet);
        p.steps.iter().for_each(|s| text += &s.text);
        text.push('\n');
    }
    if packets.is_empty() {
        text.push_str("No packets in trace buffer\n");
    } else if packets.len() < all {
        let _ = writeln!(text, "Limiting display to {} packets. To display more specify max.", packets.len());
    }
    Ok(Output::show(&packets, text))
}
