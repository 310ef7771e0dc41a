//! Energy counters. The energy is the difference of the first and the last reading of a trial. Readings in between detect each wraparound
//! of the counter.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::sampler::{Sample, Sampler};
use super::{Energy, Fault, Meter, Part, Reading, Resolution, not_begun};

/// One counter of a meter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unit {
    pub name: String,
    /// Energy of one count, in joules.
    pub joules: f64,
    /// Smallest visible change, in joules.
    pub step: f64,
    /// Number of different values that the counter can have. After the highest value it wraps around to 0.
    pub values: u128,
    /// True if the counter is added to the meter's sum.
    pub counted: bool,
}

/// A source of counters. Descriptions and values have the same order.
pub(super) trait Counters: Send + 'static {
    /// Returns the counters' descriptions.
    fn units(&self) -> &[Unit];
    /// Returns the current values.
    fn read(&mut self) -> Result<Vec<u64>, Fault>;
    /// Returns an upper limit for the power that one counter measures, in watts. A faster increase is a reset of the counter, not a
    /// wraparound.
    fn most_watts(&self) -> f64;
}

/// Returns the increase of a counter between two readings. The counter may wrap around at most once in between. `values` is the
/// number of different values of the counter.
pub(super) fn added(before: u64, now: u64, values: u128) -> u128 {
    let (before, now) = (u128::from(before), u128::from(now));
    if now >= before { now - before } else { (now + values).saturating_sub(before) }
}

/// Returns the maximum time between two readings, in seconds: the shortest time in which one of the counters can wrap around.
fn longest_gap(units: &[Unit], most_watts: f64) -> f64 {
    units.iter().map(|u| u.values as f64 * u.joules / most_watts).fold(f64::INFINITY, f64::min)
}

/// A meter made of counters.
pub(super) struct Counting<C: Counters> {
    counters: Arc<Mutex<C>>,
    running: Option<Sampler<Sum<C>>>,
}

impl<C: Counters> Counting<C> {
    pub fn new(counters: C) -> Counting<C> {
        Counting { counters: Arc::new(Mutex::new(counters)), running: None }
    }
}

/// Increase of each counter since the first reading.
struct Sum<C> {
    counters: Arc<Mutex<C>>,
    first: Option<Instant>,
    last: Option<(Instant, Vec<u64>)>,
    sums: Vec<u128>,
    readings: u64,
    longest_gap: f64,
}

impl<C: Counters> Sample for Sum<C> {
    fn sample(&mut self) -> Result<(), Fault> {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let values = counters.read()?;
        let now = Instant::now();
        self.readings += 1;
        self.first.get_or_insert(now);
        if let Some((then, before)) = &self.last {
            let gap = (now - *then).as_secs_f64();
            self.longest_gap = self.longest_gap.max(gap);
            add(&mut self.sums, counters.units(), before, &values, gap, counters.most_watts())?;
        } else {
            self.sums = vec![0; values.len()];
        }
        self.last = Some((now, values));
        Ok(())
    }
}

/// Adds the increase of each counter in `gap` seconds to its sum. `most` is the upper limit for the power of a counter, in watts.
fn add(
    sums: &mut [u128],
    units: &[Unit],
    before: &[u64],
    now: &[u64],
    gap: f64,
    most: f64,
) -> Result<(), Fault> {
    if gap >= longest_gap(units, most) {
        let limit = longest_gap(units, most);
        return Err(Fault(format!(
            "energy unknown: the counter was read after {gap:.1} s, but may wrap around within {limit:.1} s at {most} W"
        )));
    }
    for ((sum, unit), (before, now)) in sums.iter_mut().zip(units).zip(before.iter().zip(now)) {
        let step = added(*before, *now, unit.values);
        // Readings may be some milliseconds off their time; a second is a generous allowance.
        if step as f64 * unit.joules > most * (gap + 1.0) + unit.step {
            return Err(Fault(format!(
                "{} went from {before} to {now} in {gap:.3} s, more than {most} W: was it reset?",
                unit.name
            )));
        }
        *sum += step;
    }
    Ok(())
}

