//! One trial: all directions are sent and received by one thread, each by the clock.

use std::time::Duration;

use buf::{Cache, Frame, Pool, RxQueue, TxQueue, Unsent};
use drivers::pktgen::Template;
use hdrhistogram::Histogram;
use infra::clock::{Clock, tsc};
use infra::hash::mix64;

use super::receiver::{Account, Receiver, Tally};
use super::schedule::Schedule;
use super::sender::{Mode, Sender};
use crate::host::{self, Times};
use crate::trial::{Failure, Invalid, Measure, Outcome, Request};

/// Frames that are sent at once, at most.
pub const BURST: usize = 64;
/// Streams have numbers by direction and flow: so many flows a direction.
pub const FLOWS: u16 = 16;
/// From the decision to begin until the first frame, in seconds: what is cold by then gets warm.
const AHEAD: f64 = 0.001;

/// Frames of a kind, with a rate and counts of their own.
#[derive(Clone, Debug)]
pub struct Flow {
    /// What is sent: a mix.
    pub templates: Vec<Template>,
    /// How fast.
    pub rate: Rate,
    /// How its frames are marked.
    pub mode: Mode,
}

/// How fast a flow is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// A share of the trial's load; shares of a direction add up to 1, usually.
    Share(f64),
    /// So many frames a second whatever the load, such as a stream that measures latency.
    Fixed(f64),
}

impl Rate {
    fn fps(self, load: f64) -> f64 {
        match self {
            Rate::Share(share) => share * load,
            Rate::Fixed(fps) => fps,
        }
    }
}

/// From one port to another, through whatever is tested.
pub struct Direction {
    /// What is sent; at most [`FLOWS`] different ones.
    pub flows: Vec<Flow>,
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
    /// Of each flow.
    pub flows: Vec<FlowReport>,
    /// Frames that came, and that this trial did not send there.
    pub foreign: u64,
}

/// What came of one flow.
pub struct FlowReport {
    /// Frames that should have been sent.
    pub intended: u64,
    /// Frames that the port took.
    pub sent: u64,
    /// Frames that it refused: its ring was full, as a wire's end would be.
    pub refused: u64,
    /// Frames that the tester had no buffer for.
    pub unmade: u64,
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
    limits: Limits,
    /// How long frames that are under way are waited for (RFC 2544 section 23 step d: 2 s).
    wait: Duration,
    seed: u64,
    trials: u64,
}

/// A direction in a trial.
struct Running<'d> {
    tx: &'d mut dyn TxQueue,
    rx: &'d mut dyn RxQueue,
    flows: Vec<Sending>,
    receiver: Receiver,
}

/// A flow in a trial.
struct Sending {
    sender: Sender,
    schedule: Schedule,
    fps: f64,
    refused: u64,
    /// Frames that the tester had no buffer for.
    unmade: u64,
    /// When the last frame was sent, in ticks.
    last: u64,
}

impl Engine {
    /// Sends and receives with buffers of `pool`. Whatever is random comes from the seed.
    pub fn new(directions: Vec<Direction>, pool: &Pool, limits: Limits, wait: Duration, seed: u64) -> Engine {
        Engine { directions, cache: pool.cache(), clock: Clock::new(), limits, wait, seed, trials: 0 }
    }

