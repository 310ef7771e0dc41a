//! How fast packets are made.

use infra::clock::Clock;

/// A rate. What could not be sent in time is not made up for by more than a vector.
pub(crate) struct Pace {
    pps: f64,
    per_tick: f64,
    last: Option<u64>,
    credit: f64,
    burst: f64,
}

impl Pace {
    /// So many packets a second, up to `vector` at once.
    pub(crate) fn new(pps: f64, vector: usize) -> Pace {
        Pace { pps, per_tick: pps / Clock::new().tsc_hz(), last: None, credit: 1.0, burst: vector as f64 }
    }

    /// How many of `most` packets are due at `now`.
    pub(crate) fn due(&mut self, now: u64, most: usize) -> usize {
        let ticks = now.saturating_sub(self.last.unwrap_or(now));
        self.last = Some(now);
        self.credit = (self.credit + ticks as f64 * self.per_tick).min(self.burst);
        let n = (self.credit as usize).min(most);
        self.credit -= n as f64;
        n
    }

    /// Nanoseconds from the last call of [`due`](Pace::due) until a packet is due.
    pub(crate) fn next_in(&self) -> u64 {
        ((1.0 - self.credit).max(0.0) / self.pps * 1e9) as u64
    }
}
