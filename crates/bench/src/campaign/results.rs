//! What a campaign found: one document, which reports and comparisons are made of.

use serde::{Deserialize, Serialize};

use super::Campaign;
use crate::dut::Facts;
use crate::energy;
use crate::search::Ended;
use crate::search::back_to_back::BackToBackResult;
use crate::search::fixed::FixedResult;
use crate::search::loss_rate::LossRateResult;
use crate::search::mlr::MlrResult;
use crate::search::profile::Profile;
use crate::search::throughput::ThroughputResult;
use crate::sessions::Attempt;
use crate::sessions::capacity::CapacityResult;
use crate::sessions::rate::RateResult;
use crate::stats::ipdv::IpdvFigures;
use crate::stats::latency::LatencyFigures;
use crate::trial::{Invalid, Outcome};

use super::procedure::Procedure;
use super::provenance::Provenance;
use super::trial::{Flow, Trial};

/// What a campaign found, or has found so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// What was asked.
    pub campaign: Campaign,
    /// What procedures were run with.
    pub profile: Profile,
    /// Where and when.
    pub provenance: Provenance,
    /// In what the profile is not as the RFCs have it, and what the testbed means for the numbers.
    pub conditions: Vec<String>,
    /// The routers that were measured.
    pub duts: Vec<Facts>,
    /// One for each router, traffic and size.
    pub cells: Vec<Cell>,
    /// What must be known of the results besides: a router that was not stopped, a meter that was not there.
    #[serde(default)]
    pub caveats: Vec<String>,
    /// What could not be measured, and why.
    pub failures: Vec<String>,
}

impl Results {
    /// Whether no procedure found anything with any router.
    pub fn is_empty(&self) -> bool {
        self.cells.iter().all(|cell| cell.measurements.is_empty())
    }
}

/// What is measured: a router, with a traffic, at a size.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// The router's name in the campaign; empty for the tester itself, over a cable.
    pub dut: String,
    /// The traffic's name.
    pub traffic: String,
    /// Bytes with frame check sequence.
    pub size: usize,
    /// Both directions at once; every load is that of each.
    pub bidirectional: bool,
    /// To so many networks, each with a route; 0: to those of the traffic.
    #[serde(default)]
    pub routes: u32,
    /// Through so many connections; 0: without.
    #[serde(default)]
    pub sessions: u32,
    /// In so many flows; 0: in those of the traffic.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub flows: u32,
}

impl Key {
    /// The traffic in words: its name, and how many routes it is to, how many sessions it goes through, or how many flows it has.
    pub fn label(&self) -> String {
        let all = [(self.routes, "route"), (self.sessions, "session"), (self.flows, "flow")];
        let ending = |n| if n == 1 { "" } else { "s" };
        let of = all.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {n} {what}{}", ending(*n)));
        of.fold(self.traffic.clone(), |text, of| text + &of)
    }
}

/// All that was found with a router, a traffic and a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What was measured.
    #[serde(flatten)]
    pub key: Key,
    /// What the tester can do with this traffic where there is no router, frames a second in each direction.
    pub tester_fps: f64,
    /// The most that the link carries, frames a second in each direction.
    pub link_fps: f64,
    /// What each meter says of a time in which nothing is sent.
    #[serde(default)]
    pub idle: Vec<energy::Measured>,
    /// One for each procedure, in the order of the campaign.
    pub measurements: Vec<Measurement>,
}

impl Cell {
    /// What a procedure found, if it was run.
    pub fn found(&self, procedure: Procedure) -> Option<&Measurement> {
        self.measurements.iter().find(|m| m.found.procedure() == procedure)
    }

    /// The throughput to quote, frames a second in each direction: the median of its repetitions.
    pub fn throughput_fps(&self) -> Option<f64> {
        match &self.found(Procedure::Throughput)?.found {
            Found::Throughput(searches) => median_throughput(searches),
            _ => None,
        }
    }

    /// The rate at which connections are established, connections a second: the median of its repetitions.
    pub fn session_fps(&self) -> Option<f64> {
        match &self.found(Procedure::SessionRate)?.found {
            Found::SessionRate(all) => median_rate(all),
            _ => None,
        }
    }
}

