//! Runs a campaign.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use buf::Pool;

use super::case::{Case, Setup};
use super::keeper::Keeper;
use super::results::Ceiling;
use super::visits::Visit;
use super::{Campaign, Provenance, Results};
use crate::accuracy::delay_error_ns;
use crate::dut::{self, Facts, Spec};
use crate::idle;
use crate::search::profile::Deviation;
use crate::testbed::Bed;
use crate::trial::{Failure, Request};

/// Number of the tester's buffers: enough for two receive rings and the frames in flight.
const BUFFERS: usize = 32 * 1024;

/// Load sent through a simulated router, to determine the error of measured delays.
const ACCURACY: Request = Request { load_fps: 100_000.0, duration: Duration::from_millis(100) };

/// First words of the failure that a campaign records when it reaches its time limit.
pub(crate) const OVER: &str = "The campaign reached its limit (most-minutes)";

/// Sentence for the report's conditions if the routers are measured in turns.
const IN_TURNS: &str = "The routers were measured in turns: one repetition of the throughput and of MLRsearch on each router, then the next \
    repetition on each router.";

/// Runs a campaign and reports progress to `say`. Each trial and result goes to the keeper. Ends early when `stop` is set, with the results
/// so far.
///
/// # Errors
/// Returns an error if the testbed fails, if every self-test fails, or if results cannot be stored. Failures of a router are part of the
/// results, with one exception. If a router was measured, but later does not start again, or starts with another version or configuration,
/// its further results are missing, and an error is returned.
pub fn run(
    campaign: &Campaign,
    keeper: &dyn Keeper,
    stop: &AtomicBool,
    say: &dyn Fn(&str),
) -> Result<Results, Failure> {
    let limit = campaign.most_minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let until = limit.map(|limit| Instant::now() + limit);
    let busy = idle::conditions(keeper.conditions_before(), &idle::busy_programs());
    busy.iter().for_each(|what| say(what));
    let pool = Pool::new(BUFFERS).map_err(|e| Failure(format!("buffers: {e}")))?;
    let mut bed = Bed::new(&campaign.testbed, &pool)?;
    bed.sessions = campaign.tests.iter().any(|test| test.sessions > 0);
    infra::cpu::pin_current(bed.tester_core)
        .map_err(|e| Failure(format!("core {}: {e}", bed.tester_core)))?;
    let profile = campaign.profile();
    let setup = Setup { campaign, profile: &profile, pool: &pool, keeper, stop, until, say };
    let mut results = head(campaign);
    let exact = delay_error_ns(&pool, ACCURACY)?;
    results.conditions.splice(0..0, busy.into_iter().chain(bed.conditions()).chain([format!(
        "The tester overestimates delays by {:.2} µs at the median, measured with a simulated router when the campaign began.",
        exact / 1e3
    )]));
    let mut cases = tested(&setup, &bed, &mut results)?;
    let visits = campaign.visits(profile.repetitions);
    if visits.len() > 1 {
        results.conditions.push(IN_TURNS.into());
    }
    keeper.conditions(&results.conditions)?;
    let each = visits.iter().map(|visit| visit.steps(campaign, profile.repetitions)).sum::<usize>();
    let of = campaign.duts.len() * cases.len() * each;
    let mut left = Left { begun: Instant::now(), done: 0, of };
    let (mut failed, mut incomplete) = (HashSet::new(), BTreeSet::new());
    for (visit, spec) in visits.iter().flat_map(|visit| campaign.duts.iter().map(move |spec| (*visit, spec)))
    {
        let name = spec.name();
        if setup.is_over() {
            break;
        }
        if failed.contains(name) {
            left.leave_out(cases.len() * visit.steps(campaign, profile.repetitions));
            continue;
        }
        let turned = turn(&setup, (visit, spec), &mut bed, &mut cases, &mut left, &mut results)?;
        if matches!(turned, Turned::NeverStarted | Turned::Changed) {
            failed.insert(name);
        }
        if matches!(turned, Turned::NotStartedAgain | Turned::Changed) {
            incomplete.insert(name);
        }
    }
    let is_late = setup.is_over() && !stop.load(Ordering::Relaxed);
    if let (Some(minutes), true, true) = (campaign.most_minutes, left.rest() > 0, is_late) {
        let (rest, of) = (left.rest(), left.of);
        results
            .fail(format!("{OVER} of {minutes} minutes: {rest} of {of} procedures are missing"), keeper)?;
    }
    match incomplete.is_empty() {
        true => Ok(results),
        false => Err(unfinished(&incomplete)),
    }
}

