//! The conclusion of a campaign in words, before anything else: which router is faster, by how much, or why nothing can be said.

use super::compare::{is_limited, measured};
use super::document::{Block, Section, traffic};
use super::number::{kilo, number};
use crate::campaign::{Cell, Found, Key, Measurement, Procedure, Results};
use crate::idle::BUSY;
use crate::search::Ended;
use crate::stats::{Bootstrap, Comparison, Effect, Runs, Terms, Verdict, Wanted, compare, fewest_runs};
use crate::store::UNFINISHED;

/// Returns the section with the conclusion; `None` for a campaign that measures no throughput.
pub fn section(results: &Results) -> Option<Section> {
    if !results.campaign.procedures.contains(&Procedure::Throughput) {
        return None;
    }
    let all = measured(results);
    let of_case = |key: &Key| Key { dut: String::new(), ..key.clone() };
    let mut cases: Vec<Key> = Vec::new();
    for cell in &results.cells {
        let case = of_case(&cell.key);
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    let mut lines = Vec::new();
    for case in &cases {
        let own: Vec<_> = all.iter().filter(|(cell, _)| of_case(&cell.key) == *case).collect();
        for (at, new) in own.iter().enumerate() {
            lines.extend(own[..at].iter().map(|base| sentence(results, new, base)));
        }
        if let [(cell, runs)] = own[..] {
            lines.push(alone(cell, runs));
        }
        for spec in &results.campaign.duts {
            if !own.iter().any(|(cell, _)| cell.key.dut == spec.name()) {
                let name = spec.name();
                lines.push(format!("{}: nothing can be said of {name}: it has no throughput.", place(case)));
            }
        }
    }
    if lines.is_empty() {
        lines.push(
            "Nothing can be said: no router was measured. See what could not be measured, below.".into(),
        );
    }
    let mut blocks = vec![Block::List(lines)];
    blocks.extend(doubts(results).map(Block::Text));
    Some(Section { head: "Conclusion".into(), blocks })
}

/// Returns the traffic and frame size in words, such as "rfc2544, 64 bytes".
fn place(case: &Key) -> String {
    format!("{}, {} bytes", traffic(case), case.size)
}

/// Returns what limited a throughput besides the router: the router may do more.
fn limit(cell: &Cell) -> Option<&'static str> {
    let is_bound = |m: &Measurement| match &m.found {
        Found::Throughput(searches) => {
            let ended = searches.iter().filter(|search| search.ended == Ended::AllForwarded).count();
            // Then the median is of such a search.
            ended * 2 >= searches.len() && ended > 0
        }
        _ => false,
    };
    if is_limited(cell) {
        Some("the tester")
    } else {
        cell.found(Procedure::Throughput).is_some_and(is_bound).then_some("the largest load of the link")
    }
}

/// Returns the sentence about the only router with this traffic and frame size.
fn alone(cell: &Cell, runs: &Runs) -> String {
    let more = limit(cell).map_or_else(String::new, |what| format!(" or more: {what} limited it"));
    format!(
        "{}: {} forwards {} kfps without loss{more}.",
        place(&cell.key),
        cell.key.dut,
        kilo(runs.median())
    )
}

