//! One trial: all directions are sent and received by one thread, each by the clock.

use std::time::Duration;

use buf::{Cache, Frame, Pool, RxQueue, TxQueue, Unsent};
use drivers::pktgen::Template;
use infra::clock::{Clock, tsc};
use infra::hash::mix64;

use super::host::Hosts;
use super::receiver::{Account, Receiver, Tally};
use super::schedule::Schedule;
use super::sender::{Mode, Sender};
use super::stamp::Stamp;
use crate::host::{self, Times};
use crate::stats::ipdv::IpdvHistogram;
use crate::stats::latency::DelayHistogram;
use crate::trial::{Failure, Invalid, Measure, Outcome, Request};

/// Frames that are sent at once, at most.
pub const BURST: usize = 64;
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

impl Flow {
    /// The mean size of its frames, bytes with frame check sequence: by weight, and by the middle of a range.
    pub fn mean_bytes(&self) -> f64 {
        let middle = |t: &Template| (t.size.start() + t.size.end()) as f64 / 2.0 + 4.0;
        let weights: f64 = self.templates.iter().map(|t| f64::from(t.weight)).sum();
        let sum: f64 = self.templates.iter().map(|t| f64::from(t.weight) * middle(t)).sum();
        if weights > 0.0 { sum / weights } else { 0.0 }
    }
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

/// A port of the tester.
pub struct Port {
    /// Where frames go out.
    pub tx: Box<dyn TxQueue>,
    /// Where they come in.
    pub rx: Box<dyn RxQueue>,
    /// Who answers there for hosts; nobody where no router asks.
    pub hosts: Option<Hosts>,
}

/// From one port to another, through whatever is tested.
#[derive(Clone, Debug)]
pub struct Direction {
    /// The number of the port that sends.
    pub from: usize,
    /// The number of the port that should receive.
    pub to: usize,
    /// What is sent.
    pub flows: Vec<Flow>,
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

/// What came of a trial.
pub struct Report {
    /// Of each direction, of each flow.
    pub directions: Vec<Vec<FlowReport>>,
    /// Frames that came by another port than they should.
    pub astray: u64,
    /// Frames that came, and were none of this trial's.
    pub foreign: u64,
    /// Of those, questions for hosts behind each port, which were answered.
    pub asked: Vec<u64>,
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
    /// Delays of all that came.
    pub delays: DelayHistogram,
    /// Differences between the delays of successive frames, where they were wanted.
    pub ipdv: Option<IpdvHistogram>,
    /// When the last frame that was lost should have been sent, seconds from the start.
    pub last_lost: Option<f64>,
    /// When the last frame that came should have been sent, seconds from the start; `None` of a flood.
    pub last_received: Option<f64>,
    /// Frames that were overdue at once, at most.
    pub lag: u64,
    /// The fastest 10 ms or 256 frames, as a multiple of the rate.
    pub fastest: f64,
    /// How long sending took, as a multiple of what it should have.
    pub late: f64,
}

/// Ports that are connected by what is tested, and what is sent through it.
pub struct Engine {
    ports: Vec<Port>,
    directions: Vec<Direction>,
    cache: Cache,
    clock: Clock,
    limits: Limits,
    /// How long frames that are under way are waited for (RFC 2544 section 23 step d: 2 s).
    wait: Duration,
    seed: u64,
    trials: u64,
    ipdv: bool,
}

/// A flow in a trial.
struct Sending {
    /// The port that it goes out by.
    from: usize,
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
    /// Sends and receives by these ports, with buffers of `pool`. Whatever is random comes from the seed.
    pub fn new(
        ports: Vec<Port>,
        directions: Vec<Direction>,
        pool: &Pool,
        limits: Limits,
        wait: Duration,
        seed: u64,
    ) -> Engine {
        Engine {
            ports,
            directions,
            cache: pool.cache(),
            clock: Clock::new(),
            limits,
            wait,
            seed,
            trials: 0,
            ipdv: false,
        }
    }

    /// Whether differences between the delays of successive frames are recorded (RFC 8219 section 7.3.2): a flow's, in its order.
    pub fn record_ipdv(&mut self, on: bool) {
        self.ipdv = on;
    }

    /// What is sent.
    pub fn directions(&self) -> &[Direction] {
        &self.directions
    }

    /// Sends something else from the next trial on.
    pub fn set_directions(&mut self, directions: Vec<Direction>) {
        self.directions = directions;
    }

    /// Runs a trial.
    ///
    /// # Errors
    /// When the traffic cannot be as described, or a port vanished.
    pub fn run(&mut self, request: Request) -> Result<(Outcome, Report), Failure> {
        let mut steps = self.run_steps(&[request])?;
        steps.pop().ok_or_else(|| Failure("a trial of no steps".into()))
    }

