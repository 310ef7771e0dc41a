//! The conclusion of a campaign in words, before anything else: which router is faster, by how much, or why nothing can be said.

use super::compare::{is_limited, measured};
use super::document::{Block, Section, traffic};
use super::number::{kilo, number};
use crate::campaign::{Cell, Key, Procedure, Results};
use crate::stats::{Bootstrap, Comparison, Effect, Runs, Terms, Verdict, Wanted, compare, fewest_runs};

/// Returns the section with the conclusion; `None` for a campaign that measures no throughput.
pub fn section(results: &Results) -> Option<Section> {
    if !results.campaign.procedures.contains(&Procedure::Throughput) {
        return None;
    }
    let all = measured(results);
    let mut lines: Vec<String> = Vec::new();
    for (at, (new, new_runs)) in all.iter().enumerate() {
        let same = |(old, _): &&(&Cell, Runs)| Key { dut: new.key.dut.clone(), ..old.key.clone() } == new.key;
        for (base, base_runs) in all[..at].iter().filter(same) {
            lines.push(sentence(results, (new, new_runs), (base, base_runs)));
        }
    }
    if lines.is_empty() {
        lines.extend(all.iter().map(|(cell, runs)| alone(cell, runs)));
    }
    if lines.is_empty() {
        lines.push(
            "Nothing can be said: no router has a throughput. See what could not be measured, below.".into(),
        );
    }
    let mut blocks = vec![Block::List(lines)];
    blocks.extend(doubts(results).map(Block::Text));
    Some(Section { head: "Conclusion".into(), blocks })
}

/// Returns the place of a comparison, such as "rfc2544, 64 bytes".
fn place(cell: &Cell) -> String {
    format!("{}, {} bytes", traffic(&cell.key), cell.key.size)
}

/// Returns the sentence about the only router with this traffic and frame size.
fn alone(cell: &Cell, runs: &Runs) -> String {
    let limit = if is_limited(cell) { " or more: the tester limited it" } else { "" };
    format!("{}: {} forwards {} kfps without loss{limit}.", place(cell), cell.key.dut, kilo(runs.median()))
}

/// Returns the sentence that compares two routers.
fn sentence(results: &Results, new: (&Cell, &Runs), base: (&Cell, &Runs)) -> String {
    let [(a, a_runs), (b, b_runs)] = [new, base];
    let (place, a_name, b_name) = (place(a), &a.key.dut, &b.key.dut);
    let rates = format!("{} and {} kfps", kilo(a_runs.median()), kilo(b_runs.median()));
    let nothing =
        |why: &str| format!("{place}: nothing can be said of {a_name} and {b_name} ({rates}): {why}.");
    match [is_limited(a), is_limited(b)] {
        [true, true] => return nothing("the tester limited both"),
        [false, true] if a_runs.median() >= b_runs.median() => {
            return nothing(&format!("the tester limited {b_name}, which may do more"));
        }
        [true, false] if b_runs.median() >= a_runs.median() => {
            return nothing(&format!("the tester limited {a_name}, which may do more"));
        }
        _ => {}
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
    let found = match compare(a_runs, b_runs, terms, &bootstrap) {
        Ok(found) => found,
        Err(e) => return nothing(&e.to_string()),
    };
    let limited = is_limited(a) || is_limited(b);
    match found.verdict {
        Verdict::Better => faster(
            &place,
            [a_name, b_name],
            &found,
            [1.0, found.effect.low, found.effect.high],
            limited,
            &rates,
        ),
        Verdict::Worse => {
            let Comparison { effect, .. } = found;
            faster(
                &place,
                [b_name, a_name],
                &found,
                [-1.0, 1.0 / effect.high, 1.0 / effect.low],
                limited,
                &rates,
            )
        }
        Verdict::NoDifference => format!(
            "{place}: no difference was found between {a_name} and {b_name} ({rates}): the first is {} to {} times as fast \
             (95 % confidence).",
            number(found.effect.low, 3),
            number(found.effect.high, 3)
        ),
    }
}

/// Returns the sentence for a router that is faster than the other; `sign` is negative if the effect is that of the slower one.
fn faster(
    place: &str,
    [fast, slow]: [&str; 2],
    found: &Comparison,
    [sign, low, high]: [f64; 3],
    limited: bool,
    rates: &str,
) -> String {
    let times = if sign < 0.0 { 1.0 / found.effect.estimate } else { found.effect.estimate };
    let least = if limited { "at least " } else { "" };
    format!(
        "{place}: {fast} is {least}{} times as fast as {slow} ({} to {}, 95 % confidence; {rates}).",
        number(times, 2),
        number(low, 2),
        number(high, 2)
    )
}

/// Returns what makes the conclusion doubtful.
fn doubts(results: &Results) -> Option<String> {
    let all: Vec<_> = results.cells.iter().flat_map(|cell| &cell.measurements).collect();
    let repeated: u64 = all.iter().map(|m| m.repeated).sum();
    let limited = all.iter().filter(|m| m.limited_by_tester).count();
    let busy = results.conditions.iter().find(|c| c.starts_with(super::BUSY));
    let mut doubts = Vec::new();
    doubts.extend(busy.cloned());
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
    fn the_conclusion_comes_first_and_names_its_doubts() {
        let all = fixture::results(&[1e3], &["linux", "volley"], 1, "x");
        let text = markdown(&all);
        let first = text.lines().find(|line| line.starts_with("## ")).expect("a section");
        assert_eq!(first, "## Conclusion");
        assert!(text.contains("the tester limited both"), "{text}");
        assert!(text.contains("invalid trials had to be repeated"), "{text}");
    }
}
