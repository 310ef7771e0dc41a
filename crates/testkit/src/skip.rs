//! Reports of tests that cannot run here.

use std::io::{self, Write};

/// Prefix of each report. `scripts/count-tests` searches for it.
pub const MARK: &str = "SKIPPED: ";

/// Reports that the running test was skipped. `why` names what the test needs.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let line = format!("{MARK}{}: {why}\n", thread.name().unwrap_or("a test thread"));
    let _ = io::stderr().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Environment variable, set in the process whose test is skipped.
    const INSIDE: &str = "VOLLEY_SKIP_TEST";

    #[test]
    fn a_skip_is_printed_although_the_test_passes() {
        const NAME: &str = "skip::tests::a_skip_is_printed_although_the_test_passes";
        if std::env::var_os(INSIDE).is_some() {
            skipped("needs two moons");
            return;
        }
        let me = std::env::current_exe().unwrap();
        let out = Command::new(me).args(["--exact", NAME]).env(INSIDE, "yes").output().unwrap();
        assert!(out.status.success(), "{out:?}");
        assert_eq!(String::from_utf8_lossy(&out.stderr), format!("{MARK}{NAME}: needs two moons\n"));
    }
}
