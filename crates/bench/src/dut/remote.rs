//! Volley and VPP on another machine, which the tester reaches over `ssh`: copied or found there, configured, started and stopped.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::commands::{self, Router};
use super::process::{LINES, START};
use super::runtime::{self, RUNTIME};
use super::shell::Shell;
use super::spec::Driver;
use super::{Dut, Facts, Networks, Spec, cores, queues, volley, vpp};
use crate::testbed::{Bed, Link, check_router_ports};
use crate::trial::Failure;

/// Shell commands that end the program whose process ID is in the file `pid`. If the program does not end within 4 s, they kill it.
const END: &str = "p=$(cat pid) && kill $p; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do \
                   kill -0 $p || exit 0; sleep 0.2; done; kill -9 $p";

/// Shell commands that wait until the process ID is in the file `pid`, for at most 1 s.
const PID: &str = "for i in 1 2 3 4 5 6 7 8 9 10; do [ -s pid ] && break; sleep 0.1; done";

/// A program that routes on another machine.
pub struct Remote {
    facts: Facts,
    shell: Shell,
    of: Router,
    /// Command that runs the CLI client with the router's socket; a CLI command is appended.
    ctl: String,
    /// Directory on the other machine, removed at the end.
    directory: String,
    networks: Vec<Networks>,
}

/// Programs on the other machine.
struct Programs {
    router: String,
    /// Command that runs the CLI client; the socket and a CLI command are appended.
    ctl: String,
}

impl Remote {
    /// Starts the router. Each of its workers gets a core of its own: the first ones named in the campaign, or else those near the router's
    /// first port. VPP's main thread gets the next core, if there is one.
    ///
    /// # Errors
    /// Returns an error if a port is in use, a command fails, or the router does not start. In the last case the error includes the
    /// router's output.
    pub fn start(spec: &Spec, bed: &Bed, of: Router) -> Result<Remote, Failure> {
        let mut shell = Shell::open(spec.host.as_deref())?;
        check_router_ports(&bed.links, &|line| shell.run(line))?;
        let directory = shell.run("mktemp -d")?.trim().to_owned();
        shell.undo(&format!("rm -rf {directory}"))?;
        let programs = Programs::of(spec, of, &shell, &directory)?;
        let ports = bed.links.each_ref().map(|link| link.router.as_str());
        let (on, main) = cores_of(spec, of, &shell, ports[0])?;
        queues::set(&mut shell, ports, on.len())?;
        let links = taken(&mut shell, bed.links.clone())?;
        let lines = commands::forward(&links, spec.driver.unwrap_or(Driver::AfPacket), of);
        let file = match of {
            Router::Volley => format!("{directory}/volley.cli"),
            Router::Vpp => format!("{directory}/vpp.cli"),
        };
        let startup = match of {
            Router::Volley => volley::startup(&format!("{directory}/volley.sock"), &file, &on),
            Router::Vpp => vpp::startup(&directory, &file, main, &on),
        };
        shell.feed(&format!("cat > {file}"), format!("{}\n", lines.join("\n")))?;
        shell.feed(&format!("cat > {directory}/startup.conf"), startup.clone())?;
        let all: Vec<usize> = on.iter().copied().chain(main).collect();
        let (how, socket) = match of {
            Router::Volley => ("run -c", "volley.sock"),
            Router::Vpp => ("-c", "vpp.sock"),
        };
        let ctl = format!("{} -s {directory}/{socket}", programs.ctl);
        let line = format!(
            "taskset --cpu-list {} {} {how} {directory}/startup.conf",
            cores::list(&all),
            programs.router
        );
        if of == Router::Vpp {
            vpp::keep_huge_pages(&mut shell)?;
        }
        // With `exec`, the process whose ID is in the file `pid` is the router itself.
        shell.undo(&format!("cd {directory} && ({END})"))?;
        shell.run(&format!(
            "cd {directory} && {{ setsid sh -c 'echo $$ > pid; exec {line}' > log 2>&1 < /dev/null & }}; {PID}"
        ))?;
        let mut facts = Facts { name: spec.name().into(), ..Facts::default() };
        facts.configuration = shell
            .lines
            .iter()
            .cloned()
            .chain([line])
            .chain(startup.lines().map(str::to_owned))
            .chain(lines)
            .collect();
        facts.configuration.push(placement(&shell, ports[0], &all));
        let mut remote = Remote { facts, shell, of, ctl, directory, networks: Vec::new() };
        remote.wait()?;
        remote.facts.version = remote.version(&programs.router)?;
        remote
            .facts
            .configuration
            .iter_mut()
            .for_each(|line| *line = line.replace(&remote.directory, "$BENCH_DIR"));
        Ok(remote)
    }

