//! Procedures that measure outages of a router.

use std::time::Duration;

use super::super::recorded::Recorded;
use super::super::results::{Found, Recovery, Reset};
use super::super::trial::Trial;
use super::Bench;
use crate::search::recovery::{overload_fps, recovery_time, relief_fps, reset_time_by_loss};
use crate::trial::{Failure, Request};

type Result = std::result::Result<(Found, bool), Failure>;

/// Minimum time at the halved load after an overload.
const RELIEVED: Duration = Duration::from_secs(2);

/// Length of the last part of a trial, in seconds. A restarted router counts as recovered only if it forwards frames in this part.
const BACK: f64 = 0.5;

pub(super) fn recovery(b: &mut Bench<'_>) -> Result {
    let overload = overload_fps(b.throughput()?, b.max_fps());
    let relief = relief_fps(overload);
    let (seconds, times) = (b.profile.recovery.overload, b.profile.recovery.repetitions);
    let requests = [
        Request { load_fps: overload, duration: seconds },
        Request { load_fps: relief, duration: seconds.max(RELIEVED) },
    ];
    let mut all = Vec::new();
    for repetition in 1..=times {
        b.tell_run(
            &format!("recovery from {overload:.0} fps"),
            (repetition, times),
            seconds + seconds.max(RELIEVED),
            0,
        );
        b.valid.inner_mut().repetition = repetition;
        let are_valid = |trials: &Vec<Trial>| trials.iter().all(|t| t.outcome.is_valid());
        let trials = b.valid.until(are_valid, |trials| trials.steps(&requests))?;
        let [overloaded, relieved] = &trials[..] else { continue };
        if overloaded.outcome.received >= overloaded.outcome.sent {
            // Without an overload there is nothing to recover from.
            continue;
        }
        let last_lost = relieved.flows.iter().filter_map(|f| f.last_lost).reduce(f64::max);
        // A router that loses the very last frames has not recovered.
        let end = requests[1].duration.as_secs_f64() - 0.1;
        let lost = last_lost.map(Duration::from_secs_f64);
        let seconds =
            last_lost.is_none_or(|s| s < end).then(|| recovery_time(Duration::ZERO, lost).as_secs_f64());
        let outcomes = trials.into_iter().map(|t| t.outcome).collect();
        all.push(Recovery { overload_fps: overload, relief_fps: relief, seconds, outcomes });
    }
    if all.is_empty() {
        return Err(Failure(format!(
            "the router lost no frame at {overload:.0} fps, which is 110 % of its throughput or the largest load that can be sent: \
             it was not overloaded, and has nothing to recover from"
        )));
    }
    Ok((Found::Recovery(all), false))
}

/// Runs a trial, and calls `restart` on another thread when the time `after` has passed. Returns when both have ended, even if the trial
/// failed, since a restart must not disturb the next trial.
fn beside<T>(
    restart: impl FnOnce() -> std::result::Result<(), Failure> + Send + 'static,
    after: Duration,
    trial: impl FnOnce() -> std::result::Result<T, Failure>,
) -> std::result::Result<T, Failure> {
    let restarting = std::thread::spawn(move || {
        std::thread::sleep(after);
        restart()
    });
    let came = trial();
    let restarted =
        restarting.join().map_err(|_| Failure("internal error: the restart thread panicked".into()));
    let came = came?;
    restarted?.map(|()| came)
}

pub(super) fn reset(b: &mut Bench<'_>) -> Result {
    let load_fps = b.throughput()? * 0.5;
    let (times, duration) = (b.profile.recovery.repetitions, b.profile.recovery.reset);
    let mut all = Vec::new();
    for repetition in 1..=times {
        b.tell_run(&format!("reset at {load_fps:.0} fps"), (repetition, times), duration, 0);
        b.valid.inner_mut().repetition = repetition;
        let is_valid = |trial: &Trial| trial.outcome.is_valid();
        let trial = b.valid.until(is_valid, |trials| restarted(trials, Request { load_fps, duration }))?;
        let directions = trial.flows.iter().map(|f| f.direction + 1).max().unwrap_or(1);
        // A router that is back forwards at least some frames at the end in each direction.
        let end = duration.as_secs_f64() - BACK;
        let is_back = |direction| {
            let own = trial.flows.iter().filter(|f| f.direction == direction);
            own.filter_map(|f| f.last_received).any(|s| s > end)
        };
        let back = (0..directions).all(is_back);
        let lost = reset_time_by_loss(trial.outcome.lost(), load_fps * directions as f64);
        let seconds = lost.filter(|_| back).map(|t| t.as_secs_f64());
        all.push(Reset { load_fps, seconds, outcome: trial.outcome });
    }
    Ok((Found::Reset(all), false))
}

/// Runs a trial, and restarts the router after a fifth of the trial's time.
fn restarted(trials: &mut Recorded<'_>, request: Request) -> std::result::Result<Trial, Failure> {
    let restart = trials.dut.and_then(|dut| dut.restarter());
    let restart = restart.ok_or_else(|| Failure("the tester cannot restart this router".into()))?;
    let came = beside(restart, request.duration / 5, || trials.steps(&[request]))?.pop();
    came.ok_or_else(|| Failure("internal error: no trial".into()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_trial_that_fails_leaves_no_restart_behind() {
        let up = Arc::new(AtomicBool::new(false));
        let restarted = up.clone();
        let restart = move || {
            restarted.store(true, Ordering::Relaxed);
            Ok(())
        };
        let failed = || Err::<(), _>(Failure("no outcome".into()));
        assert_eq!(beside(restart, Duration::from_millis(200), failed), Err(Failure("no outcome".into())));
        assert!(up.load(Ordering::Relaxed));
        let broken = || Err(Failure("it does not start".into()));
        assert_eq!(beside(broken, Duration::ZERO, || Ok(())), Err(Failure("it does not start".into())));
        assert_eq!(beside(|| Ok(()), Duration::ZERO, || Ok(7)), Ok(7));
    }
}
