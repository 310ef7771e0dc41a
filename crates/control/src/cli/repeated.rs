//! Rate-limited logging of events that any client can cause at will.

use std::time::Duration;
use tokio::time::{self, Instant};

/// Minimum time between two log messages on the same event.
const SILENCE: Duration = Duration::from_secs(10);

/// An event that any client can cause at will. The first one is logged at once. Later ones are counted and logged
/// together.
pub(super) struct Repeated {
    times: u64,
    silent_until: Option<Instant>,
    /// Writes the log message; its argument is the number of events.
    words: fn(u64),
}

impl Repeated {
    pub(super) fn new(words: fn(u64)) -> Repeated {
        Repeated { times: 0, silent_until: None, words }
    }

    pub(super) fn happened(&mut self) {
        self.times += 1;
        if self.silent_until.is_none_or(|end| end <= Instant::now()) {
            self.say();
        }
    }

    pub(super) fn say(&mut self) {
        (self.words)(std::mem::take(&mut self.times));
        self.silent_until = Some(Instant::now() + SILENCE);
    }

    /// Waits until events are due to be logged.
    pub(super) async fn due(&self) {
        until(self.silent_until.filter(|_| self.times > 0).map(Instant::into_std)).await;
    }
}

/// Waits until `moment`; forever if it is `None`.
pub(super) async fn until(moment: Option<std::time::Instant>) {
    match moment {
        Some(moment) => time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
