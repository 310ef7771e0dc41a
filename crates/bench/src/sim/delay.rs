//! How long a simulated router takes for a frame.

use super::Random;

/// The delay of a frame beside the time it waits for the frames before it. Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delay {
    /// Always the same.
    Fixed(u64),
    /// From the first to the second, every value as probable. The order of frames is kept: who would overtake waits.
    Jittered(u64, u64),
    /// A fixed part, and the waiting time of an M/D/1 queue (Poisson arrivals, one server, `service_ns` a frame) at the
    /// load that is seen: grows without bound as the load comes near the capacity. The order is kept.
    Queue {
        /// What a frame takes with nothing to wait for.
        fixed_ns: u64,
        /// What the server takes for a frame: 1/capacity.
        service_ns: f64,
    },
}

impl Delay {
    /// The mean delay at a load, in nanoseconds: `None` for a queue at its capacity or above, which has none.
    ///
    /// M/D/1 (Pollaczek–Khinchine): the mean wait is ρ·s/(2·(1−ρ)) for a service time s and a utilisation ρ.
    pub fn mean_ns(&self, load_fps: f64) -> Option<f64> {
        match *self {
            Delay::Fixed(ns) => Some(ns as f64),
            Delay::Jittered(from, to) => Some((from as f64 + to as f64) / 2.0),
            Delay::Queue { fixed_ns, service_ns } => {
                let utilisation = load_fps * service_ns / 1e9;
                (utilisation < 1.0).then(|| {
                    fixed_ns as f64 + service_ns + utilisation * service_ns / (2.0 * (1.0 - utilisation))
                })
            }
        }
    }
}

/// Draws delays, frame after frame.
#[derive(Clone, Debug)]
pub(super) struct Delays {
    delay: Delay,
    wait_ns: f64,
    last_sent_ns: Option<u64>,
}

impl Delays {
    pub(super) fn new(delay: Delay) -> Self {
        Delays { delay, wait_ns: 0.0, last_sent_ns: None }
    }

    /// The same delays, with nothing waiting.
    pub(super) fn restarted(self) -> Self {
        Delays::new(self.delay)
    }

    /// The delay of the next frame, sent at `sent_ns`.
    pub(super) fn next(&mut self, sent_ns: u64, random: &mut Random) -> u64 {
        let gap_ns = sent_ns.saturating_sub(self.last_sent_ns.replace(sent_ns).unwrap_or(sent_ns));
        match self.delay {
            Delay::Fixed(ns) => ns,
            Delay::Jittered(from, to) => {
                from + (to.saturating_sub(from) as f64 * random.unit()).round() as u64
            }
            Delay::Queue { fixed_ns, service_ns } => {
                // Lindley's recursion. A tester's gaps are all the same, and such a queue would never grow: the queue
                // sees exponential gaps of the same mean, as if the frames were spread over many links before.
                self.wait_ns = (self.wait_ns + service_ns - random.exponential(gap_ns as f64)).max(0.0);
                fixed_ns + (service_ns + self.wait_ns) as u64
            }
        }
    }
}
