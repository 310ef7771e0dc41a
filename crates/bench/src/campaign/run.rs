//! Runs a campaign.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use buf::Pool;

use super::case::{Case, Setup};
use super::keeper::Keeper;
use super::{Campaign, Provenance, Results};
use crate::dut;
use crate::engine::accuracy::delay_error_ns;
use crate::search::profile::Deviation;
use crate::testbed::Bed;
use crate::trial::{Failure, Request};

/// Buffers of the tester: two receive rings, and what is under way.
const BUFFERS: usize = 32 * 1024;

/// What is sent through a simulated router to know how exactly delays are measured.
const ACCURACY: Request = Request { load_fps: 100_000.0, duration: Duration::from_millis(100) };

/// Runs a campaign in namespaces of its own, has each trial and each result kept, and says what it does on the way. Ends early when
/// `stop` is set; what was found until then is in the results.
///
/// # Errors
/// When not even a testbed can be had, or results cannot be kept. What a router does is part of the results.
pub fn run(
    campaign: &Campaign,
    keeper: &dyn Keeper,
    stop: &AtomicBool,
    say: &dyn Fn(&str),
) -> Result<Results, Failure> {
    let pool = Pool::new(BUFFERS).map_err(|e| Failure(format!("buffers: {e}")))?;
    let mut bed = Bed::new(&campaign.testbed, &pool)?;
    bed.sessions = campaign.tests.iter().any(|test| test.sessions > 0);
    infra::cpu::pin_current(bed.tester_core)
        .map_err(|e| Failure(format!("core {}: {e}", bed.tester_core)))?;
    let profile = campaign.profile();
    let setup = Setup { campaign, profile: &profile, pool: &pool, keeper, stop, say };
    let mut results = head(campaign);
    let exact = delay_error_ns(&pool, ACCURACY)?;
    results.conditions.splice(0..0, bed.conditions().into_iter().chain([format!(
        "The tester finds delays longer than they are by {:.2} µs at the median, of a simulated router, when the campaign begins.",
        exact / 1e3
    )]));
    let place = |case: &Case| format!("{}, {} bytes", case.key.label(), case.key.size);
    let mut cases = Vec::new();
    for (test, size) in campaign.cells() {
        let mut case = Case::new(test, size, &bed);
        say(&format!("what the tester itself can do: {}", place(&case)));
        match setup.self_test(&case, &bed) {
            Ok(fps) => {
                case.tester_fps = fps;
                cases.push(case);
            }
            Err(_) if stop.load(Ordering::Relaxed) => break,
            Err(e) => results.fail(format!("{}: {e}", place(&case)), keeper)?,
        }
    }
    if cases.is_empty() && !results.failures.is_empty() {
        return Err(Failure(results.failures.join("; ")));
    }
    let slow = cases.iter().filter(|case| case.tester_fps < case.link_fps());
    let slow: Vec<_> = slow.map(place).collect();
    results.conditions.extend(campaign.slower_than_the_link(&slow).as_ref().map(deviates));
    keeper.conditions(&results.conditions)?;
    let of = campaign.duts.len() * cases.len() * campaign.procedures.len();
    let mut left = Left { begun: Instant::now(), done: 0, of };
    for spec in &campaign.duts {
        let name = spec.name();
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let mut router = match dut::start(spec, &mut bed) {
            Ok(router) => router,
            Err(e) => {
                results.fail(format!("{name}: {e}"), keeper)?;
                left.of -= cases.len() * campaign.procedures.len();
                continue;
            }
        };
        let mut cable = match spec.kind {
            dut::Kind::None => Some(bed.without_router()?),
            _ => None,
        };
        let bed = cable.as_mut().unwrap_or(&mut bed);
        match keeper.dut(&router.facts)? {
            0 => {}
            n => say(&format!("{name} is not what it was before: its {n} results of then are dropped")),
        }
        results.duts.push(router.facts.clone());
        for case in &mut cases {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            case.key.dut = name.to_owned();
            setup.cell(case, bed, &mut *router.dut, &mut left, &mut results)?;
        }
        if let Err(e) = router.dut.end() {
            let why = "it may still run, and have forwarded frames of the routers after it";
            // Of the others' results, which stay when this one's are dropped.
            results.warn("", format!("{name}: {e}: {why}"), keeper)?;
        }
    }
    Ok(results)
}

/// A deviation among the conditions.
fn deviates(deviation: &Deviation) -> String {
    format!("Not as the RFC: {deviation}.")
}

/// What is known before anything is measured.
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
    }
}

impl Results {
    /// Notes, and has kept, what could not be measured.
    pub(super) fn fail(&mut self, why: String, keeper: &dyn Keeper) -> Result<(), Failure> {
        keeper.failure(&why)?;
        self.failures.push(why);
        Ok(())
    }

    /// Notes, and has kept, what must be known of a router's results, or without its name of all; once.
    pub(super) fn warn(&mut self, dut: &str, what: String, keeper: &dyn Keeper) -> Result<(), Failure> {
        keeper.caveat(dut, &what)?;
        if !self.caveats.contains(&what) {
            self.caveats.push(what);
        }
        Ok(())
    }
}

/// How much of a campaign is left.
pub(super) struct Left {
    begun: Instant,
    done: usize,
    of: usize,
}

impl Left {
    /// What is about to be done, in words.
    pub fn next(&mut self) -> String {
        let rest = self.of.saturating_sub(self.done);
        let left = match self.done {
            0 => String::new(),
            done => format!(", {}", time_left(self.begun.elapsed() / done as u32 * rest as u32)),
        };
        self.done += 1;
        format!("{}/{}{left}:", self.done, self.of)
    }
}

/// In words, as exactly as can be known.
pub(super) fn time_left(time: Duration) -> String {
    let rounded = match time.as_secs() {
        s @ 0..600 => s,
        s => s - s % 60,
    };
    format!("about {} left", humantime::format_duration(Duration::from_secs(rounded)))
}