/// The median of the searches that found a throughput; `None` when none did.
pub fn median_throughput(searches: &[ThroughputResult]) -> Option<f64> {
    crate::stats::Runs::new(&throughputs(searches)).ok().map(|runs| runs.median())
}

/// The median of the searches that found a rate of connections; `None` when none did.
pub fn median_rate(all: &[RateResult]) -> Option<f64> {
    median_throughput(&all.iter().map(|found| found.search.clone()).collect::<Vec<_>>())
}

/// What each search found, frames a second; a search that found no load which is forwarded whole counts as 0.
pub fn throughputs(searches: &[ThroughputResult]) -> Vec<f64> {
    let decided = |s: &&ThroughputResult| !matches!(s.ended, Ended::Failed(_) | Ended::OutOfBudget);
    searches.iter().filter(decided).map(|s| s.throughput_fps.unwrap_or(0.0)).collect()
}

/// What came of a procedure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// What it found.
    pub found: Found,
    /// Whether the limit may be the tester's: more than 90 % of what it can do was reached, or trials that bounded the result were invalid.
    pub limited_by_tester: bool,
    /// Trials that were invalid and were repeated for that: they are in none of what was found.
    #[serde(default)]
    pub repeated: u64,
    /// Frames that came as they should not.
    #[serde(default)]
    pub disorder: Disorder,
    /// What the router counted meanwhile, as names and values.
    pub counters: Vec<(String, String)>,
}

impl Measurement {
    /// Whether the limit at one of its loads may be the tester's.
    pub fn is_limited_at(&self, at: &DelaysAt) -> bool {
        self.limited_by_tester && at.limited_by_tester.unwrap_or(true)
    }
}

/// Frames that came as they should not, in all trials of a procedure, the repeated ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disorder {
    /// Different frames that came.
    pub received: u64,
    /// Frames that had come before.
    pub duplicated: u64,
    /// Frames that came behind one that was sent later (RFC 4737 section 3.3).
    pub reordered: u64,
    /// Frames that came by another port than they should.
    pub astray: u64,
}

impl Disorder {
    /// With the frames of another trial.
    pub(super) fn note(&mut self, trial: &Trial) {
        let sum = |of: fn(&Flow) -> u64| trial.flows.iter().map(of).sum::<u64>();
        self.received += sum(|flow| flow.received);
        self.duplicated += sum(|flow| flow.duplicated);
        self.reordered += sum(|flow| flow.reordered);
        self.astray += trial.astray;
    }

    /// Whether there was none.
    pub fn is_none(&self) -> bool {
        self.duplicated + self.reordered + self.astray == 0
    }
}

/// What a procedure found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "procedure", content = "result", rename_all = "kebab-case")]
pub enum Found {
    /// One search for each repetition.
    Throughput(Vec<ThroughputResult>),
    /// Delays at shares of the throughput.
    Latency(Vec<DelaysAt>),
    /// Delay variation at the throughput.
    Variation(Vec<DelaysAt>),
    /// Loss at falling loads.
    LossRate(LossRateResult),
    /// The longest bursts.
    BackToBack(BackToBackResult),
    /// Non-drop and partial-drop rates, or the goals of the profile.
    NdrPdr(MlrResult),
    /// What comes back of the most that can be sent.
    MaximumReceiveRate(FixedResult),
    /// What is lost at given loads, and how long frames take.
    Loads(Vec<DelaysAt>),
    /// What is lost at one load over a long time.
    Soak(FixedResult),
    /// How long the router takes to recover from overload.
    Recovery(Vec<Recovery>),
    /// How long a restart of the router stops forwarding.
    Reset(Vec<Reset>),
    /// How fast connections are established: one search for each repetition.
    SessionRate(Vec<RateResult>),
    /// How many connections there can be: one search for each repetition.
    SessionCapacity(Vec<CapacityResult>),
    /// How long it takes to delete all connections.
    SessionTeardown(Vec<Teardown>),
}

