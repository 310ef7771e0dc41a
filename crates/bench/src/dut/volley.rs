//! Volley itself, as an operator would start it: the program of which the tester is a part.

use std::path::Path;
use std::time::Duration;

use super::process::Running;
use super::{Dut, Facts};
use crate::testbed::Bed;
use crate::testbed::lab;
use crate::trial::Failure;

/// How long it may take to forward.
const START: Duration = Duration::from_secs(10);
const SOCKET: &str = "/run/volley-dut.sock";
const STARTUP: &str = "/run/volley-dut.conf";
const COMMANDS: &str = "/run/volley-dut.cli";
const LOG: &str = "/run/volley-dut.log";

/// A router of this very build.
pub struct Volley {
    facts: Facts,
    process: Running,
    program: std::path::PathBuf,
}

impl Volley {
    /// Starts it with one worker for each of the cores, which polls the links by packet sockets.
    ///
    /// # Errors
    /// When it does not start, with what it said.
    pub fn start(bed: &Bed, cores: &[usize]) -> Result<Volley, Failure> {
        let program = std::env::current_exe().map_err(|e| Failure(e.to_string()))?;
        let list = cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let startup = format!(
            "unix {{ nodaemon cli-listen {SOCKET} exec {COMMANDS} }}\ncpu {{ corelist-workers {list} }}\n"
        );
        let mut commands = Vec::new();
        for link in &bed.links {
            let name = format!("host-{}", link.router);
            commands.push(format!("create host-interface name {}", link.router));
            commands.push(format!("set interface state {name} up"));
            for ((own, behind), host) in [link.ipv4, link.ipv6].into_iter().zip(link.hosts()) {
                commands.push(format!("set interface ip address {name} {own}"));
                commands.push(format!("ip route add {behind} via {host} {name}"));
            }
        }
        let write = |path: &str, text: &str| {
            std::fs::write(path, text).map_err(|e| Failure(format!("{}: {e}", Path::new(path).display())))
        };
        write(STARTUP, &startup)?;
        write(COMMANDS, &format!("{}\n", commands.join("\n")))?;
        let mut command = lab::inside("dut");
        // The tester's own core is not the router's.
        command.args(["taskset", "--cpu-list", &list]).arg(&program).args(["run", "-c", STARTUP]);
        let mut process = Running::start(command, LOG.into())?;
        process.wait_for("volley: ready", START)?;
        let configuration = startup.lines().map(str::to_owned).chain(commands).collect();
        let facts = Facts { name: "volley".into(), version: env!("CARGO_PKG_VERSION").into(), configuration };
        Ok(Volley { facts, process, program })
    }
}

impl Dut for Volley {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn cpu_seconds(&self) -> Option<f64> {
        self.process.cpu_seconds()
    }

    fn counters(&self) -> Vec<(String, String)> {
        let program = self.program.as_os_str();
        let words = ["ctl", "-s", SOCKET, "show", "errors"].map(std::ffi::OsStr::new);
        let said = lab::run(&[&[program][..], &words].concat());
        vec![("show errors".into(), said.unwrap_or_else(|e| e.to_string()).trim().to_owned())]
    }
}
