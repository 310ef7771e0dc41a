//! Procedures that measure delays at known loads.

use std::time::Duration;

use super::super::load::percent;
use super::super::recorded::Strain;
use super::super::results::{DelayRun, DelaysAt, Found};
use super::Bench;
use crate::trial::{Failure, Measure as _, Request};

type Result = std::result::Result<(Found, bool), Failure>;

pub(super) fn latency(b: &mut Bench<'_>) -> Result {
    let throughput = b.throughput()?;
    let mut all = Vec::new();
    for (n, share) in b.campaign.latency_at.iter().enumerate() {
        let after = b.campaign.latency_at.len() - n - 1;
        let name = format!("{} of the throughput", percent(*share));
        let (duration, times) = (b.profile.latency.duration, b.profile.latency.repetitions);
        all.extend(at(b, name, throughput * share, (duration, times), after)?);
    }
    Ok((Found::Latency(all), false))
}

pub(super) fn variation(b: &mut Bench<'_>) -> Result {
    let (throughput, times) = (b.throughput()?, b.profile.latency.repetitions);
    b.valid.inner_mut().engine.record_ipdv(true);
    let found = at(b, "the throughput".into(), throughput, (b.profile.variation, times), 0);
    b.valid.inner_mut().engine.record_ipdv(false);
    Ok((Found::Variation(found?.into_iter().collect()), false))
}

pub(super) fn loads(b: &mut Bench<'_>) -> Result {
    let (mut all, size) = (Vec::new(), b.valid.inner().key.size);
    let loads: Vec<_> = b.campaign.loads.iter().filter(|load| b.campaign.carries(**load, size)).collect();
    for (n, load) in loads.iter().enumerate() {
        let after = loads.len() - n - 1;
        let fps = load.fps(size, b.link_fps);
        all.extend(at(b, load.to_string(), fps, (b.profile.duration, b.profile.repetitions), after)?);
    }
    if all.is_empty() {
        return Err(Failure(
            "no load can be measured: each exceeds the links' rate, or is too low to send even one frame in a trial"
                .into(),
        ));
    }
    Ok((Found::Loads(all), false))
}

/// Runs `repetitions` trials of `duration` at `load_fps` frames per second, a load called `name` in reports. `after` is the number of loads
/// still to come, for the progress text. `None` if the load is too low to send even one frame in a trial.
fn at(
    b: &mut Bench<'_>,
    name: String,
    load_fps: f64,
    (duration, repetitions): (Duration, u32),
    after: usize,
) -> std::result::Result<Option<DelaysAt>, Failure> {
    let request = Request { load_fps, duration };
    if request.frames() == 0 {
        return Ok(None);
    }
    let mut runs = Vec::new();
    // Whether the tester may have set the limit is decided for each load separately.
    b.valid.inner_mut().strain = Strain::default();
    for repetition in 1..=repetitions {
        b.tell_run(
            &format!("delays at {name}, {load_fps:.0} fps"),
            (repetition, repetitions),
            duration,
            after,
        );
        b.valid.inner_mut().repetition = repetition;
        let outcome = b.valid.measure(request)?;
        let trial = b.valid.inner_mut().last.take();
        let (delays, usage) = trial.map(|t| (t.delays, t.usage)).unwrap_or_default();
        runs.push(DelayRun { outcome, delays, usage });
    }
    Ok(Some(DelaysAt { name, load_fps, limited_by_tester: Some(b.is_strained()), runs }))
}
