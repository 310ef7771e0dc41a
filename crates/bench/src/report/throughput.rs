//! Forwarding rates: throughput, and MLRsearch's non-drop and partial-drop rates.

use super::document::{Block, Section, found, heads, result, title};
use super::figures;
use super::number::{NONE, interval, kilo, maybe, median, percent, range, runs, summary};
use super::table::Table;
use crate::campaign::{Found, Procedure, Results, conditional, throughputs};
use crate::search::Ended;
use crate::search::mlr::{Goal, MlrResult};
use crate::stats::Summary;

/// Returns the sections with throughput, and with non-drop and partial-drop rates.
pub fn sections(results: &Results) -> Vec<Section> {
    [throughput(results), goals(results)].into_iter().flatten().collect()
}

fn throughput(results: &Results) -> Option<Section> {
    let own = [
        "median, kfps#",
        "min, kfps#",
        "max, kfps#",
        "dispersion, %#",
        "95 % confidence interval of the median, kfps",
        "of the link, %#",
        "runs#",
        "without result#",
        "trials#",
        "invalid#",
        "",
    ];
    let mut table = Table::new("Throughput, in each direction", heads(&own));
    for (cell, m) in found(results, Procedure::Throughput) {
        let Found::Throughput(searches) = &m.found else { continue };
        let decided = runs(throughputs(searches));
        let of = decided.as_ref().map(Summary::of);
        let figure = |f: fn(&Summary) -> f64| of.as_ref().map_or_else(|| NONE.into(), |s| kilo(f(s)));
        let none = searches.len() - decided.as_ref().map_or(0, |d| d.len());
        let count = |f: fn(&crate::search::Tally) -> u32| {
            searches.iter().map(|s| u64::from(f(&s.tally))).sum::<u64>().to_string()
        };
        let own = [
            figure(|s| s.median),
            figure(|s| s.minimum),
            figure(|s| s.maximum),
            maybe(of.as_ref().and_then(|s| s.dispersion_percent), 2),
            range(decided.as_ref().and_then(interval), kilo),
            of.as_ref().map_or_else(|| NONE.into(), |s| percent(s.median / cell.link_fps)),
            searches.len().to_string(),
            none.to_string(),
            count(|t| t.trials),
            count(|t| t.invalid),
            remarks(searches.iter().map(|s| &s.ended)),
        ];
        result(&mut table, &cell.key, m.limited_by_tester, own);
    }
    let text = "The largest load that was forwarded without loss. The interval is by bootstrap and needs six runs. Dispersion is (max − \
                min) / median. A run in which every load had loss counts as 0. A run without a result is only counted; no figure includes \
                it.";
    let section = some(title(Procedure::Throughput, "section 26.1"), text, table);
    section.map(|s| s.with(spread(results)).with(figures::throughput(results)))
}

/// Returns a table with further statistics over the runs, if there are several.
fn spread(results: &Results) -> Option<Block> {
    let own = ["mean, kfps#", "standard deviation, kfps#", "1 %, kfps#", "99 %, kfps#", "runs#"];
    let mut table = Table::new("Over the runs (percentiles by nearest rank)", heads(&own));
    for (cell, m) in found(results, Procedure::Throughput) {
        let Found::Throughput(searches) = &m.found else { continue };
        let Some(of) = summary(throughputs(searches)).filter(|of| of.runs > 1) else { continue };
        let deviation = of.standard_deviation.map_or_else(|| NONE.into(), kilo);
        let own = [kilo(of.mean), deviation, kilo(of.p1), kilo(of.p99), of.runs.to_string()];
        result(&mut table, &cell.key, m.limited_by_tester, own);
    }
    (!table.rows().is_empty()).then_some(Block::Table(table))
}

fn goals(results: &Results) -> Option<Section> {
    let own = [
        "goal",
        "loss ratio, %#",
        "conditional throughput, median, kfps#",
        "min to max, kfps",
        "95 % confidence interval of the median, kfps",
        "bounds, kfps",
        "runs#",
        "without result#",
        "trials#",
        "invalid#",
        "",
    ];
    let mut table = Table::new("Goals, in each direction (bounds: medians of the runs)", heads(&own));
    for (cell, m) in found(results, Procedure::NdrPdr) {
        let Found::NdrPdr(searches) = &m.found else { continue };
        for goal in searches.first().map_or(&[][..], |first| &first.goals) {
            result(&mut table, &cell.key, m.limited_by_tester, goal_row(searches, &goal.goal));
        }
    }
    let text = "The conditional throughput is the rate forwarded at the lower bound. The interval is by bootstrap and needs six runs. A \
                run in which the smallest load failed a goal counts as 0. One search serves all goals, which share its trials.";
    some(title(Procedure::NdrPdr, "MLRsearch, RFC 9971"), text, table)
}

/// Returns the fields of a goal's row.
fn goal_row(searches: &[MlrResult], goal: &Goal) -> Vec<String> {
    let of = || searches.iter().flat_map(|search| &search.goals).filter(|found| found.goal.name == goal.name);
    let rates = runs(conditional(searches, &goal.name).flatten());
    let [lower, upper] = [median(of().filter_map(|g| g.lower_fps)), median(of().filter_map(|g| g.upper_fps))];
    let bound = |fps: Option<f64>| fps.map_or_else(|| NONE.into(), kilo);
    let count = |f: fn(&crate::search::Tally) -> u32| {
        searches.iter().map(|s| u64::from(f(&s.tally))).sum::<u64>().to_string()
    };
    let unproved = of().any(|g| g.upper_unproved).then(|| "upper bound rests on invalid trials".to_owned());
    let ended = Some(remarks(of().map(|g| &g.ended))).filter(|said| !said.is_empty());
    let said: Vec<String> = unproved.into_iter().chain(ended).collect();
    vec![
        goal.name.clone(),
        percent(goal.loss_ratio),
        rates.as_ref().map_or_else(|| NONE.into(), |runs| kilo(runs.median())),
        range(rates.as_ref().map(|runs| (runs.minimum(), runs.maximum())), kilo),
        range(rates.as_ref().and_then(interval), kilo),
        format!("{} and {}", bound(lower), bound(upper)),
        searches.len().to_string(),
        (searches.len() - rates.as_ref().map_or(0, |runs| runs.len())).to_string(),
        count(|t| t.trials),
        count(|t| t.invalid),
        said.join("; "),
    ]
}

/// Makes a section with a table; `None` if the table is empty.
pub fn some(head: String, text: &str, table: Table) -> Option<Section> {
    (!table.rows().is_empty()).then(|| Section::table(head, text, table))
}

/// Returns remarks on the searches that ended without a result between two bounds. Each different remark is listed once.
pub fn remarks<'a>(ended: impl IntoIterator<Item = &'a Ended>) -> String {
    let mut all: Vec<String> = Vec::new();
    for end in ended {
        let said = match end {
            Ended::Found => continue,
            Ended::AllForwarded => "no limit found: the largest load was forwarded".into(),
            Ended::NothingForwarded => "the smallest load was not forwarded".into(),
            Ended::OutOfBudget => "ended early: the budget of trials or time is spent".into(),
            Ended::Failed(why) => format!("failed: {why}"),
        };
        if !all.contains(&said) {
            all.push(said);
        }
    }
    all.join("; ")
}
