//! A campaign: the routers to measure, the traffic, and the procedures. Read from a file, or written by `volley bench init`.

mod asked;
mod case;
mod check;
mod check_traffic;
mod connected;
mod delays;
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
mod repeated;
mod resolution;
mod results;
mod run;
mod seconds;
mod self_test;
mod trial;
mod validity;
mod visits;

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
pub use resolution::ResolutionSpec;
pub use results::{
    Ceiling, Cell, DIRECTIONS, DelayRun, Delays, DelaysAt, DirectionDelays, Disorder, Found, Key,
    Measurement, Metered, Part, Recovery, Reset, Results, Teardown, Usage, conditional, median_throughput,
    throughputs,
};
pub(crate) use run::OVER;
pub use run::{head, run};
pub use seconds::{Seconds, WaitsSpec};
pub use trial::{Flow, Trial};
pub use validity::ValiditySpec;

use crate::dut;
use crate::energy;
use crate::search::profile::Profile;
use crate::search::throughput::Resolution;
use crate::testbed;
use crate::traffic::{Traffic, builtin};
use place::File;

/// A campaign: everything that its file can set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Campaign {
    /// Name in reports.
    pub name: String,
    /// Default times and repetitions.
    #[serde(default)]
    pub profile: Times,
    /// Sending time of a trial in seconds; overrides the profile. Does not apply to bursts, `recovery`, `reset` and `soak`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_seconds: Option<f64>,
    /// Repetitions of each measurement; overrides the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<u32>,
    /// Resolution of `throughput`, `session-rate` and `session-capacity`; overrides the profile. A resolution in percent also replaces the
    /// width of the profile's MLRsearch goals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<ResolutionSpec>,
    /// Limit for the time of the whole campaign in minutes: after it, no further procedure begins. No limit by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_minutes: Option<f64>,
    /// Waits of a trial. A wait that is set here overrides the profile's.
    #[serde(default)]
    pub waits: WaitsSpec,
    /// Limits of a valid trial. A limit that is set here overrides the testbed's.
    #[serde(default, skip_serializing_if = "ValiditySpec::is_empty")]
    pub validity: ValiditySpec,
    /// Procedures to run, in this order.
    #[serde(default = "usual")]
    pub procedures: Vec<Procedure>,
    /// Loads for `latency`, as shares of the throughput.
    #[serde(default = "half_and_most")]
    pub latency_at: Vec<f64>,
    /// Loads for the procedure `loads`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<Load>,
    /// Load and times of `soak`.
    #[serde(default)]
    pub soak: Soak,
    /// Upper limit for the connections that `session-capacity` tries.
    #[serde(default = "million", skip_serializing_if = "is_million")]
    pub most_sessions: u32,
    /// Search goals of `ndr-pdr`, in place of the profile's.
    #[serde(default, rename = "goal", skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<GoalSpec>,
    /// True to measure several routers in turns: one repetition of `throughput` and of `ndr-pdr` on each router, then the next
    /// repetition on each router. False to run all repetitions of a router before the next router starts.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub interleave: bool,
    /// True to show published results beside the measured ones.
    #[serde(default, skip_serializing_if = "is_no")]
    pub published: bool,
    /// Routers to measure on the same testbed.
    pub duts: Vec<dut::Spec>,
    /// Links between the tester and the routers.
    #[serde(default)]
    pub testbed: testbed::Spec,
    /// Energy meters; without any, only processor time is measured.
    #[serde(default, rename = "meter", skip_serializing_if = "Vec::is_empty")]
    pub meters: Vec<energy::Spec>,
    /// The campaign's own traffic, besides the built-in ones.
    #[serde(default, rename = "traffic", skip_serializing_if = "Vec::is_empty")]
    pub traffics: Vec<Traffic>,
    /// Tests to run with each router.
    #[serde(rename = "test")]
    pub tests: Vec<Test>,
}

fn usual() -> Vec<Procedure> {
    vec![Procedure::Throughput, Procedure::Latency]
}

fn half_and_most() -> Vec<f64> {
    vec![0.5, 0.9]
}

fn yes() -> bool {
    true
}

/// True for `true`, the default of the key. JSON then omits the key; see [`is_million`] for the reason.
fn is_yes(value: &bool) -> bool {
    *value
}