impl Found {
    /// By which procedure.
    pub fn procedure(&self) -> Procedure {
        match self {
            Found::Throughput(_) => Procedure::Throughput,
            Found::Latency(_) => Procedure::Latency,
            Found::Variation(_) => Procedure::Variation,
            Found::LossRate(_) => Procedure::LossRate,
            Found::BackToBack(_) => Procedure::BackToBack,
            Found::NdrPdr(_) => Procedure::NdrPdr,
            Found::MaximumReceiveRate(_) => Procedure::MaximumReceiveRate,
            Found::Loads(_) => Procedure::Loads,
            Found::Soak(_) => Procedure::Soak,
            Found::Recovery(_) => Procedure::Recovery,
            Found::Reset(_) => Procedure::Reset,
            Found::SessionRate(_) => Procedure::SessionRate,
            Found::SessionCapacity(_) => Procedure::SessionCapacity,
            Found::SessionTeardown(_) => Procedure::SessionTeardown,
        }
    }
}

/// Trials at a load, with the delay of each frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DelaysAt {
    /// What the load is, in words: "50 % of the throughput".
    pub name: String,
    /// Frames a second in each direction.
    pub load_fps: f64,
    /// Whether what was lost may have been lost by the tester: the load is more than 90 % of what it can do, or its ports refused frames.
    /// `None` in results of before this was said of each load: what is said of all loads holds.
    #[serde(default)]
    pub limited_by_tester: Option<bool>,
    /// One for each repetition.
    pub runs: Vec<DelayRun>,
}

/// One trial of delays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DelayRun {
    /// The trial.
    pub outcome: Outcome,
    /// What frames took; `None` when none came, or none carries its time.
    pub delays: Option<Delays>,
    /// What it took of processors and energy.
    pub usage: Usage,
}

impl DelayRun {
    /// Why it says nothing of the router; empty when it is valid.
    pub fn invalid(&self) -> &[Invalid] {
        &self.outcome.invalid
    }
}

/// The delays of the frames of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// As RFC 8219 has them: lost frames are in all of them, with their penalty.
    pub figures: LatencyFigures,
    /// Differences of successive frames, where they were recorded.
    pub ipdv: Option<IpdvFigures>,
    /// The histogram of frames that came, in rising order: the greatest delay that a bin counts, in nanoseconds, and how many. Bins
    /// are a thousandth wide.
    pub bins: Vec<(u64, u64)>,
}

/// What a trial took of processors and of energy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// How long that was, in seconds: waits included.
    pub seconds: f64,
    /// Processors that were busy on the whole machine meanwhile, the tester's included.
    pub busy: Option<f64>,
    /// Processors that the router used.
    pub dut_busy: Option<f64>,
    /// What each meter of the campaign says.
    pub meters: Vec<Metered>,
}

/// What a meter says of a trial, or of a time without traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metered {
    /// Its name.
    pub meter: String,
    /// What it measures: processor time is no energy.
    pub kind: energy::Kind,
    /// Its reading, or why it has none.
    pub reading: Result<energy::Reading, energy::Fault>,
    /// The figures of the papers, of what was delivered in the trial.
    pub figures: Option<energy::Results>,
}

/// How the router recovered from overload (RFC 2544 section 26.5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// The overload, frames a second in each direction.
    pub overload_fps: f64,
    /// Half of it, under which the router recovers.
    pub relief_fps: f64,
    /// From the moment when the load was halved to the last frame that was lost, in seconds; `None` when frames were lost to the end.
    pub seconds: Option<f64>,
    /// Both trials.
    pub outcomes: Vec<Outcome>,
}

/// How long the deletion of a whole connection tracking table took (RFC 9693 section 4.8).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Teardown {
    /// The attempt that filled the table.
    pub filled: Attempt,
    /// From the command to its end, in seconds.
    pub seconds: f64,
    /// The same of a table that is empty: what the command takes by itself.
    pub empty_seconds: f64,
    /// Connections that the router counts afterwards; `None` if it does not say.
    pub left: Option<u64>,
}

impl Teardown {
    /// Connections a second, what the command takes by itself left out; `None` where that is no less than all.
    pub fn per_second(&self) -> Option<f64> {
        let seconds = self.seconds - self.empty_seconds;
        (seconds > 0.0).then(|| self.filled.connections as f64 / seconds)
    }
}

/// How long a restart took (RFC 2544 section 26.6, RFC 6201).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reset {
    /// Frames a second in each direction meanwhile.
    pub load_fps: f64,
    /// By frames lost (RFC 6201 section 4.1), in seconds; `None` when the router forwarded nothing any more.
    pub seconds: Option<f64>,
    /// The trial.
    pub outcome: Outcome,
}
