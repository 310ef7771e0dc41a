//! What the tester's own machine does to a trial.

use std::collections::BTreeMap;
use std::fs;

/// Ticks a second in `/proc`: the same on all machines, whatever the kernel's own are (proc(5), USER_HZ).
pub const TICKS: f64 = 100.0;

/// Time of one processor, or of all, by what it did so far, in ticks of `/proc/stat` (proc(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Programs, those of low priority too.
    pub user: u64,
    /// The kernel for programs.
    pub system: u64,
    /// With nothing to do, or waiting for a disk.
    pub idle: u64,
    /// Interrupts.
    pub irq: u64,
    /// What interrupts left for later: for the kernel as a router, most of the work.
    pub softirq: u64,
    /// Given to others by the host, while somebody here wanted to run.
    pub stolen: u64,
}

impl Times {
    /// All processors together, until now; `None` where the kernel does not say.
    pub fn now() -> Option<Times> {
        Times::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Times> {
        Times::of(stat.lines().find_map(|l| l.strip_prefix("cpu "))?)
    }

    /// Each processor that is online, by its number, from the text of `/proc/stat`; `None` where that is not as expected.
    pub fn cores(stat: &str) -> Option<BTreeMap<usize, Times>> {
        let lines = stat.lines().filter_map(|l| l.strip_prefix("cpu")).filter(|l| !l.starts_with(' '));
        lines
            .map(|l| l.split_once(' ').and_then(|(n, rest)| Some((n.parse().ok()?, Times::of(rest)?))))
            .collect()
    }

    /// user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in those already (proc(5)).
    fn of(words: &str) -> Option<Times> {
        let ticks: Vec<u64> = words.split_whitespace().take(8).map_while(|w| w.parse().ok()).collect();
        let &[user, nice, system, idle, wait, irq, softirq, stolen] = ticks.as_slice() else { return None };
        let (user, idle) = (user.checked_add(nice)?, idle.checked_add(wait)?);
        Some(Times { user, system, idle, irq, softirq, stolen })
    }

    /// What was added since `before`; some counts of the kernel can go back a little, which is nothing.
    pub fn since(self, before: Times) -> Times {
        Times {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            idle: self.idle.saturating_sub(before.idle),
            irq: self.irq.saturating_sub(before.irq),
            softirq: self.softirq.saturating_sub(before.softirq),
            stolen: self.stolen.saturating_sub(before.stolen),
        }
    }

    /// Ticks of work, for whomever.
    pub fn busy(self) -> u64 {
        self.user.saturating_add(self.system).saturating_add(self.irq).saturating_add(self.softirq)
    }

    /// The share of the time since `before` that was stolen, 0 to 1.
    pub fn stolen_since(self, before: Times) -> f64 {
        let since = self.since(before);
        let total = since.busy().saturating_add(since.idle).saturating_add(since.stolen);
        if total == 0 { 0.0 } else { since.stolen as f64 / total as f64 }
    }

    /// Seconds of processors that worked since `before`, for whomever: a second of two busy processors is two.
    pub fn busy_since(self, before: Times) -> f64 {
        self.since(before).busy() as f64 / TICKS
    }
}

/// What a process or a thread used so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// Ticks for itself.
    pub user: u64,
    /// Ticks of the kernel for it.
    pub system: u64,
    /// Ticks from the machine's start to its own: tells it from a later one with the same number.
    pub started: u64,
}

impl Task {
    /// From the text of `/proc/PID/stat` (with its ended threads, without its children) or `/proc/PID/task/TID/stat`.
    pub fn parse(stat: &str) -> Option<Task> {
        // The name is in brackets, and may have some. Behind it, state is field 3, user and system time are 14 and 15, the
        // start is 22 (proc(5)).
        let (front, rest) = stat.rsplit_once(')')?;
        let name = front.split_once('(')?.1.to_string();
        let words: Vec<_> = rest.split_whitespace().collect();
        let field = |n: usize| words.get(n - 3)?.parse().ok();
        Some(Task { name, user: field(14)?, system: field(15)?, started: field(22)? })
    }

    /// Processor time in seconds.
    pub fn seconds(&self) -> f64 {
        self.user.saturating_add(self.system) as f64 / TICKS
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
        let a = Times::parse("cpu  6 4 10 70 10 0 0 0 5 0\ncpu0 1 2 3\n");
        assert_eq!(a, Some(Times { user: 10, system: 10, idle: 80, ..Times::default() }));
        let b = Times { user: 15, system: 20, idle: 100, irq: 10, softirq: 30, stolen: 25 };
        assert_eq!(a.map(|a| b.stolen_since(a)), Some(0.25));
        assert_eq!(a.map(|a| b.busy_since(a)), Some(0.55));
        assert_eq!(b.stolen_since(b), 0.0);
        assert_eq!(Times::parse("cpu 1 2 3\n"), None);
    }

    #[test]
    fn each_core_is_found_by_its_number() {
        let cores =
            Times::cores("cpu  9 9 9 9 9 9 9 9\ncpu0 1 1 2 3 4 5 6 7 8 9\ncpu12 0 0 0 1 0 0 0 0\nintr 5\n");
        let first = Times { user: 2, system: 2, idle: 7, irq: 5, softirq: 6, stolen: 7 };
        assert_eq!(cores, Some(BTreeMap::from([(0, first), (12, Times { idle: 1, ..Times::default() })])));
        assert_eq!(Times::cores("cpu0 1 2\n"), None);
    }

    #[test]
    fn the_name_of_a_task_may_have_brackets_and_blanks() {
        let stat = "7 (a) (b c) S 1 7 7 0 -1 4 0 0 0 0 250 50 8 9 20 0 1 0 4242 1 1";
        let task = Task { name: "a) (b c".into(), user: 250, system: 50, started: 4242 };
        assert_eq!(task.seconds(), 3.0);
        assert_eq!(Task::parse(stat), Some(task));
        assert_eq!(Task::parse("7 (a) S 1"), None);
    }

    #[test]
    fn a_counter_without_a_constant_rate_is_not_fit() {
        assert_eq!(clock_fault_of("flags\t: fpu constant_tsc rdtscp\n"), None);
        assert!(clock_fault_of("flags\t: fpu tsc\n").is_some());
        // Other processors have no such line, and their counter is the system's clock.
        assert_eq!(clock_fault_of("Features\t: fp\n"), None);
    }
}
