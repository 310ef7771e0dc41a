//! Things that anybody can cause as often as he likes, and what is said of them.

use std::time::Duration;
use tokio::time::{self, Instant};

/// How long nothing more is said of what has just been said.
const SILENCE: Duration = Duration::from_secs(10);

/// Something that anybody can cause as often as he likes: the first time is told at once, and those that follow are
/// counted and told together.
pub(super) struct Repeated {
    times: u64,
    silent_until: Option<Instant>,
    /// Says that it happened so many times.
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

    /// Waits until there is something to tell.
    pub(super) async fn due(&self) {
        until(self.silent_until.filter(|_| self.times > 0).map(Instant::into_std)).await;
    }
}

/// Waits for a moment, if there is one.
pub(super) async fn until(moment: Option<std::time::Instant>) {
    match moment {
        Some(moment) => time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
