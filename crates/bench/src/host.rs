//! The load on the tester's own machine: processor times, and whether its clock is fit for measuring.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Ticks per second in `/proc`. The same on all machines, whatever the kernel's own tick rate (proc(5), USER_HZ).
pub const TICKS: f64 = 100.0;

/// Processor times by use, for one processor or for all together. They cover the time since the machine started, or the time between two
/// readings. The unit is ticks of `/proc/stat` (proc(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// User programs, including those of low priority (nice).
    pub user: u64,
    /// The kernel on behalf of programs.
    pub system: u64,
    /// Idle, or waiting for a disk.
    pub idle: u64,
    /// Hardware interrupts.
    pub irq: u64,
    /// Soft interrupts: most of the work if the kernel is the router.
    pub softirq: u64,
    /// Stolen: the host ran other guests while a task here was ready to run.
    pub stolen: u64,
}

impl Times {
    /// Returns the times of all processors together since the machine started; `None` if `/proc/stat` cannot be read or parsed.
    pub fn now() -> Option<Times> {
        Times::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    pub(crate) fn parse(stat: &str) -> Option<Times> {
        Times::of(stat.lines().find_map(|l| l.strip_prefix("cpu "))?)
    }

    /// Parses the times of each online processor, by number, from the text of `/proc/stat`; `None` if the text is malformed.
    pub fn cores(stat: &str) -> Option<BTreeMap<usize, Times>> {
        let lines = stat.lines().filter_map(|l| l.strip_prefix("cpu")).filter(|l| !l.starts_with(' '));
        lines
            .map(|l| l.split_once(' ').and_then(|(n, rest)| Some((n.parse().ok()?, Times::of(rest)?))))
            .collect()
    }

    /// Parses user, nice, system, idle, iowait, irq, softirq and steal. The guest times that follow are not read, since user and nice
    /// already include them (proc(5)). `None` if one of the eight is missing or malformed.
    fn of(words: &str) -> Option<Times> {
        let ticks: Vec<u64> = words.split_whitespace().take(8).map_while(|w| w.parse().ok()).collect();
        let &[user, nice, system, idle, wait, irq, softirq, stolen] = ticks.as_slice() else { return None };
        let (user, idle) = (user.checked_add(nice)?, idle.checked_add(wait)?);
        Some(Times { user, system, idle, irq, softirq, stolen })
    }

    /// Returns the ticks added since `before`. Some kernel counters can decrease slightly; a decrease counts as 0.
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

    /// Returns the ticks in which programs, the kernel or interrupts were at work.
    pub fn busy(self) -> u64 {
        self.user.saturating_add(self.system).saturating_add(self.irq).saturating_add(self.softirq)
    }

    /// Returns the share of the time since `before` in which the host ran other guests (stolen time), 0 to 1.
    pub fn stolen_since(self, before: Times) -> f64 {
        let since = self.since(before);
        let total = since.busy().saturating_add(since.idle).saturating_add(since.stolen);
        if total == 0 { 0.0 } else { since.stolen as f64 / total as f64 }
    }

    /// Returns the busy processor time since `before`, in seconds, summed over all processors: two processors busy for a second give 2.
    pub fn busy_since(self, before: Times) -> f64 {
        self.since(before).busy() as f64 / TICKS
    }
}

/// Returns how long the calling thread has waited for a processor although it was ready to run. `None` if the kernel does not count
/// this time.
pub fn waited() -> Option<Duration> {
    waited_of(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// Parses `/proc/PID/schedstat`: nanoseconds run, nanoseconds waited, and time slices (Documentation/scheduler/sched-stats.rst). Returns
/// the time waited.
fn waited_of(schedstat: &str) -> Option<Duration> {
    schedstat.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// Processor time used by a process or a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Name.
    pub name: String,
    /// Ticks in user mode.
    pub user: u64,
    /// Ticks in the kernel.
    pub system: u64,
    /// Start time, in ticks since boot. Distinguishes the task from a later one with the same ID.
    pub started: u64,
}

impl Task {
    /// Parses the text of `/proc/PID/stat` or `/proc/PID/task/TID/stat`. The times of a process include its ended threads, but not its
    /// child processes. `None` if a field is missing or malformed.
    pub fn parse(stat: &str) -> Option<Task> {
        // The name is in brackets, and may contain brackets. After it, state is field 3, user and system time are fields 14 and 15, and the
        // start time is field 22 (proc(5)).
        let (front, rest) = stat.rsplit_once(')')?;
        let name = front.split_once('(')?.1.to_string();
        let words: Vec<_> = rest.split_whitespace().collect();
        let field = |n: usize| words.get(n - 3)?.parse().ok();
        Some(Task { name, user: field(14)?, system: field(15)?, started: field(22)? })
    }

    /// Returns the processor time in seconds.
    pub fn seconds(&self) -> f64 {
        self.user.saturating_add(self.system) as f64 / TICKS
    }
}

/// Returns why the processor's time stamp counter is unfit for measuring time; `None` if it is fit, or the kernel lists no flags.
pub fn clock_fault() -> Option<String> {
    match fs::read_to_string("/proc/cpuinfo") {
        Ok(text) => clock_fault_of(&text),
        Err(e) => Some(format!("cannot read /proc/cpuinfo: {e}")),
    }
}

fn clock_fault_of(cpuinfo: &str) -> Option<String> {
    let flags = cpuinfo.lines().find(|l| l.starts_with("flags"))?;
    // The rate must not depend on the core's frequency. The counter may stop in deep sleep: the tester's threads poll, and never sleep.
    let constant = flags.split_whitespace().any(|f| f == "constant_tsc");
    (!constant).then(|| {
        "the rate of the time stamp counter is not constant: no constant_tsc in /proc/cpuinfo".into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_a_share_of_the_total() {
        let a = Times::parse("cpu  6 4 10 70 10 0 0 0 5 0\ncpu0 1 2 3\n");
        assert_eq!(a, Some(Times { user: 10, system: 10, idle: 80, ..Times::default() }));
        let b = Times { user: 15, system: 20, idle: 100, irq: 10, softirq: 30, stolen: 25 };
        assert_eq!(a.map(|a| b.stolen_since(a)), Some(0.25));
        assert_eq!(a.map(|a| b.busy_since(a)), Some(0.55));
        assert_eq!(b.stolen_since(b), 0.0);
        assert_eq!(Times::parse("cpu 1 2 3\n"), None);
    }

    #[test]
    fn waiting_for_a_processor_is_the_second_number() {
        assert_eq!(waited_of("4000 68813 1\n"), Some(Duration::from_nanos(68_813)));
        assert_eq!(waited_of("4000"), None);
    }

    #[test]
    fn times_are_parsed_for_each_core() {
        let cores =
            Times::cores("cpu  9 9 9 9 9 9 9 9\ncpu0 1 1 2 3 4 5 6 7 8 9\ncpu12 0 0 0 1 0 0 0 0\nintr 5\n");
        let first = Times { user: 2, system: 2, idle: 7, irq: 5, softirq: 6, stolen: 7 };
        assert_eq!(cores, Some(BTreeMap::from([(0, first), (12, Times { idle: 1, ..Times::default() })])));
        assert_eq!(Times::cores("cpu0 1 2\n"), None);
    }

    #[test]
    fn task_names_can_contain_brackets_and_blanks() {
        let stat = "7 (a) (b c) S 1 7 7 0 -1 4 0 0 0 0 250 50 8 9 20 0 1 0 4242 1 1";
        let task = Task { name: "a) (b c".into(), user: 250, system: 50, started: 4242 };
        assert_eq!(task.seconds(), 3.0);
        assert_eq!(Task::parse(stat), Some(task));
        assert_eq!(Task::parse("7 (a) S 1"), None);
    }

    #[test]
    fn a_counter_without_a_constant_rate_is_refused() {
        assert_eq!(clock_fault_of("flags\t: fpu constant_tsc rdtscp\n"), None);
        assert!(clock_fault_of("flags\t: fpu tsc\n").is_some());
        // Other architectures have no such line; their counter is the system's clock.
        assert_eq!(clock_fault_of("Features\t: fp\n"), None);
    }
}
