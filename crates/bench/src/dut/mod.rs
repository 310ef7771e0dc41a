//! Routers under test.

mod linux;
mod process;
mod volley;

use serde::{Deserialize, Serialize};

pub use linux::Linux;
pub use volley::Volley;

use crate::testbed::Bed;
use crate::trial::Failure;

/// A router that runs between the links of a testbed. Dropped, it ends, and leaves the links as they were.
pub trait Dut {
    /// Which one it is.
    fn facts(&self) -> &Facts;

    /// Processor time that its own programs used so far, in seconds; `None` for a router inside the kernel, which has none of its own.
    fn cpu_seconds(&self) -> Option<f64> {
        None
    }

    /// What restarts it, on another thread while a trial runs, and comes back when it is told to forward again; `None` where the tester
    /// cannot.
    fn restarter(&self) -> Option<Box<dyn FnOnce() -> Result<(), Failure> + Send>> {
        None
    }

    /// What it says of itself after a trial, as names and values.
    fn counters(&self) -> Vec<(String, String)>;
}

/// What a report says of a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Its name, as a campaign has it.
    pub name: String,
    /// Its version.
    pub version: String,
    /// How it was set up, line by line.
    pub configuration: Vec<String>,
}

/// The names of the routers that a testbed can have.
pub const NAMES: [&str; 2] = ["linux", "volley"];

/// Starts a router by name, and has it forward between the links. `cores` are those that it may use.
///
/// # Errors
/// When there is none of this name, or it does not start, with what it said.
pub fn start(name: &str, bed: &Bed, cores: &[usize]) -> Result<Box<dyn Dut>, Failure> {
    Ok(match name {
        "linux" => Box::new(Linux::start(bed)?),
        "volley" => Box::new(Volley::start(bed, cores)?),
        _ => return Err(Failure(format!("there is no router {name}: one of {}", NAMES.join(", ")))),
    })
}
