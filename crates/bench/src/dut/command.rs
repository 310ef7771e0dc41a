//! A router that shell commands start, configure and stop.

use std::process::Command;

use super::process::{self, Running};
use super::{Dut, Facts, Networks, Spec, commands, cores};
use crate::testbed::{Bed, Kind, lab};
use crate::trial::Failure;

/// Text printed when `start` has ended successfully. Used if `start` does not stay in the foreground.
const STARTED: &str = "volley-bench: started";

/// A router started by commands.
pub struct Shell {
    facts: Facts,
    /// Parent of all processes that the commands start. They end when the parent ends.
    process: Running,
    place: Place,
    restart: Option<String>,
    stop: Option<String>,
    counters: Option<String>,
    forget: Option<String>,
    /// Line of shell that adds and removes routes.
    routes: Option<String>,
    networks: Vec<Networks>,
    cores: Vec<usize>,
}

/// Environment of the commands: namespace, cores and variables.
#[derive(Clone)]
struct Place {
    variables: Vec<(String, String)>,
    /// Cores on which the commands run.
    cores: Vec<usize>,
    namespace: bool,
}

impl Shell {
    /// Runs `start`, then `configure`.
    ///
    /// # Errors
    /// Returns an error with the output of a command that fails.
    pub fn start(spec: &Spec, bed: &Bed, on: &[usize]) -> Result<Shell, Failure> {
        let place = Place {
            variables: variables(bed, on),
            // Commands for a router on another machine may run on any core except the tester's.
            cores: if on.is_empty() { bed.cores.clone() } else { on.to_vec() },
            namespace: bed.kind() != Kind::Physical,
        };
        let start = spec.start.as_deref().unwrap_or("true");
        // The script does not end after `start`, so that background processes live until the router is ended.
        let script = match &spec.ready {
            Some(_) => start.to_owned(),
            None => format!("(\n{start}\n) || exit\necho {STARTED}\nexec sleep infinity"),
        };
        let mut command = place.command();
        command.args(["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", &script]);
        let mut process = Running::start(command, bed.directory().join("command.log"))?;
        let ready = spec.ready.as_deref().unwrap_or(STARTED);
        let begun = process.wait_for(ready);
        let mut shell = Shell {
            facts: Facts {
                name: spec.name().into(),
                version: "unknown".into(),
                configuration: Vec::new(),
                processor_time: cores::how(on),
            },
            process,
            place,
            restart: spec.restart.clone(),
            stop: spec.stop.clone(),
            counters: spec.counters.clone(),
            forget: spec.forget.clone(),
            routes: spec.routes.clone(),
            networks: Vec::new(),
            cores: on.to_vec(),
        };
        // From here on, a router that fails is stopped with its command `stop`, too.
        match begun.and_then(|()| shell.set_up(spec)) {
            Ok(()) => Ok(shell),
            Err(e) => Err(shell.end().err().map_or(e.clone(), |stop| Failure(format!("{e}; {stop}")))),
        }
    }

    fn set_up(&mut self, spec: &Spec) -> Result<(), Failure> {
        let lines = [("start", &spec.start), ("configure", &spec.configure), ("restart", &spec.restart)];
        for (key, line) in lines {
            let Some(line) = line else { continue };
            if key == "configure" {
                self.run(line)?;
            }
            self.facts.configuration.extend(line.lines().map(|l| format!("{key}: {l}")));
        }
        if let Some(version) = &spec.version {
            self.facts.version = self.run(version)?.trim().to_owned();
        }
        Ok(())
    }

    /// Runs a line of shell in the started processes' PID namespace and returns its output.
    fn run(&self, line: &str) -> Result<String, Failure> {
        self.place.run(line, Some(self.process.id()))
    }
}

impl Place {
    /// Returns a command that runs in this environment; the caller adds program and arguments.
    fn command(&self) -> Command {
        let mut command = if self.namespace { lab::inside(Bed::NAMESPACE) } else { lab::guarded() };
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if !self.cores.is_empty() {
            command.args(["taskset", "--cpu-list", &cores::list(&self.cores)]);
        }
        command
    }

    /// Runs a line of shell and returns the output of the line. The line runs in the PID namespace that process `of` created, if `of` is
    /// given.
    fn run(&self, line: &str, of: Option<u32>) -> Result<String, Failure> {
        lab::said_in_time(self.inside(of).args(["sh", "-c", line]), line)
    }

