//! Results of a campaign: one document, from which reports and comparisons are made.

use crate::engine::limits::Absence;
use crate::engine::receiver::Damaged;
use serde::{Deserialize, Deserializer, Serialize};

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
use crate::stats::jitter::JitterFigures;
use crate::stats::latency::LatencyFigures;
use crate::trial::{Invalid, Outcome};

use super::procedure::Procedure;
use super::provenance::Provenance;
use super::trial::{Flow, Trial};

/// Results of a campaign: all of them, or those found so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The campaign.
    pub campaign: Campaign,
    /// The profile that the procedures used.
    pub profile: Profile,
    /// Time, machine and programs.
    pub provenance: Provenance,
    /// Deviations from the RFCs, and limits of the testbed.
    pub conditions: Vec<String>,
    /// Routers that were measured.
    pub duts: Vec<Facts>,
    /// One cell for each router, test and frame size.
    pub cells: Vec<Cell>,
    /// Caveats about results, such as a router that was not stopped, or a missing meter.
    #[serde(default)]
    pub caveats: Vec<String>,
    /// Failed measurements, with the reason.
    pub failures: Vec<String>,
    /// The campaigns whose results were joined; empty if all results are of one campaign.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// A campaign whose results were joined with those of others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The campaign's name in the joined results.
    pub name: String,
    /// Names of the campaign's routers in the joined results.
    pub routers: Vec<String>,
    /// Keys of the campaign's traffics and frame sizes. The router's name in these keys is empty.
    pub cases: Vec<Key>,
    /// The campaign's procedures.
    pub procedures: Vec<Procedure>,
    /// Time, machine and programs.
    pub provenance: Provenance,
}

impl Results {
    /// Returns the campaigns whose results were joined. If none were joined, returns the only campaign, under the name `name`.
    pub fn parts_as(&self, name: &str) -> Vec<Part> {
        if !self.parts.is_empty() {
            return self.parts.clone();
        }
        vec![Part {
            name: name.to_owned(),
            routers: self.campaign.duts.iter().map(|dut| dut.name().to_owned()).collect(),
            cases: self.campaign.cells().map(|(test, size)| test.key(size)).collect(),
            procedures: self.campaign.procedures.clone(),
            provenance: self.provenance.clone(),
        }]
    }

    /// True if no procedure has a result with any router.
    pub fn is_empty(&self) -> bool {
        self.cells.iter().all(|cell| cell.measurements.is_empty())
    }
}

/// Key of a cell: a router, a traffic, a frame size and the options of the test.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// The router's name in the campaign; empty for the tester's self-test over a cable.
    pub dut: String,
    /// The traffic's name.
    pub traffic: String,
    /// Frame size in bytes, with frame check sequence.
    pub size: usize,
    /// True if both directions send at once; a load then applies to each direction.
    pub bidirectional: bool,
    /// Number of destination networks, each with a route; 0 for the traffic's own destinations.
    #[serde(default)]
    pub routes: u32,
    /// Number of connections; 0 for none.
    #[serde(default)]
    pub sessions: u32,
    /// Number of flows; 0 for the traffic's own flows.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub flows: u32,
}

impl Key {
    /// Returns the traffic's name, followed by each nonzero number of routes, sessions and flows.
    pub fn label(&self) -> String {
        let all = [(self.routes, "route"), (self.sessions, "session"), (self.flows, "flow")];
        let ending = |n| if n == 1 { "" } else { "s" };
        let of = all.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {n} {what}{}", ending(*n)));
        of.fold(self.traffic.clone(), |text, of| text + &of)
    }
}

/// Maximum rate and delays of the tester alone with a traffic and frame size, over a cable in place of a router.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ceiling {
    /// Throughput without loss in frames per second, per direction.
    pub fps: f64,
    /// Delays at half this throughput. `None` for flood traffic, whose frames have no time stamps, or if no trial was valid.
    pub delays: Option<LatencyFigures>,
}

/// Results of a router with a traffic and frame size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Router, traffic, size and options.
    #[serde(flatten)]
    pub key: Key,
    /// Throughput of the tester alone with this traffic, over a cable, in frames per second per direction.
    pub tester_fps: f64,
    /// Delays of the tester alone, at half this throughput. `None` as in [`Ceiling::delays`], and in results stored before these delays
    /// were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tester_delays: Option<LatencyFigures>,
    /// Maximum rate of the link, in frames per second per direction.
    pub link_fps: f64,
    /// Reading of each meter without traffic.
    #[serde(default)]
    pub idle: Vec<energy::Measured>,
    /// One result for each procedure that has one.
    pub measurements: Vec<Measurement>,
}

