//! Accuracy of measured delays, determined with a simulated router of known delay.

use std::time::Duration;

use buf::Pool;
use wire::Mac;

use crate::cable::cable;
use crate::engine::limits::Limits;
use crate::engine::run::{Direction, Engine, Port};
use crate::sim::{Delay, Path, link};
use crate::stats::latency::Ranked as _;
use crate::traffic::{Ends, builtin};
use crate::trial::{Failure, Request};

/// Delay of the simulated router, in nanoseconds.
const DELAY_NS: u64 = 20_000;

/// Returns the error of the measured median delay in nanoseconds, with 64-byte frames at the requested load. The true error is a little
/// smaller, since the simulated router runs in this program and on the same core.
///
/// # Errors
/// Returns an error if the trial fails, or no frame arrives.
pub fn delay_error_ns(pool: &Pool, request: Request) -> Result<f64, Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure(format!("the simulated router: {e}"));
    let (tx, rx, _) = link(Path::new(1).delay(Delay::Fixed(DELAY_NS)));
    let (nowhere, silent) = cable(1);
    let ports = vec![
        Port { tx, more: Vec::new(), rx: silent, hosts: None },
        Port { tx: nowhere, more: Vec::new(), rx, hosts: None },
    ];
    let ends = Ends::rfc(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]), false);
    let traffic = builtin("rfc2544", 64).ok_or_else(|| failed(&"no traffic"))?;
    let directions = vec![Direction { from: 0, to: 1, flows: traffic.flows(&ends).map_err(|e| failed(&e))? }];
    let wait = Duration::from_millis(10);
    let mut engine = Engine::new(ports, directions, pool, Limits::VIRTUAL, wait, traffic.seed);
    let (_, report) = engine.run(request)?;
    let flow = report.directions.iter().flatten().next().ok_or_else(|| failed(&"no flow"))?;
    Ok(flow.delays.figures().map_err(|e| failed(&e))?.typical_ns - DELAY_NS as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_error_is_never_negative() -> Result<(), Box<dyn std::error::Error>> {
        let request = Request { load_fps: 50_000.0, duration: Duration::from_millis(50) };
        let error = delay_error_ns(&Pool::new(8192)?, request)?;
        assert!((0.0..1e9).contains(&error), "{error}");
        Ok(())
    }
}