/// True for `false`, the default of the key. JSON then omits the key; see [`is_million`] for the reason.
fn is_no(value: &bool) -> bool {
    !*value
}

fn million() -> u32 {
    1_000_000
}

/// True for 1,000,000, the default of the key. JSON then omits the key, so that a campaign stored before this key existed still equals the
/// campaign in its file.
fn is_million(n: &u32) -> bool {
    *n == million()
}

/// A traffic with its frame sizes and options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Test {
    /// Name of a built-in traffic, or of a traffic defined in the campaign.
    pub traffic: String,
    /// Frame sizes in bytes, with frame check sequence. Empty for a traffic that sets its own sizes.
    #[serde(default)]
    pub sizes: Vec<usize>,
    /// True to send in both directions at once; a load then applies to each direction.
    #[serde(default)]
    pub bidirectional: bool,
    /// Number of destination networks, each with a route in the router; 0 uses the traffic's own destinations.
    #[serde(default)]
    pub routes: u32,
    /// Number of connections to establish before each trial; 0 for none. The procedures of RFC 9693 need connections.
    #[serde(default)]
    pub sessions: u32,
    /// Number of flows, each with its own four-tuple; 0 uses the traffic's own flows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flows: u32,
}

/// True for 0, the default of the key. JSON then omits the key; see [`is_million`] for the reason.
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Test {
    /// Returns the key of this test with frames of `size` bytes. The router's name is still empty.
    fn key(&self, size: usize) -> Key {
        let Test { traffic, bidirectional, routes, sessions, flows, .. } = self.clone();
        Key { dut: String::new(), traffic, size, bidirectional, routes, sessions, flows }
    }
}

/// Profile of times and repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Times {
    /// Short times and few repetitions, for a first look: trials of at most a few seconds.
    #[default]
    Quick,
    /// The times and repetitions that the RFCs demand. A campaign takes days.
    Strict,
}

/// Load and times of the procedure `soak`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Soak {
    /// Load as a share of the throughput.
    pub share: f64,
    /// Total time in seconds.
    pub seconds: f64,
    /// Time of each trial in seconds; loss is reported for each trial.
    pub each: f64,
}

impl Default for Soak {
    fn default() -> Soak {
        Soak { share: 0.9, seconds: 60.0, each: 5.0 }
    }
}

impl Soak {
    /// Returns the total time.
    pub fn total(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// Returns the time of each trial.
    pub fn each(&self) -> Duration {
        Duration::from_secs_f64(self.each)
    }
}

/// An error in a campaign: its place and its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

/// The commented campaign that `volley bench init` writes.
pub const TEMPLATE: &str = include_str!("template.toml");

impl Campaign {
    /// Parses a campaign and checks everything that does not depend on the machine.
    ///
    /// # Errors
    /// Returns the first fault, with its line.
    pub fn parse(text: &str) -> Result<Campaign, Fault> {
        let file = File::new("", text);
        let campaign: Campaign = file.parse()?;
        campaign.check().map_err(|fault| file.named(&fault))?;
        Ok(campaign)
    }

    /// Returns the traffic with this name: one of the campaign's own, else a built-in one. Frames without a size of their own get `size`
    /// bytes. `None` if the name is unknown.
    pub fn traffic(&self, name: &str, size: usize) -> Option<Traffic> {
        match self.traffics.iter().find(|t| t.name == name) {
            Some(own) => Some(own.sized(size)),
            None => builtin(name, size),
        }
    }

    /// Iterates over each test and frame size, in order. Traffic that sets its own sizes has only one size here: the mean size of its
    /// frames.
    pub fn cells(&self) -> impl Iterator<Item = (&Test, usize)> {
        self.tests.iter().flat_map(|test| self.sizes(test).into_iter().map(move |size| (test, size)))
    }

    /// Returns the frame sizes of a test.
    fn sizes(&self, test: &Test) -> Vec<usize> {
        let own = self.traffic(&test.traffic, 0).and_then(|t| t.own_size());
        own.map_or_else(|| test.sizes.clone(), |size| vec![size])
    }

    /// Returns the profile with the campaign's overrides.
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
        if let Some(spec) = self.resolution {
            profile.resolution = spec.resolution();
            if let Resolution::Relative(width) = profile.resolution {
                profile.goals.iter_mut().for_each(|goal| goal.width = width);
            }
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
