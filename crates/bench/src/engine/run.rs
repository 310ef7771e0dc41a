//! Runs a trial: one thread sends frames at their scheduled times and receives frames, in all directions. Ports with several send queues
//! have further threads that only send floods.

use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::Duration;

use buf::{Cache, Frame, Pool, RxQueue, TxQueue};
use drivers::pktgen::Template;
use infra::clock::{Clock, tsc};
use infra::hash::mix64;

use super::host::Hosts;
use super::lanes::{Lanes, Queues};
use super::limits::{Absence, Limits};
use super::receiver::{Account, Receiver};
use super::schedule::Schedule;
use super::sender::{Mode, Sender};
pub use super::sending::{BURST, FlowReport};
use super::sending::{Sending, due_of_others};
use super::stamp::Stamp;
use crate::host::{self, Times};
use crate::stats::ipdv::IpdvHistogram;
use crate::trial::{Failure, Invalid, Measure, Outcome, Request};

/// Seconds from a trial's start to its first frame, in which the polling loop warms the caches.
const AHEAD: f64 = 0.001;
/// Time in seconds that a port needs to send each frame of a burst. Later frames of the burst do not count as late because of this
/// time.
const PER_FRAME: f64 = 2e-6;
/// If no frame arrives for this time in seconds, the traffic of a trial counts as ended.
const SILENCE: f64 = 0.05;

/// A mix of frames that has its own rate and is counted separately.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Templates of the mix.
    pub templates: Vec<Template>,
    /// Rate.
    pub rate: Rate,
    /// How the flow's frames are generated and stamped.
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
    /// Further send queues, each used by its own thread. These threads share the flows of floods.
    pub more: Vec<Box<dyn TxQueue>>,
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
    /// Delays that the tester itself caused.
    pub absence: Absence,
}

/// The tester's ports, and the traffic that it sends through the router.
pub struct Engine {
    ports: Vec<Port>,
    directions: Vec<Direction>,
    pool: Pool,
    /// Cores of the threads that only send.
    sender_cores: Vec<usize>,
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

/// How late the frames of a trial were sent.
struct Sent {
    /// Largest number of overdue frames of each port.
    overdue: Vec<u64>,
    /// Time in which a send-only thread was ready to run, but had no processor: the maximum over these threads. `None` without such
    /// threads, or if the kernel does not count the time.
    waited: Option<Duration>,
}

/// Receiver, senders and measurements after trials that ran without a gap between them.
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
            pool: pool.clone(),
            sender_cores: Vec::new(),
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

    /// Sets the cores for the threads that only send. Each thread gets the next core of the list.
    pub fn set_sender_cores(&mut self, cores: Vec<usize>) {
        self.sender_cores = cores;
    }

    /// Sets the time to wait for frames that are still in flight.
    pub fn set_wait(&mut self, wait: Duration) {
        self.wait = wait;
    }

    /// Sets the number of routers on the way, each of which lowers the time to live by one. The initial number is 0, for a cable or
    /// a bridge.
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
    /// Returns an error if the traffic is invalid, a port vanished, or a sending thread failed.
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

