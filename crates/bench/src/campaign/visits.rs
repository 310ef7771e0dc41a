//! The order in which routers are measured: in turns, so that a change in the machine's speed affects all routers alike.

use std::ops::RangeInclusive;

use super::{Campaign, Found, Measurement, Procedure};

/// The procedures whose repetitions alternate between the routers: searches for the rates by which routers are compared.
const IN_TURNS: [Procedure; 2] = [Procedure::Throughput, Procedure::NdrPdr];

/// The procedures to run between one start of a router and its stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// All procedures.
    All,
    /// One repetition of each procedure in [`IN_TURNS`]. The value is the number of the repetition, from 1 on.
    Round(u32),
    /// All procedures that are not in [`IN_TURNS`].
    Rest,
}

impl Visit {
    /// Returns the procedures to run.
    pub fn procedures(self, campaign: &Campaign) -> Vec<Procedure> {
        let wanted = |procedure: &Procedure| match self {
            Visit::All => true,
            Visit::Round(_) => procedure.is_search(),
            Visit::Rest => !procedure.is_search(),
        };
        campaign.procedures.iter().copied().filter(wanted).collect()
    }

    /// Returns the numbers of the repetitions to run, from 1 on. A procedure that is not in [`IN_TURNS`] runs all its repetitions at once,
    /// under the number 1.
    pub fn rounds(self, procedure: Procedure, repetitions: u32) -> RangeInclusive<u32> {
        match self {
            Visit::Round(round) => round..=round,
            Visit::All if procedure.is_search() => 1..=repetitions,
            Visit::All | Visit::Rest => 1..=1,
        }
    }

    /// Returns the number of steps in this visit. Each repetition of a procedure in [`IN_TURNS`] is a step. Any other procedure is one step
    /// with all its repetitions.
    pub fn steps(self, campaign: &Campaign, repetitions: u32) -> usize {
        self.procedures(campaign)
            .into_iter()
            .map(|procedure| self.rounds(procedure, repetitions).count())
            .sum()
    }
}

impl Procedure {
    /// True for a procedure in [`IN_TURNS`]. Each of its repetitions is run and stored separately.
    pub(super) fn is_search(self) -> bool {
        IN_TURNS.contains(&self)
    }
}

impl Measurement {
    /// Returns the number of repetitions in this measurement; always 1 for a procedure that is not in [`IN_TURNS`].
    pub(super) fn repetitions(&self) -> u32 {
        match &self.found {
            Found::Throughput(searches) => searches.len() as u32,
            Found::NdrPdr(searches) => searches.len() as u32,
            _ => 1,
        }
    }
}

impl Campaign {
    /// Returns the visits to each router; a visit lasts from a start of the router to its stop. All routers get their first visit
    /// before any router gets its second.
    pub(super) fn visits(&self, repetitions: u32) -> Vec<Visit> {
        let has_searches = self.procedures.iter().any(|procedure| procedure.is_search());
        if !self.interleave || self.duts.len() < 2 || repetitions < 2 || !has_searches {
            return vec![Visit::All];
        }
        let rest = Some(Visit::Rest).filter(|rest| !rest.procedures(self).is_empty());
        (1..=repetitions).map(Visit::Round).chain(rest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visits(keys: &str, repetitions: u32) -> Vec<Visit> {
        let text = format!("name = 'a'\n{keys}\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n");
        Campaign::parse(&text).unwrap().visits(repetitions)
    }

    #[test]
    fn repetitions_of_searches_are_separate_steps() {
        use Procedure::{Latency, NdrPdr, Throughput};
        assert_eq!(Visit::All.rounds(Throughput, 7), 1..=7);
        assert_eq!((Visit::All.rounds(Latency, 7), Visit::Rest.rounds(Latency, 7)), (1..=1, 1..=1));
        assert_eq!(Visit::Round(3).rounds(NdrPdr, 7), 3..=3);
        let text = "name = 'a'\nduts = ['linux']\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n";
        // The default procedures are throughput and latency.
        let campaign = Campaign::parse(text).unwrap();
        let steps = [Visit::All, Visit::Round(2), Visit::Rest].map(|visit| visit.steps(&campaign, 7));
        assert_eq!(steps, [8, 1, 1]);
    }

    #[test]
    fn several_routers_are_measured_in_turns() {
        let two = "duts = ['linux', 'volley']";
        assert_eq!(visits(two, 3), [Visit::Round(1), Visit::Round(2), Visit::Round(3), Visit::Rest]);
        let only = "duts = ['linux', 'volley']\nprocedures = ['throughput']";
        assert_eq!(visits(only, 2), [Visit::Round(1), Visit::Round(2)]);
        let both = format!("{two}\nprocedures = ['ndr-pdr', 'throughput']");
        assert_eq!(visits(&both, 2), [Visit::Round(1), Visit::Round(2)]);
        for keys in [
            "duts = ['linux']",
            "duts = ['linux', 'volley']\ninterleave = false",
            "duts = ['linux', 'volley']\nprocedures = ['loads']\nloads = ['1 kfps']",
        ] {
            assert_eq!(visits(keys, 3), [Visit::All], "{keys}");
        }
        assert_eq!(visits(two, 1), [Visit::All]);
    }
}
