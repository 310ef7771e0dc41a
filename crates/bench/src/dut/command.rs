//! A router that shell commands start, set up and end.

use std::process::Command;

use super::process::Running;
use super::{Dut, Facts, Spec, cores};
use crate::testbed::{Bed, Kind, lab};
use crate::trial::Failure;

/// What is printed when a `start` that does not stay has ended well.
const STARTED: &str = "volley-bench: started";

/// What the commands of a router started.
pub struct Shell {
    facts: Facts,
    /// All that was started, which ends with it.
    process: Running,
    place: Place,
    stop: Option<String>,
    counters: Option<String>,
    forget: Option<String>,
    cores: Vec<usize>,
}

/// Where commands run, and with which variables.
struct Place {
    variables: Vec<(String, String)>,
    /// Of programs that run there.
    cores: Vec<usize>,
    namespace: bool,
    /// Who has the space of processes in which all run; 0 until it is there.
    of: u32,
}

impl Shell {
    /// Runs `start`, then `configure`.
    ///
    /// # Errors
    /// When one fails, with what it said.
    pub fn start(spec: &Spec, bed: &Bed, on: &[usize]) -> Result<Shell, Failure> {
        let mut place = Place {
            variables: variables(bed, on),
            // What speaks to another machine only keeps off the tester's core.
            cores: if on.is_empty() { bed.cores.clone() } else { on.to_vec() },
            namespace: bed.kind() != Kind::Physical,
            of: 0,
        };
        let start = spec.start.as_deref().unwrap_or("true");
        // Whoever goes to the background is kept, too, until all are ended.
        let script = match &spec.ready {
            Some(_) => start.to_owned(),
            None => format!("(\n{start}\n) || exit\necho {STARTED}\nexec sleep infinity"),
        };
        let mut command = place.command();
        command.args(["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", &script]);
        let mut process = Running::start(command, bed.directory().join("command.log"))?;
        place.of = process.id();
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
            stop: spec.stop.clone(),
            counters: spec.counters.clone(),
            forget: spec.forget.clone(),
            cores: on.to_vec(),
        };
        // From here on, what fails is stopped.
        begun?;
        for (key, line) in [("start", &spec.start), ("configure", &spec.configure)] {
            let Some(line) = line else { continue };
            if key == "configure" {
                shell.place.run(line)?;
            }
            shell.facts.configuration.extend(line.lines().map(|l| format!("{key}: {l}")));
        }
        if let Some(version) = &spec.version {
            shell.facts.version = shell.place.run(version)?.trim().to_owned();
        }
        Ok(shell)
    }
}

impl Place {
    /// A command that is to be completed.
    fn command(&self) -> Command {
        let mut command = if self.namespace { lab::inside(Bed::NAMESPACE) } else { lab::guarded() };
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if !self.cores.is_empty() {
            command.args(["taskset", "--cpu-list", &cores::list(&self.cores)]);
        }
        command
    }

    /// Runs a line of shell among the processes that were started; gives what it printed.
    fn run(&self, line: &str) -> Result<String, Failure> {
        let mut command = self.command();
        let of = format!("--pid=/proc/{}/ns/pid_for_children", self.of);
        command.args(["nsenter", &of, "sh", "-c", line]);
        lab::said_by(&mut command, line)
    }
}

/// What the commands are told of the testbed; documented in `docs/bench.md`.
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

    fn cores(&self) -> &[usize] {
        &self.cores
    }

    fn forget_sessions(&self) -> Option<Result<(), Failure>> {
        self.forget.as_ref().map(|line| self.place.run(line).map(drop))
    }

    /// What `counters` prints: a name and a value in each line, with a colon between.
    fn counters(&self) -> Vec<(String, String)> {
        let Some(line) = &self.counters else { return Vec::new() };
        let said = self.place.run(line).unwrap_or_else(|e| e.to_string());
        let pair = |line: &str| match line.split_once(':') {
            Some((name, value)) => (name.trim().to_owned(), value.trim().to_owned()),
            None => (String::new(), line.trim().to_owned()),
        };
        said.lines().filter(|l| !l.trim().is_empty()).map(pair).collect()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if let Some(stop) = &self.stop {
            let _ = self.place.run(stop);
        }
        // Nobody listens there to be asked; all that runs ends with it.
        self.process.kill();
    }
}
