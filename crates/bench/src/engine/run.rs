//! Runs a trial: one thread sends frames at their scheduled times and receives frames, in all directions.

use std::time::Duration;

use buf::{Cache, Frame, Pool, RxQueue, TxQueue, Unsent};
use drivers::pktgen::Template;
use infra::clock::{Clock, tsc};
use infra::hash::mix64;

use super::host::Hosts;
use super::limits::{Absence, Limits};
use super::receiver::{Account, Receiver, Tally};
use super::schedule::Schedule;
use super::sender::{Mode, Sender};
use super::stamp::Stamp;
use crate::host::{self, Times};
use crate::stats::ipdv::IpdvHistogram;
use crate::stats::jitter::Jitter;
use crate::stats::latency::DelayHistogram;
use crate::trial::{Failure, Invalid, Measure, Outcome, Request};

/// Maximum number of frames sent at once.
pub const BURST: usize = 64;
/// Seconds from a trial's start to its first frame, in which the polling loop warms the caches.
const AHEAD: f64 = 0.001;
/// Time in seconds that a port needs for each frame of a burst. This time does not count as lateness of the later frames.
const PER_FRAME: f64 = 2e-6;
/// Seconds without a received frame after which the traffic of a trial has ended.
const SILENCE: f64 = 0.05;

/// A mix of frames that has its own rate and is counted separately.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Templates of the mix.
    pub templates: Vec<Template>,
    /// Rate.
    pub rate: Rate,
    /// Marking of the flow's frames.
    pub mode: Mode,
}

impl Flow {
    /// Returns the mean frame size in bytes, with frame check sequence: the weighted mean of the templates, where a range of sizes counts
    /// with its middle.
    pub fn mean_bytes(&self) -> f64 {
        let middle = |t: &Template| (t.size.start() + t.size.end()) as f64 / 2.0 + 4.0;
        let weights: f64 = self.templates.iter().map(|t| f64::from(t.weight)).sum();
        let sum: f64 = self.templates.iter().map(|t| f64::from(t.weight) * middle(t)).sum();
        if weights > 0.0 { sum / weights } else { 0.0 }
    }
}

/// Rate of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Share of the trial's load. The shares of a direction usually add up to 1.
    Share(f64),
    /// Fixed rate in frames per second, whatever the load, such as for a stream that measures latency.
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
    /// Queue that sends frames.
    pub tx: Box<dyn TxQueue>,
    /// Queue that receives frames.
    pub rx: Box<dyn RxQueue>,
    /// Simulated hosts that answer on this port; `None` if no router resolves hosts on this port.
    pub hosts: Option<Hosts>,
}

/// A direction of traffic: from one port through the router to another port.
#[derive(Clone, Debug)]
pub struct Direction {
    /// Number of the sending port.
    pub from: usize,
    /// Number of the port that should receive.
    pub to: usize,
    /// Flows to send.
    pub flows: Vec<Flow>,
}

/// Report on a trial.
pub struct Report {
    /// Reports on the flows of each direction.
    pub directions: Vec<Vec<FlowReport>>,
    /// Frames received on the wrong port.
    pub astray: u64,
    /// Received frames that do not belong to this trial.
    pub foreign: u64,
    /// For each port, the number of ARP and Neighbor Discovery requests for hosts behind the port. The tester answered them; they are part
    /// of `foreign`.
    pub asked: Vec<u64>,
    /// Absences of the tester.
    pub absence: Absence,
}

/// Report on one flow.
pub struct FlowReport {
    /// Frames that should have been sent.
    pub intended: u64,
    /// Frames that the port accepted.
    pub sent: u64,
    /// Frames that the port refused because its send ring was full, as on a saturated wire.
    pub refused: u64,
    /// Frames that were not made because the tester had no free buffer.
    pub unmade: u64,
    /// Frames that the sender had not reached when the trial's time ended.
    pub untaken: u64,
    /// Counts of the received frames.
    pub tally: Tally,
    /// Delays of the received frames.
    pub delays: DelayHistogram,
    /// Jitter of the received frames.
    pub jitter: Jitter,
    /// Delay differences of successive frames, if they were recorded.
    pub ipdv: Option<IpdvHistogram>,
    /// Scheduled sending time of the last lost frame, in seconds from the start.
    pub last_lost: Option<f64>,
    /// Scheduled sending time of the last received frame, in seconds from the start.
    pub last_received: Option<f64>,
    /// Largest number of frames that were overdue at one time.
    pub lag: u64,
    /// Longest time in seconds that a frame was overdue when it was sent.
    pub behind: f64,
    /// Peak sending rate over 10 ms or 256 frames, as a multiple of the intended rate.
    pub fastest: f64,
    /// Actual sending time as a multiple of the intended time.
    pub late: f64,
    /// Intended sending time in seconds.
    pub wanted: f64,
}

