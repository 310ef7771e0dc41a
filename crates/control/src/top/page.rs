//! The pages: tables made from two samples.

use std::collections::{BTreeMap, HashMap};

use super::sample::{Drops, Interface, Node, Sample, Thread, Totals};
use crate::cli::quote;

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    Interfaces,
    Workers,
    Nodes,
    Drops,
}

/// All pages, in the order of their keys.
pub const PAGES: [Page; 4] = [Page::Interfaces, Page::Workers, Page::Nodes, Page::Drops];

/// A column: its title and its width.
pub struct Column {
    pub title: &'static str,
    pub width: u16,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Text(String),
    /// A number, shown by [`short`].
    Number(f64),
    /// A share of 1, shown in percent.
    Share(f64),
}

/// A row: its cells by column, and the command that shows its details.
#[derive(Clone, Debug)]
pub struct Row {
    pub cells: Vec<Cell>,
    pub detail: String,
}

const fn column(title: &'static str, width: u16) -> Column {
    Column { title, width }
}

impl Page {
    pub fn title(self) -> &'static str {
        match self {
            Page::Interfaces => "Interfaces",
            Page::Workers => "Workers",
            Page::Nodes => "Nodes",
            Page::Drops => "Drops",
        }
    }

    /// Returns the columns. The first column has the name of the row.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Page::Interfaces => {
                &const {
                    [
                        column("Interface", 24),
                        column("State", 8),
                        column("Rx pps", 9),
                        column("Rx bit/s", 9),
                        column("Tx pps", 9),
                        column("Tx bit/s", 9),
                        column("Drops/s", 9),
                        column("Rx packets", 11),
                        column("Tx packets", 11),
                        column("Drops", 9),
                    ]
                }
            }
            Page::Workers => {
                &const {
                    [
                        column("Worker", 16),
                        column("Busy", 8),
                        column("Packets/s", 10),
                        column("Packets/turn", 13),
                        column("Turns/s", 9),
                        column("Sleeps/s", 9),
                    ]
                }
            }
            Page::Nodes => {
                &const {
                    [
                        column("Node", 24),
                        column("Kind", 8),
                        column("Packets/s", 10),
                        column("Clocks/packet", 14),
                        column("Packets/call", 13),
                        column("Clocks/s", 10),
                        column("Packets", 10),
                    ]
                }
            }
            Page::Drops => {
                &const {
                    [
                        column("Node", 20),
                        column("Reason", 24),
                        column("Kind", 6),
                        column("Packets/s", 10),
                        column("Packets", 10),
                        column("What happened", 60),
                    ]
                }
            }
        }
    }

    /// Returns the column by which the page is sorted initially.
    pub fn sorted_by(self) -> usize {
        match self {
            Page::Interfaces | Page::Nodes => 2,
            Page::Workers => 1,
            Page::Drops => 3,
        }
    }

    /// Returns the rows. Without an older sample, all rates are 0, except those that the router measures.
    pub fn rows(self, now: &Sample, before: Option<&Sample>) -> Vec<Row> {
        let seconds = before.map_or(0.0, |before| now.at.duration_since(before.at).as_secs_f64());
        match self {
            Page::Interfaces => interfaces(now),
            Page::Workers => workers(now, before, seconds),
            Page::Nodes => nodes(now, before, seconds),
            Page::Drops => drops(now, before, seconds),
        }
    }
}

/// Returns the growth of a counter; 0 if it was cleared.
fn growth(now: u64, before: u64) -> f64 {
    now.saturating_sub(before) as f64
}

/// Returns `a / b`, or 0 if `b` is 0.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

fn interfaces(now: &Sample) -> Vec<Row> {
    let row = |i: &Interface| {
        let rates = i.rates.unwrap_or_default();
        Row {
            cells: vec![
                Cell::Text(i.name.clone()),
                Cell::Text(i.state().into()),
                Cell::Number(rates.rx_packets_per_second),
                Cell::Number(rates.rx_bits_per_second),
                Cell::Number(rates.tx_packets_per_second),
                Cell::Number(rates.tx_bits_per_second),
                Cell::Number(rates.drops_per_second),
                Cell::Number(i.counter("rx packets") as f64),
                Cell::Number(i.counter("tx packets") as f64),
                Cell::Number(i.counter("drops") as f64),
            ],
            detail: format!("show interface {}", quote(&i.name)),
        }
    };
    now.interfaces.iter().map(row).collect()
}

/// Returns the work of a node between two samples: calls, packets, packets in calls that were timed, and the clocks of the timed calls.
fn did(now: Totals, before: Totals) -> [f64; 4] {
    [
        growth(now.calls, before.calls),
        growth(now.packets, before.packets),
        growth(now.timed_packets, before.timed_packets),
        growth(now.clocks, before.clocks),
    ]
}

