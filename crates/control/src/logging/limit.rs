//! The rate limit of a logging statement. A message that a peer or a worker can cause a thousand times a second is
//! logged a few times, and then counted.

use std::time::{Duration, Instant};

/// Minimum duration of an interval in which messages are counted.
const SECOND: Duration = Duration::from_secs(1);

/// The rate-limit state of a logging statement.
#[derive(Debug)]
pub struct Place {
    /// Start of the interval in which messages are counted.
    start: Instant,
    count: u32,
    suppressed: u64,
}

/// The suppressed messages of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suppressed {
    /// Number of suppressed messages.
    pub messages: u64,
    /// The time from the start of the interval to this report.
    pub time: Duration,
}

impl Place {
    /// Returns the state of a logging statement that has logged nothing yet.
    pub fn new(now: Instant) -> Place {
        Place { start: now, count: 0, suppressed: 0 }
    }

    /// True if a message may be logged now, with at most `limit` messages per second. Above the limit, messages are suppressed until
    /// [`over`](Place::over) lets the statement log again.
    pub fn may_speak(&mut self, now: Instant, limit: u32) -> bool {
        if self.suppressed == 0 && now.duration_since(self.start) >= SECOND {
            (self.start, self.count) = (now, 0);
        }
        self.count = self.count.saturating_add(1);
        let may = self.count <= limit;
        self.suppressed += u64::from(!may);
        may
    }

    /// Ends the silence of a statement with suppressed messages, if `silence`, but at least one second, has passed since the interval
    /// began. Then returns the suppressed messages. Otherwise returns `None`.
    pub fn over(&mut self, now: Instant, silence: Duration) -> Option<Suppressed> {
        let time = now.duration_since(self.start);
        if self.suppressed == 0 || time < silence.max(SECOND) {
            return None;
        }
        let messages = std::mem::take(&mut self.suppressed);
        (self.start, self.count) = (now, 0);
        Some(Suppressed { messages, time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SILENCE: Duration = Duration::from_secs(3);

    #[test]
    fn limit_a_second_then_silence() {
        let start = Instant::now();
        let mut place = Place::new(start);
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!((0..10).filter(|n| place.may_speak(at(100 * n), 10)).count(), 10);
        assert_eq!(place.over(at(999), SILENCE), None);
        assert!(place.may_speak(at(1000), 10), "another second");
        assert_eq!((0..1000).filter(|n| place.may_speak(at(1000 + n), 10)).count(), 9);
        assert!(!place.may_speak(at(3999), 10), "it is silent for three seconds");
        assert_eq!(place.over(at(3999), SILENCE), None);
        let time = Duration::from_secs(3);
        assert_eq!(place.over(at(4000), SILENCE), Some(Suppressed { messages: 992, time }));
        assert_eq!(place.over(at(4000), SILENCE), None);
        assert!(place.may_speak(at(4000), 10));
    }

    proptest! {
        /// Every message is logged or counted, and no second has more than twice the limit. Twice, because an
        /// interval begins with its first message, so one second may have parts of two intervals.
        #[test]
        fn every_message_is_logged_or_counted(gaps in prop::collection::vec(0_u64..400, 1..500), limit in 1_u32..8) {
            let start = Instant::now();
            let (mut place, mut now) = (Place::new(start), 0);
            let (mut said, mut counted) = (Vec::new(), 0);
            for gap in &gaps {
                now += gap;
                let at = start + Duration::from_millis(now);
                counted += place.over(at, SILENCE).map_or(0, |s| s.messages);
                if place.may_speak(at, limit) {
                    said.push(now);
                }
            }
            let end = start + Duration::from_millis(now) + SILENCE;
            counted += place.over(end, SILENCE).map_or(0, |s| s.messages);
            prop_assert_eq!(said.len() as u64 + counted, gaps.len() as u64);
            for (n, first) in said.iter().enumerate() {
                prop_assert!(said[n..].iter().take_while(|at| **at < first + 1000).count() <= 2 * limit as usize);
            }
        }
    }
}
