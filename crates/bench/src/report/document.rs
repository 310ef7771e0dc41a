//! The contents of a report, independent of its output format.

use super::plot::Plot;
use super::table::Table;
use super::{
    compare, conclusion, delays, loss, models, outage, published, sessions, setup, sweep, throughput, usage,
};
use crate::campaign::{Cell, Found, Key, Measurement, Procedure, Results};
use crate::dut::Spec;
use crate::testbed::Kind;

/// A section of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// The heading.
    pub head: String,
    /// The contents, in order.
    pub blocks: Vec<Block>,
    /// True if a page shows the contents only to readers who open the section.
    pub folded: bool,
}

/// A piece of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A list.
    List(Vec<String>),
    /// A table.
    Table(Table),
    /// A plot of data from a table in the same section. Not shown in a terminal.
    Plot(Plot),
}

impl Section {
    /// Makes a section with these contents.
    pub fn new(head: impl Into<String>, blocks: Vec<Block>) -> Section {
        Section { head: head.into(), blocks, folded: false }
    }

    /// Makes a section with a paragraph and a table.
    pub fn table(head: impl Into<String>, text: impl Into<String>, table: Table) -> Section {
        Section::new(head, vec![Block::Text(text.into()), Block::Table(table)])
    }

    /// Appends blocks, such as plots.
    pub fn with(mut self, plots: impl IntoIterator<Item = Block>) -> Section {
        self.blocks.extend(plots);
        self
    }
}

/// Returns all non-empty sections of a report, in order.
pub fn sections(results: &Results) -> Vec<Section> {
    let mut all: Vec<Section> = conclusion::section(results).into_iter().collect();
    all.extend(setup::sections(results));
    all.extend(throughput::sections(results));
    all.extend(compare::sections(results));
    all.extend(sweep::sections(results));
    all.extend(delays::sections(results));
    all.extend(loss::sections(results));
    all.extend(outage::sections(results));
    all.extend(sessions::sections(results));
    all.extend(usage::sections(results));
    all.extend(models::sections(results));
    if results.campaign.published {
        all.extend(published::sections(results));
    }
    all.extend(setup::notes(results));
    all.retain(|section| !section.blocks.is_empty());
    if results.campaign.testbed.kind != Kind::Physical {
        all.iter_mut().flat_map(|section| &mut section.blocks).for_each(mark_virtual);
    }
    all
}

/// Adds "on virtual links" to the caption of a results table, because readers may skip the conditions.
fn mark_virtual(block: &mut Block) {
    if let Block::Table(table) = block
        && table.columns.first().is_some_and(|column| column.head == KEY[0])
    {
        table.caption.push_str(", on virtual links");
    }
}

/// Returns all cells, each with the measurements of one router with one traffic and frame size. Cells with the same traffic and
/// frame size follow each other, so that tables show their routers one below the other.
pub fn cells(results: &Results) -> Vec<&Cell> {
    let same = |a: &Key, b: &Key| Key { dut: a.dut.clone(), ..b.clone() } == *a;
    let mut all: Vec<&Cell> = results.cells.iter().collect();
    all.sort_by_key(|cell| results.cells.iter().position(|first| same(&cell.key, &first.key)));
    all
}

/// Returns all measurements made by a procedure, each with its cell (router, traffic and frame size).
pub fn found(results: &Results, procedure: Procedure) -> impl Iterator<Item = (&Cell, &Measurement)> {
    cells(results).into_iter().flat_map(move |cell| {
        let by = move |m: &&Measurement| m.found.procedure() == procedure;
        cell.measurements.iter().filter(by).map(move |m| (cell, m))
    })
}

/// Returns the campaign's spec of the router with this name; `None` if there is no such router.
pub fn router<'a>(results: &'a Results, name: &str) -> Option<&'a Spec> {
    results.campaign.duts.iter().find(|spec| spec.name() == name)
}

