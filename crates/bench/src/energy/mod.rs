//! Energy of a router if there is an energy meter, and processor time if there is none.
//!
//! A campaign describes each meter with a [`Spec`], and [`Meters`] reads all of them around a trial. The energy is the difference of two
//! readings of an energy counter, or the integral of a power that is sampled at a fixed interval. Processor time is never shown as energy.
//! [`Results`] has the papers' figures.

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

/// Quantity that a meter measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Energy.
    Energy,
    /// Processor time, which is not energy.
    CpuTime,
}

/// Resolution of a meter: its smallest step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resolution {
    /// Step of an energy counter, in joules.
    Joules(f64),
    /// Smallest step of a power reading, in watts. The resolution of the energy also depends on the sampling interval.
    Watts(f64),
    /// Step of processor time, in seconds.
    Seconds(f64),
}

/// Energy between two readings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Energy {
    /// Seconds from the first reading to the last.
    pub seconds: f64,
    /// Energy in that time, in joules.
    pub joules: f64,
    /// Resolution of the meter.
    pub resolution: Resolution,
    /// Number of readings, first and last included.
    pub readings: u64,
    /// Longest time between two readings, in seconds. Changes of power between two readings are not seen.
    pub longest_gap: f64,
    /// Energy of each part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// A part of a meter's energy, such as a processor package or its memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Part {
    /// Name of the part. If the part belongs to another one, the other's name precedes it: `package-0/core`.
    pub name: String,
    /// Energy of the part, in joules.
    pub joules: f64,
    /// True if the part is added to the sum. False if it is only listed, for example because another part already includes it.
    pub counted: bool,
}

/// A meter's reading for a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// Energy.
    Energy(Energy),
    /// Processor time.
    CpuTime(CpuReading),
}

/// A meter that measures from the start to the end of a trial.
pub trait Meter: Send {
    /// Returns the resolution.
    fn resolution(&self) -> Resolution;

    /// Sets the router's processes, for meters that measure them.
    fn watch(&mut self, _processes: &[u32]) {}

    /// Starts a measurement and discards an unfinished one.
    ///
    /// # Errors
    /// Returns an error if the meter cannot be read.
    fn begin(&mut self) -> Result<(), Fault>;

    /// Ends the measurement that [`begin`](Self::begin) started and returns the reading.
    ///
    /// # Errors
    /// Returns an error if the meter cannot be read, failed during the measurement, or was not started.
    fn end(&mut self) -> Result<Reading, Fault>;
}

/// Reason why a meter has no reading, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

/// Returns the error for ending a measurement that was not started.
fn not_begun() -> Fault {
    Fault("the meter was not started, or its start failed".into())
}