    /// Waits until the router answers.
    fn wait(&self) -> Result<(), Failure> {
        let begin = Instant::now();
        let is_running = || self.shell.run(&format!("kill -0 $(cat {}/pid)", self.directory)).is_ok();
        loop {
            let ended = !is_running();
            if self.ask("show version").is_ok() {
                return Ok(());
            }
            if ended || begin.elapsed() > START {
                let how = if ended { "its program ended" } else { "it took too long" };
                return Err(Failure(format!(
                    "the router did not start: {how}; its last output:\n{}",
                    self.said()
                )));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn version(&self, program: &str) -> Result<String, Failure> {
        match self.of {
            Router::Volley => {
                let said = self.shell.run(&format!("{program} --version"))?;
                let hash =
                    self.shell.run(&format!("sha256sum < $(command -v {program})")).unwrap_or_default();
                let number = said.trim().trim_start_matches("volley ");
                Ok(format!("{number} (SHA-256 {:.16})", hash.trim()))
            }
            Router::Vpp => {
                let node = self.ask(&vpp::show_node()).unwrap_or_default();
                let status = format!("cat /proc/$(cat {}/pid)/status", self.directory);
                let status = self.shell.run(&status).unwrap_or_default();
                Ok(vpp::version(&self.ask("show version")?, &node, &status))
            }
        }
    }

    fn ask(&self, words: &str) -> Result<String, Failure> {
        self.shell.run(&format!("{} {words}", self.ctl))
    }
}

impl Programs {
    /// Returns the programs on the other machine: those named in the campaign, or else the installed VPP or a copy of this
    /// machine's Volley.
    ///
    /// # Errors
    /// Returns an error if a program is missing on the other machine, or Volley is missing on this one.
    fn of(spec: &Spec, of: Router, shell: &Shell, directory: &str) -> Result<Programs, Failure> {
        let named = spec.program.as_ref().map(|path| path.display().to_string());
        let is_there = |program: &str| shell.run(&format!("command -v {program}")).is_ok();
        let missing =
            |program: &str, what: &str| Failure(format!("program {program} not found on the router: {what}"));
        if let Some(program) = named.as_deref().filter(|program| !is_there(program)) {
            return Err(missing(program, "change the key \"program\""));
        }
        match of {
            Router::Volley => {
                let router = match named {
                    Some(program) => program,
                    None => {
                        let copy = format!("{directory}/volley");
                        let own = installed_here()?;
                        let bytes =
                            std::fs::read(&own).map_err(|e| Failure(format!("{}: {e}", own.display())))?;
                        shell.feed(&format!("cat > {copy} && chmod 755 {copy}"), bytes)?;
                        copy
                    }
                };
                Ok(Programs { ctl: format!("{router} ctl"), router })
            }
            Router::Vpp => {
                let router = named.unwrap_or_else(|| "vpp".into());
                let ctl = PathBuf::from(&router).with_file_name("vppctl").display().to_string();
                let none = [&router, &ctl].into_iter().find(|program| !is_there(program));
                match none {
                    None => Ok(Programs { router, ctl }),
                    Some(program) => Err(missing(
                        program,
                        "install FD.io's vpp and vpp-plugin-core, or set the key \"program\"",
                    )),
                }
            }
        }
    }
}

/// Returns the file of Volley's program on this machine.
fn installed_here() -> Result<PathBuf, Failure> {
    let program = volley::router();
    if program.is_absolute() {
        return Ok(program);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|d| d.join(&program)).find(|file| file.is_file());
    found.ok_or_else(|| {
        Failure(
            "program volley not found on this machine, from which it is copied to the router: install it, or set the key \"program\"".into(),
        )
    })
}

/// Returns the workers' cores and, for VPP, the main thread's core if there is one more core.
fn cores_of(
    spec: &Spec,
    of: Router,
    shell: &Shell,
    port: &str,
) -> Result<(Vec<usize>, Option<usize>), Failure> {
    let workers = spec.workers();
    let all = match &spec.cores {
        Some(cores) => cores.clone(),
        None => queues::near(shell, port, workers, usize::from(of == Router::Vpp), "")?,
    };
    let on = all
        .get(..workers)
        .ok_or_else(|| Failure(format!("cores: {} cores are too few for workers = {workers}", all.len())))?;
    let main = if of == Router::Vpp { vpp::main_core(&all, on)? } else { None };
    Ok((on.to_vec(), main))
}

/// Brings the router's ports up. Returns the links with the Ethernet addresses of these ports.
fn taken(shell: &mut Shell, mut links: [Link; 2]) -> Result<[Link; 2], Failure> {
    for link in &mut links {
        let port = &link.router;
        if shell.run(&format!("ip -o link show up dev {port}"))?.trim().is_empty() {
            shell.set(&format!("ip link set {port} up"), &format!("ip link set {port} down"))?;
        }
        let mac = shell.run(&format!("cat /sys/class/net/{port}/address"))?;
        let none = |_| Failure(format!("router-ports: {port} has no Ethernet address: {:?}", mac.trim()));
        link.router_mac = mac.trim().parse().map_err(none)?;
    }
    Ok(links)
}

/// Returns a line for reports with the NUMA node of a port, and the NUMA nodes of the cores.
fn placement(shell: &Shell, port: &str, cores: &[usize]) -> String {
    let nodes = |list: &str| {
        shell.run(list).map_or_else(
            |_| "unknown".into(),
            |said| {
                let mut all: Vec<&str> = said.split_whitespace().collect();
                all.dedup();
                all.join(",")
            },
        )
    };
    let of_port = nodes(&format!("cat /sys/class/net/{port}/device/numa_node"));
    let of_cores: Vec<String> = cores
        .iter()
        .map(|c| nodes(&format!("ls -d /sys/devices/system/cpu/cpu{c}/node* | sed 's/.*node//'")))
        .collect();
    format!("# NUMA node of {port}: {of_port}; of the cores {}: {}", cores::list(cores), of_cores.join(","))
}

impl Dut for Remote {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn set_networks(&mut self, wanted: &[Networks], bed: &Bed) -> Result<(), Failure> {
        let old = std::mem::replace(&mut self.networks, wanted.to_vec());
        let (old, new) = (commands::routes(&old, bed, "del"), commands::routes(wanted, bed, "add"));
        old.iter().chain(&new).try_for_each(|line| self.ask(line).map(drop))
    }

    fn said(&self) -> String {
        self.shell.run(&format!("tail -n {LINES} {}/log", self.directory)).unwrap_or_else(|e| e.0)
    }

    fn counters(&self) -> Vec<(String, String)> {
        let ask = |words: &str| self.ask(words);
        let mut all = match self.of {
            Router::Volley => volley::counters(&ask),
            Router::Vpp => vpp::counters(&ask),
        };
        all.extend(self.ask(RUNTIME).map(|text| runtime::clocks(&text)).unwrap_or_default());
        all
    }
}