/// The first columns of a results table: traffic, bytes, router.
pub const KEY: [&str; 3] = ["traffic", "bytes#", "router"];

/// Returns the column heads of a results table: [`KEY`], then `own`.
pub fn heads<'a>(own: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    KEY.into_iter().chain(own.iter().copied())
}

/// Returns the fields of a row in a results table: those of [`KEY`], then `own`.
pub fn keyed(key: &Key, own: impl IntoIterator<Item = String>) -> impl Iterator<Item = String> {
    [traffic(key), key.size.to_string(), key.dut.clone()].into_iter().chain(own)
}

/// Returns the traffic in words.
pub fn traffic(key: &Key) -> String {
    let ways = if key.bidirectional { ", both directions" } else { "" };
    format!("{}{ways}", key.label())
}

/// Adds a row to a results table, with a mark if the tester may have limited the result.
pub fn result(table: &mut Table, key: &Key, limited: bool, own: impl IntoIterator<Item = String>) {
    let key = Key { dut: marked(table, &key.dut, limited), ..key.clone() };
    table.row(keyed(&key, own));
}

/// Returns a router's name for a table. If `limited`, appends † to the name and sets the table's note.
pub fn marked(table: &mut Table, dut: &str, limited: bool) -> String {
    if !limited {
        return dut.into();
    }
    table.note = "†: limited by the tester. The router may do more than that, and lose less.";
    format!("{dut}\u{a0}†")
}

/// Returns the heading of a procedure's section: the procedure's name, and `rest` in parentheses. If `rest` begins with "section", it is a
/// section of RFC 2544, and "RFC 2544-like" precedes it.
pub fn title(found: Procedure, rest: &str) -> String {
    let name = match found {
        Procedure::Throughput => "Throughput",
        Procedure::Latency => "Latency",
        Procedure::Variation => "Delay variation",
        Procedure::LossRate => "Frame loss rate",
        Procedure::BackToBack => "Back-to-back frames",
        Procedure::NdrPdr => "Non-drop and partial-drop rates",
        Procedure::MaximumReceiveRate => "Maximum receive rate",
        Procedure::Loads => "Given loads",
        Procedure::Soak => "Soak",
        Procedure::Recovery => "System recovery",
        Procedure::Reset => "Reset",
        Procedure::SessionRate => "Maximum connection establishment rate",
        Procedure::SessionCapacity => "Connection tracking table capacity",
        Procedure::SessionTeardown => "Connection tear-down rate",
        Procedure::SelfTest | Procedure::WarmUp => found.name(),
    };
    match rest.starts_with("section") {
        // Each campaign differs from RFC 2544 in some way; its conditions list how.
        true => format!("{name} (RFC 2544-like {rest})"),
        false => format!("{name} ({rest})"),
    }
}

/// Returns the trials stored in a result. Some results store none.
pub fn trials(found: &Found) -> Vec<&crate::trial::Outcome> {
    match found {
        Found::Throughput(searches) => searches.iter().flat_map(|s| &s.outcomes).collect(),
        Found::Latency(all) | Found::Variation(all) | Found::Loads(all) => {
            all.iter().flat_map(|at| &at.runs).map(|run| &run.outcome).collect()
        }
        Found::LossRate(result) => result.points.iter().map(|p| &p.outcome).collect(),
        Found::MaximumReceiveRate(result) | Found::Soak(result) => {
            result.points.iter().flat_map(|p| &p.outcomes).collect()
        }
        Found::Recovery(all) => all.iter().flat_map(|r| &r.outcomes).collect(),
        Found::Reset(all) => all.iter().map(|r| &r.outcome).collect(),
        Found::SessionRate(all) => all.iter().flat_map(|s| &s.search.outcomes).collect(),
        Found::BackToBack(_) | Found::NdrPdr(_) | Found::SessionCapacity(_) | Found::SessionTeardown(_) => {
            Vec::new()
        }
    }
}
