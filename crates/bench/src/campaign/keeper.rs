//! Who keeps what a campaign finds.

use super::procedure::Procedure;
use super::results::{Cell, Key, Measurement};
use super::trial::Trial;
use crate::dut::Facts;
use crate::trial::Failure;

/// Keeps what a campaign finds as it finds it, and knows what was found before an interruption.
///
/// One that could not write, because the disk was full, say, writes nothing from then on, whatever there is room for: the next thing that
/// it is to keep fails, too, and the campaign ends there with what was kept before.
pub trait Keeper {
    /// What is known already of a procedure: it is not run again.
    fn known(&self, key: &Key, procedure: Procedure) -> Option<Measurement>;

    /// Keeps a trial.
    ///
    /// # Errors
    /// When it cannot be kept.
    fn trial(&self, trial: &Trial) -> Result<(), Failure>;

    /// Keeps what the numbers mean: the testbed's conditions, and deviations from the RFCs.
    ///
    /// # Errors
    /// As [`trial`](Self::trial).
    fn conditions(&self, conditions: &[String]) -> Result<(), Failure>;

    /// Keeps what is known of a cell before its first procedure.
    ///
    /// # Errors
    /// As [`trial`](Self::trial).
    fn cell(&self, cell: &Cell) -> Result<(), Failure>;

    /// Keeps what a router says of itself. Where it said something else before an interruption, what was found then is forgotten, since it
    /// is another router's: gives how many results that were.
    ///
    /// # Errors
    /// As [`trial`](Self::trial).
    fn dut(&self, facts: &Facts) -> Result<usize, Failure>;

    /// Keeps what a procedure found.
    ///
    /// # Errors
    /// As [`trial`](Self::trial).
    fn measurement(&self, key: &Key, measurement: &Measurement) -> Result<(), Failure>;

    /// Keeps what could not be measured, and why.
    ///
    /// # Errors
    /// As [`trial`](Self::trial).
    fn failure(&self, why: &str) -> Result<(), Failure>;

    /// Keeps what must be known of results that are there, of a router or, without its name, of all. It is forgotten with the router's
    /// results.
    ///
    /// # Errors
    /// As [`trial`](Self::trial).
    fn caveat(&self, dut: &str, what: &str) -> Result<(), Failure>;
}

/// Keeps nothing: a campaign of which only the results are wanted.
pub struct Nothing;

impl Keeper for Nothing {
    fn known(&self, _: &Key, _: Procedure) -> Option<Measurement> {
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