impl Cell {
    /// Returns the result of a procedure, if there is one.
    pub fn found(&self, procedure: Procedure) -> Option<&Measurement> {
        self.measurements.iter().find(|m| m.found.procedure() == procedure)
    }

    /// Returns the throughput in frames per second per direction: the median of the repetitions. `None` without a result.
    pub fn throughput_fps(&self) -> Option<f64> {
        match &self.found(Procedure::Throughput)?.found {
            Found::Throughput(searches) => median_throughput(searches),
            _ => None,
        }
    }

    /// Returns the connection establishment rate, in connections per second: the median of the repetitions. `None` without a result.
    pub fn session_fps(&self) -> Option<f64> {
        match &self.found(Procedure::SessionRate)?.found {
            Found::SessionRate(all) => median_rate(all),
            _ => None,
        }
    }
}

/// Returns the median throughput of the searches with a result, in frames per second; `None` if no search has a result.
pub fn median_throughput(searches: &[ThroughputResult]) -> Option<f64> {
    crate::stats::Runs::new(&throughputs(searches)).ok().map(|runs| runs.median())
}

/// Returns the median of the connection rates that were found, in connections per second; `None` if no search has a result.
pub fn median_rate(all: &[RateResult]) -> Option<f64> {
    median_throughput(&all.iter().map(|found| found.search.clone()).collect::<Vec<_>>())
}

/// Returns the conditional throughput that each search found for a goal, in frames per second and direction: 0 if even the smallest load
/// failed the goal, `None` if the search has no such goal, or ended without a result.
pub fn conditional<'a>(searches: &'a [MlrResult], goal: &'a str) -> impl Iterator<Item = Option<f64>> + 'a {
    searches.iter().map(move |search| {
        let found = search.goals.iter().find(|found| found.goal.name == goal)?;
        let decided = !matches!(found.ended, Ended::Failed(_) | Ended::OutOfBudget);
        decided.then(|| found.conditional_fps.unwrap_or(0.0))
    })
}

/// Returns the throughput of each search in frames per second; 0 if every load lost frames. Skips searches in which a trial failed, or
/// which reached their limit of trials or time.
pub fn throughputs(searches: &[ThroughputResult]) -> Vec<f64> {
    let decided = |s: &&ThroughputResult| !matches!(s.ended, Ended::Failed(_) | Ended::OutOfBudget);
    searches.iter().filter(decided).map(|s| s.throughput_fps.unwrap_or(0.0)).collect()
}

/// Outcome of a procedure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The result itself.
    pub found: Found,
    /// True if the tester may have limited the result, for one of three reasons. The result exceeds 90 % of the tester's maximum rate (for
    /// a result that is not a rate: the largest load does). Or the tester's ports refused frames. Or the result relies on invalid trials.
    pub limited_by_tester: bool,
    /// Invalid trials that were repeated; the result does not include them.
    #[serde(default)]
    pub repeated: u64,
    /// Frames that arrived duplicated, reordered, damaged or on the wrong port.
    #[serde(default)]
    pub disorder: Disorder,
    /// Largest delays that the tester itself caused in the valid trials; `None` in results of older versions, which did not measure them.
    #[serde(default)]
    pub absence: Option<Absence>,
    /// Increase of the router's counters during the procedure, as names and values.
    pub counters: Vec<(String, String)>,
}

impl Measurement {
    /// Returns this measurement together with `more`, which has further repetitions of the same procedure.
    pub(super) fn and(mut self, more: Measurement) -> Measurement {
        match (&mut self.found, more.found) {
            (Found::Throughput(searches), Found::Throughput(others)) => searches.extend(others),
            (Found::NdrPdr(searches), Found::NdrPdr(others)) => searches.extend(others),
            // Only these two kinds of searches are measured in turns.
            _ => {}
        }
        self.limited_by_tester |= more.limited_by_tester;
        self.repeated += more.repeated;
        self.disorder.add(&more.disorder);
        self.absence = match (self.absence, more.absence) {
            (Some(mut all), Some(other)) => {
                all.include(&other);
                Some(all)
            }
            (a, b) => a.or(b),
        };
        for (name, value) in more.counters {
            match self.counters.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => {
                    let both = sum.parse::<u64>().ok().zip(value.parse::<u64>().ok());
                    *sum = both.map_or(value, |(a, b)| (a + b).to_string());
                }
                None => self.counters.push((name, value)),
            }
        }
        self
    }

    /// True if the tester may have caused the loss at the load `at`.
    pub fn is_limited_at(&self, at: &DelaysAt) -> bool {
        self.limited_by_tester && at.limited_by_tester.unwrap_or(true)
    }
}

