//! The self-test: measures the tester alone, over a cable in place of a router.

use std::time::Duration;

use super::case::{Case, Setup};
use super::procedures::LEAST;
use super::results::Ceiling;
use crate::search::throughput::{Resolution, Start, Step, Throughput};
use crate::search::{Ended, Valid};
use crate::testbed::Bed;
use crate::trial::{Failure, Measure as _, Request};

/// Longest sending time of a trial: long enough for the disturbances of a busy machine to show.
const TRIAL: Duration = Duration::from_millis(200);
/// Wait for frames in flight: a cable has no other delay than its queues.
const WAIT: Duration = Duration::from_millis(20);
/// Number of repeats of an invalid trial. More repeats do not help: above its throughput, the tester has no valid trials.
const REPEATS: u32 = 1;
/// Resolution of the tester's throughput, as a share.
const RESOLUTION: f64 = 0.05;
/// Share of the tester's throughput at which its delay is measured.
const HALF: f64 = 0.5;

impl Setup<'_> {
    /// Returns the tester's throughput without loss, and its delays at half this throughput. Measures over a cable of the same kind as
    /// the links, with the case's frames and directions.
    ///
    /// # Errors
    /// Returns an error with the reason if a trial fails, or if no valid trial is without loss.
    pub fn self_test(&self, case: &Case, bed: &Bed) -> Result<Ceiling, Failure> {
        let mut cable = bed.cable()?;
        let mut trials = self.trials(case, &mut cable, None)?;
        // A cable needs no time to become stable again, and delays no frame for long.
        trials.waits.restabilise = Duration::ZERO;
        trials.engine.set_wait(WAIT);
        let duration = TRIAL.min(self.profile.duration);
        let most = case.link_fps().max(2.0 * LEAST);
        // The first trial warms caches, and shows where to search.
        let first = trials.measure(Request { load_fps: most, duration })?;
        if first.received == 0 {
            return Err(Failure("the self-test over a cable received nothing".into()));
        }
        let mut valid = Valid::new(trials, self.profile.invalid_repeats.min(REPEATS));
        let search = Throughput {
            min_fps: LEAST,
            max_fps: most,
            start: Start::At(first.forwarding_fps().clamp(LEAST, most)),
            step: Step::HalveRatio,
            resolution: Resolution::Relative(RESOLUTION),
            duration,
        };
        let found = search.search(&mut valid, &mut |_| ()).map_err(|e| Failure(e.to_string()))?;
        if let Ended::Failed(why) = &found.ended {
            return Err(Failure(why.clone()));
        }
        let Some(fps) = found.throughput_fps else {
            let why = found.outcomes.iter().flat_map(|o| &o.invalid).next();
            let why = why.map_or_else(|| "frames were lost".into(), ToString::to_string);
            return Err(Failure(format!(
                "the tester alone, over a cable, had no valid trial without loss at any load ({why}): free the tester's processor, or relax \
                 the limits in the campaign's key \"validity\""
            )));
        };
        let half = Request { load_fps: (fps * HALF).max(LEAST), duration };
        valid.measure(half)?;
        let last = valid.inner().last.as_ref().filter(|trial| trial.outcome.is_valid());
        let delays = last.and_then(|trial| trial.delays.as_ref()).map(|delays| delays.figures.clone());
        Ok(Ceiling { fps, delays })
    }
}
