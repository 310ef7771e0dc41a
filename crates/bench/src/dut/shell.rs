//! Settings of a machine, each with what undoes it.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::testbed::Bed;
use crate::testbed::lab::{program, said_by, said_in_time};
use crate::trial::Failure;

/// Reads lines until the other end is gone, however that happens, then runs them, the last one first.
const GUARD: &str =
    r#"undo=; while IFS= read -r line; do undo="$line; $undo"; done; eval "$undo" >/dev/null 2>&1"#;
/// Where `ip` and `sysctl` are, which an ordinary user's `PATH` has not.
const SBIN: &str = r#"PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"; export PATH; "#;
/// How long undoing may take.
const UNDO: Duration = Duration::from_secs(10);

/// A shell in a router's namespace, on this machine, or on another one, that puts everything back when the tester ends, also if it is
/// killed.
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
        match host {
            // A password cannot be asked for.
            Some(host) => Shell::start(
                &["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", host],
                &format!("{SBIN}exec sh -c '{GUARD}'"),
            ),
            None => Shell::start(&["ip", "netns", "exec", Bed::NAMESPACE, "sh", "-c"], GUARD),
        }
    }

    /// For this machine: what no namespace has of its own.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn here() -> Result<Shell, Failure> {
        Shell::start(&["sh", "-c"], GUARD)
    }

    /// For this machine, where programs of this directory come first.
    ///
    /// # Errors
    /// When it cannot be started.
    #[cfg(test)]
    pub fn beside(directory: &std::path::Path) -> Result<Shell, Failure> {
        let path = format!("PATH={}:{}", directory.display(), std::env::var("PATH").unwrap_or_default());
        Shell::start(&["env", &path, "sh", "-c"], GUARD)
    }

    fn start(words: &[&str], guard_line: &str) -> Result<Shell, Failure> {
        let (stdin, out) = (Stdio::piped(), Stdio::null());
        let mut guard = program(words[0]);
        // A Ctrl-C on the terminal is the tester's, which ends its trial first.
        guard.process_group(0);
        guard.args(&words[1..]).arg(guard_line).stdin(stdin).stdout(out).stderr(Stdio::null());
        let guard = guard.spawn().map_err(|e| Failure(format!("{}: {e}", words[0])))?;
        Ok(Shell { words: words.iter().map(|w| (*w).to_owned()).collect(), guard, lines: Vec::new() })
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
        // A machine may be gone, and this one's kernel may have millions of routes to take.
        let said = if self.is_remote() { said_in_time } else { said_by };
        said(program(&self.words[0]).args(&self.words[1..]).arg(format!("{sbin}{line}")), line)
    }

    /// Runs a line, which another one undoes, if it is not empty.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub fn set(&mut self, line: &str, undo: &str) -> Result<(), Failure> {
        // First, so that a tester which is killed in between leaves nothing. To undo what was not done is no fault.
        if !undo.is_empty() {
            self.undo(undo)?;
        }
        self.run(line)?;
        self.lines.push(line.into());
        Ok(())
    }

    /// Has a line run when the tester ends, before those of now and behind those of later.
    ///
    /// # Errors
    /// When nobody is there any more who would.
    pub fn undo(&mut self, line: &str) -> Result<(), Failure> {
        let gone = |e: std::io::Error| Failure(format!("who runs {line:?} in the end is gone: {e}"));
        let pipe = self.guard.stdin.as_mut().ok_or_else(|| Failure("nothing would be undone".into()))?;
        writeln!(pipe, "{line}").map_err(gone)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_undone_the_last_first() -> Result<(), Failure> {
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

    /// A terminal says it to all of a process group.
    #[test]
    fn a_ctrl_c_for_the_tester_is_none_for_what_undoes() -> Result<(), Failure> {
        let shell = Shell::here()?;
        let group = |id| rustix::process::getpgid(id).map_err(|e| Failure(e.to_string()));
        assert_ne!(group(Some(rustix::process::Pid::from_child(&shell.guard)))?, group(None)?);
        Ok(())
    }
}