    /// Runs a trial.
    ///
    /// # Errors
    /// When the traffic cannot be as described, or a port vanished.
    pub fn run(&mut self, request: Request) -> Result<(Outcome, Vec<Report>), Failure> {
        let began = tsc();
        let hz = self.clock.tsc_hz();
        self.trials += 1;
        let signature = mix64(self.seed ^ self.trials << 32) as u32;
        let start = began + (AHEAD * hz) as u64;
        let mut running = Vec::new();
        for (n, port) in (0u16..).zip(&mut self.directions) {
            // What came before belongs to no trial: it is lost to none.
            port.rx.take_lost();
            if port.flows.len() > usize::from(FLOWS) {
                let what =
                    format!("direction {n} has {} flows: at most {FLOWS} are possible", port.flows.len());
                return Err(Failure(what));
            }
            let (mut flows, mut accounts) = (Vec::new(), Vec::new());
            for (flow, stream) in port.flows.iter().zip(n * FLOWS..(n + 1) * FLOWS) {
                let named = |what: String| Failure(format!("direction {n}, flow {}, {what}", stream % FLOWS));
                let fps = flow.rate.fps(request.load_fps);
                let frames = Request { load_fps: fps, ..request }.frames();
                if frames == 0 {
                    return Err(named(format!(
                        "{fps} frames a second for {:?} are none at all",
                        request.duration
                    )));
                }
                let seed = mix64(self.seed ^ u64::from(stream));
                let sender = Sender::new(&flow.templates, flow.mode, seed, signature, stream);
                accounts.push(Account::new(frames, flow.mode, hz).map_err(|e| named(e.to_string()))?);
                flows.push(Sending {
                    sender: sender.map_err(|e| named(e.to_string()))?,
                    schedule: Schedule::new(start, frames, fps, hz),
                    fps,
                    refused: 0,
                    unmade: 0,
                    last: start,
                });
            }
            let receiver = Receiver::new(signature, n * FLOWS, accounts);
            running.push(Running { tx: &mut *port.tx, rx: &mut *port.rx, flows, receiver });
        }
        let times = Times::now();
        // Who is late by then stays late: a trial is not stretched.
        let stop = start + (request.duration.as_secs_f64() * hz * self.limits.late + 0.01 * hz) as u64;
        let mut frame = Box::new(Frame::new());
        while running.iter().any(|r| !r.is_done()) && tsc() < stop {
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
        let mut reports = Vec::new();
        for r in running {
            // Frames that came, and that the tester's own port lost, say nothing of the router.
            let lost = r.rx.take_lost();
            let dropped = lost.missed + lost.unusable;
            invalid.extend((dropped > 0).then_some(Invalid::TesterDropped(dropped)));
            let foreign = r.receiver.foreign;
            let flows = r.flows.into_iter().zip(r.receiver.into_streams());
            let flows: Vec<_> = flows.map(|(sent, came)| sent.report(came, ended)).collect();
            flows.iter().for_each(|f| invalid.extend(f.faults(&self.limits)));
            reports.push(Report { flows, foreign });
        }
        let sum = |of: fn(&FlowReport) -> u64| reports.iter().flat_map(|r| &r.flows).map(of).sum();
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
    fn is_done(&self) -> bool {
        self.flows.iter().all(|f| f.schedule.is_done())
    }

    /// Sends what is due.
    #[inline]
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Failure> {
        for flow in &mut self.flows {
            let now = tsc();
            let due = flow.schedule.due(now, BURST);
            if due == 0 {
                continue;
            }
            let made = flow.sender.fill(frame, cache, due, now);
            flow.unmade += (due - made) as u64;
            flow.last = now;
            // Frames wait for nobody: what a port does not take now is lost, as it would be behind a full ring of the router.
            if self.tx.send(frame, cache) == Err(Unsent::Gone) {
                frame.free(cache);
                return Err(Failure("a port to send by vanished".into()));
            }
            flow.refused += frame.len() as u64;
            frame.free(cache);
        }
        Ok(())
    }

    #[inline]
    fn receive(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Failure> {
        let polled = self.rx.poll(frame, cache);
        if !frame.is_empty() {
            self.receiver.take(frame, tsc());
            frame.free(cache);
        }
        polled.map_err(|gone| Failure(format!("a port to receive by vanished: {}", gone.0)))
    }
}

impl Sending {
    /// What came of the flow, which was sent until `ended` at most, ticks.
    fn report(self, came: Account, ended: u64) -> FlowReport {
        let (taken, end) = (self.schedule.taken(), self.schedule.end());
        // Who did not get done in time was busy sending until the end.
        let last = if self.schedule.is_done() { self.last } else { ended };
        let wanted = (end - self.schedule.start()).max(1) as f64;
        FlowReport {
            intended: self.schedule.frames(),
            sent: taken - self.unmade - self.refused,
            refused: self.refused,
            unmade: self.unmade,
            last_lost: came.last_missing(taken).map(|n| n as f64 / self.fps),
            lag: self.schedule.lag(),
            fastest: self.schedule.fastest(),
            late: (wanted + last.saturating_sub(end) as f64) / wanted,
            tally: came.tally,
            delays: came.delays,
        }
    }
}

impl FlowReport {
    /// Why it says nothing of the router.
    fn faults(&self, limits: &Limits) -> impl Iterator<Item = Invalid> {
        [
            (self.late > limits.late).then_some(Invalid::Late(self.late)),
            (self.lag > limits.lag).then_some(Invalid::Lagged(self.lag)),
            (self.fastest > limits.burst).then_some(Invalid::Burst(self.fastest)),
            (self.unmade > 0).then_some(Invalid::TesterDropped(self.unmade)),
        ]
        .into_iter()
        .flatten()
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