/// Duplicated, reordered, damaged and misdirected frames of all trials of a procedure, repeated trials included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disorder {
    /// Distinct frames received.
    pub received: u64,
    /// Frames received more than once.
    pub duplicated: u64,
    /// Frames that arrived after one that was sent later (RFC 4737 section 3.3).
    pub reordered: u64,
    /// Frames that arrived damaged. They do not count as received.
    #[serde(default)]
    pub damaged: Damaged,
    /// Frames that arrived on the wrong port.
    pub astray: u64,
}

impl Disorder {
    /// Adds the counts of `other`.
    fn add(&mut self, other: &Disorder) {
        self.received += other.received;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.damaged.add(&other.damaged);
        self.astray += other.astray;
    }

    /// Adds the frames of a trial.
    pub(super) fn note(&mut self, trial: &Trial) {
        let sum = |of: fn(&Flow) -> u64| trial.flows.iter().map(of).sum::<u64>();
        self.received += sum(|flow| flow.received);
        self.duplicated += sum(|flow| flow.duplicated);
        self.reordered += sum(|flow| flow.reordered);
        trial.flows.iter().for_each(|flow| self.damaged.add(&flow.damaged));
        self.astray += trial.astray;
    }

    /// True if no frame was duplicated, reordered, damaged or misdirected.
    pub fn is_none(&self) -> bool {
        self.duplicated + self.reordered + self.damaged.all() + self.astray == 0
    }
}

/// Result of a procedure, with a variant for each procedure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "procedure", content = "result", rename_all = "kebab-case")]
pub enum Found {
    /// One search for each repetition.
    Throughput(Vec<ThroughputResult>),
    /// Latency at fractions of the throughput.
    Latency(Vec<DelaysAt>),
    /// Delay variation at the throughput.
    Variation(Vec<DelaysAt>),
    /// Loss at falling loads.
    LossRate(LossRateResult),
    /// Longest bursts without loss.
    BackToBack(BackToBackResult),
    /// Non-drop and partial-drop rates, or the campaign's own goals: one search for each repetition.
    NdrPdr(#[serde(deserialize_with = "one_or_several")] Vec<MlrResult>),
    /// Rate received at the highest load.
    MaximumReceiveRate(FixedResult),
    /// Loss and delays at given loads.
    Loads(Vec<DelaysAt>),
    /// Loss at one load over a long time.
    Soak(FixedResult),
    /// Recovery times after overload, one for each repetition.
    Recovery(Vec<Recovery>),
    /// Outages by restarts, one for each repetition.
    Reset(Vec<Reset>),
    /// Connection establishment rate: one search for each repetition.
    SessionRate(Vec<RateResult>),
    /// Maximum number of connections: one search for each repetition.
    SessionCapacity(Vec<CapacityResult>),
    /// Times to delete all connections, one for each repetition.
    SessionTeardown(Vec<Teardown>),
}

/// Reads a list of searches, or the single search of results that were stored before searches were repeated.
fn one_or_several<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<MlrResult>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Searches {
        Several(Vec<MlrResult>),
        One(Box<MlrResult>),
    }
    Ok(match Searches::deserialize(d)? {
        Searches::Several(all) => all,
        Searches::One(one) => vec![*one],
    })
}

impl Found {
    /// Returns the procedure of this result.
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

/// Trials at a load, with their delays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DelaysAt {
    /// Description of the load, such as "50 % of the throughput".
    pub name: String,
    /// Frames per second in each direction.
    pub load_fps: f64,
    /// True if the tester may have caused the loss: the load exceeds 90 % of the tester's maximum rate, or the tester's ports refused
    /// frames. `None` in old results, which have only [`Measurement::limited_by_tester`] for all loads together.
    #[serde(default)]
    pub limited_by_tester: Option<bool>,
    /// One trial for each repetition.
    pub runs: Vec<DelayRun>,
}

