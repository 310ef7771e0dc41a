//! Shows policers to operators, and exports their metrics.

use std::collections::HashMap;
use std::fmt::Write;

use model::cli::{Args, CliError, Output, PAGE, Rows, Table};
use model::metrics::{Kind, Lines, Metric};
use net::feature::{App, Registrar};
use net::router::Router;
use serde::Serialize;

use crate::bucket::Color;
use crate::commands::index;
use crate::node::Policing;
use crate::rate::Params;
use crate::table::Policers;

static PACKETS: Metric = Metric {
    name: "volley_policer_packets_total",
    kind: Kind::Counter,
    labels: &["policer", "color"],
    help: "Packets by the color that a policer gave them: green conform, yellow exceed, red violate. A packet that is \
           still to be segmented counts as its segments.",
};
static BYTES: Metric = Metric {
    name: "volley_policer_bytes_total",
    kind: Kind::Counter,
    labels: &["policer", "color"],
    help: "Bytes by the color that a policer gave their packets, from the Ethernet header on.",
};

/// Declares the show commands of policers, and their metrics.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.metrics(&[&PACKETS, &BYTES], collect);
    r.command(
        "show policer [{name <policer:policer> | index <index:u32>}] [verbose]",
        "Show policers: their parameters, counters by color, and interfaces. For a single policer, or with \"verbose\", also \
         show bursts, actions, the rates in tokens, and the tokens in the buckets.",
        show,
    );
}

/// Adds the metrics of a page of policers, beginning with index `first`. Returns the first index of the next
/// page; `None` at the end.
fn collect(router: &Router, first: u32, out: &mut Lines) -> Option<u32> {
    let policers = router.state::<Policers>().ok()?;
    let mut last = None;
    for index in policers.from(first).take(PAGE) {
        last = Some(index);
        let Some(name) = policers.name(index) else { continue };
        for (color, counted) in Color::ALL.into_iter().zip(policers.total(index)) {
            out.add(&PACKETS, &[name, color.name()], counted.packets);
            out.add(&BYTES, &[name, color.name()], counted.bytes);
        }
    }
    last.map(|last| last + 1)
}

fn show<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    let one = (a.has("name") || a.has("index")).then(|| index(c, a)).transpose()?;
    let headings = [
        "Policer",
        "Index",
        "Type",
        "Rate",
        "CIR",
        "EIR",
        "Conform packets",
        "bytes",
        "Exceed packets",
        "bytes",
        "Violate packets",
        "bytes",
        "Used by",
    ];
    let table = (one.is_none() && !a.has("verbose")).then(|| Table::new(&headings));
    let (next, last) = one.map_or((0, u32::MAX), |one| (one, one));
    Ok(Output::rows(Shown { users: Users::default(), next, last, table }, a.json()))
}

/// An interface that uses a policer, and the direction.
#[derive(Clone, Serialize)]
struct User {
    interface: String,
    direction: &'static str,
}

/// The action for one color, and the numbers of packets and bytes of this color.
#[derive(Serialize)]
struct Counted {
    action: String,
    packets: u64,
    bytes: u64,
}

/// A row of `show policer`. The field `rate` names the unit of the rates, and `tokens` names the unit of bursts and tokens.
#[derive(Serialize)]
struct Row {
    name: String,
    index: u32,
    #[serde(rename = "type")]
    kind: &'static str,
    color_aware: bool,
    rate: &'static str,
    /// The unit of tokens: bytes or packets.
    tokens: &'static str,
    cir: u64,
    eir: u64,
    /// The committed rate in tokens per second.
    cir_tokens_per_second: u64,
    /// The excess rate in tokens per second.
    eir_tokens_per_second: u64,
    round: &'static str,
    cb: u64,
    eb: u64,
    /// Tokens that the committed bucket holds now.
    committed_tokens: u64,
    /// Tokens that the excess bucket holds now.
    excess_tokens: u64,
    conform: Counted,
    exceed: Counted,
    violate: Counted,
    used_by: Vec<User>,
}

/// The interfaces that use each policer. They are read before the policers, page by page.
#[derive(Default)]
struct Users {
    next: u32,
    complete: bool,
    of: HashMap<u32, Vec<User>>,
}

impl Users {
    /// Reads the next page of interfaces, and adds those that use policers.
    fn look(&mut self, router: &Router) {
        let mut last = None;
        for i in router.interfaces_from(self.next).take(PAGE) {
            last = Some(i.index);
            let Policing { input, output } = router.setting(i.index);
            for (policer, direction) in [(input, "input"), (output, "output")] {
                if let Some(policer) = policer {
                    let user = User { interface: i.name.clone(), direction };
                    self.of.entry(policer).or_default().push(user);
                }
            }
        }
        self.complete = last.is_none();
        self.next = last.map_or(0, |last| last + 1);
    }
}