fn workers(now: &Sample, before: Option<&Sample>, seconds: f64) -> Vec<Row> {
    let nodes = before.map(Sample::nodes).unwrap_or_default();
    let row = |thread: &Thread| {
        let was = before.and_then(|b| b.threads.iter().find(|t| t.thread == thread.thread));
        let (spent, was) = (thread.since_start, was.map_or(thread.since_start, |t| t.since_start));
        let busy = (spent.busy_seconds - was.busy_seconds).max(0.0);
        let idle = (spent.idle_seconds - was.idle_seconds).max(0.0);
        let turns = growth(spent.turns, was.turns);
        // Packets received by input nodes.
        let inputs = thread.nodes.iter().filter(|n| n.state == "polling");
        let of = |n: &Node| {
            let old = nodes.get(&(&*thread.thread, &*n.name)).copied();
            did(n.since_start, old.unwrap_or(n.since_start))[1]
        };
        let packets: f64 = inputs.map(of).sum();
        Row {
            cells: vec![
                Cell::Text(thread.thread.clone()),
                Cell::Share(ratio(busy, busy + idle)),
                Cell::Number(ratio(packets, seconds)),
                Cell::Number(ratio(packets, turns)),
                Cell::Number(ratio(turns, seconds)),
                Cell::Number(ratio(growth(spent.sleeps, was.sleeps), seconds)),
            ],
            detail: "show threads".into(),
        }
    };
    now.threads.iter().map(row).collect()
}

fn nodes(now: &Sample, before: Option<&Sample>, seconds: f64) -> Vec<Row> {
    let old = before.map(Sample::nodes).unwrap_or_default();
    // The work of each node, summed over all workers.
    let mut all: BTreeMap<&str, (&str, [f64; 4], f64)> = BTreeMap::new();
    for thread in &now.threads {
        for node in &thread.nodes {
            let before = old.get(&(&*thread.thread, &*node.name)).copied().unwrap_or(node.since_start);
            let sum = all.entry(&node.name).or_insert((&node.state, [0.0; 4], 0.0));
            sum.1.iter_mut().zip(did(node.since_start, before)).for_each(|(sum, n)| *sum += n);
            sum.2 += node.since_start.packets as f64;
        }
    }
    let row = |(name, (state, [calls, packets, timed, clocks], total)): (&str, (&str, [f64; 4], f64))| {
        let each = ratio(clocks, timed);
        Row {
            cells: vec![
                Cell::Text(name.into()),
                Cell::Text(if state == "polling" { "input" } else { "" }.into()),
                Cell::Number(ratio(packets, seconds)),
                Cell::Number(each),
                Cell::Number(ratio(packets, calls)),
                Cell::Number(ratio(each * packets, seconds)),
                Cell::Number(total),
            ],
            detail: format!("show node {}", quote(name)),
        }
    };
    all.into_iter().map(row).collect()
}

fn drops(now: &Sample, before: Option<&Sample>, seconds: f64) -> Vec<Row> {
    let old: HashMap<(&str, &str), u64> =
        before.into_iter().flat_map(|b| &b.drops).map(|d| ((&*d.node, &*d.name), d.count)).collect();
    let row = |d: &Drops| {
        // A reason that is missing in the older sample had a count of 0 then.
        let was =
            if before.is_some() { old.get(&(&*d.node, &*d.name)).copied().unwrap_or(0) } else { d.count };
        let kind = if d.dropped { &*d.severity } else { "event" };
        Row {
            cells: vec![
                Cell::Text(d.node.clone()),
                Cell::Text(d.name.clone()),
                Cell::Text(kind.into()),
                Cell::Number(ratio(growth(d.count, was), seconds)),
                Cell::Number(d.count as f64),
                Cell::Text(d.reason.clone()),
            ],
            detail: format!("show node {}", quote(&d.node)),
        }
    };
    now.drops.iter().map(row).collect()
}

impl Cell {
    /// Returns the text of the cell.
    pub fn text(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(n) => short(*n),
            Cell::Share(share) => format!("{:.1} %", 100.0 * share),
        }
    }

    /// True if the cell is right-aligned.
    pub fn is_number(&self) -> bool {
        !matches!(self, Cell::Text(_))
    }

    /// Compares two cells: numbers by size, texts in alphabetical order.
    pub fn compare(&self, other: &Cell) -> std::cmp::Ordering {
        match (self, other) {
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            (Cell::Number(a) | Cell::Share(a), Cell::Number(b) | Cell::Share(b)) => a.total_cmp(b),
            (Cell::Text(_), _) => std::cmp::Ordering::Less,
            (_, Cell::Text(_)) => std::cmp::Ordering::Greater,
        }
    }
}

/// Formats a number with about three digits; from 10,000 on, in thousands (`k`), millions (`M`), and so on (`G`, `T`).
pub fn short(n: f64) -> String {
    let scale = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")];
    match scale.into_iter().find(|(least, _)| n >= *least) {
        Some((1e4, suffix)) => format!("{}{suffix}", digits(n / 1e3)),
        Some((unit, suffix)) => format!("{}{suffix}", digits(n / unit)),
        None if n == 0.0 => "0".into(),
        None => digits(n),
    }
}

fn digits(n: f64) -> String {
    match n {
        n if n >= 100.0 || n.fract() == 0.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}
