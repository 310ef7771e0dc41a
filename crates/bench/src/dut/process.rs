//! A program that is a router.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::trial::Failure;

/// A program that runs as long as it is wanted, and what it prints.
pub struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts it; what it prints goes to the file.
    ///
    /// # Errors
    /// When that is impossible.
    pub fn start(mut command: Command, log: PathBuf) -> Result<Running, Failure> {
        let failed = |e: std::io::Error| Failure(format!("{command:?}: {e}", command = log.display()));
        let file = fs::File::create(&log).map_err(failed)?;
        let both = file.try_clone().map_err(failed)?;
        let child = command.stdin(Stdio::null()).stdout(file).stderr(both).spawn();
        Ok(Running { child: child.map_err(failed)?, log })
    }

    /// Waits until it has printed this.
    ///
    /// # Errors
    /// When it ends before, or does not within `limit`, with the end of what it printed.
    pub fn wait_for(&mut self, text: &str, limit: Duration) -> Result<(), Failure> {
        let begin = Instant::now();
        loop {
            if fs::read_to_string(&self.log).unwrap_or_default().contains(text) {
                return Ok(());
            }
            let ended = !matches!(self.child.try_wait(), Ok(None));
            if ended || begin.elapsed() > limit {
                let how = if ended { "it ended" } else { "it took too long" };
                return Err(Failure(format!("the router did not start: {how}; it said:\n{}", self.said())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The last of what it printed.
    fn said(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Processor time that it used so far, in seconds.
    pub fn cpu_seconds(&self) -> Option<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        Some(crate::host::Task::parse(&stat)?.seconds())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let begin = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begin.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
