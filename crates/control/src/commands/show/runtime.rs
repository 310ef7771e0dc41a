//! The graph: work and drops of nodes, and their edges.

use std::fmt::Write;

use graph::{Blueprint, Severity};
use serde::Serialize;

use crate::app::{Context, Output};
use crate::cli::{Args, CliError, Registry, Table};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "show runtime [{max | verbose | summary | time}]",
        "Show the calls and packets of each node, by thread. \"max\" shows the slowest timed call of each node, \"verbose\" also \
         idle nodes, \"summary\" only the sums, \"time\" seconds instead of clocks.",
        runtime,
    );
    for words in ["show errors", "show node counters"] {
        r.add(
            &format!("{words} [all/verbose]"),
            "Show drops and events by node and reason; \"all\" includes counters that are 0.",
            errors,
        );
    }
    for words in ["show node", "show vlib graph"] {
        r.add(
            &format!("{words} [<node:node>]"),
            "Show the nodes, or one with its edges and drop reasons.",
            node,
        );
    }
    r.add("clear runtime", "Reset the run-time statistics.", |c, _| {
        c.system.router.graph().stats().clear_runtime();
        super::none()
    })
    .for_operators();
    for noun in ["errors", "node counters"] {
        r.add(&format!("clear {noun}"), "Reset the drop counters.", |c, _| {
            c.system.router.graph().stats().clear_errors();
            super::none()
        })
        .for_operators();
    }
}

#[derive(Serialize)]
struct Thread {
    thread: String,
    since_start: Spent,
    nodes: Vec<Node>,
}

/// How a worker spent its time since the start of the router. Not reset by clear commands.
#[derive(Serialize)]
struct Spent {
    turns: u64,
    busy_seconds: f64,
    idle_seconds: f64,
    sleeps: u64,
}

/// The work of a node since the start of the router. Not reset by clear commands.
#[derive(Serialize)]
struct Totals {
    calls: u64,
    packets: u64,
    timed_packets: u64,
    /// TSC clocks that the timed calls took. Workers time only some calls; `timed_packets` counts the packets of these calls.
    clocks: u64,
}

#[derive(Serialize)]
struct Node {
    name: &'static str,
    state: &'static str,
    calls: u64,
    packets: u64,
    clocks_per_packet: f64,
    packets_per_call: f64,
    slowest_clocks: u64,
    slowest_packets: u64,
    since_start: Totals,
}

/// Which table to show; an option of the command selects it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    Plain,
    Max,
    Verbose,
    Summary,
    Time,
}

impl View {
    fn of(a: &Args) -> View {
        let words = [
            ("max", View::Max),
            ("verbose", View::Verbose),
            ("summary", View::Summary),
            ("time", View::Time),
        ];
        words.into_iter().find(|(word, _)| a.has(word)).map_or(View::Plain, |(_, view)| view)
    }

    /// Returns the table of a thread's nodes.
    fn text(self, nodes: &[Node], tsc_hz: f64) -> String {
        if self == View::Summary {
            let (calls, packets) = nodes.iter().fold((0, 0), |(c, p), n| (c + n.calls, p + n.packets));
            return format!("{} nodes were active, {calls} calls, {packets} vectors\n", nodes.len());
        }
        let columns: Vec<&str> = match self {
            View::Max => COLUMNS[1].into(),
            View::Time => COLUMNS[0].iter().map(|c| if *c == "Clocks" { "Time" } else { c }).collect(),
            _ => COLUMNS[0].into(),
        };
        let mut t = Table::new(&columns);
        let clock = if self == View::Time { 1.0 / tsc_hz } else { 1.0 };
        nodes.iter().for_each(|n| t.row(n.row(self == View::Max, clock)));
        t.to_string()
    }
}

impl Node {
    /// Returns the cells of a row in the order of VPP's table. `max` selects the columns of `show runtime max`. `clock` is the factor from
    /// clocks to the table's unit: 1, or the seconds per clock. The column `Suspends` is always 0, because a worker's nodes never suspend.
    /// It exists for scripts that read cells by position.
    fn row(&self, max: bool, clock: f64) -> Vec<String> {
        let mut row =
            vec![self.name.into(), self.state.into(), self.calls.to_string(), self.packets.to_string()];
        let average =
            [format!("{:.2e}", self.clocks_per_packet * clock), format!("{:.2}", self.packets_per_call)];
        if max {
            let each = self.slowest_clocks as f64 / self.slowest_packets.max(1) as f64;
            let worst =
                [self.slowest_clocks.to_string(), self.slowest_packets.to_string(), format!("{each:.2e}")];
            row.extend(worst);
        } else {
            row.push("0".into());
        }
        row.extend(average);
        row
    }
}

/// Columns of `show runtime`, and of `show runtime max`.
const COLUMNS: [&[&str]; 2] = [
    &["Name", "State", "Calls", "Vectors", "Suspends", "Clocks", "Vectors/Call"],
    &[
        "Name",
        "State",
        "Calls",
        "Vectors",
        "Max Node Clocks",
        "Vectors at Max",
        "Max Clocks",
        "Avg Clocks",
        "Avg Vectors/Call",
    ],
];