    /// Runs trials one behind the other without a gap, each accounted for by itself. What is wrong with the machine or with the tester's
    /// ports makes all of them invalid.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_steps(&mut self, requests: &[Request]) -> Result<Vec<(Outcome, Report)>, Failure> {
        self.run_watched(requests, |_, _| ())
    }

    /// The same, where `came` is shown each frame of the trial that comes, with its mark.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_watched(
        &mut self,
        requests: &[Request],
        mut came: impl FnMut(Stamp, &[u8]),
    ) -> Result<Vec<(Outcome, Report)>, Failure> {
        let began = tsc();
        let hz = self.clock.tsc_hz();
        self.trials += 1;
        let signature = mix64(self.seed ^ self.trials << 32) as u32;
        let (mut sending, mut accounts) = (Vec::<Sending>::new(), Vec::new());
        let whole = requests.iter().fold(Duration::ZERO, |sum, r| sum + r.duration);
        let mut offset = 0;
        for request in requests {
            self.prepare(*request, offset, signature, whole + self.wait, &mut sending, &mut accounts)?;
            offset += (request.duration.as_secs_f64() * hz) as u64;
        }
        let mut receiver = Receiver::new(signature, accounts, self.ports.len());
        for port in &mut self.ports {
            // What came before belongs to no trial: it is lost to none.
            port.rx.take_lost();
        }
        let times = Times::now();
        // To make frames takes milliseconds: only then it is known when the first one can go.
        let start = tsc() + (AHEAD * hz) as u64;
        let mut sending: Vec<Sending> = sending.into_iter().map(|s| s.later(start)).collect();
        // Who is late by then stays late: a trial is not stretched.
        let stop = start + offset + (whole.as_secs_f64() * hz * (self.limits.late - 1.0) + 0.01 * hz) as u64;
        let mut frame = Box::new(Frame::new());
        while sending.iter().any(|s| !s.schedule.is_done()) && tsc() < stop {
            for s in &mut sending {
                s.send(&mut self.ports, &mut frame, &mut self.cache)?;
            }
            receive(&mut self.ports, &mut receiver, &mut frame, &mut self.cache, &mut came)?;
        }
        let ended = tsc();
        let until = ended + (self.wait.as_secs_f64() * hz) as u64;
        while tsc() < until {
            receive(&mut self.ports, &mut receiver, &mut frame, &mut self.cache, &mut came)?;
        }
        let faults = self.faults(times);
        // The last frame of a slow load is due long before the end.
        let took = Duration::from_nanos(self.clock.ticks_to_ns(tsc() - began)).saturating_sub(whole);
        let (mut astray, mut foreign) = (receiver.astray, receiver.foreign);
        let mut asked = std::mem::take(&mut receiver.asked);
        let all = sending.into_iter().zip(receiver.into_streams());
        let mut flows = all.map(|(sent, came)| sent.report(came, ended));
        let mut steps = Vec::new();
        for &request in requests {
            let directions: Vec<Vec<FlowReport>> =
                self.directions.iter().map(|d| flows.by_ref().take(d.flows.len()).collect()).collect();
            let mut invalid = faults.clone();
            directions.iter().flatten().for_each(|f| invalid.extend(f.faults(&self.limits)));
            let sum = |of: fn(&FlowReport) -> u64| directions.iter().flatten().map(of).sum();
            let outcome = Outcome {
                request,
                intended: sum(|r| r.intended),
                sent: sum(|r| r.sent),
                received: sum(|r| r.tally.received),
                // What is waited for is waited for once, and each has a share.
                took: request.duration + took / requests.len() as u32,
                invalid,
            };
            // Frames that belong to no flow are counted once.
            let (astray, foreign) = (std::mem::take(&mut astray), std::mem::take(&mut foreign));
            let asked = std::mem::replace(&mut asked, vec![0; self.ports.len()]);
            steps.push((outcome, Report { directions, astray, foreign, asked }));
        }
        Ok(steps)
    }

    /// What the machine and the tester's ports did since a moment: it says nothing of the router.
    fn faults(&mut self, since: Option<Times>) -> Vec<Invalid> {
        let mut invalid: Vec<_> = host::clock_fault().map(Invalid::Clock).into_iter().collect();
        if let (Some(before), Some(after)) = (since, Times::now())
            && after.stolen_since(before) > self.limits.stolen
        {
            invalid.push(Invalid::Stolen(after.stolen_since(before)));
        }
        for port in &mut self.ports {
            let lost = port.rx.take_lost();
            let dropped = lost.missed + lost.unusable;
            invalid.extend((dropped > 0).then_some(Invalid::TesterDropped(dropped)));
        }
        invalid
    }

