//! FD.io VPP, set up as in the papers that the built-in campaigns repeat: cores in `startup.conf`, everything else by commands at
//! its start.

use std::path::{Path, PathBuf};

use super::commands::Router;
use super::process::{self, Running};
use super::runtime::{self, RUNTIME};
use super::shell::Shell;
use super::{Dut, Facts, Networks, Spec, commands, cores};
use crate::testbed::Bed;
use crate::testbed::lab::{program, said_in_time};
use crate::trial::Failure;

/// Node whose variant is reported. VPP contains variants of each node, compiled for different processors, and selects one at its start.
const NODE: &str = "ip4-lookup";

/// The programs of an installation or of a built tree.
struct Programs {
    vpp: PathBuf,
    /// The client of the CLI socket.
    vppctl: PathBuf,
}

impl Programs {
    /// Returns the program that the campaign names and the client in the same directory, or else the installed programs.
    ///
    /// # Errors
    /// Returns an error if a program is missing.
    fn of(spec: &Spec) -> Result<Programs, Failure> {
        if let Some(vpp) = &spec.program {
            let programs = Programs { vpp: vpp.clone(), vppctl: vpp.with_file_name("vppctl") };
            let missing = [&programs.vpp, &programs.vppctl].into_iter().find(|path| !path.is_file());
            return match missing {
                None => Ok(programs),
                Some(path) => {
                    Err(Failure(format!("program {} not found: change the key \"program\"", path.display())))
                }
            };
        }
        for name in ["vpp", "vppctl"] {
            commands::installed(name, "FD.io's vpp and vpp-plugin-core, or set the key \"program\"")?;
        }
        Ok(Programs { vpp: "vpp".into(), vppctl: "vppctl".into() })
    }
}

/// A running VPP.
pub struct Vpp {
    facts: Facts,
    process: Running,
    vppctl: PathBuf,
    socket: String,
    networks: Vec<Networks>,
    cores: Vec<usize>,
    /// Restores the machine's huge pages when dropped. It follows `process`, because fields are dropped in order of declaration, and VPP
    /// must end first.
    _pages: Shell,
}

impl Vpp {
    /// Starts VPP with one worker for each core. Its main thread gets the next core, if the testbed has one.
    ///
    /// # Errors
    /// Returns an error if the program is missing, or does not start. In the second case the error includes the program's output.
    pub fn start(spec: &Spec, bed: &Bed, on: &[usize]) -> Result<Vpp, Failure> {
        let Programs { vpp, vppctl } = Programs::of(spec)?;
        let lines = commands::forward(&bed.links, commands::usual(bed), Router::Vpp);
        let file = commands::write(bed, "vpp.cli", &format!("{}\n", lines.join("\n")))?;
        let directory = bed.directory().display().to_string();
        let main = main_core(&bed.cores, on)?;
        let startup = startup(&directory, &file, main, on);
        let configuration = commands::write(bed, "vpp.conf", &startup)?;
        let all: Vec<usize> = on.iter().copied().chain(main).collect();
        let mut pages = Shell::open(None)?;
        keep_huge_pages(&mut pages)?;
        let mut command = commands::on_cores(bed, &all);
        command.arg(&vpp).args(["-c", &configuration]);
        let mut process = Running::start(command, bed.directory().join("vpp.log"))?;
        let socket = format!("{directory}/vpp.sock");
        process.wait_until(|| ask(&vppctl, &socket, "show version").is_ok())?;
        let node = ask(&vppctl, &socket, &show_node()).unwrap_or_default();
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap_or_default();
        let facts = Facts {
            name: spec.name().into(),
            version: version(&ask(&vppctl, &socket, "show version")?, &node, &status),
            configuration: startup.lines().map(str::to_owned).chain(lines).collect(),
            processor_time: process::TIME.into(),
        };
        Ok(Vpp { facts, process, vppctl, socket, networks: Vec::new(), cores: all, _pages: pages })
    }
}

/// Returns the main thread's core: the next one after the workers' cores, since the main thread cannot share a core with a worker. `None`
/// if there is one worker and no further core; the main thread then forwards.
///
/// # Errors
/// Returns an error if there are several workers and no core is left for the main thread.
pub(super) fn main_core(all: &[usize], on: &[usize]) -> Result<Option<usize>, Failure> {
    let main = all.get(on.len()).copied();
    if main.is_none() && on.len() > 1 {
        let workers = on.len();
        let why = format!(
            "workers = {workers} needs one more core for VPP's main thread: add a core to \"cores\" in [testbed]"
        );
        return Err(Failure(why));
    }
    Ok(main)
}

/// Registers a command that restores the machine's number of reserved huge pages when the shell ends. VPP reserves the pages that it lacks,
/// and leaves them reserved.
pub(super) fn keep_huge_pages(shell: &mut Shell) -> Result<(), Failure> {
    let files = "/sys/devices/system/node/node*/hugepages/hugepages-*/nr_hugepages";
    // A kernel may have no huge pages.
    let said = shell.run(&format!("grep -H . {files} 2>/dev/null || true"))?;
    let lines = said.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(file, count)| format!("echo {count} > {file}")).try_for_each(|line| shell.undo(&line))
}

/// Returns the output of each command that shows VPP's counters, with the command as its name. `ask` sends a command to VPP.
pub(super) fn counters(ask: &dyn Fn(&str) -> Result<String, Failure>) -> Vec<(String, String)> {
    let said = |words: &str| ask(words).unwrap_or_else(|e| e.to_string()).trim().to_owned();
    ["show errors", "show interface"].map(|words| (words.to_owned(), said(words))).into()
}

