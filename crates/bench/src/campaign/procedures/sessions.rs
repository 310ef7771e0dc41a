//! Procedures for stateful routers (RFC 9693).

use std::time::Instant;

use super::super::results::{Found, Teardown, median_rate};
use super::{Bench, LEAST, completed, tell};
use crate::search::BadInput;
use crate::sessions::capacity::Capacity;
use crate::sessions::rate::RateResult;
use crate::sessions::{Establish as _, Phases as _, rate};
use crate::trial::Failure;

type Result = std::result::Result<(Found, bool), Failure>;

/// Rate of establishing connections in procedures that do not search for the maximum, as a share of the maximum.
const SAFE: f64 = 0.5;
/// Rate of establishing connections if the router's maximum is unknown, as a share of the highest load to try.
const CAREFUL: f64 = 0.1;

pub(super) fn rate(b: &mut Bench<'_>) -> Result {
    forgets(b)?;
    let asked = b.profile.throughput(LEAST, b.max_fps());
    let (connections, repeats, times) = (b.connections(), b.profile.invalid_repeats, b.profile.repetitions);
    let mut all = Vec::new();
    for repetition in 1..=times {
        b.valid.inner_mut().repetition = repetition;
        let what = format!("{connections} sessions {repetition}/{times}");
        let trials = b.valid.inner_mut();
        let found = rate::search(asked, connections, repeats, trials, &mut |p| tell(&what, p, b.say));
        let found = found.map_err(bad)?;
        all.push(completed(&found.search.ended.clone(), found)?);
    }
    b.session_fps = median_rate(&all);
    let unproved = all.iter().any(|found| found.search.upper_unproved);
    Ok((Found::SessionRate(all), unproved))
}

pub(super) fn capacity(b: &mut Bench<'_>) -> Result {
    forgets(b)?;
    let first = b.connections();
    let asked = Capacity {
        first,
        most: u64::from(b.campaign.most_sessions).max(first),
        rate_fps: safe(b),
        resolution: b.profile.resolution,
        repeats: b.profile.invalid_repeats,
    };
    let times = b.profile.repetitions;
    let mut all = Vec::new();
    for repetition in 1..=times {
        b.valid.inner_mut().repetition = repetition;
        let say = b.say;
        let mut told = |attempt: &crate::sessions::Attempt| {
            let (n, there) = (attempt.connections, attempt.outcome().received);
            let rate = attempt.rate_fps;
            say(&format!("  capacity {repetition}/{times}: {there} of {n} sessions at {rate:.0} a second"));
        };
        let found = asked.search(b.valid.inner_mut(), &mut told).map_err(bad)?;
        all.push(completed(&found.ended.clone(), found)?);
    }
    let unproved = all.iter().any(|found| found.upper_unproved);
    Ok((Found::SessionCapacity(all), unproved))
}

pub(super) fn teardown(b: &mut Bench<'_>) -> Result {
    forgets(b)?;
    let (connections, rate_fps, times) = (b.connections(), safe(b), b.profile.repetitions);
    let mut all = Vec::new();
    for repetition in 1..=times {
        (b.say)(&format!("  tear-down of {connections} sessions: {repetition}/{times}"));
        let trials = b.valid.inner_mut();
        trials.repetition = repetition;
        let mut filled = trials.establish(connections, rate_fps)?;
        // Retry slower: a single lost frame does not mean that the table is full.
        if !filled.holds() {
            filled = trials.establish(connections, rate_fps / 2.0)?;
        }
        if !filled.holds() {
            let there = filled.outcome().received;
            return Err(Failure(format!(
                "the router established only {there} of {connections} sessions: try fewer sessions"
            )));
        }
        let timed = |trials: &mut crate::campaign::recorded::Recorded<'_>| {
            let begun = Instant::now();
            trials.forget().map(|()| begun.elapsed().as_secs_f64())
        };
        let seconds = timed(trials)?;
        let left = trials.counted();
        all.push(Teardown { filled, seconds, empty_seconds: timed(trials)?, left });
    }
    Ok((Found::SessionTeardown(all), false))
}

/// Returns the number of invalid attempts that a search for the establishment rate repeated; 0 for other procedures.
pub(super) fn repeated(found: &Found) -> u64 {
    match found {
        Found::SessionRate(all) => all.iter().map(RateResult::repeated).sum(),
        _ => 0,
    }
}

impl Bench<'_> {
    /// Returns the number of connections of the test.
    fn connections(&self) -> u64 {
        self.valid.inner().key.sessions.into()
    }
}

/// Returns a rate at which the router should establish connections without loss: a share of the router's maximum rate or, if that is
/// unknown, a share of the highest load to try. At least [`LEAST`].
fn safe(b: &Bench<'_>) -> f64 {
    let known = b.session_fps.filter(|fps| *fps > 0.0).map(|fps| fps * SAFE);
    known.unwrap_or(b.max_fps() * CAREFUL).max(LEAST)
}

/// Deletes all connections of the router, because each attempt must start without any (RFC 9693 section 4.4). Returns an error if
/// the tester cannot delete the connections of this router.
fn forgets(b: &Bench<'_>) -> std::result::Result<(), Failure> {
    b.valid.inner().dut.and_then(|dut| dut.forget_sessions()).unwrap_or_else(|| {
        Err(Failure(
            "the tester cannot delete this router's connections: use a router of kind linux with nat = true, or of kind command with the key \"forget\"".into(),
        ))
    })
}

fn bad(e: BadInput) -> Failure {
    Failure(e.to_string())
}
