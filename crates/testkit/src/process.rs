//! Programs with a time limit, whose output is kept in files.
//!
//! Output goes to files and not through pipes: a program that outlives its parent cannot block a reader, and a
//! background program's output can be read while it runs.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How often a condition is looked at again.
const POLL: Duration = Duration::from_millis(2);

/// Calls `check` until it gives a value, for at most `limit`; then gives up with `None`.
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

/// The time for which all threads of a process had a processor.
///
/// # Panics
/// When there is no such process.
pub fn cpu_time(id: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).expect("a process").flatten();
    let nanoseconds = tasks.filter_map(|task| {
        // Of a thread that ends meanwhile nothing is known.
        std::fs::read_to_string(task.path().join("schedstat")).ok()?.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// Waits until `check` holds.
///
/// # Panics
/// When it does not within `limit`, naming `what`.
pub fn until(what: &str, limit: Duration, mut check: impl FnMut() -> bool) {
    assert!(poll(limit, || check().then_some(())).is_some(), "after {limit:?} still not: {what}");
}

/// A program that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The command, as given.
    pub command: String,
    /// Its exit status; `None` when it ran out of time and was killed.
    pub status: Option<ExitStatus>,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Finished {
    /// Whether it ended by itself, with exit code 0.
    pub fn ok(&self) -> bool {
        self.status.is_some_and(|s| s.success())
    }

    /// Its exit code; `None` when a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|s| s.code())
    }

    /// Standard output of a program that must have succeeded.
    ///
    /// # Panics
    /// When it has not, with all that it wrote.
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
            None => writeln!(f, "`{command}` ran out of time and was killed")?,
        }
        write!(f, "--- stdout\n{stdout}--- stderr\n{stderr}---")
    }
}

/// A program running in the background, killed (by its process id alone) when this is dropped.
#[derive(Debug)]
pub struct Process {
    label: String,
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Process {
    /// Starts `command`, keeping its output in files in `dir`; `label` names it in messages.
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

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended yet.
    pub fn running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The file that its standard output goes to.
    pub fn stdout_path(&self) -> &Path {
        &self.stdout
    }

    /// What it has written to standard output so far.
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// Sends a signal; a process that has ended is left alone.
    pub fn signal(&mut self, signal: Signal) {
        if self.running()
            && let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
        {
            // It can only have ended in between, and is not reaped before we ask: the id is still its own.
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits for its end; kills it when `limit` has passed.
    pub fn finish(&mut self, limit: Duration) -> Finished {
        let status = poll(limit, || self.child.try_wait().ok().flatten());
        if status.is_none() {
            self.kill();
        }
        Finished { command: self.label.clone(), status, stdout: self.stdout(), stderr: self.stderr() }
    }

    fn kill(&mut self) {
        // Both fail only when it has ended already, which is what is wanted.
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
    fn a_program_out_of_time_is_killed_even_if_its_child_lives_on() {
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
    #[should_panic(expected = "still not: pigs fly")]
    fn until_names_what_did_not_happen() {
        until("pigs fly", Duration::from_millis(5), || false);
    }
}
