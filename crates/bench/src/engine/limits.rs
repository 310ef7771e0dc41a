//! Limits beyond which a trial is invalid, because the tester or its machine may have caused its result.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::run::FlowReport;
use crate::trial::Invalid;

/// Limits beyond which a trial is invalid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Maximum duration of sending, as a multiple of the trial's duration. An excess of up to `behind` is always allowed.
    pub late: f64,
    /// Maximum delay between a frame's due time and its departure.
    pub behind: Duration,
    /// Maximum number of frames of a port that may be overdue at the same time. They leave as one burst, which must fit even into a
    /// small queue of the router. One frame of each further flow is always allowed, since each flow has its own schedule.
    pub queue: u64,
    /// Maximum sending rate over at least 10 ms and 256 frames, as a multiple of the intended rate.
    pub burst: f64,
    /// Maximum time that received frames may wait for the tester.
    pub away: Duration,
    /// Maximum share of a trial's time that the tester may spend ready to run, but without a processor. A wait of up to `away` is always
    /// allowed.
    pub waited: f64,
    /// Maximum share of processor time that the host may steal.
    pub stolen: f64,
}

impl Limits {
    /// Limits for hardware ports. `late` is the tolerance of siitperf, and `behind` (10 µs) that of FD.io CSIT.
    pub const STRICT: Limits = Limits {
        late: 1.00001,
        behind: Duration::from_micros(10),
        queue: 256,
        burst: 1.05,
        away: Duration::from_micros(100),
        waited: 0.0001,
        stolen: 0.001,
    };

    /// Limits for virtual links on a shared machine.
    pub const VIRTUAL: Limits = Limits {
        late: 1.01,
        behind: Duration::from_millis(1),
        queue: 256,
        burst: 2.0,
        away: Duration::from_millis(1),
        waited: 0.001,
        stolen: 0.05,
    };

    /// Limits so wide that even a busy machine meets them.
    #[cfg(test)]
    pub const NONE: Limits = Limits {
        late: 100.0,
        behind: Duration::MAX,
        queue: u64::MAX,
        burst: f64::INFINITY,
        away: Duration::MAX,
        waited: 1.0,
        stolen: 1.0,
    };

    /// Returns the reasons why a trial of `seconds` with these delays of the tester is invalid.
    pub fn of_absence(&self, absence: &Absence, seconds: f64) -> impl Iterator<Item = Invalid> + use<> {
        let away = self.away.as_secs_f64();
        let most = self.waited.max(away / seconds);
        [
            (absence.away > away).then_some(Invalid::Away(absence.away)),
            absence.waited.filter(|waited| *waited > most).map(Invalid::Waited),
        ]
        .into_iter()
        .flatten()
    }

    /// Returns the reason if a trial is invalid because too many frames of a port were overdue. `overdue` is the largest number at one
    /// time, and `flows` the port's number of flows. `None` if the trial is valid in this respect.
    pub fn of_port(&self, overdue: u64, flows: usize) -> Option<Invalid> {
        let most = self.queue.saturating_add(flows.saturating_sub(1) as u64);
        (overdue > most).then_some(Invalid::Lagged(overdue))
    }

    /// Returns the reasons why a trial with this flow is invalid.
    pub fn of_flow(&self, flow: &FlowReport) -> impl Iterator<Item = Invalid> + use<> {
        let behind = self.behind.as_secs_f64();
        let late = self.late.max(1.0 + behind / flow.wanted);
        [
            (flow.late > late).then_some(Invalid::Late(flow.late)),
            (flow.behind > behind).then_some(Invalid::Behind(flow.behind)),
            (flow.fastest > self.burst).then_some(Invalid::Burst(flow.fastest)),
            (flow.unmade > 0).then_some(Invalid::TesterDropped(flow.unmade)),
            (flow.untaken > 0).then_some(Invalid::Lagged(flow.untaken)),
        ]
        .into_iter()
        .flatten()
    }
}

/// Delays that the tester itself caused in a trial; for several trials, the largest ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Absence {
    /// Upper limit, in seconds, for the longest delay between a frame's due time and its departure.
    pub behind: f64,
    /// Longest interval in seconds between a poll that returned frames and the poll before it: these frames may have waited that long.
    pub away: f64,
    /// Share of the time in which the tester was ready to run, but had no processor, 0 to 1. `None` if the kernel does not count it.
    pub waited: Option<f64>,
}

impl Absence {
    /// Includes another trial: each figure is the largest of all trials.
    pub fn include(&mut self, other: &Absence) {
        self.behind = self.behind.max(other.behind);
        self.away = self.away.max(other.away);
        self.waited = match (self.waited, other.waited) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
    }
}
