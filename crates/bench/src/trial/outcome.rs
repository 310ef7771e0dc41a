//! Request and outcome of a trial: everything that searches know about trials.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The frames to send in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Load in frames per second, in each direction.
    pub load_fps: f64,
    /// Sending time.
    pub duration: Duration,
}

impl Request {
    /// Requests a burst of exactly `frames` at `load_fps`. Back-to-back bursts use the link's maximum, because RFC 2544 section 26.4
    /// requires minimum gaps. The wait for frames in flight is not part of the request.
    ///
    /// The duration is rounded to nanoseconds, so the number of frames is only exact up to 900 million frames per second.
    pub fn burst(frames: u64, load_fps: f64) -> Self {
        Request { load_fps, duration: Duration::from_nanos((frames as f64 / load_fps * 1e9).round() as u64) }
    }

    /// Returns the number of frames to send in each direction.
    pub fn frames(&self) -> u64 {
        (self.load_fps * self.duration.as_secs_f64()).round() as u64
    }
}

/// The outcome of a trial, summed over all directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The request.
    pub request: Request,
    /// Frames intended to be sent.
    pub intended: u64,
    /// Frames sent.
    pub sent: u64,
    /// Distinct test frames received.
    pub received: u64,
    /// Total elapsed time, including waits: the cost of the trial for a search.
    pub took: Duration,
    /// Reasons why the trial is invalid; empty if it is valid.
    pub invalid: Vec<Invalid>,
}

impl Outcome {
    /// Returns the number of lost frames. Frames that could not be sent count as lost, because the router did not forward them.
    pub fn lost(&self) -> u64 {
        self.intended.saturating_sub(self.received)
    }

    /// Returns the share of lost frames in the intended frames, 0 to 1. It is 1 for a trial without frames, which proves nothing.
    pub fn loss_ratio(&self) -> f64 {
        if self.intended == 0 { 1.0 } else { self.lost() as f64 / self.intended as f64 }
    }

    /// Returns the forwarding rate in frames per second, in each direction: the load less its loss.
    pub fn forwarding_fps(&self) -> f64 {
        self.request.load_fps * (1.0 - self.loss_ratio())
    }

    /// True if nothing was found that makes the trial invalid.
    pub fn is_valid(&self) -> bool {
        self.invalid.is_empty()
    }
}

/// Reason why a trial is invalid: the tester or its machine may have caused the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Invalid {
    /// Sending took too long: actual time divided by intended time.
    Late(f64),
    /// The largest number of frames of a port that were overdue at one time, or the number of frames of a flow that were still due when the
    /// trial's time ended.
    Lagged(u64),
    /// A frame left too late, by this time in seconds.
    Behind(f64),
    /// The receiver's port was not polled for this time, in seconds, which is too long.
    Away(f64),
    /// The share of the trial's time in which the tester was ready to run, but had no processor.
    Waited(f64),
    /// To catch up, the sender temporarily exceeded its rate by this factor.
    Burst(f64),
    /// Frames dropped by the tester itself.
    TesterDropped(u64),
    /// The share of processor time that the host gave to other guests.
    Stolen(f64),
    /// The clock is unfit for measuring; with the reason.
    Clock(String),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::Late(by) => write!(f, "sending took {by:.6} times as long as intended"),
            Invalid::Lagged(n) => write!(f, "the sender was {n} frames behind its schedule"),
            Invalid::Behind(s) => write!(f, "a frame left {:.3} ms after it was due", s * 1e3),
            Invalid::Away(s) => write!(f, "the receiver did not poll for {:.3} ms", s * 1e3),
            Invalid::Waited(share) => {
                write!(f, "the tester waited for a processor for {:.3} % of the time", share * 100.0)
            }
            Invalid::Burst(by) => write!(f, "the sender had to send at {by:.3} times its rate to catch up"),
            Invalid::TesterDropped(n) => write!(f, "the tester dropped {n} frames"),
            Invalid::Stolen(share) => {
                write!(f, "the host stole {:.2} % of the processor time", share * 100.0)
            }
            Invalid::Clock(why) => write!(f, "the clock is unfit for measuring: {why}"),
        }
    }
}

/// Reason why a trial has no outcome, such as a router that never answered, or a missing port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Runs trials; implemented by a testbed and by a simulated router.
pub trait Measure {
    /// Runs a trial.
    ///
    /// # Errors
    /// If there is no outcome. A trial with loss, or an invalid trial, is not an error.
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
    fn unsent_frames_count_as_lost() {
        let o = outcome(1000, 900, 900);
        assert_eq!((o.lost(), o.loss_ratio()), (100, 0.1));
        assert_eq!(o.forwarding_fps(), 9e5);
        assert_eq!(outcome(0, 0, 0).loss_ratio(), 1.0);
    }

    #[test]
    fn the_number_of_frames_is_rounded_not_truncated() {
        let request = Request { load_fps: 14_880_952.38, duration: Duration::from_secs(60) };
        assert_eq!(request.frames(), 892_857_143);
    }

    proptest! {
        #[test]
        fn a_burst_has_the_requested_number_of_frames(frames in 0u64..10_000_000_000, load_fps in 100.0..9e8) {
            prop_assert_eq!(Request::burst(frames, load_fps).frames(), frames);
        }
    }
}
