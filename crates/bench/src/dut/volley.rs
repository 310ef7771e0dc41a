//! Volley: the program in the tester's directory, otherwise the installed one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

use super::commands::Router;
use super::process::{self, Running};
use super::runtime::{self, RUNTIME};
use super::spec::Driver;
use super::{Dut, Facts, Networks, Spec, commands, cores};
use crate::testbed::{Bed, Kind, lab};
use crate::trial::Failure;
use crate::version::with_build;

/// Text that Volley prints when it is ready to forward.
const READY: &str = "volley: ready";

/// Names and values of counters.
type Counters = Vec<(String, String)>;

/// Returns the router's program, as a path or a name.
pub(super) fn router() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|tester| tester.with_file_name("volley"));
    beside.filter(|program| program.is_file()).unwrap_or_else(|| "volley".into())
}

/// Returns the version that the program prints, with its build.
fn version(program: &Path) -> Result<String, Failure> {
    let said = lab::said_in_time(lab::program(program).arg("--version"), "volley --version")?;
    Ok(with_build(said.trim().trim_start_matches("volley "), program))
}

/// Returns the text of `startup.conf`.
pub(super) fn startup(socket: &str, file: &str, on: &[usize]) -> String {
    let cores = cores::list(on);
    format!("unix {{ nodaemon cli-listen {socket} exec {file} }}\ncpu {{ corelist-workers {cores} }}\n")
}

/// Returns the nonzero interface counters, and the numbers of dropped packets by node and reason. `ask` sends a command to the router.
pub(super) fn counters(ask: &dyn Fn(&str) -> Result<String, Failure>) -> Counters {
    let said = |words: &str, read: fn(&str) -> serde_json::Result<Counters>| {
        let read = |text: String| read(&text).map_err(|e| Failure(format!("{words}: {e}")));
        ask(words).and_then(read).unwrap_or_else(|e| vec![(words.to_owned(), e.to_string())])
    };
    [said("show interface --json", of_interfaces), said("show errors --json", of_nodes)].concat()
}

/// A running Volley.
pub struct Volley {
    facts: Facts,
    process: Arc<Mutex<Running>>,
    program: PathBuf,
    socket: String,
    networks: Vec<Networks>,
    cores: Vec<usize>,
}

impl Volley {
    /// Starts Volley with one worker for each core. Without a driver in the campaign, uses the fastest driver that works on this machine.
    ///
    /// # Errors
    /// Returns an error with Volley's output if Volley does not start.
    pub fn start(spec: &Spec, bed: &Bed, on: &[usize]) -> Result<Volley, Failure> {
        let fastest = match (spec.driver, bed.kind()) {
            (Some(driver), _) => return Volley::start_with(driver, spec, bed, on),
            // AF_XDP may be forbidden to ordinary users and in containers.
            (None, Kind::Veth) => Volley::start_with(Driver::AfXdp, spec, bed, on),
            (None, _) => return Volley::start_with(commands::usual(bed), spec, bed, on),
        };
        fastest.or_else(|Failure(why)| {
            let mut router = Volley::start_with(commands::usual(bed), spec, bed, on)?;
            let why = why.lines().last().unwrap_or_default();
            router.facts.configuration.push(format!("# packet sockets, since AF_XDP failed: {why}"));
            Ok(router)
        })
    }

    fn start_with(driver: Driver, spec: &Spec, bed: &Bed, on: &[usize]) -> Result<Volley, Failure> {
        let program = router();
        let lines = commands::forward(&bed.links, driver, Router::Volley);
        let file = commands::write(bed, "volley.cli", &format!("{}\n", lines.join("\n")))?;
        let socket = bed.directory().join("volley.sock").display().to_string();
        let startup = startup(&socket, &file, on);
        let configuration = commands::write(bed, "volley.conf", &startup)?;
        let mut command = commands::on_cores(bed, on);
        command.arg(&program).args(["run", "-c", &configuration]);
        let mut process = Running::start(command, bed.directory().join("volley.log"))?;
        process.wait_for(READY)?;
        let facts = Facts {
            name: spec.name().into(),
            version: version(&program)?,
            configuration: startup.lines().map(str::to_owned).chain(lines).collect(),
            processor_time: process::TIME.into(),
        };
        let (process, cores) = (Arc::new(Mutex::new(process)), on.to_vec());
        Ok(Volley { facts, process, program, socket, networks: Vec::new(), cores })
    }