fn runtime(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let graph = c.system.router.graph();
    let view = View::of(a);
    let mut text = String::new();
    let mut threads = Vec::new();
    for w in 0..c.system.router.workers() {
        let inputs = graph.nodes().iter().map(|n| n.input);
        let did = graph.stats().runtime(Some(w)).into_iter().zip(graph.stats().node_totals(w));
        let nodes: Vec<Node> = did
            .zip(inputs)
            .filter(|((n, _), _)| n.calls > 0 || view == View::Verbose)
            .map(|((n, all), input)| Node {
                name: n.name,
                state: if input { "polling" } else { "active" },
                calls: n.calls,
                packets: n.packets,
                clocks_per_packet: n.clocks_per_packet,
                packets_per_call: n.packets_per_call(),
                slowest_clocks: n.slowest_clocks,
                slowest_packets: n.slowest_packets,
                since_start: Totals {
                    calls: all.calls,
                    packets: all.packets,
                    timed_packets: all.timed_packets,
                    clocks: all.clocks,
                },
            })
            .collect();
        let spent = graph.stats().worker_totals(w);
        let since_start = Spent {
            turns: spent.turns,
            busy_seconds: spent.busy_ns as f64 / 1e9,
            idle_seconds: spent.idle_ns as f64 / 1e9,
            sleeps: spent.sleeps,
        };
        let thread = Thread { thread: format!("volley_wk_{w}"), since_start, nodes };
        let shown = view.text(&thread.nodes, c.clock.tsc_hz());
        let _ = write!(text, "Thread {} {}\n{shown}---------------\n", w + 1, thread.thread);
        threads.push(thread);
    }
    Ok(Output::show(&threads, text))
}

#[derive(Serialize)]
struct Dropped {
    count: u64,
    node: &'static str,
    name: &'static str,
    reason: &'static str,
    severity: &'static str,
    /// True for dropped packets; false for ignored packets and other events.
    dropped: bool,
}

fn severity(s: Severity) -> &'static str {
    match s {
        Severity::Info => "info",
        Severity::Warn => "warn",
        Severity::Error => "error",
    }
}

fn errors(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let every = a.has("all");
    let dropped = c.system.router.graph().stats().dropped();
    let all: Vec<Dropped> = dropped
        .into_iter()
        .filter(|d| every || d.packets > 0)
        .map(|d| Dropped {
            count: d.packets,
            node: d.node,
            name: d.reason.name,
            reason: d.reason.text,
            severity: severity(d.reason.severity),
            dropped: d.reason.drops,
        })
        .collect();
    let mut t = Table::new(&["Count", "Node", "Reason", "Kind", "Severity", "What happened"]);
    for d in &all {
        let kind = if d.dropped { "drop" } else { "event" };
        let words = [d.node, d.name, kind, d.severity, d.reason].map(str::to_string);
        t.row([vec![d.count.to_string()], words.to_vec()].concat());
    }
    Ok(Output::show(&all, t.to_string()))
}

#[derive(Serialize)]
struct NodeInfo {
    index: usize,
    name: &'static str,
    kind: &'static str,
    next: Vec<String>,
    previous: Vec<&'static str>,
    reasons: Vec<(&'static str, &'static str)>,
}

fn info(graph: &Blueprint, index: usize) -> NodeInfo {
    let n = &graph.nodes()[index];
    let leads_here = |m: &&graph::NodeInfo| m.leads_to(index);
    NodeInfo {
        index,
        name: n.name,
        kind: if n.input { "input" } else { "internal" },
        next: n.edges.clone(),
        previous: graph.nodes().iter().filter(leads_here).map(|m| m.name).collect(),
        reasons: n.reasons.iter().map(|r| (r.name, r.text)).collect(),
    }
}

fn node(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let graph = c.system.router.graph();
    let all: Vec<NodeInfo> = (0..graph.nodes().len()).map(|i| info(graph, i)).collect();
    let Some(name) = a.get::<String>("node") else {
        let mut t = Table::new(&["Idx", "Name", "Type", "Next nodes"]);
        for n in &all {
            t.row(vec![n.index.to_string(), n.name.into(), n.kind.into(), n.next.join(" ")]);
        }
        return Ok(Output::show(&all, t.to_string()));
    };
    let Some(n) = all.into_iter().find(|n| n.name == name) else {
        return Err(CliError::new(format!("there is no node {name}")));
    };
    let mut text = format!("node {}, type {}, index {}\n  next nodes:\n", n.name, n.kind, n.index);
    n.next.iter().for_each(|e| text += &format!("    {e}\n"));
    text += "  previous nodes:\n";
    n.previous.iter().for_each(|e| text += &format!("    {e}\n"));
    text += "  drop reasons:\n";
    n.reasons.iter().for_each(|(name, what)| text += &format!("    {name}: {what}\n"));
    Ok(Output::show(&n, text))
}
