//! What a router uses: energy where there is a meter, processor time where there is none.
//!
//! A campaign says with a [`Spec`] each which meters it has, and [`Meters`] reads them all around a trial. Counters of
//! energy are differences of two readings; powers are sampled at a stated interval and integrated. Processor time is
//! never shown as energy. [`Results`] has the figures of the papers.

mod command;
mod counter;
mod cpu;
mod meters;
mod power;
mod rapl;
mod results;
mod sampler;
mod snmp;
mod spec;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use cpu::{CoreTime, CpuReading, GroupTime, ThreadTime, Whose};
pub use meters::{Measured, Meters};
pub use results::{Results, Work};
pub use spec::Spec;

/// What a meter measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Energy.
    Energy,
    /// Processor time, which says nothing of energy.
    CpuTime,
}

/// The smallest step that a meter shows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resolution {
    /// Of a counter of energy, in joules.
    Joules(f64),
    /// Of a power, in watts. The interval of its samples limits it, too.
    Watts(f64),
    /// Of processor time, in seconds.
    Seconds(f64),
}

/// Energy between two readings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Energy {
    /// Seconds from the first reading to the last.
    pub seconds: f64,
    /// Joules in that time.
    pub joules: f64,
    /// The smallest step of the meter.
    pub resolution: Resolution,
    /// Readings, the first and the last included.
    pub readings: u64,
    /// The longest time between two of them, in seconds: for a power, what happens within is not seen.
    pub longest_gap: f64,
    /// What the meter knows in detail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// A part of what a meter measures, as a package or its memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Part {
    /// Its name, below which it lies included.
    pub name: String,
    /// Joules.
    pub joules: f64,
    /// Whether it is in the sum; else another part that is has it in itself already.
    pub counted: bool,
}

/// What a meter says of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// Energy.
    Energy(Energy),
    /// Processor time.
    CpuTime(CpuReading),
}

/// A meter, read before and after a trial.
pub trait Meter: Send {
    /// The smallest step that it shows.
    fn resolution(&self) -> Resolution;

    /// From now on these are the router's processes, if it has any that this meter wants to know.
    fn watch(&mut self, _processes: &[u32]) {}

    /// Begins, and forgets what was begun before.
    ///
    /// # Errors
    /// When it cannot be read.
    fn begin(&mut self) -> Result<(), Fault>;

    /// Ends what [`begin`](Self::begin) began.
    ///
    /// # Errors
    /// When it cannot be read, could not be in between, or was not begun.
    fn end(&mut self) -> Result<Reading, Fault>;
}

/// Why a meter has no reading, and what would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

/// The end of a trial that has no begin.
fn not_begun() -> Fault {
    Fault("the meter was not begun, or its begin failed".into())
}
