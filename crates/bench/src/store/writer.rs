//! Identifies the process that writes a campaign, so that a second tester does not run the same campaign.

use std::fs;

/// Returns the identity of this process, for [`is_alive`]; `None` if `/proc` cannot be read.
pub(super) fn this() -> Option<String> {
    identity(&std::process::id().to_string())
}

/// True if the process with this identity (from [`this`]) still runs. False after a restart of the machine, and if another process has the
/// same PID.
pub(super) fn is_alive(writer: &str) -> bool {
    let pid = writer.split(' ').next().unwrap_or_default();
    identity(pid).is_some_and(|now| now == writer)
}

/// Returns PID, start time and boot ID of a running process; `None` if there is no such process.
fn identity(pid: &str) -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name, which may contain spaces and parentheses: the state is the first field, the start time the 20th (proc(5)).
    let mut rest = stat.rsplit_once(')')?.1.split_whitespace();
    // A zombie no longer writes.
    if matches!(rest.next()?, "Z" | "X") {
        return None;
    }
    Some(format!("{pid} {} {}", rest.nth(18)?, boot.trim()))
}