/// The tester's ports, and the traffic that it sends through the router.
pub struct Engine {
    ports: Vec<Port>,
    directions: Vec<Direction>,
    cache: Cache,
    clock: Clock,
    limits: Limits,
    /// Wait for frames that are still in flight (RFC 2544 section 23 step d: 2 s).
    wait: Duration,
    seed: u64,
    trials: u64,
    ipdv: bool,
    hops: u8,
}

/// Sending state of a flow in a trial.
struct Sending {
    /// Number of the sending port.
    from: usize,
    sender: Sender,
    schedule: Schedule,
    fps: f64,
    refused: u64,
    /// Frames that were not made because the tester had no free buffer.
    unmade: u64,
    /// Time at which the last frame so far was sent, in ticks.
    last: u64,
    /// Longest excess time of a burst, in ticks: the time from making its frames until the port had accepted them, less the time that they
    /// need.
    longest: u64,
    /// Ticks that a frame of a burst needs.
    per_frame: u64,
}

/// The state after trials that ran without a gap between them.
struct Ran {
    receiver: Receiver,
    sending: Vec<Sending>,
    /// End of sending, in ticks.
    ended: u64,
    /// Elapsed time in addition to sending.
    took: Duration,
    /// Faults of the machine and of the tester's ports.
    faults: Vec<Invalid>,
    absence: Absence,
}

