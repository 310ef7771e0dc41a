//! One attempt to establish connections, in both phases.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Table;
use crate::engine::run::Direction;
use crate::trial::{Failure, Invalid, Outcome, Request};

/// Rate of the second phase relative to the first: the factor alpha of RFC 9693 section 4.6. The second phase is so slow that it
/// loses a frame only if the frame's connection is missing.
const VALIDATION: f64 = 0.5;

/// Result of an attempt to establish connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Number of connections attempted.
    pub connections: u64,
    /// Rate, in new connections per second.
    pub rate_fps: f64,
    /// Connections whose first frame arrived through the router.
    pub arrived: u64,
    /// Number of distinct four-tuples in the frames that arrived through the router.
    pub different: u64,
    /// Number of connections on which the responder's frame reached the right port of the initiator. `None` if the second phase was
    /// skipped because some frames of the first phase did not arrive.
    pub confirmed: Option<u64>,
    /// The router's own count of connections after both phases; `None` if unknown.
    pub counted: Option<u64>,
    /// Reasons why the attempt is invalid; empty if it is valid.
    pub invalid: Vec<Invalid>,
    /// Elapsed time, including waits.
    pub took: Duration,
}

impl Attempt {
    /// True if all connections existed at the end.
    pub fn holds(&self) -> bool {
        self.confirmed == Some(self.connections) && self.different == self.connections
    }

    /// Returns the attempt as the outcome of a trial: a connection missing at the end counts as a lost frame.
    pub fn outcome(&self) -> Outcome {
        let there = self.confirmed.unwrap_or(self.arrived).min(self.different);
        Outcome {
            request: Request::burst(self.connections, self.rate_fps),
            intended: self.connections,
            sent: self.connections,
            received: there,
            took: self.took,
            invalid: self.invalid.clone(),
        }
    }
}

/// Establishes connections; implemented by a testbed and by a simulated router.
pub trait Establish {
    /// Empties the router's table, then tries to establish connections at a rate.
    ///
    /// # Errors
    /// If the attempt has no result.
    fn establish(&mut self, connections: u64, rate_fps: f64) -> Result<Attempt, Failure>;
}

/// Runs the phases of an attempt.
pub trait Phases {
    /// Sends the frames of a direction. Calls `came` with the sequence number and the bytes of each received frame.
    ///
    /// # Errors
    /// If the phase has no outcome.
    fn phase(
        &mut self,
        direction: Direction,
        request: Request,
        came: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Outcome, Failure>;

    /// Empties the router's connection table.
    ///
    /// # Errors
    /// If the router cannot empty the table.
    fn forget(&mut self) -> Result<(), Failure>;

    /// Returns the router's own count of connections, if it has one.
    fn counted(&self) -> Option<u64>;
}

/// Tries to establish the first `connections` connections of a table. If all their frames arrive, verifies that the connections exist (RFC
/// 9693 sections 4.5 and 4.6).
///
/// # Errors
/// If a phase has no outcome, or the router's table cannot be emptied.
pub fn attempt(
    phases: &mut dyn Phases,
    table: &mut Table,
    connections: u64,
    rate_fps: f64,
) -> Result<Attempt, Failure> {
    phases.forget()?;
    let first = table.first_phase(connections)?;
    let request = Request::burst(connections, rate_fps);
    let outcome = phases.phase(first, request, &mut |number, frame| table.learn(number, frame))?;
    let (arrived, different) = (outcome.received, table.learned());
    let mut attempt = Attempt {
        connections,
        rate_fps,
        arrived,
        different,
        confirmed: None,
        counted: None,
        invalid: outcome.invalid,
        took: outcome.took,
    };
    if arrived == connections {
        let request = Request::burst(connections, rate_fps * VALIDATION);
        let mut confirmed = vec![false; connections as usize];
        let outcome = phases.phase(table.back()?, request, &mut |number, frame| {
            if let Some(one) = confirmed.get_mut(number as usize) {
                *one |= table.came_back(number, frame);
            }
        })?;
        attempt.confirmed = Some(confirmed.into_iter().filter(|one| *one).count() as u64);
        attempt.invalid.extend(outcome.invalid);
        attempt.took += outcome.took;
    }
    attempt.counted = phases.counted();
    Ok(attempt)
}
