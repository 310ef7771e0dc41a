//! Settings of a machine, each with a command that undoes it.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::testbed::Bed;
use crate::testbed::lab::{fed_in_time, program, said_by, said_in_time};
use crate::trial::Failure;

/// Guard script: reads lines until its input ends for any reason, then runs them in reverse order.
const GUARD: &str =
    r#"undo=; while IFS= read -r line; do undo="$line; $undo"; done; eval "$undo" >/dev/null 2>&1"#;
/// Line of shell that adds the directories of `ip` and `sysctl`, which an ordinary user's `PATH` lacks.
const SBIN: &str = r#"PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"; export PATH; "#;
/// Maximum time for undoing all settings.
const UNDO: Duration = Duration::from_secs(10);

/// A shell in a router's namespace, on this machine or on another one. All settings are undone when the shell is dropped, or the tester
/// ends, even if it is killed.
pub struct Shell {
    /// Command and arguments that precede a line of shell.
    words: Vec<String>,
    guard: Child,
    /// Settings made, for reports.
    pub lines: Vec<String>,
}

impl Shell {
    /// Opens a shell on the machine `host` over `ssh`, or in the testbed's namespace.
    ///
    /// # Errors
    /// Returns an error if the shell cannot be started.
    pub fn open(host: Option<&str>) -> Result<Shell, Failure> {
        match host {
            // BatchMode: a password prompt would hang.
            Some(host) => Shell::start(
                &["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", host],
                &format!("{SBIN}exec sh -c '{GUARD}'"),
            ),
            None => Shell::start(&["ip", "netns", "exec", Bed::NAMESPACE, "sh", "-c"], GUARD),
        }
    }

    /// Opens a shell on this machine, in the network namespace of the tests.
    ///
    /// # Errors
    /// Returns an error if the shell cannot be started.
    #[cfg(test)]
    pub fn here() -> Result<Shell, Failure> {
        Shell::start(&["sh", "-c"], GUARD)
    }

    /// Opens a shell on this machine, with `directory` first in `PATH`.
    ///
    /// # Errors
    /// Returns an error if the shell cannot be started.
    #[cfg(test)]
    pub fn beside(directory: &std::path::Path) -> Result<Shell, Failure> {
        let path = format!("PATH={}:{}", directory.display(), std::env::var("PATH").unwrap_or_default());
        Shell::start(&["env", &path, "sh", "-c"], GUARD)
    }

    fn start(words: &[&str], guard_line: &str) -> Result<Shell, Failure> {
        let (stdin, out) = (Stdio::piped(), Stdio::null());
        let mut guard = program(words[0]);
        // A Ctrl-C on the terminal must reach the tester only, which first ends its trial.
        guard.process_group(0);
        guard.args(&words[1..]).arg(guard_line).stdin(stdin).stdout(out).stderr(Stdio::null());
        let guard = guard.spawn().map_err(|e| Failure(format!("{}: {e}", words[0])))?;
        Ok(Shell { words: words.iter().map(|w| (*w).to_owned()).collect(), guard, lines: Vec::new() })
    }

    /// True if the shell runs on another machine.
    pub fn is_remote(&self) -> bool {
        self.words[0] == "ssh"
    }

    /// Runs a line of shell and returns its output.
    ///
    /// # Errors
    /// Returns an error with the line's output if it fails, or takes too long on another machine.
    pub fn run(&self, line: &str) -> Result<String, Failure> {
        let sbin = if self.is_remote() { SBIN } else { "" };
        // A remote machine may be unreachable, so it gets a timeout. Locally the kernel may need long for millions of routes.
        let said = if self.is_remote() { said_in_time } else { said_by };
        said(program(&self.words[0]).args(&self.words[1..]).arg(format!("{sbin}{line}")), line)
    }

    /// Runs a line of shell with `input` on its standard input.
    ///
    /// # Errors
    /// Returns an error with the line's output if it fails, or takes too long.
    pub fn feed(&self, line: &str, input: impl Into<Vec<u8>>) -> Result<(), Failure> {
        let sbin = if self.is_remote() { SBIN } else { "" };
        let mut command = program(&self.words[0]);
        fed_in_time(command.args(&self.words[1..]).arg(format!("{sbin}{line}")), line, input).map(drop)
    }

