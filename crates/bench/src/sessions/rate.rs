//! The maximum connection establishment rate: RFC 9693 section 4.5, validated as section 4.6 has it.
//!
//! It is searched as a throughput is (RFC 2544 section 26.1), with a number of connections in place of a time. A rate holds when every
//! connection was there in the end.

use serde::{Deserialize, Serialize};

use super::attempt::{Attempt, Establish};
use crate::search::throughput::{Throughput, ThroughputResult};
use crate::search::{BadInput, Progress, Valid};
use crate::trial::{Failure, Measure, Outcome, Request};

/// What came of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateResult {
    /// Connections of each attempt.
    pub connections: u64,
    /// The search: its throughput is the rate, in connections a second.
    pub search: ThroughputResult,
    /// All attempts, in order, those that were repeated because they were invalid among them.
    pub attempts: Vec<Attempt>,
}

impl RateResult {
    /// Attempts that were invalid and were repeated: the search did not see them.
    pub fn repeated(&self) -> u64 {
        (self.attempts.len() as u64).saturating_sub(self.search.tally.trials.into())
    }
}

/// Searches the largest rate at which so many connections are established. The bounds are those of `asked`, in connections a second; its
/// duration is not used. An invalid attempt is repeated up to `repeats` times.
///
/// # Errors
/// When the configuration makes no sense. Whatever the router does is a result.
pub fn search(
    asked: Throughput,
    connections: u64,
    repeats: u32,
    establish: &mut dyn Establish,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<RateResult, BadInput> {
    BadInput::unless(connections > 0, "sessions", "must be 1 at least")?;
    // The longest that an attempt takes: no request may be for no frame.
    let asked = Throughput { duration: Request::burst(connections, asked.min_fps).duration, ..asked };
    let mut attempts = Attempts { establish, connections, all: Vec::new() };
    let search = asked.search(&mut Valid::new(|r| attempts.measure(r), repeats), progress)?;
    Ok(RateResult { connections, search, attempts: attempts.all })
}

/// Attempts as trials at a load.
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
