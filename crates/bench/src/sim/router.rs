//! A router that answers whole trials by arithmetic.

use std::time::Duration;

use super::Random;
use crate::trial::{Failure, Invalid, Measure, Outcome, Request};

/// A simulated router, and the tester before it. Begins as the ideal one: forwards everything up to its capacity, has
/// no buffer, no noise. Times are virtual.
#[derive(Clone, Debug)]
pub struct Router {
    capacity_fps: f64,
    queue_frames: u64,
    loss_ratio: f64,
    jitter: f64,
    spikes: (f64, f64),
    knee: Option<(f64, f64)>,
    fails_above_fps: f64,
    invalid: f64,
    sender_fps: f64,
    overhead: Duration,
    random: Random,
    trials: u64,
}

impl Router {
    /// The ideal router of a capacity in frames a second; 0 never forwards.
    pub fn new(capacity_fps: f64) -> Self {
        Router {
            capacity_fps,
            queue_frames: 0,
            loss_ratio: 0.0,
            jitter: 0.0,
            spikes: (0.0, 0.0),
            knee: None,
            fails_above_fps: f64::INFINITY,
            invalid: 0.0,
            sender_fps: f64::INFINITY,
            overhead: Duration::ZERO,
            random: Random::new(0),
            trials: 0,
        }
    }

    /// Has a buffer of so many frames: bursts above the capacity pass while it fills.
    pub fn queue(mut self, frames: u64) -> Self {
        self.queue_frames = frames;
        self
    }

    /// Loses this share of the frames at any load.
    pub fn loss(mut self, ratio: f64) -> Self {
        self.loss_ratio = ratio;
        self
    }

    /// Has another capacity in each trial: up to this share above or below, every value as probable.
    pub fn jitter(mut self, share: f64) -> Self {
        self.jitter = share;
        self
    }

    /// Loses up to `ratio` of the frames, and at least one, in a trial with this probability, whatever the load: an
    /// interrupt, or a neighbour on the host.
    pub fn spikes(mut self, probability: f64, ratio: f64) -> Self {
        self.spikes = (probability, ratio);
        self
    }

    /// Loses this share of what is above `fps` already, long before its capacity: one queue of several is full.
    pub fn knee(mut self, fps: f64, ratio: f64) -> Self {
        self.knee = Some((fps, ratio));
        self
    }

    /// A load above this makes it vanish: the trial has no outcome.
    pub fn fails_above(mut self, fps: f64) -> Self {
        self.fails_above_fps = fps;
        self
    }

    /// This share of the trials is invalid.
    pub fn invalid(mut self, share: f64) -> Self {
        self.invalid = share;
        self
    }

    /// The tester can send no more than this, and does not notice: the rest stays unsent.
    pub fn sender(mut self, fps: f64) -> Self {
        self.sender_fps = fps;
        self
    }

    /// Each trial takes so much longer than it sends.
    pub fn overhead(mut self, overhead: Duration) -> Self {
        self.overhead = overhead;
        self
    }

    /// Other random numbers.
    pub fn seed(mut self, seed: u64) -> Self {
        self.random = Random::new(seed);
        self
    }

    /// How many trials there were.
    pub fn trials(&self) -> u64 {
        self.trials
    }

    /// A realistic noisy virtual machine: the capacity moves by half a percent from trial to trial, 5 of 100 trials
    /// lose up to a ten-thousandth of their frames for no reason of the router's, 2 of 100 are invalid.
    pub fn noisy(capacity_fps: f64, seed: u64) -> Self {
        Router::new(capacity_fps).jitter(0.005).spikes(0.05, 1e-4).invalid(0.02).queue(256).seed(seed)
    }

    fn forwarded(&mut self, sent: u64, request: Request) -> u64 {
        let seconds = request.duration.as_secs_f64();
        let capacity = self.capacity_fps * (1.0 + self.jitter * self.random.around_zero());
        // Rounded as the frames of a request are: a load of exactly the capacity must not lose one.
        let served = (capacity * seconds).round() as u64;
        let queue = if capacity > 0.0 { self.queue_frames } else { 0 };
        let mut received = sent.min(served.saturating_add(queue));
        if let Some((knee_fps, ratio)) = self.knee {
            let above = (sent as f64 - knee_fps * seconds).max(0.0);
            received = received.min(sent - ((above * ratio).ceil() as u64).min(sent));
        }
        let by_chance = self.random.round(sent as f64 * self.loss_ratio);
        let (probability, ratio) = self.spikes;
        let by_spike = if self.random.happens(probability) {
            1 + (sent as f64 * ratio * self.random.unit()) as u64
        } else {
            0
        };
        received.saturating_sub(by_chance + by_spike)
    }
}

impl Measure for Router {
    fn measure(&mut self, request: Request) -> Result<Outcome, Failure> {
        self.trials += 1;
        if request.load_fps > self.fails_above_fps {
            return Err(Failure(format!(
                "the simulated router is gone above {} frames/s",
                self.fails_above_fps
            )));
        }
        let intended = request.frames();
        let sent = intended.min((self.sender_fps * request.duration.as_secs_f64()).round() as u64);
        let received = self.forwarded(sent, request);
        let invalid =
            if self.random.happens(self.invalid) { vec![Invalid::Stolen(0.01)] } else { Vec::new() };
        Ok(Outcome { request, intended, sent, received, took: request.duration + self.overhead, invalid })
    }
}
