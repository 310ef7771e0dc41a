//! Sending state and report of a flow, or of the part of a flow that one sending thread sends.

use buf::{Cache, Frame, TxQueue, Unsent};

use super::receiver::{Account, Tally};
use super::schedule::Schedule;
use super::sender::Sender;
use crate::stats::ipdv::IpdvHistogram;
use crate::stats::jitter::Jitter;
use crate::stats::latency::DelayHistogram;
use crate::trial::Failure;
use infra::clock::tsc;

/// Maximum number of frames sent at once.
pub const BURST: usize = 64;

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
    /// Frames that the sender had not taken from the schedule when the trial's time ended.
    pub untaken: u64,
    /// Counts of the received frames.
    pub tally: Tally,
    /// Delays of the received frames.
    pub delays: DelayHistogram,
    /// Jitter of the received frames.
    pub jitter: Jitter,
    /// Delay differences of successive frames, if they were recorded.
    pub ipdv: Option<IpdvHistogram>,
    /// Scheduled sending time of the last lost frame, in seconds from the start; `None` if no frame was lost.
    pub last_lost: Option<f64>,
    /// Scheduled sending time of the last received frame, in seconds from the start; `None` if no frame was received.
    pub last_received: Option<f64>,
    /// Largest number of frames that were overdue at one time.
    pub lag: u64,
    /// Upper limit, in seconds, for the time between a frame's due time and its departure.
    pub behind: f64,
    /// Peak sending rate over at least 10 ms and 256 frames, as a multiple of the intended rate.
    pub fastest: f64,
    /// Actual duration of sending, as a multiple of the intended duration.
    pub late: f64,
    /// Intended duration of sending, in seconds.
    pub wanted: f64,
}

impl FlowReport {
    /// Adds the report on another part of the same flow. Only floods have several parts, and their frames have no delays.
    pub(super) fn add(&mut self, other: FlowReport) {
        self.intended += other.intended;
        self.sent += other.sent;
        self.refused += other.refused;
        self.unmade += other.unmade;
        self.untaken += other.untaken;
        self.tally.add(&other.tally);
        // This cannot fail: both histograms count lost frames with the same penalty.
        let _ = self.delays.add(&other.delays);
        let later = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        self.last_lost = later(self.last_lost, other.last_lost);
        self.last_received = later(self.last_received, other.last_received);
        self.lag += other.lag;
        self.behind = self.behind.max(other.behind);
        self.fastest = self.fastest.max(other.fastest);
        self.late = self.late.max(other.late);
        self.wanted = self.wanted.max(other.wanted);
    }
}

/// Sending state of a flow, or of a part of it, in a trial.
pub(super) struct Sending {
    /// Number of the sending port.
    pub from: usize,
    /// Number of the sending thread among the port's sending threads; `None` for the receiving thread.
    pub lane: Option<usize>,
    /// Time in seconds from the start of the flow to the first frame of this part.
    pub phase: f64,
    pub sender: Sender,
    pub schedule: Schedule,
    pub fps: f64,
    pub refused: u64,
    /// Frames that were not made because the tester had no free buffer.
    pub unmade: u64,
    /// Time at which the last frame so far was sent, in ticks.
    pub last: u64,
    /// Longest time, in ticks, by which a burst exceeded the expected time for its number of frames. A burst's time runs from
    /// making its frames until the port has accepted them.
    pub longest: u64,
    /// Time in ticks that the port needs for each frame of a burst.
    pub per_frame: u64,
}

impl Sending {
    /// Returns the flow, to be sent `ticks` later.
    pub fn later(self, ticks: u64) -> Sending {
        Sending { schedule: self.schedule.later(ticks), last: self.last + ticks, ..self }
    }

    /// Sends the frames that are due `now` (in ticks), at most a burst of them. Returns the number of frames that were due.
    #[inline]
    pub fn send(
        &mut self,
        now: u64,
        tx: &mut dyn TxQueue,
        frame: &mut Frame,
        cache: &mut Cache,
    ) -> Result<u64, Failure> {
        let (due, waiting) = self.schedule.due(now, BURST);
        if due == 0 {
            return Ok(waiting);
        }
        let made = self.sender.fill(frame, cache, due, now);
        self.unmade += (due - made) as u64;
        self.last = now;
        // Frames that the port does not accept now are lost, as if they had arrived at a full ring of a router.
        if tx.send(frame, cache) == Err(Unsent::Gone) {
            frame.free(cache);
            return Err(Failure(format!("port {} vanished", self.from)));
        }
        self.longest = self.longest.max((tsc() - now).saturating_sub(due as u64 * self.per_frame));
        self.refused += frame.len() as u64;
        frame.free(cache);
        Ok(waiting)
    }

    /// Returns an upper limit, in ticks, for the time between a frame's due time and its departure. It is the sum of two maximums, which
    /// may be those of different frames.
    pub fn behind(&self) -> u64 {
        self.schedule.behind() + self.longest
    }

    /// Returns the report on the flow; `ended` is the end of sending in ticks.
    pub fn report(self, came: Account, ended: u64, hz: f64) -> FlowReport {
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
            last_received: came.last_received().map(|n| self.phase + n as f64 / self.fps),
            last_lost: came.last_missing(taken).map(|n| self.phase + n as f64 / self.fps),
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

/// Returns the number of frames that are due `now` (in ticks) in the other flows of the same port. These frames leave in one burst with the
/// frames of the flow at index `at`.
#[inline]
pub(super) fn due_of_others(sending: &[Sending], at: usize, now: u64) -> u64 {
    let from = sending[at].from;
    let others = sending.iter().enumerate().filter(|(n, other)| *n != at && other.from == from);
    others.map(|(_, other)| other.schedule.waiting(now)).sum()
}