    /// Runs a line of shell. Registers the line `undo` to run at the end, if it is not empty.
    ///
    /// # Errors
    /// Returns an error with the line's output if it fails.
    pub fn set(&mut self, line: &str, undo: &str) -> Result<(), Failure> {
        // Register `undo` first: a tester killed in between must leave nothing behind. Undoing a setting that was never made is harmless.
        if !undo.is_empty() {
            self.undo(undo)?;
        }
        self.run(line)?;
        self.lines.push(line.into());
        Ok(())
    }

    /// Registers a line to run when the shell is dropped or the tester ends. Later lines run first.
    ///
    /// # Errors
    /// Returns an error if the cleanup process has ended.
    pub fn undo(&mut self, line: &str) -> Result<(), Failure> {
        let gone = |e: std::io::Error| {
            Failure(format!("cannot register {line:?} for cleanup, the cleanup process has ended: {e}"))
        };
        let pipe = self
            .guard
            .stdin
            .as_mut()
            .ok_or_else(|| Failure("internal error: there is no cleanup process".into()))?;
        writeln!(pipe, "{line}").map_err(gone)
    }

    /// Like [`set`](Self::set), but a failure is only noted in the report.
    pub fn try_set(&mut self, line: &str, undo: &str) {
        if let Err(e) = self.set(line, undo) {
            let why = e.0.rsplit_once(": ").map_or(e.0.as_str(), |(_, why)| why);
            self.lines.push(format!("# refused: {line} ({})", why.lines().last().unwrap_or("").trim()));
        }
    }

    /// Sets a kernel parameter. Registers a line that sets the old value again.
    ///
    /// # Errors
    /// Returns an error if the parameter does not exist or cannot be set.
    pub fn sysctl(&mut self, key: &str, value: &str) -> Result<(), Failure> {
        let old = self.run(&format!("sysctl -n {key}"))?;
        self.set(&format!("sysctl -qw {key}={value}"), &format!("sysctl -qw {key}=\"{}\"", old.trim()))
    }

    /// Like [`sysctl`](Self::sysctl), but a failure is only noted in the report: some parameters exist only outside namespaces.
    pub fn try_sysctl(&mut self, key: &str, value: &str) {
        match self.run(&format!("sysctl -n {key}")) {
            Ok(old) => self.try_set(
                &format!("sysctl -qw {key}={value}"),
                &format!("sysctl -qw {key}=\"{}\"", old.trim()),
            ),
            Err(_) => self.lines.push(format!("# not available: sysctl -qw {key}={value}")),
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The end of its input starts the guard's cleanup.
        drop(self.guard.stdin.take());
        let begin = Instant::now();
        while matches!(self.guard.try_wait(), Ok(None)) && begin.elapsed() < UNDO {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.guard.kill();
        let _ = self.guard.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_undone_in_reverse_order() -> Result<(), Failure> {
        let file = tempfile::NamedTempFile::new().map_err(|e| Failure(e.to_string()))?;
        let said = || std::fs::read_to_string(&file).unwrap_or_default();
        let echo = |what: &str| format!("echo {what} >> {}", file.path().display());
        let mut shell = Shell::here()?;
        shell.set(&echo("a"), &echo("not-a"))?;
        shell.set(&echo("b"), &echo("not-b"))?;
        assert_eq!(said(), "a\nb\n");
        drop(shell);
        assert_eq!(said(), "a\nb\nnot-b\nnot-a\n");
        Ok(())
    }

    /// A signal from the terminal goes to the whole process group, and must not reach the undo process.
    #[test]
    fn the_undo_process_has_its_own_process_group() -> Result<(), Failure> {
        let shell = Shell::here()?;
        let group = |id| rustix::process::getpgid(id).map_err(|e| Failure(e.to_string()));
        assert_ne!(group(Some(rustix::process::Pid::from_child(&shell.guard)))?, group(None)?);
        Ok(())
    }
}
