//! Storage interface for a campaign's results.

use super::procedure::Procedure;
use super::results::{Cell, Key, Measurement};
use super::trial::Trial;
use crate::dut::Facts;
use crate::trial::Failure;

/// Stores a campaign's results as they are found, and returns results from before an interruption.
///
/// After a failed write, such as on a full disk, an implementation must write nothing more, even if there is room again. The next call
/// then fails, too, and the campaign ends with the results stored so far.
pub trait Keeper {
    /// Returns the stored result of a procedure; `None` if there is none. The repetitions that it contains are not run again.
    fn known(&self, key: &Key, procedure: Procedure) -> Option<Measurement>;

    /// True if this campaign has stored a router's description of itself, now or before an interruption.
    ///
    /// # Errors
    /// Returns an error if the stored description cannot be read.
    fn has_started(&self, dut: &str) -> Result<bool, Failure>;

    /// Returns the conditions stored before an interruption: those of the testbed, and deviations from the RFCs. `None` if the
    /// campaign was not interrupted.
    fn conditions_before(&self) -> Option<Vec<String>>;

    /// Stores a trial.
    ///
    /// # Errors
    /// Returns an error if the trial cannot be stored.
    fn trial(&self, trial: &Trial) -> Result<(), Failure>;

    /// Stores the conditions of the results: those of the testbed, and deviations from the RFCs.
    ///
    /// # Errors
    /// As [`trial`](Self::trial).
    fn conditions(&self, conditions: &[String]) -> Result<(), Failure>;

    /// Stores the data of a cell (a router with a traffic and frame size) that are known before its first procedure.
    ///
    /// # Errors
    /// As [`trial`](Self::trial).
    fn cell(&self, cell: &Cell) -> Result<(), Failure>;

    /// Stores a router's description of itself. If a different description was stored before an interruption, the router has changed since
    /// then, and its stored results are deleted. Returns the number of deleted results.
    ///
    /// # Errors
    /// As [`trial`](Self::trial).
    fn dut(&self, facts: &Facts) -> Result<usize, Failure>;

    /// Stores the result of a procedure.
    ///
    /// # Errors
    /// As [`trial`](Self::trial).
    fn measurement(&self, key: &Key, measurement: &Measurement) -> Result<(), Failure>;

    /// Stores the reason of a failed measurement.
    ///
    /// # Errors
    /// As [`trial`](Self::trial).
    fn failure(&self, why: &str) -> Result<(), Failure>;

    /// Stores a caveat about a router's results, or about all results if `dut` is empty. If a router's results are deleted, its caveats are
    /// deleted, too.
    ///
    /// # Errors
    /// As [`trial`](Self::trial).
    fn caveat(&self, dut: &str, what: &str) -> Result<(), Failure>;
}

/// A keeper that stores nothing, for campaigns whose results are only returned.
pub struct Nothing;

impl Keeper for Nothing {
    fn known(&self, _: &Key, _: Procedure) -> Option<Measurement> {
        None
    }

    fn has_started(&self, _: &str) -> Result<bool, Failure> {
        Ok(false)
    }

    fn conditions_before(&self) -> Option<Vec<String>> {
        None
    }

    fn trial(&self, _: &Trial) -> Result<(), Failure> {
        Ok(())
    }

    fn conditions(&self, _: &[String]) -> Result<(), Failure> {
        Ok(())
    }

    fn cell(&self, _: &Cell) -> Result<(), Failure> {
        Ok(())
    }

    fn dut(&self, _: &Facts) -> Result<usize, Failure> {
        Ok(0)
    }

    fn measurement(&self, _: &Key, _: &Measurement) -> Result<(), Failure> {
        Ok(())
    }

    fn failure(&self, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn caveat(&self, _: &str, _: &str) -> Result<(), Failure> {
        Ok(())
    }
}
