//! Runs a campaign.

use std::time::{Duration, Instant};

use buf::Pool;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::{Campaign, Profile, Test};
use crate::dut::{self, Facts};
use crate::engine::run::{Direction, Engine, Limits};
use crate::host::Times;
use crate::search::throughput::{Resolution, Start, Step, Throughput};
use crate::search::{Ended, Valid};
use crate::testbed::Bed;
use crate::traffic::builtin;
use crate::trial::{Failure, Request};

/// Buffers of the tester: two receive rings, and what is under way.
const BUFFERS: usize = 32 * 1024;
/// Shares of the throughput at which delays are measured.
const LATENCY_AT: [f64; 2] = [0.5, 0.9];
/// The least load that is distinguished from none, frames a second.
const LEAST: f64 = 1_000.0;

/// How long, and how often.
struct Plan {
    trial: Duration,
    wait: Duration,
    repetitions: usize,
    resolution: f64,
    repeats: u32,
}

impl Plan {
    fn of(profile: Profile) -> Plan {
        let seconds = Duration::from_secs;
        match profile {
            Profile::Quick => Plan {
                trial: Duration::from_millis(500),
                wait: Duration::from_millis(50),
                repetitions: 3,
                resolution: 0.03,
                repeats: 2,
            },
            Profile::Strict => {
                Plan { trial: seconds(60), wait: seconds(2), repetitions: 20, resolution: 0.005, repeats: 3 }
            }
        }
    }
}

/// What a campaign found.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// What was asked.
    pub campaign: Campaign,
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
    /// Whether trials that bounded it were invalid: the limit may be the tester's.
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
    /// Of all that came, in nanoseconds: least, median, 99th and 99.9th percentile, greatest.
    pub ns: [u64; 5],
    /// Frames lost.
    pub lost: u64,
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
    let plan = Plan::of(campaign.profile);
    let mut results =
        Results { campaign: campaign.clone(), duts: Vec::new(), cells: Vec::new(), failures: Vec::new() };
    let cells: usize = campaign.duts.len() * campaign.tests.iter().map(|t| t.sizes.len()).sum::<usize>();
    let (begin, mut done) = (Instant::now(), 0);
    for name in &campaign.duts {
        let dut = match dut::start(name, &bed, &routers) {
            Ok(dut) => dut,
            Err(e) => {
                results.failures.push(format!("{name}: {e}"));
                continue;
            }
        };
        results.duts.push(dut.facts().clone());
        for (test, size) in campaign.tests.iter().flat_map(|t| t.sizes.iter().map(move |s| (t, *s))) {
            let left = if done == 0 {
                0.0
            } else {
                begin.elapsed().as_secs_f64() / done as f64 * (cells - done) as f64
            };
            say(&format!(
                "{}/{cells} {name}, {}, {size} bytes; about {left:.0} s left",
                done + 1,
                test.traffic
            ));
            match cell(&mut bed, &pool, &plan, test, size, &*dut, &mut say) {
                Ok(cell) => results.cells.push(cell),
                Err(e) => results.failures.push(format!("{name}, {}, {size} bytes: {e}", test.traffic)),
            }
            done += 1;
        }
    }
    Ok(results)
}

fn cell(
    bed: &mut Bed,
    pool: &Pool,
    plan: &Plan,
    test: &Test,
    size: usize,
    dut: &dyn dut::Dut,
    say: &mut impl FnMut(&str),
) -> Result<Cell, Failure> {
    let traffic =
        builtin(&test.traffic, size).ok_or_else(|| Failure(format!("no traffic {}", test.traffic)))?;
    let mut directions = Vec::new();
    for (from, to) in [(0, 1), (1, 0)].into_iter().take(if test.bidirectional { 2 } else { 1 }) {
        let flows = traffic.flows(&bed.ends(from)).map_err(|e| Failure(e.to_string()))?;
        directions.push(Direction { from, to, flows });
    }
    let mut engine = Engine::new(bed.ports()?, directions, pool, Limits::VIRTUAL, plan.wait, traffic.seed);
    // Neighbours are found, tables and caches warm (RFC 2544 section 23 steps a and b), before anything counts.
    let warm = Request { load_fps: LEAST, duration: Duration::from_millis(300) };
    for left in (0..5).rev() {
        match engine.run(warm)? {
            (outcome, _) if outcome.received > 0 && outcome.lost() == 0 => break,
            (outcome, _) if left == 0 && outcome.received == 0 => {
                let counters: Vec<_> =
                    dut.counters().iter().map(|(name, v)| format!("{name}: {v}")).collect();
                return Err(Failure(format!(
                    "the router forwards nothing; it says: {}",
                    counters.join("; ")
                )));
            }
            _ => {}
        }
    }
    let mut valid = Valid::new(engine, plan.repeats);
    let search = Throughput {
        min_fps: LEAST,
        max_fps: crate::trial::link::Link::gigabit(10.0).max_fps(size as u32),
        start: Start::At(200_000.0),
        step: Step::HalveRatio,
        resolution: Resolution::Relative(plan.resolution),
        duration: plan.trial,
    };
    let (mut found, mut limited) = (Vec::new(), false);
    for repetition in 1..=plan.repetitions {
        let result = search
            .search(&mut valid, &mut |p| {
                say(&format!(
                    "  throughput {repetition}/{}: trial {}, {:.0} fps: {:.4} % lost",
                    plan.repetitions,
                    p.tally.trials,
                    p.outcome.request.load_fps,
                    p.outcome.loss_ratio() * 100.0
                ));
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
        let request = Request { load_fps: median * share, duration: plan.trial };
        if request.frames() == 0 {
            continue;
        }
        say(&format!("  latency at {:.0} % of {median:.0} fps", share * 100.0));
        latency.push(delays(&mut engine, request, share, dut)?);
    }
    Ok(Cell {
        dut: dut.facts().name.clone(),
        traffic: test.traffic.clone(),
        size,
        throughput_fps: found,
        limited_by_tester: limited,
        latency,
    })
}

/// Delays at a load, in one trial.
fn delays(engine: &mut Engine, request: Request, share: f64, dut: &dyn dut::Dut) -> Result<Latency, Failure> {
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
    Ok(Latency { share, load_fps: request.load_fps, ns, lost: outcome.lost(), busy, dut_busy })
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}
