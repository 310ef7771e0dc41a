//! Delays of frames in a simulated router.

use super::Random;

/// The delay of a frame, in nanoseconds, in addition to its service and wait in the queue of [`Path::capacity`](super::Path::capacity).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delay {
    /// A constant.
    Fixed(u64),
    /// Uniformly distributed between both values. Frames stay in order: a frame that would overtake waits.
    Jittered(u64, u64),
    /// `fixed_ns`, plus service and waiting time in an M/D/1 queue (Poisson arrivals, one server, `service_ns` per frame). The queue's
    /// arrivals are random; their mean gap is that of the frames sent. The waiting time grows without bound as the load approaches the
    /// capacity. Frames stay in order.
    Queue {
        /// Delay of a frame without service and waiting time, in nanoseconds.
        fixed_ns: u64,
        /// Service time of a frame, in nanoseconds: 1/capacity.
        service_ns: f64,
    },
}

impl Delay {
    /// Returns the mean delay at a load, in nanoseconds, without the waits that keep frames in order; `None` for [`Delay::Queue`] if the
    /// load reaches the queue's capacity.
    ///
    /// M/D/1 (Pollaczek–Khinchine): the mean wait is ρ·s/(2·(1−ρ)) for a service time s and a utilization ρ.
    pub fn mean_ns(&self, load_fps: f64) -> Option<f64> {
        match *self {
            Delay::Fixed(ns) => Some(ns as f64),
            Delay::Jittered(from, to) => Some((from as f64 + to as f64) / 2.0),
            Delay::Queue { fixed_ns, service_ns } => {
                let utilization = load_fps * service_ns / 1e9;
                (utilization < 1.0).then(|| {
                    fixed_ns as f64 + service_ns + utilization * service_ns / (2.0 * (1.0 - utilization))
                })
            }
        }
    }
}

/// Generates the delays of successive frames.
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

    /// Returns the same delays, with an empty queue.
    pub(super) fn restarted(self) -> Self {
        Delays::new(self.delay)
    }

    /// Returns the delay of the next frame, which is sent at `sent_ns`.
    pub(super) fn next(&mut self, sent_ns: u64, random: &mut Random) -> u64 {
        let gap_ns = sent_ns.saturating_sub(self.last_sent_ns.replace(sent_ns).unwrap_or(sent_ns));
        match self.delay {
            Delay::Fixed(ns) => ns,
            Delay::Jittered(from, to) => {
                from + (to.saturating_sub(from) as f64 * random.unit()).round() as u64
            }
            Delay::Queue { fixed_ns, service_ns } => {
                // Lindley's recursion. A tester's gaps are constant, and would never build up a queue. So the queue sees exponential gaps
                // with the same mean, as if the frames came from many links.
                self.wait_ns = (self.wait_ns + service_ns - random.exponential(gap_ns as f64)).max(0.0);
                fixed_ns + (service_ns + self.wait_ns) as u64
            }
        }
    }
}