/// Returns the error of a campaign that lacks some results of these routers.
fn unfinished(routers: &BTreeSet<&str>) -> Failure {
    let names: Vec<_> = routers.iter().copied().collect();
    Failure(format!(
        "the campaign is not finished: results of {} are missing; the failures in the report have the reason; to measure the \
         missing results, repeat the command with --resume",
        names.join(", ")
    ))
}

/// Outcome of a visit to a router, which lasts from a start of the router to its stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turned {
    /// The router was measured. A procedure may have failed.
    Measured,
    /// The router did not start, and had never started before.
    NeverStarted,
    /// The router did not start, but had started before. A later start may succeed.
    NotStartedAgain,
    /// The router's version or configuration is no longer that of its earlier results.
    Changed,
}

/// Runs the self-test of each test and frame size. Returns the cases that passed, each with the tester's own rate and delays. If the
/// campaign must stop, returns the cases that have passed so far. If the tester cannot fill the link in some cases, adds a condition that
/// names them.
///
/// # Errors
/// Returns an error if every self-test failed, or results cannot be stored.
fn tested(setup: &Setup<'_>, bed: &Bed, results: &mut Results) -> Result<Vec<Case>, Failure> {
    let Setup { campaign, keeper, stop, say, .. } = *setup;
    let place = |case: &Case| format!("{}, {} bytes", case.key.label(), case.key.size);
    let mut cases = Vec::new();
    for (test, size) in campaign.cells() {
        let mut case = Case::new(test, size, bed);
        say(&format!("self-test of the tester: {}", place(&case)));
        match setup.self_test(&case, bed) {
            Ok(tester) => {
                say(&told(&tester, case.link_fps()));
                case.tester = tester;
                cases.push(case);
            }
            Err(_) if stop.load(Ordering::Relaxed) => break,
            Err(e) => results.fail(format!("{}: {e}", place(&case)), keeper)?,
        }
    }
    if cases.is_empty() && !results.failures.is_empty() {
        return Err(Failure(results.failures.join("; ")));
    }
    let slow = cases.iter().filter(|case| case.tester.fps < case.link_fps());
    let slow: Vec<_> = slow.map(place).collect();
    results.conditions.extend(campaign.slower_than_the_link(&slow).as_ref().map(deviates));
    Ok(cases)
}

/// Starts a router, runs the procedures of this visit, and stops the router.
///
/// # Errors
/// Returns an error if the testbed fails, or results cannot be stored.
fn turn(
    setup: &Setup<'_>,
    (visit, spec): (Visit, &Spec),
    bed: &mut Bed,
    cases: &mut [Case],
    left: &mut Left,
    results: &mut Results,
) -> Result<Turned, Failure> {
    let Setup { campaign, keeper, say, .. } = *setup;
    let name = spec.name();
    let steps = cases.len() * visit.steps(campaign, setup.profile.repetitions);
    let known = results.duts.iter().find(|known| known.name == name).cloned();
    let mut router = match dut::start(spec, bed) {
        Ok(router) => router,
        Err(e) => {
            left.leave_out(steps);
            results.fail(format!("{name}: {e}"), keeper)?;
            // A start before an interruption counts, too: the campaign then has results of the router.
            let started = known.is_some() || keeper.has_started(name)?;
            return Ok(if started { Turned::NotStartedAgain } else { Turned::NeverStarted });
        }
    };
    let mut cable = match spec.kind {
        dut::Kind::None => Some(bed.without_router()?),
        _ => None,
    };
    let bed = cable.as_mut().unwrap_or(bed);
    match known {
        Some(Facts { version, configuration, .. })
            if version != router.facts.version || configuration != router.facts.configuration =>
        {
            left.leave_out(steps);
            let why = "has changed while it was measured: its further results are missing";
            results.fail(format!("{name} {why}"), keeper)?;
            return Ok(Turned::Changed);
        }
        Some(_) => {}
        None => {
            let dropped = keeper.dut(&router.facts)?;
            if dropped > 0 {
                let since = "has changed since the interruption";
                say(&format!("{name} {since}: its {dropped} old results are dropped"));
            }
            results.duts.push(router.facts.clone());
        }
    }
    for case in cases {
        if setup.is_over() {
            break;
        }
        case.key.dut = name.to_owned();
        setup.cell(case, visit, bed, &mut *router.dut, left, results)?;
    }
    if let Err(e) = router.dut.end() {
        let why = "it may still run, and may have forwarded frames during the measurements of later routers";
        // A caveat about all results stays in the store when this router's results are deleted.
        results.warn("", format!("{name}: {e}: {why}"), keeper)?;
    }
    Ok(Turned::Measured)
}

