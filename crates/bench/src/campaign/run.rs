//! Runs a campaign.

use std::time::{Duration, Instant};

use buf::Pool;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::{Campaign, Test};
use crate::dut::{self, Facts};
use crate::engine::run::{Direction, Engine, Limits};
use crate::host::Times;
use crate::search::profile::Profile;
use crate::search::{Ended, Valid};
use crate::testbed::{Bed, VIRTUAL};
use crate::traffic::builtin;
use crate::trial::link::Link;
use crate::trial::{Failure, Invalid, Request};

/// Buffers of the tester: two receive rings, and what is under way.
const BUFFERS: usize = 32 * 1024;
/// Of what the tester itself can do, so much is the router's for sure.
const OURS: f64 = 0.9;
/// Shares of the throughput at which delays are measured.
const LATENCY_AT: [f64; 2] = [0.5, 0.9];
/// The least load that is distinguished from none, frames a second.
const LEAST: f64 = 1_000.0;

/// What a campaign found.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// What was asked.
    pub campaign: Campaign,
    /// What procedures were run with.
    pub profile: Profile,
    /// In what they are not as the RFCs have them, and what the testbed means for the numbers.
    pub conditions: Vec<String>,
    /// The routers that were measured.
    pub duts: Vec<Facts>,
    /// One for each router, traffic and size.
    pub cells: Vec<Cell>,
    /// What could not be measured, and why.
    pub failures: Vec<String>,
}

/// A router, a traffic, a size.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The router.
    pub dut: String,
    /// The traffic.
    pub traffic: String,
    /// Bytes with frame check sequence.
    pub size: usize,
    /// Frames a second in each direction of which none was lost, one for each repetition that found one.
    pub throughput_fps: Vec<f64>,
    /// What the tester can do with this traffic where there is no router, frames a second in each direction.
    pub tester_fps: f64,
    /// Whether the limit may be the tester's: more than 90 % of that was reached, or trials that bounded it were invalid.
    pub limited_by_tester: bool,
    /// Delays at shares of the median throughput.
    pub latency: Vec<Latency>,
}

/// Delays at a load.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// The share of the throughput.
    pub share: f64,
    /// Frames a second in each direction.
    pub load_fps: f64,
    /// One for each repetition.
    pub runs: Vec<Run>,
}

/// One trial of delays.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Of all that came, in nanoseconds: least, median, 99th and 99.9th percentile, greatest.
    pub ns: [u64; 5],
    /// Frames lost.
    pub lost: u64,
    /// Why it says nothing of the router; empty when it is valid.
    pub invalid: Vec<Invalid>,
    /// Processors that were busy on the whole machine meanwhile, tester included.
    pub busy: f64,
    /// Processors that the router's own programs used; `None` for one inside the kernel.
    pub dut_busy: Option<f64>,
}

/// Runs a campaign in namespaces of its own, and says what it does on the way.
///
/// # Errors
/// When not even a testbed can be had. What fails later is part of the results.
pub fn run(campaign: &Campaign, mut say: impl FnMut(&str)) -> Result<Results, Failure> {
    let cores = infra::cpu::online_cores();
    let (Some(&own), rest) = (cores.last(), &cores[..cores.len().saturating_sub(1)]) else {
        return Err(Failure("no core to run on".into()));
    };
    if rest.is_empty() {
        return Err(Failure("two cores are needed: one for the tester, one for the router".into()));
    }
    infra::cpu::pin_current(own).map_err(|e| Failure(format!("core {own}: {e}")))?;
    let routers: Vec<usize> = rest[..1].to_vec();
    let rps = routers.iter().fold(0, |mask, core| mask | 1u64 << core.min(&63));
    let mut bed = Bed::new(rps)?;
    let pool = Pool::new(BUFFERS).map_err(|e| Failure(format!("buffers: {e}")))?;
    let profile = campaign.profile();
    let deviations = profile.deviations().into_iter().map(|d| format!("Not as the RFC: {d}."));
    let conditions = std::iter::once(VIRTUAL.to_owned()).chain(deviations).collect();
    let mut results = Results {
        campaign: campaign.clone(),
        profile: profile.clone(),
        conditions,
        duts: Vec::new(),
        cells: Vec::new(),
        failures: Vec::new(),
    };
    let tests = || campaign.tests.iter().flat_map(|t| t.sizes.iter().map(move |size| (t, *size)));
    let mut limits = Vec::new();
    for (test, size) in tests() {
        say(&format!("what the tester itself can do: {}, {size} bytes", test.traffic));
        let mut cable = Bed::cable()?;
        limits.push(Measured { bed: &mut cable, pool: &pool, profile: &profile, test, size }.self_test()?);
    }
    let cells = (campaign.duts.len() * limits.len()) as u32;
    let (begin, mut done) = (Instant::now(), 0u32);
    for name in &campaign.duts {
        let dut = match dut::start(name, &bed, &routers) {
            Ok(dut) => dut,
            Err(e) => {
                results.failures.push(format!("{name}: {e}"));
                continue;
            }
        };
        results.duts.push(dut.facts().clone());
        for ((test, size), tester_fps) in tests().zip(&limits) {
            let each = begin.elapsed().as_secs_f64() / f64::from(done.max(1));
            let left = if done == 0 {
                String::new()
            } else {
                format!("; about {:.0} s left", each * f64::from(cells - done))
            };
            done += 1;
            say(&format!("{done}/{cells} {name}, {}, {size} bytes{left}", test.traffic));
            let mut measured = Measured { bed: &mut bed, pool: &pool, profile: &profile, test, size };
            match measured.cell(&*dut, *tester_fps, &mut say) {
                Ok(cell) => results.cells.push(cell),
                Err(e) => results.failures.push(format!("{name}, {}, {size} bytes: {e}", test.traffic)),
            }
        }
    }
    Ok(results)
}

