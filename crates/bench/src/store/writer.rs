//! Who writes to a campaign: two testers must not go on with the same one.

use std::fs;

/// This process, for [`is_alive`].
pub(super) fn this() -> Option<String> {
    identity(&std::process::id().to_string())
}

/// Whether the process that has signed with [`this`] still runs. One that the machine was restarted under does not, nor does another
/// one that has its number now.
pub(super) fn is_alive(writer: &str) -> bool {
    let pid = writer.split(' ').next().unwrap_or_default();
    identity(pid).is_some_and(|now| now == writer)
}

/// Number, start and boot of a process that runs.
fn identity(pid: &str) -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may have spaces and parentheses: the state first, the start as the 20th (proc(5)).
    let mut rest = stat.rsplit_once(')')?.1.split_whitespace();
    // Who is dead and only not buried yet writes no more.
    if matches!(rest.next()?, "Z" | "X") {
        return None;
    }
    Some(format!("{pid} {} {}", rest.nth(18)?, boot.trim()))
}