/// Formats the result of a self-test.
fn told(tester: &Ceiling, link_fps: f64) -> String {
    let Ceiling { fps, delays } = tester;
    let delay = delays.as_ref().map_or_else(String::new, |d| {
        format!(
            ", with a delay of {:.1} µs (median) and {:.1} µs (99.9 %)",
            d.typical_ns / 1e3,
            d.worst_case_ns as f64 / 1e3
        )
    });
    let link = if *fps < link_fps {
        format!(", less than the link's {:.0} kfps", link_fps / 1e3)
    } else {
        String::new()
    };
    format!("  the tester alone: {:.0} kfps without loss{link}{delay}", fps / 1e3)
}

/// Formats a deviation from an RFC as a sentence for the report's conditions.
fn deviates(deviation: &Deviation) -> String {
    format!("Deviation from {deviation}.")
}

/// Returns a results document without any measurements.
pub fn head(campaign: &Campaign) -> Results {
    Results {
        conditions: campaign.deviations().iter().map(deviates).collect(),
        campaign: campaign.clone(),
        profile: campaign.profile(),
        provenance: Provenance::now(),
        duts: Vec::new(),
        cells: Vec::new(),
        caveats: Vec::new(),
        failures: Vec::new(),
        parts: Vec::new(),
    }
}

impl Results {
    /// Adds a failure to the results, and stores it with `keeper`. Does nothing if the results contain this failure already.
    pub(super) fn fail(&mut self, why: String, keeper: &dyn Keeper) -> Result<(), Failure> {
        // A router that is measured in turns can fail in the same way again.
        if !self.failures.contains(&why) {
            keeper.failure(&why)?;
            self.failures.push(why);
        }
        Ok(())
    }

    /// Stores a caveat with `keeper`, and adds it to the results, unless they contain it already. The caveat is about a router's results,
    /// or about all results if `dut` is empty.
    pub(super) fn warn(&mut self, dut: &str, what: String, keeper: &dyn Keeper) -> Result<(), Failure> {
        keeper.caveat(dut, &what)?;
        if !self.caveats.contains(&what) {
            self.caveats.push(what);
        }
        Ok(())
    }
}

/// Progress of a campaign, counted in procedures. Each repetition of `throughput` and of MLRsearch counts as one procedure.
pub(super) struct Left {
    begun: Instant,
    done: usize,
    of: usize,
}

impl Left {
    /// Lowers the total number of procedures by `steps`, for repetitions that cannot be measured.
    pub fn leave_out(&mut self, steps: usize) {
        self.of = self.of.saturating_sub(steps);
    }

    /// Returns the number of procedures that have not begun.
    fn rest(&self) -> usize {
        self.of.saturating_sub(self.done)
    }

    /// Returns the progress text of the next procedure, such as "3/8, about 5m left:".
    pub fn next(&mut self) -> String {
        let rest = self.rest();
        let left = match self.done {
            0 => String::new(),
            done => format!(", {}", time_left(self.begun.elapsed() / done as u32 * rest as u32)),
        };
        self.done += 1;
        format!("{}/{}{left}:", self.done, self.of)
    }
}

/// Formats the time left. Times of ten minutes or more are in whole minutes.
pub(super) fn time_left(time: Duration) -> String {
    let rounded = match time.as_secs() {
        s @ 0..600 => s,
        s => s - s % 60,
    };
    format!("about {} left", humantime::format_duration(Duration::from_secs(rounded)))
}
