//! Packet traces.

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use buf::bpf::Program;
use graph::trace::{Fate, Place};
use net::router::Router;
use serde::Serialize;

use super::filter::with_filter;
use crate::app::{Context, Output};
use crate::cli::{Args, CliError, Merge, Registry, Rows};

/// Default number of packets in `show trace`.
const SHOWN: u32 = 50;
/// Number of packets shown between two checks of the clock.
const SHOWN_AT_ONCE: u32 = 8;
/// Number of entries sorted between two checks of the clock.
const GATHERED: usize = 2048;

/// The filter of `show trace`; `None` to show all packets.
type Kept = Rc<RefCell<Option<Rc<Filter>>>>;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    let kept = Kept::default();
    let set = kept.clone();
    r.add(
        "trace add <node:node> <n:u32> [filter <filter:word>]",
        "Trace the next N packets received by an input node, or the next N that match a tcpdump filter.",
        |c, a| with_filter(c, a, add),
    )
    .for_operators();
    r.add(
        "show trace [max <n:u32>] [from <first:u32>] [node <input:node>]",
        "Show traced packets, node by node; with \"from\", those from this number on. With \"node\", all packets that this input node received, \
         whatever \"trace filter\" says.",
        move |c, a| show(c, a, kept.borrow().clone()),
    );
    r.add(
        "trace filter {none | include <included:node> <most:u32> | exclude <excluded:node> <most:u32>}",
        "Show only the first N traced packets that passed a node (include) or did not (exclude). \"none\" shows all again.",
        move |_, a| {
            *set.borrow_mut() = filter(a)?;
            Ok(Output::none())
        },
    )
    .for_operators();
    r.add("clear trace", "Delete all traces and stop tracing.", |c, _| {
        c.system.router.graph().tracer().clear();
        Ok(Output::none())
    })
    .for_operators();
}

fn add(c: &mut Context, a: &Args, filter: Option<Program>) -> Result<Output, CliError> {
    let name: String = a.need("node")?;
    let graph = c.system.router.graph();
    let inputs = || graph.nodes().iter().filter(|n| n.input).map(|n| n.name).collect::<Vec<_>>().join(", ");
    match graph.node(&name) {
        Some(_) if a.need::<u32>("n")? == 0 => Err(a.fault("n", "the number of packets must be at least 1")),
        Some(node) if graph.tracer().add(node, a.need("n")?, filter) => Ok(Output::none()),
        Some(_) => Err(a.fault("node", format!("{name} is not an input node; input nodes: {}", inputs()))),
        None => Err(a.fault("node", format!("there is no node {name}; input nodes: {}", inputs()))),
    }
}

/// Selects the traced packets to show.
struct Filter {
    node: String,
    /// True to show packets that passed the node, false to show those that did not.
    passed: bool,
    most: u32,
}

impl Filter {
    fn takes(&self, packet: &Packet) -> bool {
        packet.steps.iter().any(|step| step.node == self.node) == self.passed
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Filter { node, passed, most } = self;
        write!(f, "{} {node} {most}", if *passed { "include" } else { "exclude" })
    }
}

/// Returns the filter given by the command; `None` to show all packets. A filter only hides packets: a later filter can show them.
fn filter(a: &Args) -> Result<Option<Rc<Filter>>, CliError> {
    Ok(match (a.get::<String>("included"), a.get::<String>("excluded")) {
        (None, None) => None,
        (included, excluded) => Some(Rc::new(Filter {
            passed: included.is_some(),
            node: included.or(excluded).unwrap_or_default(),
            most: a.need("most")?,
        })),
    })
}

#[derive(Serialize)]
struct Step {
    node: &'static str,
    /// The time of the monotonic clock, in nanoseconds.
    time_ns: u64,
    /// The time in UTC, as in the log.
    time: String,
    /// The packet's receive interface after the node, or before it if the node kept or ended the packet; `None` if it is not set.
    rx_interface: Option<String>,
    /// The packet's transmit interface after the node, or before it if the node kept or ended the packet; `None` if it is not set.
    tx_interface: Option<String>,
    next: Option<&'static str>,
    dropped: Option<&'static str>,
    text: String,
}

#[derive(Serialize)]
struct Packet {
    packet: u32,
    steps: Vec<Step>,
}

/// The rows of `show trace`. The first calls gather the positions of the trace entries. Later calls show the
/// entries that still exist.
struct Packets {
    /// Maximum number of packets still to show.
    left: u32,
    shown: u32,
    /// Number of the first packet to show.
    from: u32,
    /// Only packets that this input node received are shown.
    input: Option<String>,
    filter: Option<Rc<Filter>>,
    /// Index of the trace log that is being read.
    log: usize,
    /// Number of entries found so far in this log.
    gathered: usize,
    places: Merge<Place>,
    /// The system time at which the monotonic clock was 0.
    zero: SystemTime,
}

