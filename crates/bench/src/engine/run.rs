//! One trial: all directions are sent and received by one thread, each by the clock.

use std::time::Duration;

use buf::{Cache, Frame, Pool, RxQueue, TxQueue};
use drivers::pktgen::Template;
use hdrhistogram::Histogram;
use infra::clock::{Clock, tsc};
use infra::hash::mix64;

use super::receiver::{Receiver, Tally};
use super::schedule::Schedule;
use super::sender::{Mode, Sender};
use crate::host::{self, Times};
use crate::trial::{Failure, Invalid, Measure, Outcome, Request};

/// Frames that are sent at once, at most.
pub const BURST: usize = 64;
/// From the decision to begin until the first frame, in seconds: what is cold by then gets warm.
const AHEAD: f64 = 0.001;

/// From one port to another, through whatever is tested.
pub struct Direction {
    /// What is sent.
    pub templates: Vec<Template>,
    /// Where it goes in.
    pub tx: Box<dyn TxQueue>,
    /// Where it comes out.
    pub rx: Box<dyn RxQueue>,
}

/// Beyond these a trial is invalid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// How long sending may take, as a multiple of the trial's duration.
    pub late: f64,
    /// Frames that may be overdue at once.
    pub lag: u64,
    /// How fast the sender may be for 10 ms or 256 frames, as a multiple of the rate.
    pub burst: f64,
    /// The share of the time that the host may give to others.
    pub stolen: f64,
}

impl Limits {
    /// For ports of real hardware whose smallest ring has so many frames (siitperf's tolerance; half the ring is lag that the
    /// wire does not see).
    pub fn strict(ring: u64) -> Limits {
        Limits { late: 1.00001, lag: ring / 2, burst: 1.05, stolen: 0.001 }
    }

    /// For virtual links on a machine that is shared: 1 % late, rings of 512, bursts of twice the rate, 5 % stolen.
    pub const VIRTUAL: Limits = Limits { late: 1.01, lag: 512, burst: 2.0, stolen: 0.05 };
}

/// What came of one direction.
pub struct Report {
    /// Frames that should have been sent.
    pub intended: u64,
    /// Frames that the port took.
    pub sent: u64,
    /// Frames that it refused: its ring was full, as a wire's end would be.
    pub refused: u64,
    /// What came back.
    pub tally: Tally,
    /// Delays of all that came, nanoseconds.
    pub delays: Histogram<u64>,
    /// When the last frame that was lost should have been sent, seconds from the start.
    pub last_lost: Option<f64>,
    /// Frames that were overdue at once, at most.
    pub lag: u64,
    /// The fastest 10 ms or 256 frames, as a multiple of the rate.
    pub fastest: f64,
    /// How long sending took, as a multiple of what it should have.
    pub late: f64,
}

/// Ports that are connected by what is tested, and what is sent through it.
pub struct Engine {
    directions: Vec<Direction>,
    cache: Cache,
    clock: Clock,
    mode: Mode,
    limits: Limits,
    /// How long frames that are under way are waited for (RFC 2544 section 23 step d: 2 s).
    wait: Duration,
    seed: u64,
    trials: u64,
}

/// A direction in a trial.
struct Running<'d> {
    port: &'d mut Direction,
    sender: Sender,
    schedule: Schedule,
    receiver: Receiver,
    refused: u64,
    /// Frames that the tester had no buffer for.
    unmade: u64,
    /// Frames that came, and that the tester's port dropped.
    dropped_in: u64,
    /// When the last frame was sent, in ticks.
    last: u64,
}

impl Engine {
    /// Sends and receives with buffers of `pool`. Whatever is random comes from the seed.
    pub fn new(
        directions: Vec<Direction>,
        pool: &Pool,
        mode: Mode,
        limits: Limits,
        wait: Duration,
        seed: u64,
    ) -> Engine {
        Engine { directions, cache: pool.cache(), clock: Clock::new(), mode, limits, wait, seed, trials: 0 }
    }