impl<C: Counters> Meter for Counting<C> {
    fn resolution(&self) -> Resolution {
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        Resolution::Joules(counters.units().iter().map(|u| u.step).fold(0.0, f64::max))
    }

    fn begin(&mut self) -> Result<(), Fault> {
        self.running = None;
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        // A quarter of the shortest time to a wraparound, so that none is missed even if the thread must wait. Never more than a
        // minute.
        let interval = (longest_gap(counters.units(), counters.most_watts()) / 4.0).clamp(0.1, 60.0);
        drop(counters);
        let counters = self.counters.clone();
        let sum = Sum { counters, first: None, last: None, sums: Vec::new(), readings: 0, longest_gap: 0.0 };
        self.running = Some(Sampler::start(sum, Duration::from_secs_f64(interval))?);
        Ok(())
    }

    fn end(&mut self) -> Result<Reading, Fault> {
        let resolution = self.resolution();
        let sum = self.running.take().ok_or_else(not_begun)?.stop()?;
        let (Some(first), Some((last, _))) = (sum.first, sum.last) else { return Err(not_begun()) };
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let part = |(unit, steps): (&Unit, u128)| Part {
            name: unit.name.clone(),
            joules: steps as f64 * unit.joules,
            counted: unit.counted,
        };
        let parts: Vec<_> = counters.units().iter().zip(sum.sums).map(part).collect();
        let joules = parts.iter().filter(|p| p.counted).map(|p| p.joules).sum();
        let seconds = (last - first).as_secs_f64();
        let (readings, longest_gap) = (sum.readings, sum.longest_gap);
        Ok(Reading::Energy(Energy { seconds, joules, resolution, readings, longest_gap, parts }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with a counter that never wraps around. The meter sees only that counter's value modulo the number of values.
        #[test]
        fn wraparounds_do_not_change_the_sum(
            values in 2u64..1 << 40,
            start in any::<u64>(),
            shares in prop::collection::vec(0.0f64..1.0, 1..60),
        ) {
            let unit = Unit { name: "a".into(), joules: 1.0, step: 1.0, values: values.into(), counted: true };
            let mut whole = u128::from(start);
            let (mut sums, mut oracle) = ([0u128], 0u128);
            let seen = |whole: u128| (whole % u128::from(values)) as u64;
            for share in shares {
                // Less than one round per step: at one round in 10 s, at most 9.9 s.
                let step = (share * 0.99 * values as f64) as u128;
                let before = seen(whole);
                whole += step;
                oracle += step;
                let most = values as f64 / 10.0;
                let done = add(&mut sums, std::slice::from_ref(&unit), &[before], &[seen(whole)], share * 9.9, most);
                prop_assert_eq!(done, Ok(()));
            }
            prop_assert_eq!(sums[0], oracle);
        }
    }

    fn unit() -> [Unit; 1] {
        [Unit { name: "package-0".into(), joules: 1e-6, step: 1e-6, values: 262_143_328_851, counted: true }]
    }

    #[test]
    fn gaps_with_a_possible_wraparound_are_refused() {
        let said = add(&mut [0], &unit(), &[0], &[5], 300.0, 1000.0).map_err(|f| f.to_string());
        assert!(said.is_err_and(|s| s.contains("read after 300.0 s") && s.contains("within 262.1 s")));
    }

    #[test]
    fn a_counter_reset_is_not_a_wraparound() {
        let said = add(&mut [0], &unit(), &[1_000_000], &[0], 1.0, 1000.0).map_err(|f| f.to_string());
        assert!(said.is_err_and(|s| s.contains("package-0 went from 1000000 to 0") && s.contains("reset")));
        let near = 262_143_328_850;
        assert_eq!(add(&mut [0], &unit(), &[near], &[9_999], 1.0, 1000.0), Ok(()));
    }
}
