//! Results of stateful routers: connection rate, capacity and tear-down.

use super::document::{Section, found, heads, keyed, result, title};
use super::number::{NONE, interval, maybe, median, number, range, runs};
use super::table::Table;
use super::throughput::some;
use crate::campaign::{Found, Procedure, Results, Teardown, throughputs};
use crate::search::Ended;
use crate::stats::Summary;

/// Returns the sections with establishment rate, capacity and tear-down rate.
pub fn sections(results: &Results) -> Vec<Section> {
    [rate(results), capacity(results), teardown(results)].into_iter().flatten().collect()
}

fn rate(results: &Results) -> Option<Section> {
    let own = [
        "median, connections/s#",
        "min#",
        "max#",
        "95 % confidence interval of the median",
        "runs#",
        "attempts#",
        "invalid#",
        "",
    ];
    let mut table = Table::new("Connections established", heads(&own));
    for (cell, m) in found(results, Procedure::SessionRate) {
        let Found::SessionRate(all) = &m.found else { continue };
        let searches: Vec<_> = all.iter().map(|found| found.search.clone()).collect();
        let decided = runs(throughputs(&searches));
        let of = decided.as_ref().map(Summary::of);
        let figure = |f: fn(&Summary) -> f64| maybe(of.as_ref().map(f), 0);
        let attempts = || all.iter().flat_map(|found| &found.attempts);
        let own = [
            figure(|s| s.median),
            figure(|s| s.minimum),
            figure(|s| s.maximum),
            range(decided.as_ref().and_then(interval), |cps| number(cps, 0)),
            all.len().to_string(),
            attempts().count().to_string(),
            attempts().filter(|a| !a.invalid.is_empty()).count().to_string(),
            remarks(all.iter().map(|found| &found.search.ended), "rate"),
        ];
        result(&mut table, &cell.key, m.limited_by_tester, own);
    }
    let text = "The largest rate at which the router established all connections and kept them. There are as many new connections as the \
                test has sessions, each with its own four-tuple. Afterwards the responder sends a frame on each connection, at half the \
                rate, and all must arrive. The router's table is emptied before each attempt.";
    some(title(Procedure::SessionRate, "RFC 9693 sections 4.5 and 4.6"), text, table)
}

fn capacity(results: &Results) -> Option<Section> {
    let own = [
        "median, connections#",
        "min#",
        "max#",
        "too many#",
        "the router's own count#",
        "runs#",
        "attempts#",
        "invalid#",
        "",
    ];
    let mut table = Table::new("Concurrent connections", heads(&own));
    for (cell, m) in found(results, Procedure::SessionCapacity) {
        let Found::SessionCapacity(all) = &m.found else { continue };
        let of = runs(all.iter().map(|found| found.connections.unwrap_or(0) as f64));
        let of = of.as_ref().map(Summary::of);
        let figure = |f: fn(&Summary) -> f64| maybe(of.as_ref().map(f), 0);
        let attempts = || all.iter().flat_map(|found| &found.attempts);
        let upper = median(all.iter().filter_map(|found| found.upper).map(|n| n as f64));
        // The router's own count, from the largest successful attempt.
        let held = attempts().filter(|a| a.holds()).max_by_key(|a| a.connections);
        let own = [
            figure(|s| s.median),
            figure(|s| s.minimum),
            figure(|s| s.maximum),
            maybe(upper, 0),
            held.and_then(|a| a.counted).map_or_else(|| NONE.into(), |n| n.to_string()),
            all.len().to_string(),
            attempts().count().to_string(),
            attempts().filter(|a| !a.invalid.is_empty()).count().to_string(),
            remarks(all.iter().map(|found| &found.ended), "number"),
        ];
        result(&mut table, &cell.key, m.limited_by_tester, own);
    }
    let text = "The largest number of concurrent connections, found by doubling and bisection. A number that \
                fails at half the maximum establishment rate is tried again at a quarter. If this fails, too, the number is too large. \
                RFC 9693 instead searches the maximum rate of each number.";
    some(title(Procedure::SessionCapacity, "RFC 9693 section 4.9"), text, table)
}

fn teardown(results: &Results) -> Option<Section> {
    let own = ["run#", "connections#", "deleted in, ms#", "empty table, ms#", "connections/s#", "left over#"];
    let mut table = Table::new("Connections deleted", heads(&own));
    for (cell, m) in found(results, Procedure::SessionTeardown) {
        let Found::SessionTeardown(all) = &m.found else { continue };
        for (run, one) in (1..).zip(all) {
            let own = [
                format!("{run} of {}", all.len()),
                one.filled.connections.to_string(),
                number(one.seconds * 1e3, 2),
                number(one.empty_seconds * 1e3, 2),
                maybe(Teardown::per_second(one), 0),
                one.left.map_or_else(|| NONE.into(), |n| n.to_string()),
            ];
            table.row(keyed(&cell.key, own));
        }
    }
    let text = "The duration of the command that deletes the whole table. The rate does not include the overhead, which is the duration on an \
                empty table. If no rate is shown, the duration was not longer than the overhead, and the test needs more sessions.";
    some(title(Procedure::SessionTeardown, "RFC 9693 section 4.8"), text, table)
}

/// Returns remarks on the searches that ended without a result between two bounds. Each different remark is listed once. `what` names the
/// quantity searched for.
fn remarks<'a>(ended: impl Iterator<Item = &'a Ended>, what: &str) -> String {
    let mut all: Vec<String> = Vec::new();
    for end in ended {
        let said = match end {
            Ended::Found => continue,
            Ended::AllForwarded => format!("no limit found: the largest {what} tried succeeded"),
            Ended::NothingForwarded => format!("the smallest {what} tried failed"),
            Ended::OutOfBudget => "ended early: the budget of trials or time is spent".into(),
            Ended::Failed(why) => format!("failed: {why}"),
        };
        if !all.contains(&said) {
            all.push(said);
        }
    }
    all.join("; ")
}
