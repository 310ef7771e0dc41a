//! What a trial is asked, and what it answers. Searches know trials by nothing else.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What to send.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Frames a second in each direction.
    pub load_fps: f64,
    /// For how long.
    pub duration: Duration,
}

impl Request {
    /// A burst of exactly `frames` at `load_fps`, the most that the link carries: RFC 2544 section 26.4 asks for frames
    /// with the smallest gap. The wait that fills the trial up to its two seconds is the testbed's.
    ///
    /// The duration is rounded to nanoseconds, so that the number is exact up to 900 million frames a second only.
    pub fn burst(frames: u64, load_fps: f64) -> Self {
        Request { load_fps, duration: Duration::from_nanos((frames as f64 / load_fps * 1e9).round() as u64) }
    }

    /// Frames to send in each direction.
    pub fn frames(&self) -> u64 {
        (self.load_fps * self.duration.as_secs_f64()).round() as u64
    }
}

/// What came of a trial, all directions together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What was asked.
    pub request: Request,
    /// Frames that should have been sent.
    pub intended: u64,
    /// Frames that were.
    pub sent: u64,
    /// Different test frames that came back.
    pub received: u64,
    /// How long the trial took in all, waits included: what a search pays for it.
    pub took: Duration,
    /// Why it says nothing of the router; empty when it is valid.
    pub invalid: Vec<Invalid>,
}

impl Outcome {
    /// Frames that did not come back. What could not be sent counts, too: the router was not shown to forward it.
    pub fn lost(&self) -> u64 {
        self.intended.saturating_sub(self.received)
    }

    /// Lost frames as a share of those that should have been sent, 0 to 1. A trial of no frames lost all: it has shown nothing.
    pub fn loss_ratio(&self) -> f64 {
        if self.intended == 0 { 1.0 } else { self.lost() as f64 / self.intended as f64 }
    }

    /// Frames a second that came back, in each direction: the load less its loss.
    pub fn forwarding_fps(&self) -> f64 {
        self.request.load_fps * (1.0 - self.loss_ratio())
    }

    /// Whether it says something of the router.
    pub fn is_valid(&self) -> bool {
        self.invalid.is_empty()
    }
}

/// Why a trial says nothing of the router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Invalid {
    /// Sending took longer than it may, by this factor.
    Late(f64),
    /// So many frames were overdue at once.
    Lagged(u64),
    /// To catch up, the sender had to exceed its rate by this factor for a while.
    Burst(f64),
    /// The tester itself dropped this many frames.
    TesterDropped(u64),
    /// The host gave processor time to others: this share of the trial.
    Stolen(f64),
    /// The clock is not fit for measuring: why.
    Clock(String),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::Late(by) => write!(f, "sending took {by:.6} of its time"),
            Invalid::Lagged(n) => write!(f, "the sender was {n} frames behind its schedule"),
            Invalid::Burst(by) => write!(f, "the sender had to burst at {by:.3} of its rate to catch up"),
            Invalid::TesterDropped(n) => write!(f, "the tester dropped {n} frames"),
            Invalid::Stolen(share) => write!(f, "the host stole {:.2} % of the time", share * 100.0),
            Invalid::Clock(why) => write!(f, "the clock is not fit: {why}"),
        }
    }
}

/// Why there is no outcome at all: the router never answered, a port vanished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Whoever runs trials: a testbed, or a simulated router.
pub trait Measure {
    /// Runs one.
    ///
    /// # Errors
    /// When there is nothing to say at all. A trial with loss, or an invalid one, is no error.
    fn measure(&mut self, request: Request) -> Result<Outcome, Failure>;
}

impl<F: FnMut(Request) -> Result<Outcome, Failure>> Measure for F {
    fn measure(&mut self, request: Request) -> Result<Outcome, Failure> {
        self(request)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn outcome(intended: u64, sent: u64, received: u64) -> Outcome {
        let request = Request { load_fps: 1e6, duration: Duration::from_secs(1) };
        Outcome { request, intended, sent, received, took: request.duration, invalid: Vec::new() }
    }

    #[test]
    fn what_was_not_sent_is_lost() {
        let o = outcome(1000, 900, 900);
        assert_eq!((o.lost(), o.loss_ratio()), (100, 0.1));
        assert_eq!(o.forwarding_fps(), 9e5);
        assert_eq!(outcome(0, 0, 0).loss_ratio(), 1.0);
    }

    #[test]
    fn the_number_of_frames_is_rounded_not_cut() {
        let request = Request { load_fps: 14_880_952.38, duration: Duration::from_secs(60) };
        assert_eq!(request.frames(), 892_857_143);
    }

    proptest! {
        #[test]
        fn a_burst_has_as_many_frames_as_were_asked(frames in 0u64..10_000_000_000, load_fps in 100.0..9e8) {
            prop_assert_eq!(Request::burst(frames, load_fps).frames(), frames);
        }
    }
}
