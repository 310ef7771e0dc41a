//! Connection tracking table capacity: RFC 9693 section 4.9.
//!
//! The number of connections is doubled until the router does not hold them any more, and bisected from there on; a first number that is
//! too large is bisected, too. A number that does not hold is tried again at half the rate: a router may become slower as its table fills,
//! and a loss by chance is not the end of the table. The RFC searches the maximum rate for each number instead, and calls a number too
//! large where that rate drops by too much; this finds the same with fewer attempts.

use serde::{Deserialize, Serialize};

use super::attempt::{Attempt, Establish};
use crate::search::throughput::Resolution;
use crate::search::{BadInput, Ended};

/// A number that does not hold at this share of the rate, either, is too large (the unacceptable drop of the RFC).
const SLOWEST: f64 = 0.5;

/// What to search, and how.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// The first number of connections.
    pub first: u64,
    /// The largest.
    pub most: u64,
    /// New connections a second: less than the maximum that the router can establish.
    pub rate_fps: f64,
    /// When to stop; in connections.
    pub resolution: Resolution,
    /// How often an invalid attempt is repeated at half the rate, beyond that.
    pub repeats: u32,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapacityResult {
    /// What was asked.
    pub asked: Capacity,
    /// How it ended; `AllForwarded` when the largest number held.
    pub ended: Ended,
    /// The largest number of connections that the router held; `None` when it held not even one, as far as was asked.
    pub connections: Option<u64>,
    /// The smallest that it did not hold; `None` when there was none.
    pub upper: Option<u64>,
    /// That rests on an attempt that was invalid.
    pub upper_unproved: bool,
    /// All attempts, in order.
    pub attempts: Vec<Attempt>,
}

impl Capacity {
    /// Whether it can be searched.
    ///
    /// # Errors
    /// The first field that makes no sense.
    pub fn check(&self) -> Result<(), BadInput> {
        BadInput::unless(self.first > 0, "first", "must be 1 at least")?;
        let why = format_args!("must be {} at least, is {}", self.first, self.most);
        BadInput::unless(self.most >= self.first, "most", why)?;
        BadInput::unless_rate(self.rate_fps, "rate_fps")?;
        self.resolution.check()
    }

    /// Runs the search; `said` is told each attempt.
    ///
    /// # Errors
    /// When the configuration makes no sense. Whatever the router does is a result.
    pub fn search(
        &self,
        establish: &mut dyn Establish,
        said: &mut dyn FnMut(&Attempt),
    ) -> Result<CapacityResult, BadInput> {
        self.check()?;
        let mut result = CapacityResult {
            asked: *self,
            ended: Ended::Found,
            connections: None,
            upper: None,
            upper_unproved: false,
            attempts: Vec::new(),
        };
        result.ended = loop {
            let next = match self.next(result.connections, result.upper) {
                Ok(next) => next,
                Err(ended) => break ended,
            };
            match self.holds(next, establish, said, &mut result.attempts) {
                Ok(Holds::Yes) => result.connections = Some(next),
                Ok(Holds::No { unproved }) => (result.upper, result.upper_unproved) = (Some(next), unproved),
                Err(why) => break Ended::Failed(why),
            }
        };
        Ok(result)
    }

    /// The next number, or how the search ended.
    fn next(&self, lower: Option<u64>, upper: Option<u64>) -> Result<u64, Ended> {
        match (lower, upper) {
            (None, None) => Ok(self.first),
            (Some(lower), None) if lower >= self.most => Err(Ended::AllForwarded),
            (Some(lower), None) => Ok(lower.saturating_mul(2).min(self.most)),
            (_, Some(upper)) => {
                let known = lower.unwrap_or(0);
                let near = self.resolution.reached(known as f64, upper as f64) || upper - known <= 1;
                match lower {
                    _ if !near => Ok(known + (upper - known) / 2),
                    Some(_) => Err(Ended::Found),
                    None => Err(Ended::NothingForwarded),
                }
            }
        }
    }

    /// Whether the router holds so many.
    fn holds(
        &self,
        connections: u64,
        establish: &mut dyn Establish,
        said: &mut dyn FnMut(&Attempt),
        attempts: &mut Vec<Attempt>,
    ) -> Result<Holds, String> {
        let (mut share, mut repeated) = (1.0, 0);
        loop {
            let attempt = establish.establish(connections, self.rate_fps * share).map_err(|e| e.0)?;
            said(&attempt);
            let (holds, valid) = (attempt.holds(), attempt.invalid.is_empty());
            attempts.push(attempt);
            // What is there is there, however badly the tester kept its schedule.
            if holds {
                return Ok(Holds::Yes);
            }
            if share <= SLOWEST {
                if valid || repeated >= self.repeats {
                    return Ok(Holds::No { unproved: !valid });
                }
                repeated += 1;
            }
            // A tester that was too slow may not be so at half the rate.
            share /= 2.0;
        }
    }
}

enum Holds {
    Yes,
    /// The last attempt was invalid if `unproved`.
    No {
        unproved: bool,
    },
}
