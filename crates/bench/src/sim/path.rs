//! A router that passes frame after frame: numbers and times in, numbers and times out.
//!
//! What a trial's accounting says of loss, duplication, reordering and delay can be held against the [`Truth`].

use super::delay::Delays;
use super::{Delay, Random};
use crate::trial::{Failure, Measure, Outcome, Request};

/// A frame that came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When, in nanoseconds of virtual time.
    pub arrived_ns: u64,
    /// The number it was sent with.
    pub seq: u64,
}

/// What really happened to the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Frames that came in.
    pub sent: u64,
    /// Frames of which nothing came out: the queue was full, or by chance.
    pub lost: u64,
    /// Copies that came out in excess.
    pub duplicated: u64,
    /// Frames that were held back so that others could overtake. How many of those count as reordered depends on what
    /// was sent behind them: [`reordered`] says.
    pub held_back: u64,
    /// The smallest delay of a frame that came out, in nanoseconds; copies are not counted.
    pub min_delay_ns: u64,
    /// The largest.
    pub max_delay_ns: u64,
    /// All delays added up.
    pub delay_sum_ns: u64,
}

/// What becomes of one frame: nothing, itself, or itself and a copy.
pub type Frames = std::iter::Flatten<std::array::IntoIter<Option<Arrival>, 2>>;

/// A simulated router, frame by frame. Begins as one of infinite speed that does nothing to a frame.
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
    /// A path that draws its chances from `seed`.
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

    /// Serves `fps` frames a second, one after another, and lets `queue_frames` wait; more are lost.
    pub fn capacity(mut self, fps: f64, queue_frames: u64) -> Self {
        self.service_ns = 1e9 / fps;
        self.queue_frames = queue_frames;
        self
    }

    /// Loses a frame with this probability.
    pub fn loss(mut self, probability: f64) -> Self {
        self.loss = probability;
        self
    }

    /// Sends a frame twice with this probability; the copy comes right behind.
    pub fn duplication(mut self, probability: f64) -> Self {
        self.duplication = probability;
        self
    }

    /// Holds a frame back for so long, with this probability, and lets others overtake it.
    pub fn reordering(mut self, probability: f64, held_back_ns: u64) -> Self {
        self.reordering = (probability, held_back_ns);
        self
    }

    /// How long a frame takes beside its wait in the queue.
    pub fn delay(mut self, delay: Delay) -> Self {
        self.delays = Delays::new(delay);
        self
    }

    /// What happened so far.
    pub fn truth(&self) -> Truth {
        self.truth
    }

    /// Passes a frame that was sent at `sent_ns`. Frames must come in the order of their times.
    ///
    /// What comes out is not in the order of arrival when frames are held back: sort by `arrived_ns` (stable), or have
    /// [`Path::pass_all`] do it.
    pub fn pass(&mut self, sent_ns: u64, seq: u64) -> Frames {
        self.truth.sent += 1;
        let Some(served_ns) = self.serve(sent_ns).filter(|_| !self.random.happens(self.loss)) else {
            self.truth.lost += 1;
            return [None, None].into_iter().flatten();
        };
        // Only who is held back is overtaken: a delay that is smaller by chance must not change the order.
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

    /// Passes all frames, given as (time sent, number), and says what arrived in the order of arrival.
    pub fn pass_all(&mut self, frames: impl IntoIterator<Item = (u64, u64)>) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for (sent_ns, seq) in frames {
            arrivals.extend(self.pass(sent_ns, seq));
        }
        arrivals.sort_by_key(|arrival| arrival.arrived_ns);
        arrivals
    }

    /// When the frame has been served; `None` when the queue is full.
    fn serve(&mut self, sent_ns: u64) -> Option<u64> {
        let start_ns = self.free_at_ns.max(sent_ns as f64);
        let waiting = (start_ns - sent_ns as f64) / self.service_ns.max(f64::MIN_POSITIVE);
        // Times are whole nanoseconds: what has waited for less than one has met a free server.
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

/// How many arrivals are reordered as RFC 4737 section 3.3 defines it: their number is smaller than one that came
/// before. A copy of a frame that came in its turn is not.
pub fn reordered(arrivals: &[Arrival]) -> u64 {
    let mut next = 0;
    let mut late = 0;
    for arrival in arrivals {
        // The copy of the newest frame has the number before the one that is expected.
        late += u64::from(arrival.seq + 1 < next);
        next = next.max(arrival.seq + 1);
    }
    late
}

/// Trials frame by frame: sends the frames of a request evenly. Slow beside [`Router`](super::Router), whose arithmetic
/// it proves.
impl Measure for Path {
    fn measure(&mut self, request: Request) -> Result<Outcome, Failure> {
        // Each trial is its own: queues are empty, times begin at zero.
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