    /// Like [`run_steps`](Self::run_steps), but calls `came` with each intact frame of the trials that arrived on the right port, and its
    /// stamp. After all frames were sent, calls `quiet` once: when no frame has arrived for 50 ms, or at the latest when the wait ends.
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
        let mut sending: Vec<Option<Sending>> = sending.into_iter().map(|s| Some(s.later(start))).collect();
        // A late sender does not extend the trial.
        let stop = start + offset + (whole.as_secs_f64() * hz * (self.limits.late - 1.0) + 0.01 * hz) as u64;
        let mut frame = Box::new(Frame::new());
        let sent = self.send(&mut sending, &mut receiver, &mut frame, stop, &mut came)?;
        let sending: Vec<Sending> = sending.into_iter().flatten().collect();
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
                // Extend the wait by the time that `quiet` took, so that frames still in flight have their full wait.
                until += tsc() - now;
            }
        }
        quiet.into_iter().for_each(|quiet| quiet());
        let waited = waited.and_then(|before| Some(host::waited()?.saturating_sub(before)));
        let waited = waited.into_iter().chain(sent.waited).max();
        let whole_time = (tsc() - start).max(1) as f64 / hz;
        let absence = Absence {
            behind: sending.iter().map(Sending::behind).max().unwrap_or_default() as f64 / hz,
            away: receiver.away as f64 / hz,
            waited: waited.map(|waited| waited.as_secs_f64() / whole_time),
        };
        let mut faults = self.faults(times);
        faults.extend(self.limits.of_absence(&absence, whole_time));
        for (port, overdue) in sent.overdue.into_iter().enumerate() {
            let flows = sending.iter().filter(|s| s.from == port).count();
            faults.extend(self.limits.of_port(overdue, flows));
        }
        // The sending time counts in full: at a slow load, the last frame is due long before the end.
        let took = Duration::from_nanos(self.clock.ticks_to_ns(tsc() - began)).saturating_sub(whole);
        let ran = Ran { receiver, sending, ended, took, faults, absence };
        Ok(self.reports(requests, ran))
    }

    /// Sends all frames, and meanwhile receives frames. Ends when all are sent, or at the time `stop` (in ticks).
    fn send(
        &mut self,
        sending: &mut [Option<Sending>],
        receiver: &mut Receiver,
        frame: &mut Frame,
        stop: u64,
        came: &mut impl FnMut(Stamp, &[u8]),
    ) -> Result<Sent, Failure> {
        let mut queues: Queues = self.ports.iter_mut().map(|port| std::mem::take(&mut port.more)).collect();
        let Engine { ports, cache, pool, sender_cores, .. } = self;
        let mut overdue = vec![0; ports.len()];
        let running = AtomicUsize::new(0);
        let (sent, lates) = thread::scope(|scope| {
            let lanes = Lanes::start(scope, sending, &mut queues, (sender_cores, pool), &running, stop);
            // This thread's own flows.
            let own = sending.iter_mut().enumerate().filter_map(|(at, flow)| Some((at, flow.take()?)));
            let (places, mut flows): (Vec<usize>, Vec<Sending>) = own.unzip();
            let mut sent = Ok(());
            while sent.is_ok()
                && (lanes.are_sending() || flows.iter().any(|s| !s.schedule.is_done()))
                && tsc() < stop
            {
                sent = step(&mut flows, ports, &mut overdue, (frame, cache))
                    .and_then(|()| receive(ports, receiver, frame, cache, came));
            }
            for (at, flow) in places.into_iter().zip(flows) {
                sending[at] = Some(flow);
            }
            (sent, lanes.end(sending, &mut queues))
        });
        for (port, more) in self.ports.iter_mut().zip(queues) {
            port.more = more;
        }
        sent?;
        let lates = lates?;
        lates.iter().for_each(|late| overdue[late.port] += late.overdue);
        Ok(Sent { overdue, waited: lates.iter().filter_map(|late| late.waited).max() })
    }

    /// Returns outcome and report of each of the trials that ran without a gap.
    fn reports(&self, requests: &[Request], ran: Ran) -> Vec<(Outcome, Report)> {
        let Ran { mut receiver, sending, ended, took, faults, absence } = ran;
        let hz = self.clock.tsc_hz();
        let (mut astray, mut foreign) = (receiver.astray, receiver.foreign);
        let mut asked = std::mem::take(&mut receiver.asked);
        let all = sending.into_iter().zip(receiver.into_streams());
        let parts = all.map(|(sent, came)| (sent.lane, sent.report(came, ended, hz)));
        let mut flows = whole(parts).into_iter();
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
                // Each step gets the same share of the wait.
                took: request.duration + took / requests.len() as u32,
                invalid,
            };
            // Frames without a flow count for the first step only.
            let (astray, foreign) = (std::mem::take(&mut astray), std::mem::take(&mut foreign));
            let asked = std::mem::replace(&mut asked, vec![0; self.ports.len()]);
            steps.push((outcome, Report { directions, astray, foreign, asked, absence }));
        }
        steps
    }

    /// Returns the faults of the machine and of the tester's ports, which the router did not cause. Counts the processor time that
    /// the host has stolen since `since`.
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

    /// Adds the flows of all directions to `sending`, and the account of each flow's frames to `accounts`. The flows start `offset`
    /// ticks after the start of the first trial. A lost frame counts as if its delay were `penalty`.
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
                let (fps, frames) = (flow.rate.fps(request.load_fps), frames_of(flow));
                // Frames that carry their time are left to one thread, which keeps their order.
                let lanes = match flow.mode {
                    Mode::Flood => self.ports[direction.from].more.len(),
                    Mode::Stamped => 0,
                };
                let of = lanes.max(1) as u64;
                for part in 0..of {
                    let stream = u16::try_from(accounts.len()).map_err(|_| named("too many flows".into()))?;
                    let seed = mix64(self.seed ^ u64::from(stream));
                    let sender = Sender::new(&flow.templates, flow.mode, seed, signature, stream)
                        .map_err(|e| named(e.to_string()))?;
                    let expected = sender.expected(&flow.templates, self.hops);
                    let expected = expected.map_err(|e| named(e.to_string()))?;
                    let counted = |e: crate::stats::Error| named(e.to_string());
                    let penalty = penalty.as_nanos() as u64;
                    // The parts of a flow send alternate frames, so that all parts together send at the flow's rate.
                    let (frames, phase) = ((frames + of - 1 - part) / of, part as f64 / fps);
                    let mut account = Account::new(direction.to, expected, frames, flow.mode, hz, penalty)
                        .map_err(counted)?;
                    if self.ipdv {
                        account.ipdv = Some(IpdvHistogram::new().map_err(counted)?);
                    }
                    accounts.push(account);
                    let (fps, offset) = (fps / of as f64, offset + (phase * hz) as u64);
                    sending.push(Sending {
                        from: direction.from,
                        lane: (lanes > 0).then_some(part as usize),
                        phase,
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
        }
        Ok(())
    }
}

