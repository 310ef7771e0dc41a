//! Process of a router's program.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use crate::trial::Failure;

/// Maximum time for a program to start.
pub const START: Duration = Duration::from_secs(20);
/// Maximum time for a program to end.
const END: Duration = Duration::from_secs(5);

/// Method by which the processor time of a program is measured, for reports.
pub const TIME: &str =
    "the router's own threads (/proc/PID/stat), without work that the kernel does for it in other threads";

/// Spawns a program from a thread that lives as long as the tester. The kernel kills a child when its parent thread ends
/// (PR_SET_PDEATHSIG(2const)), and the thread that restarts a router in a trial ends soon.
fn spawn(command: Command) -> (Command, io::Result<Child>) {
    type Wanted = (Command, Sender<(Command, io::Result<Child>)>);
    static SPAWNER: OnceLock<Sender<Wanted>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (wanted, wants) = channel::<Wanted>();
        std::thread::spawn(move || {
            for (mut command, reply) in wants {
                let child = command.spawn();
                // The requester waits for the reply.
                let _ = reply.send((command, child));
            }
        });
        wanted
    });
    let (reply, answer) = channel();
    let gone = || (Command::new(""), Err(io::Error::other("internal error: the spawner thread has ended")));
    match spawner.send((command, reply)) {
        Ok(()) => answer.recv().unwrap_or_else(|_| gone()),
        Err(_) => gone(),
    }
}

/// Number of the last output lines shown in messages.
pub const LINES: usize = 20;

/// A running program with its log file.
pub struct Running {
    command: Command,
    child: Child,
    log: PathBuf,
    /// Processor time of the processes before the last restart, in seconds.
    before: f64,
}

impl Running {
    /// Starts a program; its output goes to the file `log`.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started.
    pub fn start(mut command: Command, log: PathBuf) -> Result<Running, Failure> {
        let failed = |e: std::io::Error| Failure(format!("{}: {e}", log.display()));
        let file = fs::File::create(&log).map_err(failed)?;
        let both = file.try_clone().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(file).stderr(both);
        let name = command.get_program().to_string_lossy().into_owned();
        let (command, child) = spawn(command);
        let child = child.map_err(|e| Failure(format!("{name}: {e}")))?;
        Ok(Running { command, child, log, before: 0.0 })
    }

    /// Ends the program and starts it again.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started.
    pub fn restart(&mut self) -> Result<(), Failure> {
        self.before = self.cpu_seconds().unwrap_or(self.before);
        self.end();
        let failed = |e: std::io::Error| Failure(format!("{}: {e}", self.log.display()));
        // Drop the old process's output, so that its ready line does not count.
        fs::OpenOptions::new().write(true).truncate(true).open(&self.log).map_err(failed)?;
        let file = fs::OpenOptions::new().append(true).open(&self.log).map_err(failed)?;
        let both = file.try_clone().map_err(failed)?;
        let mut command = std::mem::replace(&mut self.command, Command::new(""));
        command.stdout(file).stderr(both);
        let (command, child) = spawn(command);
        self.command = command;
        self.child = child.map_err(failed)?;
        Ok(())
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// True if the process has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until the output contains `text`.
    ///
    /// # Errors
    /// Returns an error with the last output if the process ends first, or needs longer than [`START`].
    pub fn wait_for(&mut self, text: &str) -> Result<(), Failure> {
        let log = self.log.clone();
        self.wait_until(|| fs::read(&log).is_ok_and(|said| String::from_utf8_lossy(&said).contains(text)))
    }

    /// Waits until `ready` returns true.
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for).
    pub fn wait_until(&mut self, mut ready: impl FnMut() -> bool) -> Result<(), Failure> {
        let begin = Instant::now();
        loop {
            // Check the process first, so that its last output is not missed.
            let ended = !self.is_running();
            if ready() {
                return Ok(());
            }
            if ended || begin.elapsed() > START {
                let how = if ended { "its program ended" } else { "it took too long" };
                return Err(Failure(format!(
                    "the router did not start: {how}; its last output:\n{}",
                    self.said(LINES)
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the last `lines` lines of the output.
    pub fn said(&self, lines: usize) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<_> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// Returns the processor time so far, in seconds, including that of processes before a restart. `None` if the
    /// process is gone.
    pub fn cpu_seconds(&self) -> Option<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        Some(self.before + crate::host::Task::parse(&stat)?.seconds())
    }

    fn end(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32)
            && self.is_running()
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let begin = Instant::now();
        while self.is_running() && begin.elapsed() < END {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.kill();
    }

    /// Kills the process and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