    /// Like [`command`](Self::command), but the command runs in the PID namespace that process `of` created, if `of` is given.
    fn inside(&self, of: Option<u32>) -> Command {
        let mut command = self.command();
        if let Some(of) = of {
            command.args(["nsenter", &format!("--pid=/proc/{of}/ns/pid_for_children")]);
        }
        command
    }
}

/// Returns the environment variables that describe the testbed, as documented in `docs/reference/bench.md`.
fn variables(bed: &Bed, on: &[usize]) -> Vec<(String, String)> {
    let mut all = vec![
        ("BENCH_DIR".to_owned(), bed.directory().display().to_string()),
        ("BENCH_CORES".to_owned(), cores::list(on)),
        (
            "BENCH_NAMESPACE".to_owned(),
            if bed.kind() == Kind::Physical { String::new() } else { Bed::NAMESPACE.to_owned() },
        ),
    ];
    for (side, link) in ["LEFT", "RIGHT"].into_iter().zip(&bed.links) {
        let mut add = |name: &str, value: String| all.push((format!("BENCH_{side}_{name}"), value));
        add("IF", link.router.clone());
        add("MAC", link.router_mac.to_string());
        add("TESTER_IF", link.tester.clone());
        add("TESTER_MAC", link.tester_mac.to_string());
        for (family, (own, behind, host)) in ["4", "6"].into_iter().zip(link.families()) {
            add(&format!("IP{family}"), own.to_string());
            add(&format!("NET{family}"), behind.to_string());
            add(&format!("HOP{family}"), host.to_string());
        }
    }
    all
}

impl Dut for Shell {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn cpu_seconds(&self) -> Option<f64> {
        cores::seconds(&self.cores)
    }

    fn said(&self) -> String {
        self.process.said(process::LINES)
    }

    fn cores(&self) -> &[usize] {
        &self.cores
    }

    fn restarter(&self) -> Option<Box<dyn FnOnce() -> Result<(), Failure> + Send>> {
        let (line, place, of) = (self.restart.clone()?, self.place.clone(), self.process.id());
        let failed = |e| Failure(format!("restart: {e}"));
        Some(Box::new(move || place.run(&line, Some(of)).map(drop).map_err(failed)))
    }

    /// Passes the routes to the shell command `routes`: first those to remove, then those to add. Without this command, the router must
    /// have its own routes for the traffic, and a test with `routes` is an error.
    fn set_networks(&mut self, wanted: &[Networks], bed: &Bed) -> Result<(), Failure> {
        let Some(line) = &self.routes else {
            return match wanted.iter().all(Networks::is_own) {
                true => Ok(()),
                false => Err(Failure(
                    "the router needs routes: set the key \"routes\" to a command that adds them".into(),
                )),
            };
        };
        // After a failure it is unknown which routes remain. Deleting them again would fail for every later test, too.
        let old = std::mem::take(&mut self.networks);
        let input = commands::batch(&old, bed, "del", "") + &commands::batch(wanted, bed, "add", "");
        if !input.is_empty() {
            let mut command = self.place.inside(Some(self.process.id()));
            lab::fed_in_time(command.args(["sh", "-c", line]), &format!("routes: {line}"), input)?;
        }
        self.networks = wanted.to_vec();
        Ok(())
    }

    /// Runs the command `stop` once, in the PID namespace of the started process. If this process has ended, `stop` runs outside of
    /// the namespace, because other effects of the router may remain.
    fn end(&mut self) -> Result<(), Failure> {
        let Some(stop) = self.stop.take() else { return Ok(()) };
        let of = self.process.is_running().then(|| self.process.id());
        self.place.run(&stop, of).map(drop).map_err(|e| Failure(format!("stop: {e}")))
    }

    fn forget_sessions(&self) -> Option<Result<(), Failure>> {
        self.forget.as_ref().map(|line| self.run(line).map(drop))
    }

    /// Returns the output of `counters`: a name, a colon and a value in each line.
    fn counters(&self) -> Vec<(String, String)> {
        let Some(line) = &self.counters else { return Vec::new() };
        let said = self.run(line).unwrap_or_else(|e| e.to_string());
        let pair = |line: &str| match line.split_once(':') {
            Some((name, value)) => (name.trim().to_owned(), value.trim().to_owned()),
            None => (String::new(), line.trim().to_owned()),
        };
        said.lines().filter(|l| !l.trim().is_empty()).map(pair).collect()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.end();
        // No graceful signal is needed: all processes end with their parent.
        self.process.kill();
    }
}
