//! Connection tracking table capacity: RFC 9693 section 4.9.
//!
//! The search doubles the number of connections until the router does not hold all of them. Then it bisects between this number and the
//! last one that the router held. If even the first number is too large, the search bisects between 0 and the first number. After a failed
//! attempt, the search tries the same number at half the rate, because a router may slow down as its table fills, and because a random loss
//! does not mean that the table is full.
//!
//! The RFC instead searches for the maximum rate of each number of connections. A number is too large if its maximum rate is much lower
//! than that of smaller numbers. The search here finds the same result with fewer attempts.

use serde::{Deserialize, Serialize};

use super::attempt::{Attempt, Establish};
use crate::search::throughput::Resolution;
use crate::search::{BadInput, Ended};

/// Share of the rate for the second attempt at a number of connections, after the first attempt failed. If the second attempt fails, too,
/// and is valid, the number is too large (the RFC's unacceptable drop).
const SLOWEST: f64 = 0.5;

/// Parameters of the search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// The first number of connections to try.
    pub first: u64,
    /// The largest number of connections to try.
    pub most: u64,
    /// Rate in new connections per second: below the router's maximum establishment rate.
    pub rate_fps: f64,
    /// The maximum distance of the bounds at the end of the search; an absolute distance is in connections.
    pub resolution: Resolution,
    /// Maximum number of further attempts if the attempt at half the rate is invalid. Each further attempt halves the rate again.
    pub repeats: u32,
}

/// Result of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapacityResult {
    /// The parameters.
    pub asked: Capacity,
    /// How the search ended; `AllForwarded` if the router held the largest number.
    pub ended: Ended,
    /// The largest number of connections that the router held; `None` if it held none of the numbers tried.
    pub connections: Option<u64>,
    /// The smallest number of connections that the router did not hold; `None` if it held every number tried.
    pub upper: Option<u64>,
    /// True if `upper` is from an invalid attempt.
    pub upper_unproved: bool,
    /// All attempts, in order.
    pub attempts: Vec<Attempt>,
}

impl Capacity {
    /// Checks the parameters.
    ///
    /// # Errors
    /// If a parameter is invalid; names the first one.
    pub fn check(&self) -> Result<(), BadInput> {
        BadInput::unless(self.first > 0, "first", "must be at least 1")?;
        let why = format_args!("must be at least {}, is {}", self.first, self.most);
        BadInput::unless(self.most >= self.first, "most", why)?;
        BadInput::unless_rate(self.rate_fps, "rate_fps")?;
        self.resolution.check()
    }

    /// Runs the search; calls `said` after each attempt.
    ///
    /// # Errors
    /// If the parameters are invalid. Whatever the router does is a result, not an error.
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

    /// Returns the next number to try, or how the search ended.
    fn next(&self, lower: Option<u64>, upper: Option<u64>) -> Result<u64, Ended> {
        match (lower, upper) {
            (None, None) => Ok(self.first),
            (Some(lower), None) if lower >= self.most => Err(Ended::AllForwarded),
            (Some(lower), None) => Ok(lower.saturating_mul(2).min(self.most)),
            (_, Some(upper)) => {
                let known = lower.unwrap_or(0);
                // Without a number that was held, a coarse resolution would end the search at once.
                let near = lower.is_some() && self.resolution.reached(known as f64, upper as f64);
                let near = near || upper - known <= 1;
                match lower {
                    _ if !near => Ok(known + (upper - known) / 2),
                    Some(_) => Err(Ended::Found),
                    None => Err(Ended::NothingForwarded),
                }
            }
        }
    }

    /// Tries whether the router holds `connections`. Halves the rate after each failed attempt.
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
            // Established connections count, even if the attempt is invalid because the tester missed its schedule.
            if holds {
                return Ok(Holds::Yes);
            }
            if share <= SLOWEST {
                if valid || repeated >= self.repeats {
                    return Ok(Holds::No { unproved: !valid });
                }
                repeated += 1;
            }
            // A tester that was too slow may keep up at half the rate.
            share /= 2.0;
        }
    }
}

enum Holds {
    Yes,
    /// The router did not hold the connections. `unproved` is true if the last attempt was invalid.
    No {
        unproved: bool,
    },
}
