//! One attempt to establish connections: both phases.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Table;
use crate::engine::run::Direction;
use crate::trial::{Failure, Invalid, Outcome, Request};

/// The rate of the second phase over that of the first: so slow that only a connection which is not there loses a frame (the factor
/// alpha of RFC 9693 section 4.6).
const VALIDATION: f64 = 0.5;

/// What came of an attempt to establish connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// How many were tried.
    pub connections: u64,
    /// How fast: new connections a second.
    pub rate_fps: f64,
    /// Connections whose first frame came through the router.
    pub arrived: u64,
    /// Of those, connections that are different from all others behind the router.
    pub different: u64,
    /// Connections on which a frame came back to where it belongs; `None` where this was not tried, because some had not arrived.
    pub confirmed: Option<u64>,
    /// Connections that the router itself counts after both phases; `None` if it does not say.
    pub counted: Option<u64>,
    /// Why it says nothing of the router; empty when it is valid.
    pub invalid: Vec<Invalid>,
    /// How long it took, waits included.
    pub took: Duration,
}

impl Attempt {
    /// Whether each connection was there in the end.
    pub fn holds(&self) -> bool {
        self.confirmed == Some(self.connections) && self.different == self.connections
    }

    /// The same as the outcome of a trial: a connection that was not there in the end is lost.
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

/// Whoever can have connections established: a testbed, or a simulated router.
pub trait Establish {
    /// Tries to establish so many connections at a rate, through a router that has none.
    ///
    /// # Errors
    /// When there is nothing to say at all.
    fn establish(&mut self, connections: u64, rate_fps: f64) -> Result<Attempt, Failure>;
}

/// Whoever runs the phases of an attempt.
pub trait Phases {
    /// Sends what a direction has; `came` is shown each frame that comes, with its number.
    ///
    /// # Errors
    /// When there is no outcome.
    fn phase(
        &mut self,
        direction: Direction,
        request: Request,
        came: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Outcome, Failure>;

    /// Has the router forget all connections.
    ///
    /// # Errors
    /// When it cannot.
    fn forget(&mut self) -> Result<(), Failure>;

    /// Connections that the router counts, if it does.
    fn counted(&self) -> Option<u64>;
}

/// Tries to establish the first so many connections of a table, and whether they are there (RFC 9693 sections 4.5 and 4.6).
///
/// # Errors
/// When a phase has no outcome, or the router cannot forget.
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
