//! Outage times of routers: recovery from overload, and restarts.

use super::document::{Section, found, heads, result, title};
use super::number::{NONE, kilo, maybe, number};
use super::table::Table;
use super::throughput::some;
use crate::campaign::{Found, Procedure, Results};

/// Returns the sections with system recovery and reset.
pub fn sections(results: &Results) -> Vec<Section> {
    [recovery(results), reset(results)].into_iter().flatten().collect()
}

fn recovery(results: &Results) -> Option<Section> {
    let own = ["run#", "overload, kfps#", "then, kfps#", "recovered after, s#", "invalid trials#", ""];
    let mut table = Table::new("Recovery from overload", heads(&own));
    for (cell, m) in found(results, Procedure::Recovery) {
        let Found::Recovery(all) = &m.found else { continue };
        for (run, one) in (1..).zip(all) {
            let own = [
                format!("{run} of {}", all.len()),
                kilo(one.overload_fps),
                kilo(one.relief_fps),
                maybe(one.seconds, 3),
                one.outcomes.iter().filter(|o| !o.is_valid()).count().to_string(),
                remark(one.seconds, "did not recover: frames were lost until the end"),
            ];
            result(&mut table, &cell.key, m.limited_by_tester, own);
        }
    }
    let text = "The time from the halving of the load to the last lost frame.";
    some(title(Procedure::Recovery, "section 26.5"), text, table)
}

fn reset(results: &Results) -> Option<Section> {
    let own = ["run#", "load, kfps#", "out of service, s#", "lost, frames#", "trial", ""];
    let mut table = Table::new("Restarts", heads(&own));
    for (cell, m) in found(results, Procedure::Reset) {
        let Found::Reset(all) = &m.found else { continue };
        for (run, one) in (1..).zip(all) {
            let own = [
                format!("{run} of {}", all.len()),
                kilo(one.load_fps),
                one.seconds.map_or_else(|| NONE.into(), |s| number(s, 3)),
                one.outcome.lost().to_string(),
                if one.outcome.is_valid() { "valid".into() } else { "invalid".into() },
                remark(one.seconds, "did not come back before the trial ended"),
            ];
            result(&mut table, &cell.key, m.limited_by_tester, own);
        }
    }
    let text = "Out of service: lost frames divided by the load (RFC 6201 section 4.1).";
    some(title(Procedure::Reset, "section 26.6, RFC 6201"), text, table)
}

/// Returns the remark for a run: the text `none` if there are no `seconds`, otherwise an empty text.
fn remark(seconds: Option<f64>, none: &str) -> String {
    if seconds.is_none() { none.to_owned() } else { String::new() }
}
