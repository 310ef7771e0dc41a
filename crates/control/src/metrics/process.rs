//! Metrics of the process, with the names that the client libraries of Prometheus use.

use std::fs;
use std::time::Duration;

use model::metrics::Lines;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeVal;

use super::declared::Id;

/// Bytes of a page on x86-64, the unit of proc_pid_statm(5).
const PAGE: u64 = 4096;

/// Adds the samples of this process; leaves out what the kernel does not report. `started` is the router's start time
/// since 1970 (UTC).
pub fn collect(out: &mut Lines, started: Duration) {
    out.add(Id::ProcessStart, &[], started.as_secs());
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        out.add_seconds(
            Id::ProcessCpu,
            &[],
            nanoseconds(usage.user_time()) + nanoseconds(usage.system_time()),
        );
    }
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let bytes =
        |n| pages.split_whitespace().nth(n).and_then(|pages| pages.parse::<u64>().ok()).map(|n| n * PAGE);
    if let (Some(all), Some(resident)) = (bytes(0), bytes(1)) {
        out.add(Id::ProcessVirtual, &[], all);
        out.add(Id::ProcessResident, &[], resident);
    }
    if let Some(open) = open_files() {
        out.add(Id::ProcessFds, &[], open);
    }
    if let Ok((most, _)) = getrlimit(Resource::RLIMIT_NOFILE) {
        out.add(Id::ProcessMostFds, &[], most);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")?.trim().parse::<u64>().ok());
    if let Some(threads) = threads {
        out.add(Id::ProcessThreads, &[], threads);
    }
}

/// Returns the number of open file descriptors of the process.
fn open_files() -> Option<u64> {
    // Linux 6.2 and later report the number in `stat`.
    let counted = fs::metadata("/proc/self/fd").ok()?.len();
    if counted > 0 {
        return Some(counted);
    }
    // One of them is the directory itself.
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as u64)
}

/// Returns a time in nanoseconds; 0 if it is negative.
fn nanoseconds(time: TimeVal) -> u64 {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_usec()).unwrap_or(0) * 1000
}
