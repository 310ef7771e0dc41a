//! The load of the workers.

use super::Router;

/// Time between two measurements, in nanoseconds.
const INTERVAL: u64 = 100_000_000;

/// The load of the workers between the last two measurements.
#[derive(Default)]
pub(super) struct Load {
    /// Time of the last measurement in nanoseconds, see [`Router::loads`].
    measured: u64,
    /// Each worker's total busy and idle time at the last measurement, in nanoseconds.
    times: Vec<(u64, u64)>,
    /// The load of each worker, 0 to 1.
    loads: Vec<f64>,
}

impl Load {
    /// Records each worker's total busy and idle time, in nanoseconds.
    fn record(&mut self, now: u64, times: Vec<(u64, u64)>) {
        self.measured = now;
        let before = std::mem::replace(&mut self.times, times);
        let load = |((busy, idle), (busy_before, idle_before)): (&(u64, u64), &(u64, u64))| {
            let (busy, idle) = (busy.saturating_sub(*busy_before), idle.saturating_sub(*idle_before));
            busy as f64 / (busy + idle).max(1) as f64
        };
        self.loads = self.times.iter().zip(&before).map(load).collect();
    }
}

impl Router {
    /// Returns a worker's load over about the last tenth of a second, 0 to 1. `None` if the worker is new, or does not run on a thread.
    pub fn load(&self, worker: usize) -> Option<f64> {
        self.load.loads.get(worker).copied()
    }

    /// Returns the load of each worker except new ones, as in [`load`](Self::load). Also returns the time of the measurement in
    /// nanoseconds of the monotonic clock. The time is 0 before the first measurement.
    pub fn loads(&self) -> (u64, &[f64]) {
        (self.load.measured, &self.load.loads)
    }

    /// Measures the load of the workers, if the last measurement is at least 100 ms old. The main thread's loop calls it in each
    /// iteration, at least every 100 ms.
    pub(super) fn measure_load(&mut self, now: u64) {
        if now.saturating_sub(self.load.measured) < INTERVAL || !self.running {
            return;
        }
        let stats = self.blueprint.stats();
        let totals = (0..self.ports.len()).map(|worker| stats.worker_totals(worker));
        let times = totals.map(|t| (t.busy_ns, t.idle_ns)).collect();
        self.load.record(now, times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::{Parts, Sizes};

    #[test]
    fn a_load_is_the_busy_share_since_the_last_measurement() {
        let mut load = Load::default();
        load.record(1, vec![(100, 100)]);
        assert!(load.loads.is_empty());
        load.record(2, vec![(175, 125), (7, 0)]);
        assert_eq!(load.loads[..], [0.75], "a new worker has no load yet");
        load.record(3, vec![(175, 125), (7, 9)]);
        assert_eq!(load.loads[..], [0.0, 0.0]);
    }

    #[test]
    fn loads_are_measured_every_100_ms_while_workers_run() {
        let Parts { router: mut r, workers } =
            Router::build(crate::testing::install, &Sizes { buffers: 256, workers: 2 }).unwrap();
        r.poll(INTERVAL);
        assert_eq!(r.loads(), (0, &[][..]));
        r.start(workers, &[]).unwrap();
        for (now, measured) in [(INTERVAL, 1), (INTERVAL + 7, 1), (2 * INTERVAL, 2)] {
            r.poll(now);
            assert_eq!(r.loads().0, measured * INTERVAL);
        }
        assert_eq!(r.loads().1.len(), 2);
        assert_eq!(r.load(2), None);
    }
}
