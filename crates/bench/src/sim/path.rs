//! A simulated router that passes frames one by one. A frame consists only of a sequence number and a time.
//!
//! Its [`Truth`] has the exact counts of loss, duplication and reordering, and the exact delays. The measurements of a trial are compared
//! with them.

use super::delay::Delays;
use super::{Delay, Random};
use crate::trial::{Failure, Measure, Outcome, Request};

/// A frame that left the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival time, in nanoseconds of virtual time.
    pub arrived_ns: u64,
    /// The frame's sequence number.
    pub seq: u64,
}

/// The exact counts and delays of the frames that entered a [`Path`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Frames that entered the router.
    pub sent: u64,
    /// Frames lost at random, or because the queue was full.
    pub lost: u64,
    /// Copies that left the router in addition to the frames.
    pub duplicated: u64,
    /// Frames held back so that later frames could overtake them. The number of reordered frames depends on the frames sent after them; see
    /// [`reordered`].
    pub held_back: u64,
    /// Minimum delay of the frames that left, in nanoseconds. Copies do not count.
    pub min_delay_ns: u64,
    /// Maximum delay, in nanoseconds. Copies do not count.
    pub max_delay_ns: u64,
    /// Sum of all delays, in nanoseconds. Copies do not count.
    pub delay_sum_ns: u64,
}

/// The frames that leave the router for one frame that entered it: none, the frame itself, or the frame and a copy.
pub type Frames = std::iter::Flatten<std::array::IntoIter<Option<Arrival>, 2>>;

/// A simulated router that passes frames one by one. By default it has infinite speed and changes nothing.
#[derive(Clone, Debug)]
pub struct Path {
    service_ns: f64,
    queue_frames: u64,
    loss: f64,
    duplication: f64,
    reordering: (f64, u64),
    delays: Delays,
    random: Random,
    free_at_ns: f64,
    last_out_ns: u64,
    truth: Truth,
}

impl Path {
    /// Makes a path with random numbers from `seed`.
    pub fn new(seed: u64) -> Self {
        Path {
            service_ns: 0.0,
            queue_frames: u64::MAX,
            loss: 0.0,
            duplication: 0.0,
            reordering: (0.0, 0),
            delays: Delays::new(Delay::Fixed(0)),
            random: Random::new(seed),
            free_at_ns: 0.0,
            last_out_ns: 0,
            truth: Truth::default(),
        }
    }

    /// Serves `fps` frames per second, one at a time, with a queue of `queue_frames`; further frames are lost.
    pub fn capacity(mut self, fps: f64, queue_frames: u64) -> Self {
        self.service_ns = 1e9 / fps;
        self.queue_frames = queue_frames;
        self
    }

    /// Loses frames with this probability.
    pub fn loss(mut self, probability: f64) -> Self {
        self.loss = probability;
        self
    }

    /// Duplicates frames with this probability; the copy follows immediately.
    pub fn duplication(mut self, probability: f64) -> Self {
        self.duplication = probability;
        self
    }

    /// With this probability, holds a frame back for `held_back_ns`, so that later frames can overtake it.
    pub fn reordering(mut self, probability: f64, held_back_ns: u64) -> Self {
        self.reordering = (probability, held_back_ns);
        self
    }

    /// Sets the delay of frames in addition to their service and wait in the queue ([`capacity`](Self::capacity)).
    pub fn delay(mut self, delay: Delay) -> Self {
        self.delays = Delays::new(delay);
        self
    }

    /// Returns the exact counts and delays so far.
    pub fn truth(&self) -> Truth {
        self.truth
    }

    /// Passes frame number `seq`, which is sent at `sent_ns`. Frames must be passed in the order of their times.
    ///
    /// If frames are held back, successive calls do not return arrivals in order. Sort them by `arrived_ns` (stable), or use
    /// [`Path::pass_all`].
    pub fn pass(&mut self, sent_ns: u64, seq: u64) -> Frames {
        self.truth.sent += 1;
        let Some(served_ns) = self.serve(sent_ns).filter(|_| !self.random.happens(self.loss)) else {
            self.truth.lost += 1;
            return [None, None].into_iter().flatten();
        };
        // Only held-back frames may be overtaken; a random smaller delay must not change the order.
        let in_order_ns = (served_ns + self.delays.next(sent_ns, &mut self.random)).max(self.last_out_ns);
        self.last_out_ns = in_order_ns;
        let mut arrived_ns = in_order_ns;
        if self.random.happens(self.reordering.0) {
            self.truth.held_back += 1;
            arrived_ns += self.reordering.1;
        }
        self.account(arrived_ns - sent_ns);
        let copy = self.random.happens(self.duplication);
        self.truth.duplicated += u64::from(copy);
        let arrival = Arrival { arrived_ns, seq };
        [Some(arrival), copy.then_some(arrival)].into_iter().flatten()
    }

    /// Passes all frames, given as (time sent, number), and returns the arrivals in order.
    pub fn pass_all(&mut self, frames: impl IntoIterator<Item = (u64, u64)>) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for (sent_ns, seq) in frames {
            arrivals.extend(self.pass(sent_ns, seq));
        }
        arrivals.sort_by_key(|arrival| arrival.arrived_ns);
        arrivals
    }

    /// Returns the time at which the frame has been served, in nanoseconds; `None` if the queue is full.
    fn serve(&mut self, sent_ns: u64) -> Option<u64> {
        let start_ns = self.free_at_ns.max(sent_ns as f64);
        let waiting = (start_ns - sent_ns as f64) / self.service_ns.max(f64::MIN_POSITIVE);
        // Times are whole nanoseconds: a wait below 1 ns means that the server was free.
        if start_ns - sent_ns as f64 >= 1.0 && waiting > self.queue_frames as f64 {
            return None;
        }
        self.free_at_ns = start_ns + self.service_ns;
        Some(self.free_at_ns as u64)
    }

    fn account(&mut self, delay_ns: u64) {
        let truth = &mut self.truth;
        let first = truth.sent - truth.lost == 1;
        truth.min_delay_ns = if first { delay_ns } else { truth.min_delay_ns.min(delay_ns) };
        truth.max_delay_ns = truth.max_delay_ns.max(delay_ns);
        truth.delay_sum_ns += delay_ns;
    }
}

/// Returns the number of reordered arrivals (RFC 4737 section 3.3): those with a smaller sequence number than an earlier arrival. A copy
/// counts separately: a copy right after its frame is reordered if the frame is.
pub fn reordered(arrivals: &[Arrival]) -> u64 {
    let mut next = 0;
    let mut late = 0;
    for arrival in arrivals {
        // The copy of the newest frame has the number `next` − 1.
        late += u64::from(arrival.seq + 1 < next);
        next = next.max(arrival.seq + 1);
    }
    late
}

/// Simulates each trial frame by frame. Frames are sent at even intervals. This is slower than [`Router`](super::Router), which only
/// computes the outcome. Tests compare the two.
impl Measure for Path {
    fn measure(&mut self, request: Request) -> Result<Outcome, Failure> {
        // Each trial starts with empty queues at time 0.
        (self.free_at_ns, self.last_out_ns, self.delays) = (0.0, 0, self.delays.clone().restarted());
        let frames = request.frames();
        let gap_ns = 1e9 / request.load_fps;
        let lost_before = self.truth.lost;
        for seq in 0..frames {
            self.pass((seq as f64 * gap_ns) as u64, seq).for_each(drop);
        }
        let received = frames - (self.truth.lost - lost_before);
        let took = request.duration;
        Ok(Outcome { request, intended: frames, sent: frames, received, took, invalid: Vec::new() })
    }
}
