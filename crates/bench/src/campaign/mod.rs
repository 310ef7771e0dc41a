//! A campaign: which routers are measured, with what, and how. Read from a file, or written by `volley bench init`.

mod asked;
mod case;
mod check;
mod check_traffic;
mod connected;
mod deviations;
mod goal;
mod keeper;
mod load;
mod papers;
mod place;
mod procedure;
mod procedures;
mod provenance;
mod recorded;
mod results;
mod run;
mod seconds;
mod trial;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use asked::Asked;
pub use goal::GoalSpec;
pub use keeper::{Keeper, Nothing};
pub use load::Load;
pub use papers::{PAPERS, Paper};
pub use procedure::Procedure;
pub use provenance::Provenance;
pub use results::{
    Cell, DelayRun, Delays, DelaysAt, Disorder, Found, Key, Measurement, Metered, Recovery, Reset, Results,
    Teardown, Usage, median_throughput, throughputs,
};
pub use run::{head, run};
pub use seconds::{Seconds, WaitsSpec};
pub use trial::{Flow, Trial};

use crate::dut;
use crate::energy;
use crate::search::profile::Profile;
use crate::testbed;
use crate::traffic::{Traffic, builtin};
use place::File;

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
    /// What a trial waits for, in place of the profile's.
    #[serde(default)]
    pub waits: WaitsSpec,
    /// What is measured, in this order.
    #[serde(default = "usual")]
    pub procedures: Vec<Procedure>,
    /// Shares of the throughput at which latency is measured.
    #[serde(default = "half_and_most")]
    pub latency_at: Vec<f64>,
    /// The loads of the procedure of that name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<Load>,
    /// The load of a soak, and its times.
    #[serde(default)]
    pub soak: Soak,
    /// The most connections that the procedure `session-capacity` tries.
    #[serde(default = "million", skip_serializing_if = "is_million")]
    pub most_sessions: u32,
    /// What the procedure `ndr-pdr` searches, in place of the profile's goals.
    #[serde(default, rename = "goal", skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<GoalSpec>,
    /// The routers, one after the other on the same testbed.
    pub duts: Vec<dut::Spec>,
    /// What they are between.
    #[serde(default)]
    pub testbed: testbed::Spec,
    /// What measures energy; processor time where there is none.
    #[serde(default, rename = "meter", skip_serializing_if = "Vec::is_empty")]
    pub meters: Vec<energy::Spec>,
    /// Traffic that is not built in.
    #[serde(default, rename = "traffic", skip_serializing_if = "Vec::is_empty")]
    pub traffics: Vec<Traffic>,
    /// What the routers are measured with.
    #[serde(rename = "test")]
    pub tests: Vec<Test>,
}

fn usual() -> Vec<Procedure> {
    vec![Procedure::Throughput, Procedure::Latency]
}

fn half_and_most() -> Vec<f64> {
    vec![0.5, 0.9]
}

fn million() -> u32 {
    1_000_000
}

/// What is not written is asked as it always was.
fn is_million(n: &u32) -> bool {
    *n == million()
}

/// Traffic, in some sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Test {
    /// The name of what is built in, or of a traffic of the campaign's own.
    pub traffic: String,
    /// Bytes with frame check sequence; none for a traffic whose frames have sizes of their own.
    #[serde(default)]
    pub sizes: Vec<usize>,
    /// Whether it is sent in both directions at once; the load is that of each.
    #[serde(default)]
    pub bidirectional: bool,
    /// To so many networks, each of which the router has a route to; 0: to those of the traffic.
    #[serde(default)]
    pub routes: u32,
    /// Through so many connections, established before each trial; 0: without. The procedures of RFC 9693 need some.
    #[serde(default)]
    pub sessions: u32,
    /// In so many flows, each a four-tuple of its own; 0: in those of the traffic.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flows: u32,
}

/// As [`is_million`].
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Test {
    /// What is measured with it in a size; the router is not known yet.
    fn key(&self, size: usize) -> Key {
        let Test { traffic, bidirectional, routes, sessions, flows, .. } = self.clone();
        Key { dut: String::new(), traffic, size, bidirectional, routes, sessions, flows }
    }
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

/// One load for long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Soak {
    /// Of the throughput.
    pub share: f64,
    /// How long in all.
    pub seconds: f64,
    /// How long each of its trials is: the loss is known for each.
    pub each: f64,
}

impl Default for Soak {
    fn default() -> Soak {
        Soak { share: 0.9, seconds: 60.0, each: 5.0 }
    }
}

impl Soak {
    /// How long in all.
    pub fn total(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// How long each of its trials is.
    pub fn each(&self) -> Duration {
        Duration::from_secs_f64(self.each)
    }
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
    /// Reads a campaign from its text, and checks all that can be checked before anything is touched.
    ///
    /// # Errors
    /// With the line of what is at fault.
    pub fn parse(text: &str) -> Result<Campaign, Fault> {
        let file = File::new("", text);
        let campaign: Campaign = file.parse()?;
        campaign.check().map_err(|fault| file.named(&fault))?;
        Ok(campaign)
    }

    /// The traffic of a name, the campaign's own before what is built in, with frames of `size` bytes where they have no size of their
    /// own. `None`: there is no such name.
    pub fn traffic(&self, name: &str, size: usize) -> Option<Traffic> {
        match self.traffics.iter().find(|t| t.name == name) {
            Some(own) => Some(own.sized(size)),
            None => builtin(name, size),
        }
    }

    /// Every traffic and size, in order. The size of a mix is the mean of its frames.
    pub fn cells(&self) -> impl Iterator<Item = (&Test, usize)> {
        self.tests.iter().flat_map(|test| self.sizes(test).into_iter().map(move |size| (test, size)))
    }

    /// The sizes of a test.
    fn sizes(&self, test: &Test) -> Vec<usize> {
        let own = self.traffic(&test.traffic, 0).and_then(|t| t.own_size());
        own.map_or_else(|| test.sizes.clone(), |size| vec![size])
    }

    /// What its procedures are run with.
    pub fn profile(&self) -> Profile {
        let mut profile = match self.profile {
            Times::Quick => Profile::quick(),
            Times::Strict => Profile::strict(),
        };
        profile.waits = self.waits.over(profile.waits);
        if let Some(seconds) = self.trial_seconds {
            profile.duration = Duration::from_secs_f64(seconds);
            profile.latency.duration = profile.duration;
            profile.variation = profile.duration;
            profile.goals.iter_mut().for_each(|goal| *goal = goal.scaled(profile.duration));
        }
        if !self.goals.is_empty() {
            profile.goals = self.goals.iter().map(GoalSpec::goal).collect();
        }
        if let Some(n) = self.repetitions {
            (profile.repetitions, profile.latency.repetitions) = (n, n);
            (profile.back_to_back.repetitions, profile.recovery.repetitions) = (n, n);
        }
        profile.frame_bytes = self.cells().map(|(_, size)| size as u32).collect();
        profile
    }
}
