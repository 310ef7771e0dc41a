//! The order in which routers are measured: in turns, so that a machine whose speed changes treats all of them alike.

use super::{Campaign, Found, Measurement, Procedure};

/// The procedures whose repetitions are measured in turns: searches of the rates by which routers are compared.
const IN_TURNS: [Procedure; 2] = [Procedure::Throughput, Procedure::NdrPdr];

/// What is measured from the start of a router to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// All procedures.
    All,
    /// One repetition of the searches of rates: its number, from 1 on.
    Round(u32),
    /// All other procedures.
    Rest,
}

impl Visit {
    /// Returns the procedures to run.
    pub fn procedures(self, campaign: &Campaign) -> Vec<Procedure> {
        let wanted = |procedure: &Procedure| match self {
            Visit::All => true,
            Visit::Round(_) => IN_TURNS.contains(procedure),
            Visit::Rest => !IN_TURNS.contains(procedure),
        };
        campaign.procedures.iter().copied().filter(wanted).collect()
    }
}

impl Visit {
    /// True if a measurement already includes this visit.
    pub fn is_done(self, found: &Measurement) -> bool {
        match (self, &found.found) {
            (Visit::Round(round), Found::Throughput(searches)) => searches.len() >= round as usize,
            (Visit::Round(round), Found::NdrPdr(searches)) => searches.len() >= round as usize,
            _ => true,
        }
    }
}

impl Campaign {
    /// Returns the visits to each router. Every router gets its first visit before any gets its second.
    pub(super) fn visits(&self, repetitions: u32) -> Vec<Visit> {
        let has_searches = self.procedures.iter().any(|procedure| IN_TURNS.contains(procedure));
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
