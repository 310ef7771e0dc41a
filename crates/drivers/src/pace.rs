//! Packet rate limiting for the generator and the replay.

use infra::clock::Clock;

/// A packet rate limiter. If calls come late, the packets that became due meanwhile are sent later, but at most one vector of them.
pub(crate) struct Pace {
    pps: f64,
    per_tick: f64,
    last: Option<u64>,
    credit: f64,
    burst: f64,
}

impl Pace {
    /// Returns a limiter for `pps` packets per second and at most `vector` packets at once.
    pub(crate) fn new(pps: f64, vector: usize) -> Pace {
        Pace { pps, per_tick: pps / Clock::new().tsc_hz(), last: None, credit: 1.0, burst: vector as f64 }
    }

    /// Returns the number of packets due at `now` (TSC ticks), at most `most`.
    pub(crate) fn due(&mut self, now: u64, most: usize) -> usize {
        let ticks = now.saturating_sub(self.last.unwrap_or(now));
        self.last = Some(now);
        self.credit = (self.credit + ticks as f64 * self.per_tick).min(self.burst);
        let n = (self.credit as usize).min(most);
        self.credit -= n as f64;
        n
    }

    /// Returns the nanoseconds from the last call of [`due`](Pace::due) until the next packet is due.
    pub(crate) fn next_in(&self) -> u64 {
        ((1.0 - self.credit).max(0.0) / self.pps * 1e9) as u64
    }
}
