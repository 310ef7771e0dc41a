//! Runs the trials of a campaign and stores each one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Instant, SystemTime};

use super::connected::Sessions;
use super::delays::delays;
use super::keeper::Keeper;
use super::procedure::Procedure;
use super::results::{Disorder, Key, Metered, Usage};
use super::trial::{Flow, Trial};
use crate::dut::Dut;
use crate::energy::{self, Measured, Meters, Work};
use crate::engine::limits::Absence;
use crate::engine::run::{Engine, Report};
use crate::engine::stamp::Stamp;
use crate::host::Times;
use crate::search::profile::Waits;
use crate::trial::{Failure, Measure, Outcome, Request};

/// Runs trials and stores each one.
pub(super) struct Recorded<'a> {
    /// Engine that sends and receives.
    pub engine: Engine,
    /// Router under test; `None` for the tester's self-test.
    pub dut: Option<&'a dyn Dut>,
    /// Storage for the trials.
    pub keeper: &'a dyn Keeper,
    /// Set when the campaign must stop.
    pub stop: &'a AtomicBool,
    /// Key of the measured cell: router, traffic, frame size and options of the test.
    pub key: Key,
    /// Connections that trials use, if any.
    pub sessions: Option<Sessions>,
    /// Names of the flows, which are the same in each direction.
    pub flows: Vec<String>,
    /// Current procedure.
    pub procedure: Procedure,
    /// Current repetition, from 1 on.
    pub repetition: u32,
    /// Waits of each trial.
    pub waits: Waits,
    /// Meters of energy and processor time; `None` for the tester's self-test.
    pub meters: Option<Meters>,
    /// Readings of the meters without traffic.
    pub idle: Vec<Measured>,
    /// Last trial.
    pub last: Option<Trial>,
    /// Largest load that the tester offered in the current procedure, and whether the tester's ports refused frames.
    pub strain: Strain,
    /// Duplicated, reordered, damaged and misdirected frames of the current procedure.
    pub disorder: Disorder,
    /// Largest delays that the tester itself caused in the valid trials of the current procedure.
    pub absence: Absence,
}

/// Largest load that the tester offered in the trials of a procedure, and whether the tester's ports refused frames. Shows whether the
/// tester may have limited a result.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Strain {
    /// Largest load offered, in frames per second.
    pub most_fps: f64,
    /// True if the tester's ports refused frames.
    pub refused: bool,
    /// The lowest load that had loss, and true if the tester's ports refused frames at this load.
    least_lossy: Option<(f64, bool)>,
}

impl Strain {
    /// True if the tester's ports refused frames at the lowest load that had loss.
    pub fn is_bound(&self) -> bool {
        self.least_lossy.is_some_and(|(_, refused)| refused)
    }

    fn note(&mut self, outcome: &Outcome, refused: bool) {
        let load = outcome.request.load_fps;
        self.most_fps = self.most_fps.max(load);
        self.refused |= refused;
        if outcome.lost() > 0 && self.least_lossy.is_none_or(|(least, _)| load < least) {
            self.least_lossy = Some((load, refused));
        }
    }
}

