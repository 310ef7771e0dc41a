//! UTC, for timestamp options.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Nanoseconds per millisecond.
const MS: u64 = 1_000_000;
/// Milliseconds per day.
const DAY: u64 = 24 * 3600 * 1000;

/// Difference between UTC and the monotonic clock, in nanoseconds, so that nodes need not read UTC. The main
/// thread updates it.
#[derive(Clone, Default)]
pub struct UtcClock(Arc<AtomicU64>);

impl UtcClock {
    /// Computes the difference again, from the system's clock and `now`, the time of the monotonic clock in
    /// nanoseconds.
    pub fn adjust(&self, now: u64) {
        let utc = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.0.store((utc.as_nanos() as u64).saturating_sub(now), Ordering::Relaxed);
    }

    /// Returns the milliseconds since midnight UTC. `now` is the time of the monotonic clock in nanoseconds.
    pub fn of_day(&self, now: u64) -> u32 {
        (now.saturating_add(self.0.load(Ordering::Relaxed)) / MS % DAY) as u32
    }
}
