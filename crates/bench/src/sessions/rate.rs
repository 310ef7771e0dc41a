//! The maximum connection establishment rate (RFC 9693 section 4.5), validated according to section 4.6.
//!
//! The search is the same as for throughput (RFC 2544 section 26.1), but an attempt has a number of connections instead of a duration. A
//! rate passes if all connections exist at the end.

use serde::{Deserialize, Serialize};

use super::attempt::{Attempt, Establish};
use crate::search::throughput::{Throughput, ThroughputResult};
use crate::search::{BadInput, Progress, Valid};
use crate::trial::{Failure, Measure, Outcome, Request};

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateResult {
    /// Number of connections in each attempt.
    pub connections: u64,
    /// The result of the search. Its throughput is the rate, in connections per second.
    pub search: ThroughputResult,
    /// All attempts, in order, including repeated invalid ones.
    pub attempts: Vec<Attempt>,
}

impl RateResult {
    /// Returns the number of invalid attempts that were repeated; the search did not see them.
    pub fn repeated(&self) -> u64 {
        (self.attempts.len() as u64).saturating_sub(self.search.tally.trials.into())
    }
}

/// Searches for the largest rate at which `connections` connections are established. The bounds in `asked` are in connections per second;
/// the duration in `asked` is ignored. An invalid attempt is repeated up to `repeats` times.
///
/// # Errors
/// If the parameters are invalid. Whatever the router does is a result, not an error.
pub fn search(
    asked: Throughput,
    connections: u64,
    repeats: u32,
    establish: &mut dyn Establish,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<RateResult, BadInput> {
    BadInput::unless(connections > 0, "sessions", "must be at least 1")?;
    // The duration at the lowest rate, so that each request has at least one frame.
    let asked = Throughput { duration: Request::burst(connections, asked.min_fps).duration, ..asked };
    let mut attempts = Attempts { establish, connections, all: Vec::new() };
    let search = asked.search(&mut Valid::new(|r| attempts.measure(r), repeats), progress)?;
    Ok(RateResult { connections, search, attempts: attempts.all })
}

/// Runs each trial of a search as an attempt to establish the connections, at a rate equal to the trial's load.
struct Attempts<'a> {
    establish: &'a mut dyn Establish,
    connections: u64,
    all: Vec<Attempt>,
}

impl Measure for Attempts<'_> {
    fn measure(&mut self, request: Request) -> Result<Outcome, Failure> {
        let attempt = self.establish.establish(self.connections, request.load_fps)?;
        let outcome = attempt.outcome();
        self.all.push(attempt);
        Ok(outcome)
    }
}