impl Recorded<'_> {
    /// Establishes the connections that the trials use, except in the warm-up. Then runs the trials without a gap between them (RFC 2544
    /// section 26.5 changes the load in this way).
    ///
    /// # Errors
    /// Returns an error if connections cannot be established, a trial has no outcome or cannot be stored, or the campaign must stop.
    pub fn steps(&mut self, requests: &[Request]) -> Result<Vec<Trial>, Failure> {
        // The warm-up runs before connections are established.
        if self.procedure != Procedure::WarmUp {
            self.connect()?;
        }
        self.watched(requests, |_, _| ())
    }

    /// Runs trials with the engine's current traffic, without establishing connections. Calls `came` for each received frame.
    ///
    /// # Errors
    /// As [`steps`](Self::steps).
    pub fn watched(
        &mut self,
        requests: &[Request],
        came: impl FnMut(Stamp, &[u8]),
    ) -> Result<Vec<Trial>, Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure("interrupted".into()));
        }
        let at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let (times, own, began) = (Times::now(), self.dut_seconds(), Instant::now());
        if let Some(meters) = &mut self.meters {
            meters.watch(&self.dut.map(|dut| dut.processes()).unwrap_or_default());
            meters.begin();
        }
        // Energy and processor time end with the last frame, not after the wait for late frames.
        let (meters, dut) = (&mut self.meters, self.dut);
        let (mut measured, mut seconds, mut busy, mut dut_busy) = (Vec::new(), 0.0, None, None);
        let came = self.engine.run_watched(requests, came, || {
            measured = meters.as_mut().map(Meters::end).unwrap_or_default();
            seconds = began.elapsed().as_secs_f64();
            busy = times.and_then(|before| Some(Times::now()?.busy_since(before) / seconds));
            dut_busy = own.and_then(|before| Some((dut?.cpu_seconds()? - before) / seconds));
        })?;
        let mut trials = Vec::new();
        for (mut outcome, report) in came {
            outcome.took += self.waits.restabilise;
            let refused = report.directions.iter().flatten().any(|flow| flow.refused > 0);
            self.strain.note(&outcome, refused);
            // The meters' readings cover all steps together, so only a single step has figures for each packet.
            let work = (requests.len() == 1).then(|| self.work(&report));
            let meters = self.metered(&measured, work);
            let (flows, delays) = (self.flows(&report), delays(self.engine.directions(), &report)?);
            let trial = Trial {
                key: self.key.clone(),
                procedure: self.procedure,
                repetition: self.repetition,
                at: at.clone(),
                outcome,
                flows,
                astray: report.astray,
                foreign: report.foreign,
                asked: report.asked,
                absence: Some(report.absence),
                delays,
                usage: Usage { seconds, busy, dut_busy, meters },
            };
            self.disorder.note(&trial);
            if trial.outcome.is_valid() {
                self.absence.include(&report.absence);
            }
            self.keeper.trial(&trial)?;
            trials.push(trial);
        }
        thread::sleep(self.waits.restabilise);
        Ok(trials)
    }

    /// Returns the router's counters as names and values.
    pub fn counters(&self) -> Vec<(String, String)> {
        self.dut.map(|dut| dut.counters()).unwrap_or_default()
    }

    fn dut_seconds(&self) -> Option<f64> {
        self.dut?.cpu_seconds()
    }

    /// Returns the frames and bytes delivered. Bytes are estimated from the mean frame size of each flow.
    fn work(&self, report: &Report) -> Work {
        let (mut frames, mut bytes) = (0, 0.0);
        for (direction, flows) in self.engine.directions().iter().zip(&report.directions) {
            for (flow, came) in direction.flows.iter().zip(flows) {
                frames += came.tally.received;
                bytes += came.tally.received as f64 * flow.mean_bytes();
            }
        }
        Work { frames, bytes: bytes.round() as u64 }
    }

    /// Returns the meters' readings. If the delivered traffic `work` is known, adds the figures derived from it.
    fn metered(&self, measured: &[Measured], work: Option<Work>) -> Vec<Metered> {
        let all = measured.iter().enumerate().map(|(n, m)| {
            let idle = self.idle.get(n).and_then(|idle| idle.reading.as_ref().ok());
            let of = |reading| Some(energy::Results::of(reading, idle, work?));
            let figures = m.reading.as_ref().ok().and_then(of);
            Metered { meter: m.meter.clone(), kind: m.kind, reading: m.reading.clone(), figures }
        });
        all.collect()
    }

    fn flows(&self, report: &Report) -> Vec<Flow> {
        let mut all = Vec::new();
        for (direction, flows) in report.directions.iter().enumerate() {
            all.extend(flows.iter().zip(&self.flows).map(|(f, name)| Flow {
                direction,
                name: name.clone(),
                intended: f.intended,
                sent: f.sent,
                refused: f.refused,
                unmade: f.unmade,
                received: f.tally.received,
                duplicated: f.tally.duplicated,
                reordered: f.tally.reordered,
                damaged: f.tally.damaged,
                lag: f.lag,
                behind: Some(f.behind),
                fastest: f.fastest,
                late: f.late,
                last_lost: f.last_lost,
                last_received: f.last_received,
            }));
        }
        all
    }
}

impl Measure for Recorded<'_> {
    fn measure(&mut self, request: Request) -> Result<Outcome, Failure> {
        self.last = self.steps(&[request])?.pop();
        self.last.as_ref().map(|t| t.outcome.clone()).ok_or_else(|| Failure("no trial".into()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn unsent_frames_do_not_count_against_the_router() {
        let note = |strain: &mut Strain, load_fps: f64, lost: u64, refused: bool| {
            let request = Request { load_fps, duration: Duration::from_secs(1) };
            let (intended, invalid) = (1000, Vec::new());
            let (sent, received, took) = (intended, intended - lost, request.duration);
            strain.note(&Outcome { request, intended, sent, received, took, invalid }, refused);
        };
        let mut strain = Strain::default();
        note(&mut strain, 4e5, 10, true);
        assert!(strain.is_bound() && strain.refused);
        // A lower load has loss now, and the ports refused no frame at this load.
        note(&mut strain, 2e5, 10, false);
        assert!(!strain.is_bound() && strain.refused);
        note(&mut strain, 1e5, 0, false);
        assert!(!strain.is_bound() && strain.most_fps == 4e5);
    }
}