/// Returns the sentence that compares two routers.
fn sentence(results: &Results, new: &(&Cell, Runs), base: &(&Cell, Runs)) -> String {
    let [(a, a_runs), (b, b_runs)] = [new, base];
    let (place, a_name, b_name) = (place(&a.key), &a.key.dut, &b.key.dut);
    let rates = format!("{} and {} kfps", kilo(a_runs.median()), kilo(b_runs.median()));
    let nothing =
        |why: &str| format!("{place}: nothing can be said of {a_name} and {b_name} ({rates}): {why}.");
    let limits = [limit(a), limit(b)];
    if let [Some(what), Some(other)] = limits {
        let what = if what == other { what.to_owned() } else { format!("{what} or {other}") };
        return nothing(&format!("{what} limited both"));
    }
    let base_fps = b_runs.median();
    if base_fps <= 0.0 || a_runs.median() <= 0.0 {
        return nothing("one of them forwards nothing without loss");
    }
    let resolution = results.profile.resolution.of(base_fps) / base_fps;
    let terms = Terms { wanted: Wanted::High, effect: Effect::Ratio, resolution };
    let bootstrap = Bootstrap::default();
    let needed = fewest_runs(bootstrap.level);
    let fewest = a_runs.len().min(b_runs.len());
    if fewest < needed {
        return nothing(&format!("{fewest} valid repetitions are too few, {needed} are needed"));
    }
    let Comparison { effect, verdict, .. } = match compare(a_runs, b_runs, terms, &bootstrap) {
        Ok(found) => found,
        Err(e) => return nothing(&e.to_string()),
    };
    let (fast, slow, times, low, high) = match verdict {
        Verdict::Better => (a_name, b_name, effect.estimate, effect.low, effect.high),
        Verdict::Worse => (b_name, a_name, 1.0 / effect.estimate, 1.0 / effect.high, 1.0 / effect.low),
        Verdict::NoDifference => {
            return match limits {
                [Some(what), None] => nothing(&format!("{what} limited {a_name}, which may do more")),
                [None, Some(what)] => nothing(&format!("{what} limited {b_name}, which may do more")),
                _ => format!(
                    "{place}: no difference was found between {a_name} and {b_name} ({rates}): the first is {} to {} times as fast \
                     (95 % confidence).",
                    number(effect.low, 3),
                    number(effect.high, 3)
                ),
            };
        }
    };
    // Small differences need more digits.
    let digits = if times < 1.1 { 3 } else { 2 };
    let times = number(times, digits);
    match (limits, verdict) {
        ([None, None], _) => format!(
            "{place}: {fast} is {times} times as fast as {slow} ({} to {}, 95 % confidence; {rates}).",
            number(low, digits),
            number(high, digits)
        ),
        // The faster one may do more. The interval does not describe a bound.
        ([Some(what), None], Verdict::Better) | ([None, Some(what)], Verdict::Worse) => {
            format!(
                "{place}: {fast} is at least {times} times as fast as {slow} ({rates}): {what} limited it."
            )
        }
        ([Some(what), _], _) => nothing(&format!("{what} limited {a_name}, which may do more")),
        ([_, Some(what)], _) => nothing(&format!("{what} limited {b_name}, which may do more")),
    }
}

