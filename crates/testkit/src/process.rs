//! Programs with a time limit, whose output is kept in files.
//!
//! Output goes to files instead of pipes: a program that outlives its parent cannot block a reader. A background
//! program's output can be read while it runs.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Interval between checks of a condition.
const POLL: Duration = Duration::from_millis(2);

/// Calls `check` until it returns a value, for at most `limit`. Returns `None` after that.
pub fn poll<T>(limit: Duration, mut check: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(value) = check() {
            return Some(value);
        }
        if Instant::now() >= end {
            return None;
        }
        thread::sleep(POLL);
    }
}

/// Returns the CPU time of all current threads of a process.
///
/// # Panics
/// If no such process exists.
pub fn cpu_time(id: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).expect("a process").flatten();
    let nanoseconds = tasks.filter_map(|task| {
        // A thread that ends during the loop is not counted.
        std::fs::read_to_string(task.path().join("schedstat")).ok()?.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// Waits until `check` returns true.
///
/// # Panics
/// If `check` does not return true within `limit`; the message contains `what`.
pub fn until(what: &str, limit: Duration, mut check: impl FnMut() -> bool) {
    assert!(poll(limit, || check().then_some(())).is_some(), "timeout after {limit:?}: {what}");
}

/// A program that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The command, as given.
    pub command: String,
    /// The exit status; `None` if the program was killed after its time limit.
    pub status: Option<ExitStatus>,
    /// Contents of standard output.
    pub stdout: String,
    /// Contents of standard error.
    pub stderr: String,
}

impl Finished {
    /// True if the program ended by itself, with exit code 0.
    pub fn ok(&self) -> bool {
        self.status.is_some_and(|s| s.success())
    }

    /// Returns the exit code; `None` if a signal ended the program.
    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|s| s.code())
    }

    /// Returns standard output of a program that must have succeeded.
    ///
    /// # Panics
    /// If the program failed. The program's output is printed.
    pub fn expect_ok(self) -> String {
        assert!(self.ok(), "{self}");
        self.stdout
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Finished { command, status, stdout, stderr } = self;
        match status {
            Some(status) => writeln!(f, "`{command}` ended with {status}")?,
            None => writeln!(f, "`{command}` timed out and was killed")?,
        }
        write!(f, "--- stdout\n{stdout}--- stderr\n{stderr}---")
    }
}

/// A program running in the background. Dropping this value kills the program, but not the program's
/// children.
#[derive(Debug)]
pub struct Process {
    label: String,
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Process {
    /// Starts `command` and keeps its output in files in `dir`; messages call it `label`.
    pub fn start(label: &str, mut command: Command, dir: &Path) -> io::Result<Process> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let stdout = dir.join(format!("{serial}.out"));
        let stderr = dir.join(format!("{serial}.err"));
        let child = command
            .stdin(Stdio::null())
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?)
            .spawn()
            .map_err(|e| io::Error::new(e.kind(), format!("cannot start `{label}`: {e}")))?;
        Ok(Process { label: label.to_owned(), child, stdout, stderr })
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// True if the program has not ended yet.
    pub fn running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the path of the file with the program's standard output.
    pub fn stdout_path(&self) -> &Path {
        &self.stdout
    }

    /// Returns the program's standard output so far.
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// Returns the program's standard error so far.
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// Sends a signal, unless the process has ended.
    pub fn signal(&mut self, signal: Signal) {
        if self.running()
            && let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
        {
            // If it ended in between, it is not reaped yet, so the ID is still its own.
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until the program ends. Kills the program if it still runs after `limit`.
    pub fn finish(&mut self, limit: Duration) -> Finished {
        let status = poll(limit, || self.child.try_wait().ok().flatten());
        if status.is_none() {
            self.kill();
        }
        Finished { command: self.label.clone(), status, stdout: self.stdout(), stderr: self.stderr() }
    }

    fn kill(&mut self) {
        // Both calls fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn read(path: &Path) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> Finished {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(script, command, dir.path()).unwrap().finish(limit)
    }

    #[test]
    fn output_and_exit_code_are_kept() {
        let done = sh("echo out; echo err >&2; exit 3", Duration::from_secs(5));
        assert_eq!((done.code(), done.stdout.as_str(), done.stderr.as_str()), (Some(3), "out\n", "err\n"));
        assert!(!done.ok());
    }

    #[test]
    fn a_timeout_kills_a_program_even_with_a_living_child() {
        let start = Instant::now();
        let done = sh("echo before; sleep 3 & sleep 60", Duration::from_millis(200));
        assert_eq!((done.status, done.stdout.as_str()), (None, "before\n"));
        assert!(start.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn dropping_a_process_kills_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sleep");
        command.arg("60");
        let process = Process::start("sleep", command, dir.path()).unwrap();
        let id = process.id();
        drop(process);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }

    #[test]
    #[should_panic(expected = "timeout after 5ms: pigs fly")]
    fn until_names_the_missing_event() {
        until("pigs fly", Duration::from_millis(5), || false);
    }
}
