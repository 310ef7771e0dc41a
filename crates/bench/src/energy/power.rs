//! Power meters. The power is sampled at an interval during the trial, and integrated to the energy by the trapezoid rule.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::sampler::{Sample, Sampler};
use super::{Energy, Fault, Meter, Reading, Resolution, not_begun};

/// A source of the current power.
pub(super) trait Power: Send + 'static {
    /// Returns the power in watts.
    fn watts(&mut self) -> Result<f64, Fault>;
    /// Returns the resolution of the power: its smallest step, in watts.
    fn step(&self) -> f64;
}

/// A power meter.
pub(super) struct Powered<P> {
    power: Arc<Mutex<P>>,
    interval: Duration,
    running: Option<Sampler<Samples<P>>>,
}

impl<P: Power> Powered<P> {
    pub fn new(power: P, interval: Duration) -> Powered<P> {
        Powered { power: Arc::new(Mutex::new(power)), interval, running: None }
    }
}

/// Samples of the power, with their times.
struct Samples<P> {
    power: Arc<Mutex<P>>,
    seen: Vec<(Instant, f64)>,
}

impl<P: Power> Sample for Samples<P> {
    fn sample(&mut self) -> Result<(), Fault> {
        let begin = Instant::now();
        let watts = self.power.lock().unwrap_or_else(PoisonError::into_inner).watts()?;
        if !watts.is_finite() || watts < 0.0 {
            return Err(Fault(format!("invalid power of {watts} W: it must be finite and at least 0")));
        }
        // The sample was taken during the request; its middle is off by at most half of the request's time.
        self.seen.push((begin + begin.elapsed() / 2, watts));
        Ok(())
    }
}

/// Integrates a power over its samples (time in seconds, power in watts). Returns the energy in joules.
fn trapezoid(samples: &[(f64, f64)]) -> f64 {
    samples.windows(2).map(|w| (w[1].0 - w[0].0) * (w[0].1 + w[1].1) / 2.0).sum()
}

impl<P: Power> Meter for Powered<P> {
    fn resolution(&self) -> Resolution {
        Resolution::Watts(self.power.lock().unwrap_or_else(PoisonError::into_inner).step())
    }

    fn begin(&mut self) -> Result<(), Fault> {
        self.running = None;
        let samples = Samples { power: self.power.clone(), seen: Vec::new() };
        self.running = Some(Sampler::start(samples, self.interval)?);
        Ok(())
    }

    fn end(&mut self) -> Result<Reading, Fault> {
        let seen = self.running.take().ok_or_else(not_begun)?.stop()?.seen;
        let Some(&(first, _)) = seen.first() else { return Err(not_begun()) };
        let samples: Vec<_> = seen.iter().map(|&(at, watts)| ((at - first).as_secs_f64(), watts)).collect();
        Ok(Reading::Energy(Energy {
            seconds: samples.last().map_or(0.0, |s| s.0),
            joules: trapezoid(&samples),
            resolution: self.resolution(),
            readings: samples.len() as u64,
            longest_gap: samples.windows(2).map(|w| w[1].0 - w[0].0).fold(0.0, f64::max),
            parts: Vec::new(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The integral is exact for a power that changes linearly, whatever the times of the samples.
        #[test]
        fn a_linear_power_is_integrated_exactly(
            at_zero in 0.0f64..500.0, slope in -1.0f64..5.0, gaps in prop::collection::vec(0.001f64..10.0, 1..40),
        ) {
            let mut time = 0.0;
            let mut samples = vec![(0.0, at_zero)];
            for gap in gaps {
                time += gap;
                samples.push((time, at_zero + slope * time));
            }
            let exact = at_zero * time + slope * time * time / 2.0;
            prop_assert!((trapezoid(&samples) - exact).abs() <= 1e-9 * (1.0 + exact.abs()));
        }
    }

    /// A power source that reads 10, 20, 30 … W. The first field is the last reading. A reading above the second field fails.
    struct Rising(f64, f64);

    impl Power for Rising {
        fn watts(&mut self) -> Result<f64, Fault> {
            self.0 += 10.0;
            if self.0 > self.1 { Err(Fault("gone".into())) } else { Ok(self.0) }
        }
        fn step(&self) -> f64 {
            10.0
        }
    }

    #[test]
    fn samples_are_taken_at_begin_and_end() -> Result<(), Fault> {
        let mut meter = Powered::new(Rising(0.0, 1e9), Duration::from_secs(3600));
        assert_eq!(meter.end(), Err(not_begun()));
        meter.begin()?;
        std::thread::sleep(Duration::from_millis(20));
        let Reading::Energy(energy) = meter.end()? else { return Err(Fault("no energy".into())) };
        assert_eq!(energy.readings, 2);
        assert!(energy.seconds >= 0.02 && (energy.joules - 15.0 * energy.seconds).abs() < 1e-9, "{energy:?}");
        Ok(())
    }

    #[test]
    fn a_failed_meter_has_no_reading_and_can_restart() -> Result<(), Fault> {
        let mut meter = Powered::new(Rising(0.0, 15.0), Duration::from_millis(1));
        meter.begin()?;
        assert_eq!(meter.end(), Err(Fault("gone".into())));
        meter.power.lock().unwrap_or_else(PoisonError::into_inner).1 = 1e9;
        meter.begin()?;
        meter.end().map(|_| ())
    }
}
