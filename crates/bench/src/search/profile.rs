//! Profiles: durations, waits, repetitions and resolutions of a campaign, and their deviations from the RFCs.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::back_to_back::BackToBack;
use super::loss_rate::LossRate;
use super::mlr::{Goal, Mlr};
use super::throughput::{Resolution, Start, Step, Throughput};

/// Ethernet frame sizes that RFC 2544 section 9.1 requires, in bytes, including the FCS.
pub const ETHERNET_SIZES: [u32; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// The waits around a trial (RFC 2544 section 23).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// Wait after the routing update is sent to the router (step a).
    pub after_routes: Duration,
    /// Wait after the learning frames are sent (step b).
    pub after_learning: Duration,
    /// Wait for frames that are still in flight after the last frame was sent (step d).
    pub residual: Duration,
    /// Wait for the router to become stable before the next trial (step e).
    pub restabilise: Duration,
}

impl Waits {
    /// Returns the sum of the waits: the time that a trial with all steps of RFC 2544 section 23 takes in addition to sending.
    pub fn sum(&self) -> Duration {
        self.after_routes + self.after_learning + self.residual + self.restabilise
    }
}

/// Parameters of latency measurements: RFC 2544 section 26.2, RFC 8219 section 7.2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyProfile {
    /// Sending time of the stream.
    pub duration: Duration,
    /// Number of trials, also for delay variation. Reports show their average (RFC 2544) and median (RFC 8219).
    pub repetitions: u32,
}

/// Parameters of the back-to-back procedure: RFC 2544 section 26.4, RFC 9004.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackToBackProfile {
    /// The longest burst, as its transmission time on the link.
    pub longest: Duration,
    /// Resolution of a burst's bounds, in frames.
    pub resolution: u64,
    /// Number of searches. Reports show their average.
    pub repetitions: u32,
    /// Number of retries of a burst with loss: binary search with loss verification, as recommended by RFC 9004.
    pub verifications: u32,
}

/// Parameters of system recovery and reset: RFC 2544 sections 26.5 and 26.6.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecoveryProfile {
    /// Sending time of the overload.
    pub overload: Duration,
    /// Sending time of a trial with a restart; the router is restarted after a fifth of this time. A router that does not forward again
    /// before the end counts as not recovered.
    #[serde(default = "RecoveryProfile::reset")]
    pub reset: Duration,
    /// Number of trials. Reports list each of them.
    pub repetitions: u32,
}

impl RecoveryProfile {
    /// Returns the value of `reset` for profiles that lack the field, because they were written before it existed: 5 s.
    fn reset() -> Duration {
        s(5.0)
    }
}

/// The parameters of all procedures of a campaign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Name.
    pub name: String,
    /// Frame sizes in bytes, including the FCS.
    pub frame_bytes: Vec<u32>,
    /// The waits of each trial.
    pub waits: Waits,
    /// Maximum number of repeats of an invalid trial.
    pub invalid_repeats: u32,
    /// Sending time of trials of throughput, frame loss rate, maximum receive rate and given loads.
    pub duration: Duration,
    /// Resolution of the bounds of throughput, connection rate and connection capacity.
    pub resolution: Resolution,
    /// Number of repetitions of throughput, MLRsearch, maximum receive rate, given loads, and the procedures for connections. The RFCs do
    /// not ask for repetitions.
    pub repetitions: u32,
    /// Load step of the frame loss rate procedure, as a share of the largest load.
    pub loss_step: f64,
    /// Parameters of latency measurements.
    pub latency: LatencyProfile,
    /// Sending time of delay variation trials (RFC 8219 section 7.3).
    pub variation: Duration,
    /// Parameters of the back-to-back procedure.
    pub back_to_back: BackToBackProfile,
    /// Parameters of system recovery and reset.
    pub recovery: RecoveryProfile,
    /// Duration of a measurement of power and processor time without traffic.
    pub idle: Duration,
    /// The goals of MLRsearch.
    pub goals: Vec<Goal>,
}

/// The procedures that a profile's value applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Part {
    /// All procedures.
    All,
    /// Throughput and frame loss rate.
    Trials,
    /// Latency.
    Latency,
    /// Delay variation.
    Variation,
    /// Frame loss rate.
    LossRate,
    /// Back-to-back frames.
    BackToBack,
    /// System recovery.
    Recovery,
}

/// A deviation of a profile, or of a campaign, from an RFC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Deviation {
    /// The RFC and its section.
    pub source: &'static str,
    /// The procedures that the deviation affects.
    pub of: Part,
    /// The difference, in words.
    pub what: String,
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.what)
    }
}

/// Returns a duration of `seconds`.
fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

impl Profile {
    /// Returns the profile with the times and repetitions of RFC 2544, RFC 8219 and RFC 9004. A campaign takes days.
    pub fn strict() -> Self {
        Profile {
            name: "strict".into(),
            frame_bytes: ETHERNET_SIZES.to_vec(),
            waits: Waits {
                after_routes: s(2.0),
                after_learning: s(2.0),
                residual: s(2.0),
                restabilise: s(5.0),
            },
            invalid_repeats: 3,
            duration: s(60.0),
            resolution: Resolution::Relative(0.001),
            repetitions: 20,
            loss_step: 0.1,
            latency: LatencyProfile { duration: s(120.0), repetitions: 20 },
            variation: s(60.0),
            back_to_back: BackToBackProfile {
                longest: s(30.0),
                resolution: 1,
                repetitions: 50,
                verifications: 1,
            },
            recovery: RecoveryProfile { overload: s(60.0), reset: s(60.0), repetitions: 20 },
            idle: s(60.0),
            goals: vec![Goal::rfc2544(), Goal::tst009()],
        }
    }