    /// Runs a trial.
    ///
    /// # Errors
    /// When the traffic cannot be as described, or a port vanished.
    pub fn run(&mut self, request: Request) -> Result<(Outcome, Vec<Report>), Failure> {
        let began = tsc();
        let (frames, hz) = (request.frames(), self.clock.tsc_hz());
        if frames == 0 {
            return Err(Failure(format!(
                "{} frames a second for {:?} are no frame at all",
                request.load_fps, request.duration
            )));
        }
        self.trials += 1;
        let signature = mix64(self.seed ^ self.trials << 32) as u32;
        let start = began + (AHEAD * hz) as u64;
        let mut running = Vec::new();
        for (stream, port) in (0u16..).zip(&mut self.directions) {
            let seed = mix64(self.seed ^ u64::from(stream));
            let sender = Sender::new(&port.templates, self.mode, seed, signature, stream);
            let receiver = Receiver::new(frames, self.mode, signature, stream, hz);
            // What came before belongs to no trial: it is lost to none.
            port.rx.take_lost();
            running.push(Running {
                port,
                sender: sender.map_err(|e| Failure(format!("direction {stream}, {e}")))?,
                schedule: Schedule::new(start, frames, request.load_fps, hz),
                receiver: receiver.map_err(|e| Failure(e.to_string()))?,
                refused: 0,
                unmade: 0,
                dropped_in: 0,
                last: start,
            });
        }
        let times = Times::now();
        let end = running.iter().map(|r| r.schedule.end()).max().unwrap_or(start);
        let wanted = (end - start) as f64 + hz / request.load_fps;
        // Who is late by then stays late: a trial is not stretched.
        let stop = start + (wanted * self.limits.late) as u64 + (0.01 * hz) as u64;
        let mut frame = Box::new(Frame::new());
        while running.iter().any(|r| !r.schedule.is_done()) && tsc() < stop {
            for r in &mut running {
                r.send(&mut frame, &mut self.cache)?;
                r.receive(&mut frame, &mut self.cache)?;
            }
        }
        let ended = tsc();
        let until = ended + (self.wait.as_secs_f64() * hz) as u64;
        while tsc() < until {
            for r in &mut running {
                r.receive(&mut frame, &mut self.cache)?;
            }
        }
        let mut invalid = Vec::new();
        if let Some(why) = host::clock_fault() {
            invalid.push(Invalid::Clock(why));
        }
        if let (Some(before), Some(after)) = (times, Times::now())
            && after.stolen_since(before) > self.limits.stolen
        {
            invalid.push(Invalid::Stolen(after.stolen_since(before)));
        }
        let reports: Vec<Report> = running
            .into_iter()
            .map(|mut r| {
                // Frames that came, and that the tester's own port lost, say nothing of the router.
                let lost = r.port.rx.take_lost();
                r.dropped_in = lost.missed + lost.unusable;
                let late = r.late(ended - start, wanted);
                invalid.extend(r.faults(&self.limits, late));
                r.report(frames, late, request.load_fps)
            })
            .collect();
        let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum();
        let outcome = Outcome {
            request,
            intended: sum(|r| r.intended),
            sent: sum(|r| r.sent),
            received: sum(|r| r.tally.received),
            took: Duration::from_nanos(self.clock.ticks_to_ns(tsc() - began)),
            invalid,
        };
        Ok((outcome, reports))
    }
}

impl Measure for Engine {
    fn measure(&mut self, request: Request) -> Result<Outcome, Failure> {
        Ok(self.run(request)?.0)
    }
}

impl Running<'_> {
    /// Sends what is due.
    #[inline]
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Failure> {
        let now = tsc();
        let due = self.schedule.due(now, BURST);
        if due == 0 {
            return Ok(());
        }
        let made = self.sender.fill(frame, cache, due, now);
        self.unmade += (due - made) as u64;
        self.last = now;
        // Frames wait for nobody: what a port does not take now is lost, as it would be behind a full ring of the router.
        if self.port.tx.send(frame, cache) == Err(buf::Unsent::Gone) {
            frame.free(cache);
            return Err(Failure("a port to send by vanished".into()));
        }
        self.refused += frame.len() as u64;
        frame.free(cache);
        Ok(())
    }

    #[inline]
    fn receive(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Failure> {
        let polled = self.port.rx.poll(frame, cache);
        if !frame.is_empty() {
            self.receiver.take(frame, tsc());
            frame.free(cache);
        }
        polled.map_err(|gone| Failure(format!("a port to receive by vanished: {}", gone.0)))
    }

    /// How long sending took, as a multiple of the ticks that it should have. It ended `took` ticks after the start.
    fn late(&self, took: u64, wanted: f64) -> f64 {
        let behind = match self.schedule.is_done() {
            true => self.last.saturating_sub(self.schedule.end()) as f64,
            false => (took as f64 - wanted).max(0.0),
        };
        (wanted + behind) / wanted
    }

    fn faults(&self, limits: &Limits, late: f64) -> Vec<Invalid> {
        let (lag, fastest) = (self.schedule.lag(), self.schedule.fastest());
        let dropped = self.unmade + self.dropped_in;
        [
            (late > limits.late).then_some(Invalid::Late(late)),
            (lag > limits.lag).then_some(Invalid::Lagged(lag)),
            (fastest > limits.burst).then_some(Invalid::Burst(fastest)),
            (dropped > 0).then_some(Invalid::TesterDropped(dropped)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn report(self, intended: u64, late: f64, fps: f64) -> Report {
        let taken = self.schedule.taken();
        Report {
            intended,
            sent: taken - self.unmade - self.refused,
            refused: self.refused,
            last_lost: self.receiver.last_missing(taken).map(|n| n as f64 / fps),
            lag: self.schedule.lag(),
            fastest: self.schedule.fastest(),
            late,
            tally: self.receiver.tally,
            delays: self.receiver.delays,
        }
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