impl Measure for Engine {
    fn measure(&mut self, request: Request) -> Result<Outcome, Failure> {
        Ok(self.run(request)?.0)
    }
}

/// Sends the due frames of these flows, at most one burst of each flow. Stores each port's largest number of overdue frames in
/// `overdue`.
#[inline]
fn step(
    flows: &mut [Sending],
    ports: &mut [Port],
    overdue: &mut [u64],
    (frame, cache): (&mut Frame, &mut Cache),
) -> Result<(), Failure> {
    for at in 0..flows.len() {
        let now = tsc();
        let from = flows[at].from;
        let Some(port) = ports.get_mut(from) else { continue };
        let due = flows[at].send(now, &mut *port.tx, frame, cache)?;
        if due > 1 {
            overdue[from] = overdue[from].max(due - 1 + due_of_others(flows, at, now));
        }
    }
    Ok(())
}

/// Joins the reports on the parts of each flow. Each part comes with the number of its sending thread, or `None` for the receiving
/// thread. A part of the receiving thread or of thread 0 begins a new flow.
fn whole(parts: impl Iterator<Item = (Option<usize>, FlowReport)>) -> Vec<FlowReport> {
    let mut all: Vec<FlowReport> = Vec::new();
    for (lane, part) in parts {
        match all.last_mut() {
            Some(flow) if lane.is_some_and(|lane| lane > 0) => flow.add(part),
            _ => all.push(part),
        }
    }
    all
}

/// Receives frames on all ports, and answers ARP and Neighbor Discovery requests for the simulated hosts.
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
    /// Sends a frame that is not part of the trial, such as the reply of a simulated host. The frame is dropped if there is no free buffer,
    /// or the send ring is full.
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

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