/// Returns what makes the conclusion doubtful.
fn doubts(results: &Results) -> Option<String> {
    let all: Vec<_> = results.cells.iter().flat_map(|cell| &cell.measurements).collect();
    let repeated: u64 = all.iter().map(|m| m.repeated).sum();
    let limited = all.iter().filter(|m| m.limited_by_tester).count();
    let of_all = |c: &&String| c.starts_with(BUSY) || *c == UNFINISHED;
    let mut doubts: Vec<String> = results.conditions.iter().filter(of_all).cloned().collect();
    if repeated > 0 {
        doubts.push(format!("{repeated} invalid trials had to be repeated."));
    }
    if limited > 0 {
        doubts.push(format!("The tester limited {limited} of {} results (†).", all.len()));
    }
    (!doubts.is_empty()).then(|| doubts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::super::markdown::markdown;
    use crate::campaign::{Found, Results};

    /// Returns results with these throughputs of two routers, of which the tester limited none.
    fn two(linux: &[f64], volley: &[f64]) -> Results {
        let mut all = fixture::results(&[1e3], &["linux", "volley"], 1, "x");
        all.cells.retain(|cell| cell.key.size == 64);
        for (cell, fps) in all.cells.iter_mut().zip([linux, volley]) {
            for m in &mut cell.measurements {
                m.limited_by_tester = false;
                if let Found::Throughput(searches) = &mut m.found {
                    let one = searches[0].clone();
                    let with = |fps: &f64| {
                        let mut one = one.clone();
                        one.throughput_fps = Some(*fps);
                        one.ended = crate::search::Ended::Found;
                        one
                    };
                    *searches = fps.iter().map(with).collect();
                }
            }
        }
        all
    }

    #[test]
    fn the_faster_router_is_named_with_an_interval() {
        let steady = |fps: f64| [1.0, 0.999, 1.001, 1.0, 0.998, 1.002, 1.0].map(|f| f * fps);
        let text = |a: f64, b: f64| markdown(&two(&steady(a), &steady(b)));
        let line = "64 bytes: volley is 1.50 times as fast as linux (1.50 to 1.50, 95 % confidence; 1500.0 and 1000.0 kfps).";
        assert!(text(1e6, 1.5e6).contains(line), "{}", text(1e6, 1.5e6));
        assert!(text(1.5e6, 1e6).contains("linux is 1.50 times as fast as volley"), "{}", text(1.5e6, 1e6));
        assert!(text(1e6, 1.001e6).contains("no difference was found between volley and linux"));
        let few = markdown(&two(&[1e6], &[2e6]));
        assert!(few.contains("1 valid repetitions are too few, 6 are needed"), "{few}");
        assert!(markdown(&two(&[0.0; 7], &[2e6; 7])).contains("one of them forwards nothing without loss"));
    }

    #[test]
    fn a_limited_router_is_never_called_equal_or_slower() {
        let mut all = two(&[1e6; 7], &[1e6; 7]);
        let bound = |all: &mut Results, at: usize| {
            for m in &mut all.cells[at].measurements {
                if let Found::Throughput(searches) = &mut m.found {
                    searches.iter_mut().for_each(|search| search.ended = crate::search::Ended::AllForwarded);
                }
            }
        };
        bound(&mut all, 0);
        let said = markdown(&all);
        assert!(said.contains("the largest load of the link limited linux, which may do more"), "{said}");
        bound(&mut all, 1);
        let said = markdown(&all);
        assert!(said.contains("the largest load of the link limited both"), "{said}");
        let mut all = two(&[2e6; 7], &[1e6; 7]);
        bound(&mut all, 0);
        let said = markdown(&all);
        assert!(said.contains("linux is at least 2.00 times as fast as volley"), "{said}");
        let mut all = two(&[1e6; 7], &[2e6; 7]);
        bound(&mut all, 0);
        assert!(markdown(&all).contains("limited linux, which may do more"));
    }

    #[test]
    fn a_router_without_a_result_is_named() {
        let mut all = two(&[1e6; 7], &[2e6; 7]);
        all.campaign.duts =
            ["linux", "volley"].map(|name| serde_json::from_str(&format!("\"{name}\"")).unwrap()).into();
        all.cells.remove(1);
        let said = markdown(&all);
        assert!(said.contains("nothing can be said of volley: it has no throughput"), "{said}");
        assert!(said.contains("linux forwards 1000.0 kfps without loss"), "{said}");
    }

    #[test]
    fn the_conclusion_comes_first_and_names_its_doubts() {
        let all = fixture::results(&[1e3], &["linux", "volley"], 1, "x");
        let text = markdown(&all);
        let first = text.lines().find(|line| line.starts_with("## ")).expect("a section");
        assert_eq!(first, "## Conclusion");
        assert!(text.contains("the tester limited both"), "{text}");
        assert!(text.contains("invalid trials had to be repeated"), "{text}");
        let mut all = all;
        let why = [
            crate::store::UNFINISHED,
            "The machine was not idle when it began",
            "The machine was not idle later",
        ];
        all.conditions = why.map(str::to_owned).into();
        let said = markdown(&all);
        let conclusion = said.split("## ").nth(1).expect("a section");
        assert!(why.iter().all(|why| conclusion.contains(why)), "{conclusion}");
    }
}