/// Returns the command that shows the variants of a node.
pub(super) fn show_node() -> String {
    format!("show node {NODE}")
}

/// Returns the text of `startup.conf`.
pub(super) fn startup(directory: &str, file: &str, main: Option<usize>, on: &[usize]) -> String {
    let cpu = match main {
        Some(main) => format!("main-core {main} corelist-workers {}", cores::list(on)),
        None => format!("main-core {}", cores::list(on)),
    };
    format!(
        "unix {{ nodaemon runtime-dir {directory} cli-listen {directory}/vpp.sock startup-config {file} }}\n\
         cpu {{ {cpu} }}\n\
         statseg {{ socket-name {directory}/stats.sock }}\n\
         socksvr {{ socket-name {directory}/api.sock }}\n\
         plugins {{ plugin dpdk_plugin.so {{ disable }} }}\n"
    )
}

fn ask(vppctl: &Path, socket: &str, words: &str) -> Result<String, Failure> {
    said_in_time(program(vppctl).args(["-s", socket, words]), "vppctl")
}

/// Returns VPP's version, the variant of its nodes, and whether it uses huge pages: from its answers to `show version` and `show node`, and
/// from the process's status (proc_pid_status(5)).
pub(super) fn version(version: &str, node: &str, status: &str) -> String {
    // The builder and the machine of the build are left out.
    let version = version.trim().split(" built by ").next().unwrap_or_default();
    let variant = variant(node).unwrap_or_else(|| "node variant not reported".into());
    let kib = status.lines().find_map(|line| line.strip_prefix("HugetlbPages:")?.split_whitespace().next());
    let pages = match kib.and_then(|kib| kib.parse::<u64>().ok()) {
        Some(0) => "without huge pages",
        Some(_) => "with huge pages",
        None => "use of huge pages not known",
    };
    format!("{version}; {variant}; {pages}")
}

/// Returns a node's active variant, from the table of variants (name, priority, active, description) in `show node`. `None` if the table
/// has no active variant.
fn variant(node: &str) -> Option<String> {
    let mut lines = node.lines().skip_while(|line| !line.contains("node function variants"));
    lines.find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, _, "yes", what @ ..] = &words[..] else { return None };
        Some(format!("variant {name} ({})", what.join(" ")))
    })
}

impl Dut for Vpp {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn cpu_seconds(&self) -> Option<f64> {
        self.process.cpu_seconds()
    }

    fn said(&self) -> String {
        self.process.said(process::LINES)
    }

    fn cores(&self) -> &[usize] {
        &self.cores
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.process.id()]
    }

    fn set_networks(&mut self, wanted: &[Networks], bed: &Bed) -> Result<(), Failure> {
        let (old, new) = (commands::routes(&self.networks, bed, "del"), commands::routes(wanted, bed, "add"));
        self.networks = wanted.to_vec();
        old.iter().chain(&new).try_for_each(|line| ask(&self.vppctl, &self.socket, line).map(drop))
    }

    fn counters(&self) -> Vec<(String, String)> {
        let ask = |words: &str| ask(&self.vppctl, &self.socket, words);
        let mut all = counters(&ask);
        all.extend(ask(RUNTIME).map(|text| runtime::clocks(&text)).unwrap_or_default());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{main_core, startup, version};

    #[test]
    fn the_version_has_the_variant_and_the_huge_pages() {
        let node = "node ip4-lookup, type internal, state active, index 640\n  node function variants:\n\
                    \x20   Name             Priority  Active  Description\n\
                    \x20   icl                    -1          Intel Ice Lake\n\
                    \x20   skx                   100    yes   Intel Skylake (server) / Cascade Lake\n\n  next nodes:\n";
        let show = "vpp v26.06-release built by someone on somewhere at 2026-06-24T10:00:00\n";
        assert_eq!(
            version(show, node, "Name:\tvpp\nHugetlbPages:\t  65536 kB\n"),
            "vpp v26.06-release; variant skx (Intel Skylake (server) / Cascade Lake); with huge pages"
        );
        let none = "vpp v26.06-release; node variant not reported; without huge pages";
        assert_eq!(
            version(show, "  node function variants:\n    default only\n", "HugetlbPages: 0 kB"),
            none
        );
        assert!(version(show, node, "").ends_with("use of huge pages not known"));
    }

    #[test]
    fn startup_conf_sets_the_cores_of_the_papers() {
        let said = |main, on: &[usize]| startup("/run/x", "/run/x/vpp.cli", main, on);
        let two = said(Some(2), &[4, 6]);
        assert!(two.contains("cpu { main-core 2 corelist-workers 4,6 }\n"), "{two}");
        assert!(two.contains(
            "unix { nodaemon runtime-dir /run/x cli-listen /run/x/vpp.sock startup-config /run/x/vpp.cli }\n"
        ));
        assert!(two.contains("plugins { plugin dpdk_plugin.so { disable } }\n"), "{two}");
        assert!(said(None, &[0]).contains("cpu { main-core 0 }\n"));
        assert_eq!((main_core(&[4, 6, 2], &[4, 6]), main_core(&[4], &[4])), (Ok(Some(2)), Ok(None)));
        assert!(main_core(&[4, 6], &[4, 6]).is_err_and(|e| e.0.contains("workers = 2 needs one more core")));
    }
}
