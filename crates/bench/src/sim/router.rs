//! A simulated router that computes the outcomes of whole trials.

use std::time::Duration;

use super::Random;
use crate::trial::{Failure, Invalid, Measure, Outcome, Request};

/// A simulated router, and the tester in front of it, in virtual time. By default it is ideal: it forwards everything up to its capacity,
/// without buffer and without noise.
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
    /// Makes an ideal router with a capacity in frames per second; with 0 it forwards nothing.
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

    /// Sets the buffer size in frames: bursts above the capacity pass until the buffer is full.
    pub fn queue(mut self, frames: u64) -> Self {
        self.queue_frames = frames;
        self
    }

    /// Loses this share of the frames, at any load.
    pub fn loss(mut self, ratio: f64) -> Self {
        self.loss_ratio = ratio;
        self
    }

    /// Varies the capacity from trial to trial, uniformly by up to this share in both directions.
    pub fn jitter(mut self, share: f64) -> Self {
        self.jitter = share;
        self
    }

    /// With this probability, a trial loses at least one frame, and at most about the share `ratio` of its frames, at any load.
    /// Simulates an interrupt, or another guest on the host.
    pub fn spikes(mut self, probability: f64, ratio: f64) -> Self {
        self.spikes = (probability, ratio);
        self
    }

    /// Loses the share `ratio` of the frames that exceed the rate `fps`, even below the capacity. Simulates a router in which one of
    /// several queues is full.
    pub fn knee(mut self, fps: f64, ratio: f64) -> Self {
        self.knee = Some((fps, ratio));
        self
    }

    /// Makes trials with a load above `fps` fail: they have no outcome.
    pub fn fails_above(mut self, fps: f64) -> Self {
        self.fails_above_fps = fps;
        self
    }

    /// Makes this share of the trials invalid.
    pub fn invalid(mut self, share: f64) -> Self {
        self.invalid = share;
        self
    }

    /// Limits the tester's sending rate. At a higher load, the frames above `fps` stay unsent, but the trial is not marked as
    /// invalid.
    pub fn sender(mut self, fps: f64) -> Self {
        self.sender_fps = fps;
        self
    }

    /// Adds `overhead` to the elapsed time of each trial.
    pub fn overhead(mut self, overhead: Duration) -> Self {
        self.overhead = overhead;
        self
    }

    /// Sets the seed of the random numbers.
    pub fn seed(mut self, seed: u64) -> Self {
        self.random = Random::new(seed);
        self
    }

    /// Returns the number of trials so far.
    pub fn trials(&self) -> u64 {
        self.trials
    }

    /// Makes a router as on a noisy virtual machine, with a buffer of 256 frames. The capacity varies by up to 0.5 % in both directions. 5
    /// % of trials lose up to about 0.01 % of their frames for reasons outside the router. 2 % of trials are invalid.
    pub fn noisy(capacity_fps: f64, seed: u64) -> Self {
        Router::new(capacity_fps).jitter(0.005).spikes(0.05, 1e-4).invalid(0.02).queue(256).seed(seed)
    }

    fn forwarded(&mut self, sent: u64, request: Request) -> u64 {
        let seconds = request.duration.as_secs_f64();
        let capacity = self.capacity_fps * (1.0 + self.jitter * self.random.around_zero());
        // Rounded like a request's number of frames, so that a load equal to the capacity has no loss.
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
                "the simulated router fails above {} frames/s",
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