/// What is measured, where, with what.
struct Measured<'a> {
    bed: &'a mut Bed,
    pool: &'a Pool,
    profile: &'a Profile,
    test: &'a Test,
    size: usize,
}

impl Measured<'_> {
    fn engine(&mut self) -> Result<Engine, Failure> {
        let name = &self.test.traffic;
        let traffic = builtin(name, self.size).ok_or_else(|| Failure(format!("no traffic {name}")))?;
        let mut directions = Vec::new();
        for (from, to) in [(0, 1), (1, 0)].into_iter().take(if self.test.bidirectional { 2 } else { 1 }) {
            let flows = traffic.flows(&self.bed.ends(from)).map_err(|e| Failure(e.to_string()))?;
            directions.push(Direction { from, to, flows });
        }
        let wait = self.profile.waits.residual;
        Ok(Engine::new(self.bed.ports()?, directions, self.pool, Limits::VIRTUAL, wait, traffic.seed))
    }

    /// What the link itself would carry, were it one of 10 Gbit/s.
    fn link_fps(&self) -> f64 {
        Link::gigabit(10.0).max_fps(self.size as u32)
    }

    /// What comes back of as much as can be sent where there is no router, frames a second in each direction.
    fn self_test(&mut self) -> Result<f64, Failure> {
        let request = Request { load_fps: self.link_fps(), duration: Duration::from_millis(500) };
        let mut engine = self.engine()?;
        // The first one warms what is cold.
        engine.run(request)?;
        let (outcome, _) = engine.run(request)?;
        if outcome.received == 0 {
            return Err(Failure("the self-test over a cable received nothing".into()));
        }
        Ok(outcome.forwarding_fps())
    }

    fn cell(
        &mut self,
        dut: &dyn dut::Dut,
        tester_fps: f64,
        say: &mut impl FnMut(&str),
    ) -> Result<Cell, Failure> {
        let mut engine = self.engine()?;
        warm_up(&mut engine, dut)?;
        let mut valid = Valid::new(engine, self.profile.invalid_repeats);
        let search = self.profile.throughput(LEAST, tester_fps.min(self.link_fps()).max(2.0 * LEAST));
        let (mut found, mut limited) = (Vec::new(), false);
        for repetition in 1..=self.profile.repetitions {
            let result = search
                .search(&mut valid, &mut |p| {
                    let (request, loss) = (p.outcome.request, p.outcome.loss_ratio() * 100.0);
                    let trial =
                        format!("trial {}, {:.0} fps: {loss:.4} % lost", p.tally.trials, request.load_fps);
                    say(&format!("  throughput {repetition}/{}: {trial}", self.profile.repetitions));
                })
                .map_err(|e| Failure(e.to_string()))?;
            if let Ended::Failed(why) = &result.ended {
                return Err(Failure(why.clone()));
            }
            found.extend(result.throughput_fps);
            limited |= result.upper_unproved;
        }
        let mut engine = valid.into_inner();
        let median = median(&found);
        let mut latency = Vec::new();
        for share in LATENCY_AT {
            let request = Request { load_fps: median * share, duration: self.profile.latency.duration };
            if request.frames() == 0 {
                continue;
            }
            say(&format!("  latency at {:.0} % of {median:.0} fps", share * 100.0));
            let runs = (0..self.profile.latency.repetitions).map(|_| delays(&mut engine, request, dut));
            latency.push(Latency {
                share,
                load_fps: request.load_fps,
                runs: runs.collect::<Result<_, _>>()?,
            });
        }
        Ok(Cell {
            dut: dut.facts().name.clone(),
            traffic: self.test.traffic.clone(),
            size: self.size,
            limited_by_tester: limited || median > OURS * tester_fps,
            throughput_fps: found,
            tester_fps,
            latency,
        })
    }
}

/// Neighbours are found, tables and caches warm (RFC 2544 section 23 steps a and b), before anything counts.
fn warm_up(engine: &mut Engine, dut: &dyn dut::Dut) -> Result<(), Failure> {
    let warm = Request { load_fps: LEAST, duration: Duration::from_millis(300) };
    let mut received = 0;
    for _ in 0..5 {
        let (outcome, _) = engine.run(warm)?;
        received = outcome.received;
        if outcome.lost() == 0 {
            break;
        }
    }
    if received > 0 {
        return Ok(());
    }
    let counters: Vec<_> = dut.counters().iter().map(|(name, v)| format!("{name}: {v}")).collect();
    Err(Failure(format!("the router forwards nothing; it says: {}", counters.join("; "))))
}

/// Delays at a load, in one trial.
fn delays(engine: &mut Engine, request: Request, dut: &dyn dut::Dut) -> Result<Run, Failure> {
    let (times, own, begin) = (Times::now(), dut.cpu_seconds(), Instant::now());
    let (outcome, report) = engine.run(request)?;
    let seconds = begin.elapsed().as_secs_f64();
    let busy = match (times, Times::now()) {
        (Some(before), Some(after)) => after.busy_since(before) / seconds,
        _ => f64::NAN,
    };
    let dut_busy = own.and_then(|before| Some((dut.cpu_seconds()? - before) / seconds));
    let mut all = Histogram::<u64>::new_from(&report.directions[0][0].delays);
    for flow in report.directions.iter().flatten() {
        all.add(&flow.delays).map_err(|e| Failure(e.to_string()))?;
    }
    let at = |q: f64| all.value_at_quantile(q);
    let ns = [all.min(), at(0.5), at(0.99), at(0.999), all.max()];
    Ok(Run { ns, lost: outcome.lost(), invalid: outcome.invalid, busy, dut_busy })
}

/// The middle of some values, 0 of none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}