/// The output of `show policer` for the policers with the indexes `next` to `last`.
struct Shown {
    users: Users,
    next: u32,
    last: u32,
    /// The table to which the policers are added; `None` if each policer is shown in several lines.
    table: Option<Table>,
}

impl<C: App> Rows<C> for Shown {
    type Row = Row;

    fn next(&mut self, c: &C, page: &mut Vec<Row>) -> bool {
        let router = c.router();
        if !self.users.complete {
            self.users.look(router);
            return true;
        }
        let Ok(policers) = router.state::<Policers>() else { return false };
        let mut last = None;
        for index in policers.from(self.next).take_while(|index| *index <= self.last).take(PAGE) {
            last = Some(index);
            page.extend(row(policers, index, router.now(), self.users.of.remove(&index).unwrap_or_default()));
        }
        self.next = last.map_or(u32::MAX, |last| last.saturating_add(1));
        last.is_some()
    }

    fn text(&mut self, page: &[Row], out: &mut String) {
        let Some(table) = &mut self.table else {
            return page.iter().for_each(|row| block(row, out));
        };
        for row in page {
            let mut cells = vec![row.name.clone(), row.index.to_string(), row.kind.into(), row.rate.into()];
            // Zero means that this type of policer does not have the rate.
            let eir = if row.eir == 0 { String::new() } else { row.eir.to_string() };
            cells.extend([row.cir.to_string(), eir]);
            for counted in [&row.conform, &row.exceed, &row.violate] {
                cells.extend([counted.packets, counted.bytes].map(|n| n.to_string()));
            }
            cells.push(users(&row.used_by, SOME));
            table.row(cells);
        }
        table.flush(out);
    }
}

/// Maximum number of interfaces in a row of the table.
const SOME: usize = 4;

/// Returns a text with the first `most` interfaces, and the number of further ones.
fn users(all: &[User], most: usize) -> String {
    let user = |user: &User| format!("{} {}", user.interface, user.direction);
    let mut words: Vec<String> = all.iter().take(most).map(user).collect();
    if all.len() > most {
        words.push(format!("{} more", all.len() - most));
    }
    words.join(", ")
}

/// Returns the row of the policer at `index`; `None` if it has no name, or does not exist.
fn row(policers: &Policers, index: u32, now: u64, used_by: Vec<User>) -> Option<Row> {
    let (name, p) = policers.name(index).zip(policers.get(index))?;
    let Params { kind, unit, cir, eir, cb, eb, aware, round, .. } = *p;
    let [committed_tokens, excess_tokens] = policers.tokens(index, now)?;
    let [green, yellow, red] = policers.counted(index);
    let counted = |action: crate::Action, of: crate::table::Counted| Counted {
        action: action.to_string(),
        packets: of.packets,
        bytes: of.bytes,
    };
    Some(Row {
        name: name.into(),
        index,
        kind: kind.word(),
        color_aware: aware,
        rate: unit.word(),
        tokens: unit.tokens(),
        cir,
        eir,
        cir_tokens_per_second: p.per_second(cir),
        eir_tokens_per_second: p.per_second(eir),
        round: round.word(),
        cb,
        eb,
        committed_tokens,
        excess_tokens,
        conform: counted(p.conform, green),
        exceed: counted(p.exceed, yellow),
        violate: counted(p.violate, red),
        used_by,
    })
}

/// Writes a policer in several lines.
fn block(row: &Row, out: &mut String) {
    let Row { name, index, kind, rate, tokens, round, .. } = row;
    let aware = if row.color_aware { "color-aware" } else { "color-blind" };
    // Writing to a string cannot fail.
    let _ = writeln!(out, "policer {name} index {index}\n  type {kind}, {aware}, round {round}");
    let buckets = [
        ("cir", row.cir, row.cir_tokens_per_second, "cb", row.cb, row.committed_tokens),
        ("eir", row.eir, row.eir_tokens_per_second, "eb", row.eb, row.excess_tokens),
    ];
    for (rate_name, asked, used, burst_name, burst, left) in buckets {
        let mut parts = Vec::new();
        if asked != 0 {
            parts.push(format!("{rate_name} {asked} {rate} ({used} {tokens}/s)"));
        }
        if burst != 0 {
            parts.push(format!("{burst_name} {burst} {tokens}, {left} in the bucket"));
        }
        if !parts.is_empty() {
            let _ = writeln!(out, "  {}", parts.join(", "));
        }
    }
    for (color, Counted { action, packets, bytes }) in
        [("conform", &row.conform), ("exceed", &row.exceed), ("violate", &row.violate)]
    {
        let _ = writeln!(out, "  {color}: {action}, {packets} packets, {bytes} bytes");
    }
    let by = if row.used_by.is_empty() { "no interface".into() } else { users(&row.used_by, usize::MAX) };
    let _ = writeln!(out, "  used by {by}");
}