    /// Returns a profile with trials of seconds and campaigns of minutes: for a first look, not for publication.
    pub fn quick() -> Self {
        Profile {
            name: "quick".into(),
            frame_bytes: vec![64, 512, 1518],
            waits: Waits {
                after_routes: s(0.0),
                after_learning: s(0.1),
                residual: s(0.2),
                restabilise: s(0.2),
            },
            invalid_repeats: 2,
            duration: s(1.0),
            resolution: Resolution::Relative(0.01),
            repetitions: 3,
            loss_step: 0.1,
            latency: LatencyProfile { duration: s(2.0), repetitions: 3 },
            variation: s(2.0),
            back_to_back: BackToBackProfile {
                longest: s(1.0),
                resolution: 16,
                repetitions: 5,
                verifications: 1,
            },
            recovery: RecoveryProfile { overload: s(2.0), reset: s(5.0), repetitions: 3 },
            idle: s(0.5),
            goals: vec![Goal::csit_ndr(), Goal::csit_pdr()],
        }
    }

    /// Returns the throughput search between two loads, in frames per second.
    pub fn throughput(&self, min_fps: f64, max_fps: f64) -> Throughput {
        let Profile { resolution, duration, .. } = *self;
        let step = match resolution {
            Resolution::Absolute(_) => Step::Halve,
            Resolution::Relative(_) => Step::HalveRatio,
        };
        Throughput { min_fps, max_fps, start: Start::Maximum, step, resolution, duration }
    }

    /// Returns the frame loss rate procedure, which starts at `max_fps` frames per second and steps down.
    pub fn loss_rate(&self, max_fps: f64) -> LossRate {
        LossRate { max_fps, step: self.loss_step, duration: self.duration }
    }

    /// Returns the back-to-back search for a link that carries `max_fps` and a router whose measured throughput is `throughput_fps`, both
    /// in frames per second.
    pub fn back_to_back(&self, max_fps: f64, throughput_fps: f64) -> BackToBack {
        let BackToBackProfile { longest, resolution, repetitions, verifications, .. } = self.back_to_back;
        let longest = (max_fps * longest.as_secs_f64()) as u64;
        BackToBack { max_fps, throughput_fps, longest, resolution, repetitions, verifications }
    }

    /// Returns MLRsearch with the profile's goals between two loads, in frames per second.
    pub fn mlr(&self, min_fps: f64, max_fps: f64) -> Mlr {
        Mlr { goals: self.goals.clone(), ..Mlr::csit(min_fps, max_fps) }
    }

    /// Returns all deviations from the RFCs, for the report: RFC 2544 section 23 requires reporting them.
    #[expect(clippy::too_many_lines, reason = "a list of requirements")]
    pub fn deviations(&self) -> Vec<Deviation> {
        let mut found = Vec::new();
        let missing: Vec<String> = ETHERNET_SIZES
            .iter()
            .filter(|size| !self.frame_bytes.contains(size))
            .map(u32::to_string)
            .collect();
        if !missing.is_empty() {
            let what = format!("frames of {} bytes are not tested", missing.join(", "));
            found.push(Deviation { source: "RFC 2544 section 9.1", of: Part::All, what });
        }
        let mut time = |source, of, what: &str, is: Duration, least: f64| {
            if is < s(least) {
                let what = format!("{what} {} s, less than {least} s", is.as_secs_f64());
                found.push(Deviation { source, of, what });
            }
        };
        let Waits { after_routes, after_learning, residual, restabilise } = self.waits;
        time("RFC 2544 section 23 a", Part::All, "the wait after routing updates is", after_routes, 2.0);
        time("RFC 2544 section 23 b", Part::All, "the wait after learning frames is", after_learning, 2.0);
        time("RFC 2544 section 23 d", Part::All, "the wait for residual frames is", residual, 2.0);
        time(
            "RFC 2544 section 23 e",
            Part::All,
            "the wait for the router to become stable is",
            restabilise,
            5.0,
        );
        time(
            "RFC 2544 section 24",
            Part::Trials,
            "trials of throughput and frame loss rate send for",
            self.duration,
            60.0,
        );
        time(
            "RFC 2544 section 26.2",
            Part::Latency,
            "the stream of a latency trial lasts",
            self.latency.duration,
            120.0,
        );
        time(
            "RFC 2544 section 26.4",
            Part::BackToBack,
            "the wait after a back-to-back burst is",
            residual,
            2.0,
        );
        time("RFC 2544 section 26.5", Part::Recovery, "the overload lasts", self.recovery.overload, 60.0);
        time(
            "RFC 8219 section 7.3.1",
            Part::Variation,
            "trials of delay variation send for",
            self.variation,
            60.0,
        );
        let mut count = |source, of, what: &str, is: u32, least: u32| {
            if is < least {
                found.push(Deviation { source, of, what: format!("{what}: {is}, less than {least}") });
            }
        };
        count(
            "RFC 2544 section 26.2",
            Part::Latency,
            "repetitions of a latency trial",
            self.latency.repetitions,
            20,
        );
        count(
            "RFC 2544 section 26.4",
            Part::BackToBack,
            "repetitions of a back-to-back search",
            self.back_to_back.repetitions,
            50,
        );
        if self.loss_step > 0.1 {
            let what = format!(
                "the frame loss rate is measured in load steps of {} %; at most 10 % is allowed",
                self.loss_step * 100.0
            );
            found.push(Deviation { source: "RFC 2544 section 26.3", of: Part::LossRate, what });
        }
        found
    }
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
