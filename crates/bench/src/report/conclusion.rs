//! The conclusion of a campaign in words, at the top of the report: which router is faster and by how much, or why there is no
//! conclusion.

use super::document::{Block, Section, traffic};
use super::number::{kilo, number};
use super::rates::{Rate, Rated, rates};
use crate::campaign::{Key, OVER, Part, Procedure, Results};
use crate::dut::Spec;
use crate::idle::BUSY;
use crate::stats::{Bootstrap, Comparison, Effect, Terms, Verdict, Wanted, compare, fewest_runs};
use crate::store::UNFINISHED;

/// The procedures that measure rates by which routers are compared.
const SEARCHES: [Procedure; 2] = [Procedure::Throughput, Procedure::NdrPdr];

/// Returns the section with the conclusion; `None` for a campaign that measures no rate by which routers are compared.
pub fn section(results: &Results) -> Option<Section> {
    let wanted = |procedure| results.campaign.procedures.contains(&procedure);
    let searched = SEARCHES.map(wanted);
    if searched == [false, false] {
        return None;
    }
    let of_case = |key: &Key| Key { dut: String::new(), ..key.clone() };
    let mut cases: Vec<Key> = Vec::new();
    for cell in &results.cells {
        let case = of_case(&cell.key);
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    let all = rates(results);
    let mut lines = Vec::new();
    for case in &cases {
        let mut measured: Vec<&str> = Vec::new();
        for Rate { goal, all } in &all {
            let own: Vec<_> = all.iter().filter(|rated| of_case(&rated.cell.key) == *case).collect();
            let place = place(case, goal.as_deref());
            for (at, new) in own.iter().enumerate() {
                lines.extend(own[..at].iter().map(|base| sentence(results, &place, new, base)));
            }
            if let [rated] = own[..] {
                lines.push(alone(&place, goal.is_some(), rated));
            }
            measured.extend(own.iter().map(|rated| rated.cell.key.dut.as_str()));
        }
        let what = if searched[0] { "throughput" } else { "result" };
        let missing = results.campaign.duts.iter().map(Spec::name).filter(|name| !measured.contains(name));
        lines.extend(
            missing.map(|name| format!("{}: {}", place(case, None), lacks(results, case, name, what))),
        );
    }
    if lines.is_empty() {
        lines.push(
            "No conclusion: no router was measured. \"What could not be measured\" below has the reasons."
                .into(),
        );
    }
    let mut blocks: Vec<Block> = separate(&results.parts).map(Block::Text).into_iter().collect();
    blocks.push(Block::List(lines));
    blocks.extend(doubts(results).map(Block::Text));
    Some(Section::new("Conclusion", blocks))
}

/// Returns a caveat if the routers were measured in separate campaigns: a change of the machine's speed in between may favor some
/// routers. `None` if all results are of one campaign.
fn separate(parts: &[Part]) -> Option<String> {
    let [first, .., last] = parts else { return None };
    let of = |part: &Part| {
        let begun = Some(&part.provenance.begun).filter(|begun| !begun.is_empty());
        let what: Vec<&str> = part.routers.iter().chain(begun).map(String::as_str).collect();
        format!("{} ({})", part.name, what.join(", "))
    };
    let others: Vec<String> = parts[..parts.len() - 1].iter().map(of).collect();
    let mut text = format!(
        "The routers are of separate campaigns: {} and {}. They were not measured in turns: if the machine's speed changed between \
         the campaigns, this has favored some routers, and the intervals do not include the effect.",
        others.join(", "),
        of(last)
    );
    for part in &parts[1..] {
        let differences = first.provenance.machine_differences(&part.provenance);
        if !differences.is_empty() {
            text += &format!(
                " The machines of {} and {} differ ({}): their routers cannot be compared.",
                first.name,
                part.name,
                differences.join("; ")
            );
        }
    }
    Some(text)
}

/// Returns the campaign of a router in joined results; `None` if the results are of a single campaign.
fn part<'a>(results: &'a Results, router: &str) -> Option<&'a Part> {
    results.parts.iter().find(|part| part.routers.iter().any(|name| name == router))
}

/// Returns why the results have no rate for this router, traffic and frame size, as a sentence of the report.
fn lacks(results: &Results, case: &Key, name: &str, what: &str) -> String {
    match part(results, name) {
        Some(part) if !part.cases.contains(case) => {
            format!("{name} was not measured: its campaign {} has no such test.", part.name)
        }
        Some(part) if !SEARCHES.iter().any(|procedure| part.procedures.contains(procedure)) => {
            format!("{name} has no {what}: its campaign {} did not measure it.", part.name)
        }
        _ if results.duts.iter().any(|dut| dut.name == name) => {
            format!("no conclusion about {name}: it has no {what}.")
        }
        _ if results.failures.iter().any(|why| is_of(why, name)) => {
            format!(
                "no conclusion about {name}: it did not start. \"What could not be measured\" below has the reason."
            )
        }
        _ => format!("no conclusion about {name}: it was not started before the campaign ended."),
    }
}

/// True if the text of a failure states that this router did not start: the router's name, followed by a colon, begins the text or follows
/// another colon.
fn is_of(failure: &str, router: &str) -> bool {
    failure.starts_with(&format!("{router}: ")) || failure.contains(&format!(": {router}: "))
}

/// Returns the traffic, frame size and goal in words, such as "rfc2544, 64 bytes, NDR".
fn place(case: &Key, goal: Option<&str>) -> String {
    let goal = goal.map_or_else(String::new, |goal| format!(", {goal}"));
    format!("{}, {} bytes{goal}", traffic(case), case.size)
}

