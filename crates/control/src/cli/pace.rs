//! How fast strangers are let in.

use std::time::{Duration, Instant};

/// How many are let in at once, and how many a second from then on. Each costs a thread, and the kernel makes threads under a lock
/// that workers need, too: 11,000 a second kept packets for most of a second.
const BURST: u32 = 64;
const EVERY: Duration = Duration::from_micros(2500);

/// Turns for those who come, which come back with time.
pub(super) struct Pace {
    /// When all turns are there.
    full: Instant,
}

impl Pace {
    pub(super) fn new() -> Pace {
        Pace { full: Instant::now() }
    }

    /// Takes a turn, which must be there.
    pub(super) fn take(&mut self, now: Instant) {
        self.full = self.full.max(now) + EVERY;
    }

    /// How long there is no turn.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.full.saturating_duration_since(now).saturating_sub(EVERY * (BURST - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_let_in_at_once_and_others_one_by_one() {
        let (mut pace, mut now) = (Pace::new(), Instant::now());
        for n in 0..BURST + 100 {
            let wait = pace.wait(now);
            assert_eq!(wait, if n < BURST { Duration::ZERO } else { EVERY }, "{n}");
            now += wait;
            pace.take(now);
        }
        // Who comes after a while finds all turns there.
        now += EVERY * BURST;
        for n in 0..=BURST {
            assert_eq!(pace.wait(now).is_zero(), n < BURST, "{n}");
            pace.take(now);
        }
    }
}
