//! Decides which refusals of clients are logged. A client that retries every second is logged once, and untrusted
//! clients cannot fill the log.

use crate::memif::SECOND;

/// Minimum time between two log messages of a socket, in nanoseconds.
const PACE: u64 = SECOND;
/// If no client is refused for a reason for this many nanoseconds, the next refusal for that reason is logged again.
const FORGOTTEN: u64 = 60 * SECOND;
/// Maximum number of reasons remembered: untrusted clients can cause any number of them.
const MOST: usize = 16;

/// Reasons for which clients of one socket were refused.
#[derive(Default)]
pub(super) struct Refusals {
    /// Logged reasons, and for each the time in nanoseconds of the last refusal for it.
    said: Vec<(String, u64)>,
    /// Time in nanoseconds of the last log message.
    logged: Option<u64>,
}

impl Refusals {
    /// True if a refusal for reason `why` must be logged; `now` is in nanoseconds.
    pub(super) fn is_news(&mut self, now: u64, why: &str) -> bool {
        self.said.retain(|(_, met)| now < met + FORGOTTEN);
        if let Some((_, met)) = self.said.iter_mut().find(|(said, _)| said == why) {
            *met = now;
            return false;
        }
        if self.logged.is_some_and(|at| now < at + PACE) {
            return false;
        }
        if self.said.len() == MOST {
            self.said.remove(0);
        }
        self.said.push((why.into(), now));
        self.logged = Some(now);
        true
    }

    /// Forgets all reasons, because the socket's interfaces have changed.
    pub(super) fn forget(&mut self) {
        self.said.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_logged_once_until_a_change() {
        let mut refusals = Refusals::default();
        let mut said = Vec::new();
        // Two clients, each of which retries every second.
        for half in 0..200 {
            let (now, why) = (half * SECOND / 2, ["no such interface", "a wrong secret"][half as usize % 2]);
            if half == 100 {
                refusals.forget();
            }
            if refusals.is_news(now, why) {
                said.push((half, why));
            }
        }
        let [first, second] = ["no such interface", "a wrong secret"];
        assert_eq!(said, [(0, first), (3, second), (100, first), (103, second)]);
        // A reason not seen for a long time.
        let later = 100 * SECOND + FORGOTTEN;
        assert!(refusals.is_news(later, first));
        assert!(!refusals.is_news(later + FORGOTTEN - 1, first));
        assert!(!refusals.is_news(later + 2 * FORGOTTEN - 2, first));
    }

    #[test]
    fn many_reasons_are_logged_once_a_second() {
        let mut refusals = Refusals::default();
        let said = (0..1000).filter(|n| refusals.is_news(n * SECOND / 10, &n.to_string())).count();
        assert_eq!((said, refusals.said.len()), (100, MOST));
    }
}