/// A trial with delays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DelayRun {
    /// Outcome of the trial.
    pub outcome: Outcome,
    /// Delays of the frames; `None` if no time-stamped frame arrived.
    pub delays: Option<Delays>,
    /// Processor time and energy of the trial.
    pub usage: Usage,
}

impl DelayRun {
    /// Returns the reasons why the trial is invalid; empty if it is valid.
    pub fn invalid(&self) -> &[Invalid] {
        &self.outcome.invalid
    }
}

/// Names of the directions: the tester's first port is on the left.
pub const DIRECTIONS: [&str; 2] = ["left to right", "right to left"];

/// The delays of the frames of one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectionDelays {
    /// Figures of RFC 8219, in which each lost frame counts with a penalty delay.
    pub figures: LatencyFigures,
    /// Delay differences of successive frames, if they were recorded.
    pub ipdv: Option<IpdvFigures>,
}

/// The delays of the frames of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// Figures of RFC 8219, in which each lost frame counts with a penalty delay.
    pub figures: LatencyFigures,
    /// Delay differences of successive frames, if they were recorded.
    pub ipdv: Option<IpdvFigures>,
    /// Interarrival jitter; `None` with fewer than two frames, and in results of older versions, which did not measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<JitterFigures>,
    /// Histogram of the received frames, in rising order of delay: for each bin its largest delay in nanoseconds, and its number of frames.
    /// The width of a bin is at most 0.1 % of its delay, or 1 ns.
    pub bins: Vec<(u64, u64)>,
    /// Delays of each direction, in the order of [`DIRECTIONS`]; empty if there is only one direction, and in results of older versions,
    /// which did not separate directions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<DirectionDelays>,
}

/// Processor time and energy of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Time covered in seconds: from before the first frame until no frame has arrived for 50 ms, or the wait for late frames is over.
    pub seconds: f64,
    /// Mean number of busy processors on the whole machine, including the tester's; `None` if unknown.
    pub busy: Option<f64>,
    /// Mean number of processors that the router used; `None` if unknown.
    pub dut_busy: Option<f64>,
    /// Reading of each meter of the campaign.
    pub meters: Vec<Metered>,
}

/// Reading of a meter for a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metered {
    /// The meter's name.
    pub meter: String,
    /// Quantity that the meter measures; processor time is not energy.
    pub kind: energy::Kind,
    /// The reading, or an error if there is none.
    pub reading: Result<energy::Reading, energy::Fault>,
    /// Energy figures as in published papers, derived from the reading and the traffic delivered in the trial. `None` without a reading,
    /// or for one of several consecutive trials, whose traffic is not known separately.
    pub figures: Option<energy::Results>,
}

/// A recovery from overload (RFC 2544 section 26.5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// Overload in frames per second per direction.
    pub overload_fps: f64,
    /// Half the overload, in frames per second per direction; the router recovers at this load.
    pub relief_fps: f64,
    /// Seconds from the halving of the load to the last lost frame; `None` if frames were lost to the end.
    pub seconds: Option<f64>,
    /// Outcomes of the two trials: at the overload, then at half of it.
    pub outcomes: Vec<Outcome>,
}

/// A deletion of the whole connection table (RFC 9693 section 4.8).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Teardown {
    /// Attempt that filled the table.
    pub filled: Attempt,
    /// Run time of the command that deletes all connections, in seconds.
    pub seconds: f64,
    /// Run time of the same command with an empty table, in seconds.
    pub empty_seconds: f64,
    /// Number of connections that the router still reports; `None` if it reports no number.
    pub left: Option<u64>,
}

impl Teardown {
    /// Returns the deletion rate in connections per second. The deletion's time is the command's run time, less its run time with
    /// an empty table. `None` if the command took no longer with the full table.
    pub fn per_second(&self) -> Option<f64> {
        let seconds = self.seconds - self.empty_seconds;
        (seconds > 0.0).then(|| self.filled.connections as f64 / seconds)
    }
}

/// A restart of the router (RFC 2544 section 26.6, RFC 6201).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reset {
    /// Load in frames per second per direction.
    pub load_fps: f64,
    /// Outage in seconds, computed from the number of lost frames (RFC 6201 section 4.1); `None` if the router did not forward again.
    pub seconds: Option<f64>,
    /// Outcome of the trial.
    pub outcome: Outcome,
}