    fn ask(&self, words: &str) -> Result<String, Failure> {
        let ctl = ["ctl", "-s", &self.socket].into_iter().chain(words.split(' '));
        lab::said_in_time(lab::program(&self.program).args(ctl), words)
    }

    fn process(&self) -> MutexGuard<'_, Running> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dut for Volley {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn cpu_seconds(&self) -> Option<f64> {
        self.process().cpu_seconds()
    }

    fn said(&self) -> String {
        self.process().said(process::LINES)
    }

    fn cores(&self) -> &[usize] {
        &self.cores
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.process().id()]
    }

    fn restarter(&self) -> Option<Box<dyn FnOnce() -> Result<(), Failure> + Send>> {
        let process = self.process.clone();
        Some(Box::new(move || {
            let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
            process.restart()?;
            process.wait_for(READY)
        }))
    }

    fn set_networks(&mut self, wanted: &[Networks], bed: &Bed) -> Result<(), Failure> {
        let (old, new) = (commands::routes(&self.networks, bed, "del"), commands::routes(wanted, bed, "add"));
        self.networks = wanted.to_vec();
        old.iter().chain(&new).try_for_each(|line| self.ask(line).map(drop))
    }

    /// Returns the router's nonzero interface counters, its drops by node and reason, and the clocks of its nodes.
    fn counters(&self) -> Vec<(String, String)> {
        let clocks = self.ask(RUNTIME).map(|text| runtime::clocks(&text)).unwrap_or_default();
        [counters(&|words| self.ask(words)), clocks].concat()
    }
}

#[derive(Deserialize)]
struct Interface {
    name: String,
    counters: Vec<Counter>,
}

#[derive(Deserialize)]
struct Counter {
    name: String,
    count: u64,
}

/// A node's drop reason with its count.
#[derive(Deserialize)]
struct Dropped {
    node: String,
    #[serde(flatten)]
    reason: Counter,
}

fn of_interfaces(json: &str) -> serde_json::Result<Counters> {
    let all: Vec<Interface> = serde_json::from_str(json)?;
    let named = |i: &Interface, c: &Counter| (format!("{} {}", i.name, c.name), c.count.to_string());
    Ok(all.iter().flat_map(|i| i.counters.iter().map(move |c| named(i, c))).collect())
}

fn of_nodes(json: &str) -> serde_json::Result<Counters> {
    let all: Vec<Dropped> = serde_json::from_str(json)?;
    Ok(all.iter().map(|d| (format!("{} {}", d.node, d.reason.name), d.reason.count.to_string())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_named_by_interface_and_by_node() {
        let interfaces = r#"[{"name": "host-d0", "index": 0, "counters": [{"name": "rx packets", "count": 7}, {"name": "drops", "count": 2}]},
                             {"name": "host-d1", "index": 1, "counters": []}]"#;
        let own = |all: &[(&str, &str)]| -> Counters {
            all.iter().map(|(name, count)| ((*name).into(), (*count).into())).collect()
        };
        let expected = own(&[("host-d0 rx packets", "7"), ("host-d0 drops", "2")]);
        assert_eq!(of_interfaces(interfaces).unwrap(), expected);
        let errors = r#"[{"count": 2, "node": "interface-tx", "name": "tx-queue-full", "reason": "…", "severity": "warn", "dropped": true}]"#;
        assert_eq!(of_nodes(errors).unwrap(), own(&[("interface-tx tx-queue-full", "2")]));
        assert!(of_nodes("no command").is_err());
    }
}