impl Engine {
    /// Creates an engine with these ports and with buffers of `pool`. All random values derive from `seed`.
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
            hops: 0,
        }
    }

    /// Sets whether the engine records delay differences of successive frames of a flow (RFC 8219 section 7.3.2).
    pub fn record_ipdv(&mut self, on: bool) {
        self.ipdv = on;
    }

    /// Sets the time to wait for frames that are still in flight.
    pub fn set_wait(&mut self, wait: Duration) {
        self.wait = wait;
    }

    /// Sets the number of routers on the way, each of which lowers the time to live by one. It is 0 at first: a cable or a bridge.
    pub fn set_hops(&mut self, hops: u8) {
        self.hops = hops;
    }

    /// Returns the traffic.
    pub fn directions(&self) -> &[Direction] {
        &self.directions
    }

    /// Sets the traffic of the following trials.
    pub fn set_directions(&mut self, directions: Vec<Direction>) {
        self.directions = directions;
    }

    /// Runs a trial.
    ///
    /// # Errors
    /// Returns an error if the traffic is invalid, or a port vanished.
    pub fn run(&mut self, request: Request) -> Result<(Outcome, Report), Failure> {
        let mut steps = self.run_steps(&[request])?;
        steps.pop().ok_or_else(|| Failure("internal error: a trial without steps".into()))
    }

    /// Runs trials without a gap between them, each with its own counts. A fault of the machine or of the tester's ports invalidates all of
    /// these trials.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_steps(&mut self, requests: &[Request]) -> Result<Vec<(Outcome, Report)>, Failure> {
        self.run_watched(requests, |_, _| (), || ())
    }

    /// Like [`run_steps`](Self::run_steps); `came` gets each of the trial's received frames with its stamp. `quiet` is called once, when no
    /// frame has arrived for 50 ms after the last one was sent, or after the wait at the latest.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_watched(
        &mut self,
        requests: &[Request],
        mut came: impl FnMut(Stamp, &[u8]),
        quiet: impl FnOnce(),
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
            // Forget losses from before the trial.
            port.rx.take_lost();
        }
        let (times, waited) = (Times::now(), host::waited());
        // Set the start only now: preparing the frames took milliseconds.
        let start = tsc() + (AHEAD * hz) as u64;
        let mut sending: Vec<Sending> = sending.into_iter().map(|s| s.later(start)).collect();
        // Largest number of overdue frames of each port.
        let mut overdue = vec![0; self.ports.len()];
        // A trial is not extended for a late sender.
        let stop = start + offset + (whole.as_secs_f64() * hz * (self.limits.late - 1.0) + 0.01 * hz) as u64;
        let mut frame = Box::new(Frame::new());
        while sending.iter().any(|s| !s.schedule.is_done()) && tsc() < stop {
            for at in 0..sending.len() {
                let now = tsc();
                let due = sending[at].send(now, &mut self.ports, &mut frame, &mut self.cache)?;
                if due > 1 {
                    let from = sending[at].from;
                    overdue[from] = overdue[from].max(due - 1 + due_of_others(&sending, at, now));
                }
            }
            receive(&mut self.ports, &mut receiver, &mut frame, &mut self.cache, &mut came)?;
        }
        let ended = tsc();
        let mut until = ended + (self.wait.as_secs_f64() * hz) as u64;
        let (mut quiet, silence) = (Some(quiet), (SILENCE * hz) as u64);
        while tsc() < until {
            receive(&mut self.ports, &mut receiver, &mut frame, &mut self.cache, &mut came)?;
            let now = tsc();
            if now > ended.max(receiver.brought) + silence
                && let Some(quiet) = quiet.take()
            {
                quiet();
                // Frames that are still in flight have their full wait.
                until += tsc() - now;
            }
        }
        quiet.into_iter().for_each(|quiet| quiet());
        let waited = waited.and_then(|before| Some(host::waited()?.saturating_sub(before)));
        let whole_time = (tsc() - start).max(1) as f64 / hz;
        let absence = Absence {
            behind: sending.iter().map(Sending::behind).max().unwrap_or_default() as f64 / hz,
            away: receiver.away as f64 / hz,
            waited: waited.map(|waited| waited.as_secs_f64() / whole_time),
        };
        let mut faults = self.faults(times);
        faults.extend(self.limits.of_absence(&absence, whole_time));
        for (port, overdue) in overdue.into_iter().enumerate() {
            let flows = sending.iter().filter(|s| s.from == port).count();
            faults.extend(self.limits.of_port(overdue, flows));
        }
        // The last frame of a slow load is due long before the end.
        let took = Duration::from_nanos(self.clock.ticks_to_ns(tsc() - began)).saturating_sub(whole);
        let ran = Ran { receiver, sending, ended, took, faults, absence };
        Ok(self.reports(requests, ran))
    }

    /// Returns outcome and report of each of the trials that ran without a gap.
    fn reports(&self, requests: &[Request], ran: Ran) -> Vec<(Outcome, Report)> {
        let Ran { mut receiver, sending, ended, took, faults, absence } = ran;
        let hz = self.clock.tsc_hz();
        let (mut astray, mut foreign) = (receiver.astray, receiver.foreign);
        let mut asked = std::mem::take(&mut receiver.asked);
        let all = sending.into_iter().zip(receiver.into_streams());
        let mut flows = all.map(|(sent, came)| sent.report(came, ended, hz));
        let mut steps = Vec::new();
        for &request in requests {
            let directions: Vec<Vec<FlowReport>> =
                self.directions.iter().map(|d| flows.by_ref().take(d.flows.len()).collect()).collect();
            let mut invalid = faults.clone();
            directions.iter().flatten().for_each(|f| invalid.extend(self.limits.of_flow(f)));
            let sum = |of: fn(&FlowReport) -> u64| directions.iter().flatten().map(of).sum();
            let outcome = Outcome {
                request,
                intended: sum(|r| r.intended),
                sent: sum(|r| r.sent),
                received: sum(|r| r.tally.received),
                // The wait is shared by all steps.
                took: request.duration + took / requests.len() as u32,
                invalid,
            };
            // Count frames without a flow only once.
            let (astray, foreign) = (std::mem::take(&mut astray), std::mem::take(&mut foreign));
            let asked = std::mem::replace(&mut asked, vec![0; self.ports.len()]);
            steps.push((outcome, Report { directions, astray, foreign, asked, absence }));
        }
        steps
    }

    /// Returns the faults of the machine and of the tester's ports, which are not the router's. Processor time that the host stole counts
    /// from `since` on.
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

    /// Adds the flows of all directions and their accounts. The flows start `offset` ticks after the start of the first trial. A lost frame
    /// counts as if its delay were `penalty`.
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
        // A short burst may contain no frame of a slow flow, but needs at least one frame.
        if self.directions.iter().flat_map(|d| &d.flows).all(|flow| frames_of(flow) == 0) {
            let Request { load_fps, duration } = request;
            return Err(Failure(format!("no frame to send: {load_fps} frames a second for {duration:?}")));
        }
        for (n, direction) in self.directions.iter().enumerate() {
            if direction.from.max(direction.to) >= self.ports.len() {
                return Err(Failure(format!("direction {n} uses a port that does not exist")));
            }
            for (f, flow) in direction.flows.iter().enumerate() {
                let named = |what: String| Failure(format!("direction {n}, flow {f}, {what}"));
                let fps = flow.rate.fps(request.load_fps);
                let frames = frames_of(flow);
                let stream = u16::try_from(accounts.len()).map_err(|_| named("too many flows".into()))?;
                let seed = mix64(self.seed ^ u64::from(stream));
                let sender = Sender::new(&flow.templates, flow.mode, seed, signature, stream)
                    .map_err(|e| named(e.to_string()))?;
                let expected = sender.expected(&flow.templates, self.hops);
                let expected = expected.map_err(|e| named(e.to_string()))?;
                let counted = |e: crate::stats::Error| named(e.to_string());
                let penalty = penalty.as_nanos() as u64;
                let mut account =
                    Account::new(direction.to, expected, frames, flow.mode, hz, penalty).map_err(counted)?;
                if self.ipdv {
                    account.ipdv = Some(IpdvHistogram::new().map_err(counted)?);
                }
                accounts.push(account);
                sending.push(Sending {
                    from: direction.from,
                    sender,
                    schedule: Schedule::new(offset, frames, fps, hz),
                    fps,
                    refused: 0,
                    unmade: 0,
                    last: offset,
                    longest: 0,
                    per_frame: (PER_FRAME * hz) as u64,
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

/// Returns the number of frames that are due `now` (in ticks) in the other flows of the same port: they leave in one burst with those of the
/// flow at `at`.
#[inline]
fn due_of_others(sending: &[Sending], at: usize, now: u64) -> u64 {
    let from = sending[at].from;
    let others = sending.iter().enumerate().filter(|(n, other)| *n != at && other.from == from);
    others.map(|(_, other)| other.schedule.waiting(now)).sum()
}

/// Receives frames on all ports, and answers requests for hosts.
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
        let now = tsc();
        receiver.polled(n, now, !frame.is_empty());
        if !frame.is_empty() {
            let mut answers = Vec::new();
            receiver.take(n, frame, now, &mut *came, |other| {
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
    /// Sends a frame that does not belong to the trial.
    #[cold]
    pub(crate) fn answer(&mut self, bytes: &[u8], frame: &mut Frame, cache: &mut Cache) {
        if frame.alloc(cache, 1) == 1 {
            frame.packets().for_each(|mut p| {
                p.fill(bytes);
            });
            // A dropped reply is no problem: the router asks again.
            let _ = self.tx.send(frame, cache);
            frame.free(cache);
        }
    }
}

impl Sending {
    /// Returns the flow, to be sent `ticks` later.
    fn later(self, ticks: u64) -> Sending {
        Sending { schedule: self.schedule.later(ticks), last: self.last + ticks, ..self }
    }

    /// Sends the frames that are due `now` (in ticks), at most a burst of them. Returns the number of frames that were due.
    #[inline]
    fn send(
        &mut self,
        now: u64,
        ports: &mut [Port],
        frame: &mut Frame,
        cache: &mut Cache,
    ) -> Result<u64, Failure> {
        let (due, waiting) = self.schedule.due(now, BURST);
        let Some(port) = ports.get_mut(self.from).filter(|_| due > 0) else { return Ok(waiting) };
        let made = self.sender.fill(frame, cache, due, now);
        self.unmade += (due - made) as u64;
        self.last = now;
        // Frames that the port does not accept now are lost, as behind a full ring of the router.
        if port.tx.send(frame, cache) == Err(Unsent::Gone) {
            frame.free(cache);
            return Err(Failure(format!("port {} vanished", self.from)));
        }
        self.longest = self.longest.max((tsc() - now).saturating_sub(due as u64 * self.per_frame));
        self.refused += frame.len() as u64;
        frame.free(cache);
        Ok(waiting)
    }

    /// Returns an upper bound of the longest delay, in ticks, between a frame's due time and its departure: the sum of two maxima, which
    /// may belong to different frames.
    fn behind(&self) -> u64 {
        self.schedule.behind() + self.longest
    }

    /// Returns the report on the flow; `ended` is the end of sending in ticks.
    fn report(self, came: Account, ended: u64, hz: f64) -> FlowReport {
        let (taken, end) = (self.schedule.taken(), self.schedule.end());
        // A sender that did not finish was busy until the end.
        let last = if self.schedule.is_done() { self.last } else { ended };
        let wanted = (end - self.schedule.start()).max(1) as f64;
        FlowReport {
            intended: self.schedule.frames(),
            sent: taken - self.unmade - self.refused,
            refused: self.refused,
            unmade: self.unmade,
            untaken: self.schedule.frames() - taken,
            last_received: came.last_received().map(|n| n as f64 / self.fps),
            last_lost: came.last_missing(taken).map(|n| n as f64 / self.fps),
            lag: self.schedule.lag(),
            behind: self.behind() as f64 / hz,
            fastest: self.schedule.fastest(),
            late: (wanted + last.saturating_sub(end) as f64) / wanted,
            wanted: wanted / hz,
            tally: came.tally,
            delays: came.delays,
            jitter: came.jitter,
            ipdv: came.ipdv,
        }
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
