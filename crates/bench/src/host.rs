//! What the tester's own machine does to a trial.

use std::fs;

/// Ticks a second in `/proc`: the same on all machines, whatever the kernel's own are (proc(5), USER_HZ).
pub const TICKS: f64 = 100.0;

/// Time of all processors so far, in ticks of `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// In all.
    pub total: u64,
    /// With nothing to do, or waiting for a disk.
    pub idle: u64,
    /// Given to others by the host, while somebody here wanted to run.
    pub stolen: u64,
}

impl Times {
    /// Until now; `None` where the kernel does not say.
    pub fn now() -> Option<Times> {
        Times::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// The first line: user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in those already (proc(5)).
    pub(crate) fn parse(stat: &str) -> Option<Times> {
        let line = stat.lines().find_map(|l| l.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|w| w.parse().ok()).collect();
        Some(Times { total: ticks.iter().sum(), idle: ticks.get(3)? + ticks.get(4)?, stolen: *ticks.get(7)? })
    }

    /// The share of the time since `before` that was stolen, 0 to 1.
    pub fn stolen_since(self, before: Times) -> f64 {
        let total = self.total.saturating_sub(before.total);
        if total == 0 { 0.0 } else { self.stolen.saturating_sub(before.stolen) as f64 / total as f64 }
    }

    /// Seconds of processors that worked since `before`, for whomever: a second of two busy processors is two.
    pub fn busy_since(self, before: Times) -> f64 {
        let since = |of: fn(&Times) -> u64| of(&self).saturating_sub(of(&before)) as f64;
        (since(|t| t.total) - since(|t| t.idle) - since(|t| t.stolen)) / TICKS
    }
}

/// Why the processor's counter is not fit for measuring time; `None` if it is.
pub fn clock_fault() -> Option<String> {
    match fs::read_to_string("/proc/cpuinfo") {
        Ok(text) => clock_fault_of(&text),
        Err(e) => Some(format!("/proc/cpuinfo cannot be read: {e}")),
    }
}

fn clock_fault_of(cpuinfo: &str) -> Option<String> {
    let flags = cpuinfo.lines().find(|l| l.starts_with("flags"))?;
    // Of a constant rate whatever the core's frequency; running on in deep sleep is not needed by who polls.
    let constant = flags.split_whitespace().any(|f| f == "constant_tsc");
    (!constant).then(|| "the time stamp counter changes its rate (no constant_tsc in /proc/cpuinfo)".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_a_share_of_all() {
        let a = Times::parse("cpu  10 0 10 80 0 0 0 0 5 0\ncpu0 1 2 3\n");
        assert_eq!(a, Some(Times { total: 100, idle: 80, stolen: 0 }));
        let b = Times { total: 200, idle: 100, stolen: 25 };
        assert_eq!(a.map(|a| b.stolen_since(a)), Some(0.25));
        assert_eq!(a.map(|a| b.busy_since(a)), Some(0.55));
        assert_eq!(b.stolen_since(b), 0.0);
        assert_eq!(Times::parse("cpu 1 2 3\n"), None);
    }

    #[test]
    fn a_counter_without_a_constant_rate_is_not_fit() {
        assert_eq!(clock_fault_of("flags\t: fpu constant_tsc rdtscp\n"), None);
        assert!(clock_fault_of("flags\t: fpu tsc\n").is_some());
        // Other processors have no such line, and their counter is the system's clock.
        assert_eq!(clock_fault_of("Features\t: fp\n"), None);
    }
}