/// Returns the sentence about the only router with this rate.
fn alone(place: &str, is_goal: bool, rated: &Rated<'_>) -> String {
    let more = rated.limit().map_or_else(String::new, |what| format!(" or more: {what} limited it"));
    // Goals allow loss.
    let how = if is_goal { "at the lower bound" } else { "without loss" };
    let (name, fps) = (&rated.cell.key.dut, kilo(rated.runs.median()));
    format!("{place}: {name} forwards {fps} kfps {how}{more}.")
}

/// Returns the sentence that compares two routers.
fn sentence(results: &Results, place: &str, new: &Rated<'_>, base: &Rated<'_>) -> String {
    let [(a_runs, a_name), (b_runs, b_name)] =
        [(&new.runs, &new.cell.key.dut), (&base.runs, &base.cell.key.dut)];
    let rates = format!("{} and {} kfps", kilo(a_runs.median()), kilo(b_runs.median()));
    let nothing = |why: &str| format!("{place}: no conclusion about {a_name} and {b_name} ({rates}): {why}.");
    if let [Some(one), Some(other)] = [a_name, b_name].map(|name| part(results, name))
        && !one.provenance.machine_differences(&other.provenance).is_empty()
    {
        return nothing("they were measured on different machines");
    }
    let limits = [new.limit(), base.limit()];
    if let [Some(what), Some(other)] = limits {
        let what = if what == other { what.to_owned() } else { format!("{what} or {other}") };
        return nothing(&format!("{what} limited both"));
    }
    let base_fps = b_runs.median();
    if base_fps <= 0.0 || a_runs.median() <= 0.0 {
        return nothing("one of the two rates is 0");
    }
    let resolution = base.resolution.of(base_fps) / base_fps;
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
        // The tester or the link limited the faster router, so the ratio is a lower bound, and has no interval.
        ([Some(what), None], Verdict::Better) | ([None, Some(what)], Verdict::Worse) => {
            format!(
                "{place}: {fast} is at least {times} times as fast as {slow} ({rates}): {what} limited {fast}."
            )
        }
        ([Some(what), _], _) => nothing(&format!("{what} limited {a_name}, which may do more")),
        ([_, Some(what)], _) => nothing(&format!("{what} limited {b_name}, which may do more")),
    }
}

/// Returns the reasons to doubt the conclusion, as sentences; `None` if there are none.
fn doubts(results: &Results) -> Option<String> {
    let all: Vec<_> = results.cells.iter().flat_map(|cell| &cell.measurements).collect();
    let repeated: u64 = all.iter().map(|m| m.repeated).sum();
    let limited = all.iter().filter(|m| m.limited_by_tester).count();
    let of_all = |c: &&String| c.starts_with(BUSY) || c.starts_with(UNFINISHED);
    let mut doubts: Vec<String> = results.conditions.iter().filter(of_all).cloned().collect();
    doubts.extend(results.failures.iter().filter(|why| why.starts_with(OVER)).map(|why| format!("{why}.")));
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
    use crate::campaign::{Found, Procedure, Results};

    /// Returns results with these throughputs of two routers, neither of which the tester limited.
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
        assert!(markdown(&two(&[0.0; 7], &[2e6; 7])).contains("one of the two rates is 0"));
    }

    #[test]
    fn routers_are_compared_by_each_goal() {
        let mut all = two(&[1e6; 7], &[1e6; 7]);
        all.campaign.procedures = vec![Procedure::NdrPdr];
        for (cell, by) in all.cells.iter_mut().zip([1.0, 2.0]) {
            cell.measurements.retain(|m| matches!(m.found, Found::NdrPdr(_)));
            let Found::NdrPdr(searches) = &mut cell.measurements[0].found else { panic!() };
            let one = searches[0].clone();
            *searches = [1.0, 1.001, 0.999, 1.0, 1.002, 0.998, 1.0]
                .map(|f| {
                    let mut one = one.clone();
                    let mut pdr = one.goals[0].clone();
                    pdr.goal.name = "PDR".into();
                    one.goals.push(pdr);
                    for (goal, fps) in one.goals.iter_mut().zip([1e6 * f * by, 1.5e6 * f]) {
                        (goal.conditional_fps, goal.ended) = (Some(fps), crate::search::Ended::Found);
                    }
                    one
                })
                .into();
        }
        let text = markdown(&all);
        let faster = "64 bytes, NDR: volley is 2.00 times as fast as linux (2.00 to 2.00, 95 % confidence; 2000.0 and 1000.0 kfps)";
        assert!(text.contains(faster), "{text}");
        assert!(text.contains("64 bytes, PDR: no difference was found between volley and linux"), "{text}");
        let ratios = text.split("## Comparison of routers").nth(1).unwrap_or_default();
        assert!(ratios.contains("| NDR ") && ratios.contains("| 7 and 7 "), "{ratios}");
        // One router alone is described, not compared.
        all.cells.truncate(1);
        let text = markdown(&all);
        assert!(text.contains("64 bytes, PDR: linux forwards 1500.0 kfps at the lower bound."), "{text}");
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
        assert!(said.contains("the link's maximum rate limited linux, which may do more"), "{said}");
        bound(&mut all, 1);
        let said = markdown(&all);
        assert!(said.contains("the link's maximum rate limited both"), "{said}");
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
        assert!(said.contains("no conclusion about volley: it has no throughput"), "{said}");
        assert!(said.contains("linux forwards 1000.0 kfps without loss"), "{said}");
        all.duts.remove(1);
        assert!(markdown(&all).contains("about volley: it was not started before the campaign ended"));
        all.failures = vec!["volley: the program ended at once".into()];
        assert!(markdown(&all).contains("no conclusion about volley: it did not start"));
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
