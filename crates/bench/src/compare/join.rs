//! Joins the results of several campaigns into one document, for one report.

use super::conditions::{differences, profiles};
use crate::campaign::Results;
use crate::dut::Spec;
use crate::trial::Failure;

/// Joins the results of several campaigns. A router whose name is already taken gets the campaign's name appended to its own name.
/// Differences in machine and conditions become conditions of the joined results.
///
/// # Errors
/// Returns an error that names both campaigns if they cannot share tables: if they have different testbeds or times, or traffic with the
/// same name but different contents. Also returns an error if `all` is empty.
pub fn join(all: impl IntoIterator<Item = Results>) -> Result<Results, Failure> {
    let mut all = all.into_iter();
    let mut whole = all.next().ok_or_else(|| Failure("no campaign to report".into()))?;
    let first = whole.clone();
    let mut labels = vec![first.campaign.name.clone()];
    for next in all {
        fits(&first, &whole, &next)?;
        if whole.parts.is_empty() {
            whole.parts = first.parts_as(&labels[0]);
        }
        // Several runs of one campaign have the same name, so each gets a label of its own.
        let label = free(&next.campaign.name, &labels);
        labels.push(label.clone());
        add(&mut whole, &first, next, &label);
    }
    Ok(whole)
}

/// Returns `name` if it is not in `taken`, otherwise `name` with the lowest number, from 2 on, that makes it unique.
fn free(name: &str, taken: &[String]) -> String {
    let numbered = (2..).map(|n| format!("{name} {n}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}

/// Checks that the report tables of `next` can be joined with those of the first campaign, and of the others joined so far.
fn fits(first: &Results, whole: &Results, next: &Results) -> Result<(), Failure> {
    let (one, other) = (&first.campaign, &next.campaign);
    let refuse = |why: String| {
        Err(Failure(format!("cannot join the campaigns {} and {}: {why}", one.name, other.name)))
    };
    if one.testbed.kind != other.testbed.kind {
        let [a, b] = [one, other].map(|campaign| campaign.testbed.kind.name());
        return refuse(format!("different testbeds, {a} and {b}"));
    }
    let times = profiles(&first.profile, &next.profile);
    if !times.is_empty() {
        return refuse(times.join("; "));
    }
    let known = &whole.campaign.traffics;
    match other.traffics.iter().find(|own| known.iter().any(|known| known.name == own.name && known != *own))
    {
        Some(traffic) => refuse(format!("the traffic {} has different contents", traffic.name)),
        None => Ok(()),
    }
}

/// Adds a campaign to the joined results, where it is called `campaign`.
fn add(whole: &mut Results, first: &Results, mut next: Results, campaign: &str) {
    let differences = differences(first, &next).into_iter();
    let differences = differences.filter(|what| !what.starts_with(super::conditions::ONLY));
    whole
        .conditions
        .extend(differences.map(|what| format!("{} and {campaign}: {what}", first.campaign.name)));
    let taken: Vec<String> = whole.campaign.duts.iter().map(|dut| dut.name().to_owned()).collect();
    let rename = |name: &str| match taken.iter().any(|known| known == name) {
        true => free(&format!("{name} ({campaign})"), &taken),
        false => name.to_owned(),
    };
    for mut part in next.parts_as(campaign) {
        part.routers.iter_mut().for_each(|router| *router = rename(router));
        whole.parts.push(part);
    }
    let own: Vec<String> = next.campaign.duts.iter().map(|spec| spec.name().to_owned()).collect();
    let duts = next.campaign.duts.iter().map(|spec| Spec::named(spec, rename(spec.name())));
    whole.campaign.duts.extend(duts);
    next.duts.iter_mut().for_each(|facts| facts.name = rename(&facts.name));
    next.cells.iter_mut().for_each(|cell| cell.key.dut = rename(&cell.key.dut));
    whole.duts.extend(next.duts);
    whole.cells.extend(next.cells);
    for traffic in next.campaign.traffics {
        if !whole.campaign.traffics.iter().any(|known| known.name == traffic.name) {
            whole.campaign.traffics.push(traffic);
        }
    }
    for test in next.campaign.tests {
        if !whole.campaign.tests.contains(&test) {
            whole.campaign.tests.push(test);
        }
    }
    for procedure in next.campaign.procedures {
        if !whole.campaign.procedures.contains(&procedure) {
            whole.campaign.procedures.push(procedure);
        }
    }
    whole.campaign.published |= next.campaign.published;
    // The text of a failure may begin with the router's name.
    let renamed = |why: String| {
        let begins = |name: &&String| {
            why.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with([':', ',', ' ']))
        };
        match own.iter().filter(begins).max_by_key(|name| name.len()) {
            Some(name) => rename(name) + &why[name.len()..],
            None => why,
        }
    };
    // The campaign's name follows the text, because reports recognize some conditions by their first words.
    let of = |what: String| format!("{what} ({campaign})");
    // A condition that all campaigns share is listed once. Each failure and caveat gets the name of its campaign.
    let new = next.conditions.into_iter().filter(|what| !whole.conditions.contains(what)).map(of);
    let new: Vec<String> = new.collect();
    whole.conditions.extend(new);
    whole.caveats.extend(next.caveats.into_iter().map(of));
    whole.failures.extend(next.failures.into_iter().map(renamed).map(of));
    whole.campaign.name = format!("{}, {campaign}", whole.campaign.name);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::report::markdown;

    fn campaign(name: &str, routers: &[&str]) -> Results {
        let mut all = fixture::results(&[1e3, 2e5, 3e4, 5.0], routers, 7, name);
        all.campaign.duts = routers.iter().map(|name| fixture::router(name, 1)).collect();
        all
    }

    #[test]
    fn campaigns_share_the_tables_of_one_report() -> Result<(), Failure> {
        let (first, mut second) = (campaign("one", &["linux"]), campaign("two", &["linux", "volley"]));
        second.failures = vec![
            "volley: no".into(),
            "linux: it does not start".into(),
            "linux, rfc2544, 64 bytes: lost".into(),
        ];
        second.provenance.facts.push(("kernel".into(), "6.1".into()));
        let whole = join([first, second])?;
        let names: Vec<_> = whole.campaign.duts.iter().map(Spec::name).collect();
        assert_eq!(names, ["linux", "linux (two)", "volley"]);
        assert_eq!((whole.cells.len(), whole.campaign.name.as_str()), (6, "one, two"));
        assert!(
            whole.conditions.iter().any(|c| c == "one and two: kernel: unknown, and 6.1"),
            "{:?}",
            whole.conditions
        );
        // A single campaign has no parts.
        assert!(join([campaign("one", &["linux"])])?.parts.is_empty());
        // Runs of one campaign have the same name.
        let again = || campaign("one", &["linux"]);
        let runs = join([again(), again(), again()])?;
        let names: Vec<_> = runs.campaign.duts.iter().map(Spec::name).collect();
        assert_eq!(names, ["linux", "linux (one 2)", "linux (one 3)"]);
        let text = markdown(&whole);
        for needed in [
            "| linux (two)",
            "| volley",
            "volley: no (two)",
            "linux (two): it does not start (two)",
            "linux (two), rfc2544, 64 bytes: lost (two)",
        ] {
            assert!(text.contains(needed), "{needed}: {text}");
        }
        Ok(())
    }

    #[test]
    fn the_conclusion_says_what_separate_campaigns_mean() -> Result<(), Failure> {
        let said = |change: fn(&mut Results)| {
            let mut second = campaign("two", &["volley"]);
            second.provenance = campaign("one", &["linux"]).provenance;
            second.provenance.begun = "2026-02-02T00:00:00Z".into();
            change(&mut second);
            let text = markdown(&join([campaign("one", &["linux"]), second])?);
            Ok::<_, Failure>(text.split("\n## ").nth(1).unwrap_or_default().to_owned())
        };
        let same = said(|_| ())?;
        for needed in [
            "The routers are of separate campaigns: one (linux, now) and two (volley, 2026-02-02T00:00:00Z).",
            "They were not measured in turns",
        ] {
            assert!(same.contains(needed), "{needed}: {same}");
        }
        assert!(!same.contains("cannot be compared"), "{same}");
        // Another build of the tester does not count as another machine.
        let build = said(|second| second.provenance.facts.push(("tester".into(), "volley bench 9".into())))?;
        assert!(!build.contains("cannot be compared"), "{build}");
        let other = said(|second| second.provenance.facts.push(("kernel".into(), "6.1".into())))?;
        for needed in [
            "The machines of one and two differ (kernel: unknown, and 6.1): their routers cannot be compared.",
            "no conclusion about volley and linux (",
            "they were measured on different machines",
        ] {
            assert!(other.contains(needed), "{needed}: {other}");
        }
        Ok(())
    }

    #[test]
    fn a_case_that_only_one_campaign_has_is_explained() -> Result<(), Failure> {
        let (mut first, mut second) = (campaign("one", &["linux"]), campaign("two", &["volley"]));
        first.campaign.tests[0].bidirectional = true;
        first.campaign.tests[0].sizes = vec![64, 1518];
        second.campaign.tests[0].bidirectional = true;
        second.cells.retain(|cell| cell.key.size == 64);
        let text = markdown(&join([first.clone(), second.clone()])?);
        let lacks = "1518 bytes: volley was not measured: its campaign two has no such test.";
        assert!(text.contains(lacks), "{text}");
        assert!(!text.contains("64 bytes: volley was not measured"), "{text}");
        for results in [&mut first, &mut second] {
            results.campaign.procedures = vec![crate::campaign::Procedure::Throughput];
        }
        second.campaign.procedures = vec![crate::campaign::Procedure::Latency];
        second.cells.iter_mut().for_each(|cell| cell.measurements.clear());
        let text = markdown(&join([first, second])?);
        let lacks = "64 bytes: volley has no throughput: its campaign two did not measure it.";
        assert!(text.contains(lacks), "{text}");
        Ok(())
    }

    #[test]
    fn campaigns_that_cannot_share_tables_are_refused() {
        let said = |change: fn(&mut Results)| {
            let mut other = campaign("two", &["linux"]);
            change(&mut other);
            join([campaign("one", &["linux"]), other]).map_or_else(|e| e.0, |_| "nothing".into())
        };
        assert_eq!(said(|_| ()), "nothing");
        let why = said(|other| other.campaign.testbed.kind = crate::testbed::Kind::Tap);
        assert_eq!(why, "cannot join the campaigns one and two: different testbeds, veth and tap");
        let why = said(|other| other.profile.repetitions = 99);
        assert!(why.contains("one and two: profile, repetitions: ") && why.contains(" and 99"), "{why}");
        assert!(join([]).is_err());
    }
}