    /// The flows of all directions, one behind the other, `offset` ticks behind the start, and who accounts for their frames. One that is
    /// lost counts with a delay of `penalty`.
    fn prepare(
        &self,
        request: Request,
        offset: u64,
        signature: u32,
        penalty: Duration,
        sending: &mut Vec<Sending>,
        accounts: &mut Vec<Account>,
    ) -> Result<(), Failure> {
        let hz = self.clock.tsc_hz();
        let frames_of = |flow: &Flow| {
            let load_fps = flow.rate.fps(request.load_fps);
            Request { load_fps, ..request }.frames()
        };
        // A short burst may have none of a slow stream, which is none the less there.
        if self.directions.iter().flat_map(|d| &d.flows).all(|flow| frames_of(flow) == 0) {
            let Request { load_fps, duration } = request;
            return Err(Failure(format!("{load_fps} frames a second for {duration:?} are none at all")));
        }
        for (n, direction) in self.directions.iter().enumerate() {
            if direction.from.max(direction.to) >= self.ports.len() {
                return Err(Failure(format!("direction {n} has a port that is not there")));
            }
            for (f, flow) in direction.flows.iter().enumerate() {
                let named = |what: String| Failure(format!("direction {n}, flow {f}, {what}"));
                let fps = flow.rate.fps(request.load_fps);
                let frames = frames_of(flow);
                let stream = u16::try_from(accounts.len()).map_err(|_| named("there are too many".into()))?;
                let seed = mix64(self.seed ^ u64::from(stream));
                let sender = Sender::new(&flow.templates, flow.mode, seed, signature, stream);
                let counted = |e: crate::stats::Error| named(e.to_string());
                let mut account =
                    Account::new(direction.to, frames, flow.mode, hz, penalty.as_nanos() as u64)
                        .map_err(counted)?;
                if self.ipdv {
                    account.ipdv = Some(IpdvHistogram::new().map_err(counted)?);
                }
                accounts.push(account);
                sending.push(Sending {
                    from: direction.from,
                    sender: sender.map_err(|e| named(e.to_string()))?,
                    schedule: Schedule::new(offset, frames, fps, hz),
                    fps,
                    refused: 0,
                    unmade: 0,
                    last: offset,
                });
            }
        }
        Ok(())
    }
}

impl Measure for Engine {
    fn measure(&mut self, request: Request) -> Result<Outcome, Failure> {
        Ok(self.run(request)?.0)
    }
}

/// Gets what came by all ports, and answers who asks for hosts.
#[inline]
fn receive(
    ports: &mut [Port],
    receiver: &mut Receiver,
    frame: &mut Frame,
    cache: &mut Cache,
    came: &mut impl FnMut(Stamp, &[u8]),
) -> Result<(), Failure> {
    for (n, port) in ports.iter_mut().enumerate() {
        let polled = port.rx.poll(frame, cache);
        if !frame.is_empty() {
            let mut answers = Vec::new();
            receiver.take(n, frame, tsc(), &mut *came, |other| {
                answers.extend(port.hosts.as_ref().and_then(|hosts| hosts.answer(other)));
            });
            frame.free(cache);
            answers.iter().for_each(|answer| port.answer(answer, frame, cache));
            receiver.asked[n] += answers.len() as u64;
        }
        polled.map_err(|gone| Failure(format!("port {n} vanished: {}", gone.0)))?;
    }
    Ok(())
}

impl Port {
    /// Sends a frame that is no part of the trial.
    #[cold]
    pub(crate) fn answer(&mut self, bytes: &[u8], frame: &mut Frame, cache: &mut Cache) {
        if frame.alloc(cache, 1) == 1 {
            frame.packets().for_each(|mut p| {
                p.fill(bytes);
            });
            // Who asked in vain asks again.
            let _ = self.tx.send(frame, cache);
            frame.free(cache);
        }
    }
}

impl Sending {
    /// The same, so many ticks later.
    fn later(self, ticks: u64) -> Sending {
        Sending { schedule: self.schedule.later(ticks), last: self.last + ticks, ..self }
    }

    /// Sends what is due.
    #[inline]
    fn send(&mut self, ports: &mut [Port], frame: &mut Frame, cache: &mut Cache) -> Result<(), Failure> {
        let now = tsc();
        let due = self.schedule.due(now, BURST);
        let Some(port) = ports.get_mut(self.from).filter(|_| due > 0) else { return Ok(()) };
        let made = self.sender.fill(frame, cache, due, now);
        self.unmade += (due - made) as u64;
        self.last = now;
        // Frames wait for nobody: what a port does not take now is lost, as it would be behind a full ring of the router.
        if port.tx.send(frame, cache) == Err(Unsent::Gone) {
            frame.free(cache);
            return Err(Failure(format!("port {} vanished", self.from)));
        }
        self.refused += frame.len() as u64;
        frame.free(cache);
        Ok(())
    }

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
            last_received: came.last_received().map(|n| n as f64 / self.fps),
            last_lost: came.last_missing(taken).map(|n| n as f64 / self.fps),
            lag: self.schedule.lag(),
            fastest: self.schedule.fastest(),
            late: (wanted + last.saturating_sub(end) as f64) / wanted,
            tally: came.tally,
            delays: came.delays,
            ipdv: came.ipdv,
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
