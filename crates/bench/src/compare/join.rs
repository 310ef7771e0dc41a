//! Joins the results of several campaigns into one document, for one report.

use super::conditions::{differences, profiles};
use crate::campaign::Results;
use crate::dut::Spec;
use crate::trial::Failure;

/// Joins the results of several campaigns. A router whose name is already taken gets the campaign's name behind its own. Differences in
/// machine and conditions become conditions of the whole.
///
/// # Errors
/// Returns an error that names both campaigns if they cannot share tables: if they have different testbeds or times, or a traffic of the same
/// name and different contents. Also returns an error without any campaign.
pub fn join(all: impl IntoIterator<Item = Results>) -> Result<Results, Failure> {
    let mut all = all.into_iter();
    let mut whole = all.next().ok_or_else(|| Failure("no campaign to report".into()))?;
    let first = whole.clone();
    for next in all {
        fits(&first, &next)?;
        add(&mut whole, &first, next);
    }
    Ok(whole)
}

/// Checks that two campaigns can share tables.
fn fits(first: &Results, next: &Results) -> Result<(), Failure> {
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
    let differs = |name: &str| {
        let [own, others] =
            [one, other].map(|campaign| campaign.traffics.iter().find(|traffic| traffic.name == name));
        own.is_some() && others.is_some() && own != others
    };
    match one.traffics.iter().find(|traffic| differs(&traffic.name)) {
        Some(traffic) => refuse(format!("the traffic {} has different contents", traffic.name)),
        None => Ok(()),
    }
}

/// Adds a campaign to the whole.
fn add(whole: &mut Results, first: &Results, mut next: Results) {
    let campaign = next.campaign.name.clone();
    let differences = differences(first, &next).into_iter();
    let differences = differences.filter(|what| !what.starts_with(super::conditions::ONLY));
    whole
        .conditions
        .extend(differences.map(|what| format!("{} and {campaign}: {what}", first.campaign.name)));
    let taken: Vec<String> = whole.campaign.duts.iter().map(|dut| dut.name().to_owned()).collect();
    let rename = |name: &str| match taken.iter().any(|known| known == name) {
        true => format!("{name} ({campaign})"),
        false => name.to_owned(),
    };
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
    // Behind the text: reports recognise some conditions by their first words.
    let of = |what: String| format!("{what} ({campaign})");
    let known = |all: &[String], what: &String| all.contains(what);
    for (into, from) in [
        (&mut whole.conditions, next.conditions),
        (&mut whole.caveats, next.caveats),
        (&mut whole.failures, next.failures),
    ] {
        let new: Vec<String> = from.into_iter().filter(|what| !known(into, what)).map(of).collect();
        into.extend(new);
    }
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
        second.failures = vec!["volley: no".into()];
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
        let text = markdown(&whole);
        for needed in ["| linux (two)", "| volley", "volley: no (two)"] {
            assert!(text.contains(needed), "{needed}: {text}");
        }
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
