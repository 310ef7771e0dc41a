//! The rates by which routers are compared: the throughput, and the conditional throughput of each goal of MLRsearch.

use super::document::found;
use super::number::runs;
use crate::campaign::{Cell, Found, Measurement, Procedure, Results, conditional, throughputs};
use crate::search::Ended;
use crate::search::mlr::MlrResult;
use crate::search::throughput::Resolution;
use crate::stats::Runs;

/// A rate of one router with one traffic and frame size.
pub struct Rated<'a> {
    /// Router, traffic and size.
    pub cell: &'a Cell,
    /// The rate in each repetition, in frames per second and direction.
    pub runs: Runs,
    /// True if the tester, not the router, may have limited the rate.
    pub limited: bool,
    /// True if the largest load was forwarded in at least half of the repetitions.
    pub all_forwarded: bool,
    /// Resolution of the search: the maximum distance between its lower and upper bound when it ends.
    pub resolution: Resolution,
}

impl Rated<'_> {
    /// Returns "the tester" or "the link's maximum rate" if this limited the rate, so that the router may forward more. `None` if the
    /// router was the limit.
    pub fn limit(&self) -> Option<&'static str> {
        match (self.limited, self.all_forwarded) {
            (true, _) => Some("the tester"),
            (false, true) => Some("the link's maximum rate"),
            (false, false) => None,
        }
    }
}

/// A kind of rate, the throughput or a goal's conditional throughput, with the results of all routers.
pub struct Rate<'a> {
    /// Name of the goal; `None` for the throughput.
    pub goal: Option<String>,
    /// The results: one for each router, traffic and frame size.
    pub all: Vec<Rated<'a>>,
}

/// Returns all rates of a campaign: the throughput, then the conditional throughput of each goal, in the goals' order.
pub fn rates(results: &Results) -> Vec<Rate<'_>> {
    let throughputs =
        found(results, Procedure::Throughput).filter_map(|(cell, m)| throughput(results, cell, m));
    let mut all = vec![Rate { goal: None, all: throughputs.collect() }];
    for (cell, m) in found(results, Procedure::NdrPdr) {
        let Found::NdrPdr(searches) = &m.found else { continue };
        for (name, rated) in goals(cell, m, searches) {
            match all.iter_mut().find(|rate| rate.goal.as_ref() == Some(&name)) {
                Some(rate) => rate.all.push(rated),
                None => all.push(Rate { goal: Some(name), all: vec![rated] }),
            }
        }
    }
    all.retain(|rate| !rate.all.is_empty());
    all
}

fn throughput<'a>(results: &Results, cell: &'a Cell, m: &Measurement) -> Option<Rated<'a>> {
    let Found::Throughput(searches) = &m.found else { return None };
    Some(Rated {
        cell,
        runs: runs(throughputs(searches))?,
        limited: m.limited_by_tester,
        all_forwarded: is_most(searches.iter().map(|search| &search.ended)),
        resolution: results.profile.resolution,
    })
}

/// Returns each goal's rate, with the goal's name.
fn goals<'a>(
    cell: &'a Cell,
    m: &'a Measurement,
    searches: &'a [MlrResult],
) -> impl Iterator<Item = (String, Rated<'a>)> {
    let goals = searches.first().map_or(&[][..], |first| &first.goals);
    goals.iter().filter_map(move |goal| {
        let name = &goal.goal.name;
        let same = searches.iter().flat_map(|search| &search.goals).filter(|found| found.goal.name == *name);
        let rated = Rated {
            cell,
            runs: runs(conditional(searches, name).flatten())?,
            limited: m.limited_by_tester,
            all_forwarded: is_most(same.map(|found| &found.ended)),
            resolution: Resolution::Relative(goal.goal.width),
        };
        Some((name.clone(), rated))
    })
}

/// True if the router forwarded the largest load in at least half of the searches. The largest load then limited the median of the
/// results.
fn is_most<'a>(ended: impl Iterator<Item = &'a Ended>) -> bool {
    let all: Vec<_> = ended.collect();
    let forwarded = all.iter().filter(|ended| ***ended == Ended::AllForwarded).count();
    forwarded > 0 && forwarded * 2 >= all.len()
}