/// Returns the name of an interface, or `a deleted interface (INDEX)` if there is none with this index; `None` if `index` is not set.
fn name(router: &Router, index: u32) -> Option<String> {
    (index != buf::NO_INTERFACE).then(|| match router.interface(index) {
        Ok(interface) => interface.name.clone(),
        Err(_) => format!("a deleted interface ({index})"),
    })
}

impl Packets {
    /// Returns the next packet; `None` if there is none, or if the packet was cleared meanwhile.
    fn packet(&mut self, router: &Router) -> Option<Packet> {
        let tracer = router.graph().tracer();
        let first = self.places.next()?;
        let mut packet = Packet { packet: first.trace, steps: Vec::new() };
        let mut place = Some(first);
        let (mut rx, mut tx) = (None, None);
        while let Some(at) = place {
            place = self.places.next_if(|p| p.trace == first.trace);
            let Some(mut e) = tracer.entry(at) else { continue };
            e.vrf = e.after.map_or(0, |record| router.vrfs().table(record.fib));
            let (next, dropped) = match e.fate {
                Fate::Next(node) => (Some(tracer.node_name(node)), None),
                Fate::Dropped(reason) => (None, Some(reason.name)),
                Fate::Ignored(_) | Fate::Held | Fate::Taken => (None, None),
            };
            let (node, time) = (tracer.node_name(e.node), self.zero + Duration::from_nanos(e.time));
            // If the clock was set to 1970 after the packet arrived, its time cannot be printed.
            let time = humantime::format_rfc3339_micros(time.max(SystemTime::UNIX_EPOCH)).to_string();
            let mut text = format!("{time}: {node}\n");
            // If the node kept or ended the packet, there is no record after the node: show the interfaces from before it.
            if let Some(record) = e.after.or(e.before) {
                let now = (name(router, record.rx_if), name(router, record.tx_if));
                for (what, now, before) in [("receive", &now.0, &rx), ("transmit", &now.1, &tx)] {
                    if let Some(now) = now.as_ref().filter(|_| now != before) {
                        let _ = writeln!(text, "  {what} interface {now}");
                    }
                }
                (rx, tx) = now;
            }
            text += &tracer.describe(&e);
            packet.steps.push(Step {
                node,
                time_ns: e.time,
                time,
                rx_interface: rx.clone(),
                tx_interface: tx.clone(),
                next,
                dropped,
                text,
            });
        }
        (!packet.steps.is_empty()).then_some(packet)
    }
}

impl Rows<Context> for Packets {
    type Row = Packet;

    fn next(&mut self, c: &Context, page: &mut Vec<Packet>) -> bool {
        let tracer = c.system.router.graph().tracer();
        if self.log < tracer.logs() {
            let mut places = tracer.places(self.log, self.gathered, GATHERED);
            self.gathered += places.len();
            if places.len() < GATHERED {
                (self.log, self.gathered) = (self.log + 1, 0);
            }
            places.retain(|place| place.trace >= self.from);
            self.places.add(places);
            return true;
        }
        for _ in 0..SHOWN_AT_ONCE {
            if self.left == 0 || self.places.is_empty() {
                return false;
            }
            if let Some(packet) = self.packet(&c.system.router)
                && self.filter.as_ref().is_none_or(|filter| filter.takes(&packet))
                && self.input.as_ref().is_none_or(|node| packet.steps.first().is_some_and(|s| s.node == node))
            {
                page.push(packet);
                self.left -= 1;
                self.shown += 1;
            }
        }
        self.left > 0 && !self.places.is_empty()
    }

    fn kept(&self) -> usize {
        self.places.bytes()
    }

    fn text(&mut self, page: &[Packet], out: &mut String) {
        for p in page {
            let _ = writeln!(out, "Packet {}\n", p.packet);
            p.steps.iter().for_each(|s| out.push_str(&s.text));
            out.push('\n');
        }
    }

    fn end(&mut self, _: &Context, out: &mut String) {
        let of_filter = self.filter.as_ref().filter(|filter| self.shown >= filter.most);
        if !self.places.is_empty() && of_filter.is_none() {
            let _ = writeln!(out, "Limiting display to {} packets. To display more specify max.", self.shown);
        } else if self.shown == 0 {
            out.push_str("No packets in trace buffer");
            out.push_str(if self.filter.is_some() { " matching the filter\n" } else { "\n" });
        }
        if let Some(filter) = &self.filter {
            let _ = writeln!(out, "Filter: {filter}");
        }
    }
}

fn show(c: &mut Context, a: &Args, filter: Option<Rc<Filter>>) -> Result<Output, CliError> {
    let (from, input) = (a.get("first").unwrap_or(0), a.get::<String>("input"));
    let filter = filter.filter(|_| input.is_none());
    let most = filter.as_ref().map_or(u32::MAX, |filter| filter.most);
    let left = a.get::<u32>("n").unwrap_or(SHOWN).min(most);
    let zero = SystemTime::now() - Duration::from_nanos(c.now());
    let packets =
        Packets { left, shown: 0, from, input, filter, log: 0, gathered: 0, places: Merge::default(), zero };
    Ok(Output::rows(packets, a.json()))
}
