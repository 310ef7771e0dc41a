//! A campaign: which routers are measured, with what, and how. Read from a file, or written by `volley bench init`.

pub mod procedure;
pub mod provenance;
pub mod results;
mod run;
pub mod trial;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use run::median;
pub use run::{Cell, Latency, Results, Run, run};

use crate::dut;
use crate::search::profile::Profile;
use crate::traffic::{BUILTIN, Ends, builtin};
use wire::Mac;

/// What is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Campaign {
    /// Its name in reports.
    pub name: String,
    /// How long, and how often.
    #[serde(default)]
    pub profile: Times,
    /// Seconds that a trial sends, in place of the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_seconds: Option<f64>,
    /// Repetitions of each measurement, in place of the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<u32>,
    /// The routers, each on a testbed of its own.
    pub duts: Vec<String>,
    /// What they are measured with.
    #[serde(rename = "test")]
    pub tests: Vec<Test>,
}

/// Traffic, in some sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Test {
    /// The name of what is built in.
    pub traffic: String,
    /// Bytes with frame check sequence.
    pub sizes: Vec<usize>,
    /// Whether it is sent in both directions at once; the load is that of each.
    #[serde(default)]
    pub bidirectional: bool,
}

/// How long, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Times {
    /// Seconds: like RFC 2544, for a first look.
    #[default]
    Quick,
    /// What the RFCs ask for: hours.
    Strict,
}

/// What is wrong with a campaign, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

/// The campaign that `volley bench init` writes, with words beside each key.
pub const TEMPLATE: &str = include_str!("template.toml");

impl Campaign {
    /// Reads a campaign, and checks all that can be checked before anything is touched.
    ///
    /// # Errors
    /// With the file, and the line where the file's form is at fault.
    pub fn load(path: &Path) -> Result<Campaign, Fault> {
        let named = |e: &dyn fmt::Display| Fault(format!("{}: {e}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| named(&e))?;
        Campaign::parse(&text).map_err(|e| named(&e))
    }

    /// Reads a campaign from its text.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse(text: &str) -> Result<Campaign, Fault> {
        let campaign: Campaign = toml::from_str(text).map_err(|e| Fault(e.to_string().trim_end().into()))?;
        campaign.check()?;
        Ok(campaign)
    }

    fn check(&self) -> Result<(), Fault> {
        if self.duts.is_empty() || self.tests.is_empty() {
            return Err(Fault("a campaign needs a router (duts) and a test ([[test]])".into()));
        }
        if let Some(name) = self.duts.iter().find(|name| !dut::NAMES.contains(&name.as_str())) {
            return Err(Fault(format!(
                "duts: there is no router {name:?}: one of {}",
                dut::NAMES.join(", ")
            )));
        }
        if self.trial_seconds.is_some_and(|s| !(0.01..=86_400.0).contains(&s)) {
            return Err(Fault("trial-seconds: a trial sends for 0.01 to 86400 seconds".into()));
        }
        if self.repetitions == Some(0) {
            return Err(Fault("repetitions: one at least".into()));
        }
        let ends = Ends::rfc(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]), false);
        for (n, test) in self.tests.iter().enumerate() {
            let place = format!("test {} ({})", n + 1, test.traffic);
            if test.sizes.is_empty() {
                return Err(Fault(format!("{place}: it has no size")));
            }
            for &size in &test.sizes {
                let traffic = builtin(&test.traffic, size).ok_or_else(|| {
                    let names: Vec<_> = BUILTIN.iter().map(|(name, _)| *name).collect();
                    Fault(format!("{place}: there is no such traffic: one of {}", names.join(", ")))
                })?;
                traffic.flows(&ends).map_err(|e| Fault(format!("{place}: {e}")))?;
            }
        }
        Ok(())
    }

    /// What its procedures are run with.
    pub fn profile(&self) -> Profile {
        let mut profile = match self.profile {
            Times::Quick => Profile::quick(),
            Times::Strict => Profile::strict(),
        };
        if let Some(seconds) = self.trial_seconds {
            profile.duration = Duration::from_secs_f64(seconds);
            profile.latency.duration = profile.duration;
        }
        if let Some(n) = self.repetitions {
            (profile.repetitions, profile.latency.repetitions) = (n, n);
        }
        profile.frame_bytes = self.tests.iter().flat_map(|t| &t.sizes).map(|s| *s as u32).collect();
        profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_init_writes_is_a_campaign() -> Result<(), Fault> {
        let campaign = Campaign::parse(TEMPLATE)?;
        assert_eq!((campaign.duts.len(), campaign.tests.len()), (2, 2));
        Ok(())
    }

    #[test]
    fn faults_name_their_place_and_what_would_do() {
        let good = "name = 'a'\nduts = ['linux']\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n";
        assert!(Campaign::parse(good).is_ok());
        let cases = [
            ("duts = ['linux']", "duts = ['linux']\ncolour = 'red'", "line 3"),
            ("'rfc2544'", "'rfc2545'", "test 1 (rfc2545): there is no such traffic: one of rfc2544, "),
            ("'linux'", "'linus'", "there is no router \"linus\": one of linux, volley"),
            ("[64]", "[63]", "a frame of 63 bytes is impossible: this kind has 64 to 2116"),
            ("'rfc2544'\nsizes = [64]", "'rfc5180'\nsizes = [64]", "this kind has 84 to 2116"),
            ("[64]", "[]", "it has no size"),
            ("name = 'a'\n", "name = 'a'\nprofile = 'slow'\n", "line 2"),
            ("name = 'a'\n", "name = 'a'\ntrial-seconds = 0\n", "trial-seconds: a trial sends for 0.01 to"),
            ("name = 'a'\n", "name = 'a'\nrepetitions = 0\n", "repetitions: one at least"),
        ];
        for (from, to, why) in cases {
            let text = good.replace(from, to);
            let said = Campaign::parse(&text).map_or_else(|e| e.to_string(), |_| "nothing".into());
            assert!(said.contains(why), "{said}\nand not: {why}");
        }
    }
}
