//! Campaigns that repeat a paper's tables. They need hardware like the authors'; [`miniature`](Campaign::miniature) turns such a campaign
//! into one that takes minutes on a laptop.

use super::{Campaign, Fault, Soak, Times, WaitsSpec};

/// A built-in campaign.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Name for `--paper`.
    pub name: &'static str,
    /// Tables and figures of the paper that the campaign repeats.
    pub what: &'static str,
    /// The campaign's TOML text.
    pub text: &'static str,
}

macro_rules! papers {
    ($($name:literal: $what:literal,)*) => {
        /// All built-in campaigns.
        pub const PAPERS: &[Paper] =
            &[$(Paper { name: $name, what: $what, text: include_str!(concat!("papers/", $name, ".toml")) }),*];
    };
}

papers! {
    "kosak-lencse-2025-ip4": "tables I, III, V, VI, IX: IPv4 throughput by number of cores",
    "kosak-lencse-2025-ip6": "tables II, IV, VII, VIII, X: IPv6 throughput by number of cores",
    "okelmann-2019-routes": "tables 6.1 (routing), 6.2, figures 6.3 to 6.5: throughput by number of routes",
    "okelmann-2019-latency": "figures 6.6, 6.7: latency by load, with 1 and with 255,000 routes",
    "slavik-2025-one-way": "tables 2.3 to 2.6: loss, latency, energy at 1 to 40 Gbit/s",
    "slavik-2025-both-ways": "tables 2.7 to 2.10: the same in both directions",
    "slavik-2025-nat": "tables 2.11 to 2.14: the same with translated addresses",
    "slavik-2025-draft": "the draft: energy at 500 Mbit/s in each direction",
}

impl Paper {
    /// Returns the campaign with this name.
    ///
    /// # Errors
    /// Returns an error with the known names if there is no such campaign.
    pub fn named(name: &str) -> Result<Paper, Fault> {
        let names = || PAPERS.iter().map(|paper| paper.name).collect::<Vec<_>>().join(", ");
        let none = || Fault(format!("unknown paper {name:?}: use one of {}", names()));
        PAPERS.iter().find(|paper| paper.name == name).copied().ok_or_else(none)
    }
}

impl Campaign {
    /// Returns this campaign with the quick profile, in place of its own profile, trial time, repetitions, resolution, waits, goals and
    /// times of `soak`.
    pub fn miniature(self) -> Campaign {
        Campaign {
            profile: Times::Quick,
            trial_seconds: None,
            repetitions: None,
            resolution: None,
            waits: WaitsSpec::default(),
            goals: Vec::new(),
            soak: Soak::default(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::profile::Profile;

    #[test]
    fn every_paper_is_a_campaign_of_its_name() {
        for paper in PAPERS {
            let campaign = Campaign::parse(paper.text).unwrap_or_else(|e| panic!("{}: {e}", paper.name));
            assert_eq!(campaign.name, paper.name);
            assert_eq!(campaign.profile, Times::Strict);
            let quick = campaign.clone().miniature();
            assert_eq!(quick.profile().resolution, Profile::quick().resolution);
            assert!(quick.profile().duration < campaign.profile().duration, "{}", paper.name);
            assert_eq!((&quick.duts, &quick.tests), (&campaign.duts, &campaign.tests));
        }
        let unknown = Paper::named("kosak").unwrap_err().to_string();
        assert!(unknown.contains("kosak-lencse-2025-ip4, "), "{unknown}");
    }
}
