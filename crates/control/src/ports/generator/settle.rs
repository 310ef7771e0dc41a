//! Waits for the packets of finished streams.

use std::time::{Duration, Instant};

use net::router::Drain;

use super::Generators;
use crate::app::{Context, Output};
use crate::cli::{Args, CliError, Job, Step};

/// Maximum time to wait: other packets may keep the router busy.
const LONGEST: Duration = Duration::from_millis(200);
/// The interval at which the command checks whether it must still wait.
const LOOK: Duration = Duration::from_micros(500);

/// A command that first waits until the packets of finished streams have left the router, and until recorded packets are in their files. It
/// waits for [`LONGEST`] at most, and not at all while a stream is enabled.
pub(super) struct Settle {
    args: Args,
    until: Option<Instant>,
    drain: Option<Drain>,
    then: fn(&Context) -> Result<Output, CliError>,
}

impl Settle {
    pub(super) fn new(args: &Args, then: fn(&Context) -> Result<Output, CliError>) -> Settle {
        Settle { args: args.clone(), until: None, drain: Some(Drain::default()), then }
    }

    /// True if there is nothing to wait for any more.
    fn is_over(&mut self, c: &mut Context) -> Result<bool, CliError> {
        let until = *self.until.get_or_insert_with(|| Instant::now() + LONGEST);
        let generators = c.system.router.state::<Generators>()?;
        if generators.0.is_empty() || generators.is_running() || Instant::now() >= until {
            return Ok(true);
        }
        if let Some(drain) = &mut self.drain {
            if !c.system.router.is_drained(drain) {
                return Ok(false);
            }
            self.drain = None;
        }
        Ok(c.system.router.state::<Generators>()?.is_written())
    }
}

impl Job<Context> for Settle {
    fn step(&mut self, c: &mut Context, out: &mut String) -> Step {
        let answer = match self.is_over(c) {
            Ok(false) => return Step::After(LOOK),
            Ok(true) => {
                // A client that waited for the packets also reads their counters, so the statistics segment must have fresh values.
                c.statistics.ask();
                (self.then)(c)
            }
            Err(e) => Err(e),
        };
        match answer {
            Ok(answer) => {
                out.push_str(&answer.render(self.args.json()).text);
                Step::Done
            }
            Err(e) => Step::Failed(e),
        }
    }
}
