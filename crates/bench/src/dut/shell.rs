//! Settings of a machine, each with what undoes it.

use std::io::Write as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::testbed::Bed;
use crate::testbed::lab::{program, said_by};
use crate::trial::Failure;

/// Reads lines until the other end is gone, however that happens, then runs them, the last one first.
const GUARD: &str =
    r#"undo=; while IFS= read -r line; do undo="$line; $undo"; done; eval "$undo" >/dev/null 2>&1"#;
/// Where `ip` and `sysctl` are, which an ordinary user's `PATH` has not.
const SBIN: &str = r#"PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"; export PATH; "#;
/// How long undoing may take.
const UNDO: Duration = Duration::from_secs(10);

/// A shell in a router's namespace, or on another machine, that puts everything back when the tester ends, also if it is killed.
pub struct Shell {
    /// What comes before a line.
    words: Vec<String>,
    guard: Child,
    /// What was set, for reports.
    pub lines: Vec<String>,
}

impl Shell {
    /// For the machine that `ssh` reaches by this name, or for the testbed's namespace.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn open(host: Option<&str>) -> Result<Shell, Failure> {
        let words = match host {
            // A password cannot be asked for.
            Some(host) => {
                ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", host].map(str::to_owned).to_vec()
            }
            None => ["ip", "netns", "exec", Bed::NAMESPACE, "sh", "-c"].map(str::to_owned).to_vec(),
        };
        let line = match host {
            Some(_) => format!("{SBIN}exec sh -c '{GUARD}'"),
            None => GUARD.to_owned(),
        };
        let (stdin, out) = (Stdio::piped(), Stdio::null());
        let mut guard = program(&words[0]);
        guard.args(&words[1..]).arg(line).stdin(stdin).stdout(out).stderr(Stdio::null());
        let guard = guard.spawn().map_err(|e| Failure(format!("{}: {e}", words[0])))?;
        Ok(Shell { words, guard, lines: Vec::new() })
    }

    /// Whether it is on another machine.
    pub fn is_remote(&self) -> bool {
        self.words[0] == "ssh"
    }

    /// Runs a line of shell; gives what it printed.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub fn run(&self, line: &str) -> Result<String, Failure> {
        let sbin = if self.is_remote() { SBIN } else { "" };
        said_by(program(&self.words[0]).args(&self.words[1..]).arg(format!("{sbin}{line}")), line)
    }

    /// Runs a line, which another one undoes, if it is not empty.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub fn set(&mut self, line: &str, undo: &str) -> Result<(), Failure> {
        // First, so that a tester which is killed in between leaves nothing. To undo what was not done is no fault.
        if !undo.is_empty() {
            let gone = |e: std::io::Error| Failure(format!("what undoes {line:?} is gone: {e}"));
            let pipe = self.guard.stdin.as_mut().ok_or_else(|| Failure("nothing would be undone".into()))?;
            writeln!(pipe, "{undo}").map_err(gone)?;
        }
        self.run(line)?;
        self.lines.push(line.into());
        Ok(())
    }

    /// The same, where a refusal is no fault: it is noted.
    pub fn try_set(&mut self, line: &str, undo: &str) {
        if let Err(e) = self.set(line, undo) {
            let why = e.0.rsplit_once(": ").map_or(e.0.as_str(), |(_, why)| why);
            self.lines.push(format!("# refused: {line} ({})", why.lines().last().unwrap_or("").trim()));
        }
    }

    /// Sets a key of the kernel's, which gets its old value back.
    ///
    /// # Errors
    /// When there is no such key, or it cannot be set.
    pub fn sysctl(&mut self, key: &str, value: &str) -> Result<(), Failure> {
        let old = self.run(&format!("sysctl -n {key}"))?;
        self.set(&format!("sysctl -qw {key}={value}"), &format!("sysctl -qw {key}=\"{}\"", old.trim()))
    }

    /// The same, where a refusal is no fault: the kernel has some keys for the whole machine only, and not in a namespace.
    pub fn try_sysctl(&mut self, key: &str, value: &str) {
        match self.run(&format!("sysctl -n {key}")) {
            Ok(old) => self.try_set(
                &format!("sysctl -qw {key}={value}"),
                &format!("sysctl -qw {key}=\"{}\"", old.trim()),
            ),
            Err(_) => self.lines.push(format!("# not here: sysctl -qw {key}={value}")),
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The guard reads the end, and begins.
        drop(self.guard.stdin.take());
        let begin = Instant::now();
        while matches!(self.guard.try_wait(), Ok(None)) && begin.elapsed() < UNDO {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.guard.kill();
        let _ = self.guard.wait();
    }
}
