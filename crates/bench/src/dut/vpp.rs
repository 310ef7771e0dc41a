//! FD.io VPP, set up as in the papers: cores in `startup.conf`, everything else by commands at its start.

use super::process::{self, Running};
use super::runtime::{self, RUNTIME};
use super::{Dut, Facts, Networks, Spec, commands, cores};
use crate::testbed::Bed;
use crate::testbed::lab::{program, said_in_time};
use crate::trial::Failure;

/// A running VPP.
pub struct Vpp {
    facts: Facts,
    process: Running,
    socket: String,
    networks: Vec<Networks>,
    cores: Vec<usize>,
}

impl Vpp {
    /// Starts VPP with one worker for each core. Its main thread gets the next core, if the testbed has one.
    ///
    /// # Errors
    /// Returns an error if the program is missing, or does not start. In the second case the error includes the program's output.
    pub fn start(spec: &Spec, bed: &Bed, on: &[usize]) -> Result<Vpp, Failure> {
        for name in ["vpp", "vppctl"] {
            commands::installed(name, "FD.io's vpp and vpp-plugin-core")?;
        }
        let lines = commands::forward(&bed.links, commands::usual(bed));
        let file = commands::write(bed, "vpp.cli", &format!("{}\n", lines.join("\n")))?;
        let directory = bed.directory().display().to_string();
        let main = main_core(&bed.cores, on)?;
        let startup = startup(&directory, &file, main, on);
        let configuration = commands::write(bed, "vpp.conf", &startup)?;
        let all: Vec<usize> = on.iter().copied().chain(main).collect();
        let mut command = commands::on_cores(bed, &all);
        command.args(["vpp", "-c", &configuration]);
        let mut process = Running::start(command, bed.directory().join("vpp.log"))?;
        let socket = format!("{directory}/vpp.sock");
        process.wait_until(|| ask(&socket, "show version").is_ok())?;
        let facts = Facts {
            name: spec.name().into(),
            version: ask(&socket, "show version")?.trim().to_owned(),
            configuration: startup.lines().map(str::to_owned).chain(lines).collect(),
            processor_time: process::TIME.into(),
        };
        Ok(Vpp { facts, process, socket, networks: Vec::new(), cores: all })
    }
}

/// Returns the main thread's core: the next one after the workers' cores, since the main thread cannot share a core with a worker. `None`
/// if the testbed has only one core; the main thread then forwards.
///
/// # Errors
/// Returns an error if there are several workers and no core is left for the main thread.
pub(super) fn main_core(all: &[usize], on: &[usize]) -> Result<Option<usize>, Failure> {
    let main = all.get(on.len()).copied();
    if main.is_none() && on.len() > 1 {
        let workers = on.len();
        let why = format!(
            "workers = {workers} needs one more core for VPP's main thread: extend cores of the testbed"
        );
        return Err(Failure(why));
    }
    Ok(main)
}

/// Returns the text of `startup.conf`.
fn startup(directory: &str, file: &str, main: Option<usize>, on: &[usize]) -> String {
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

fn ask(socket: &str, words: &str) -> Result<String, Failure> {
    said_in_time(program("vppctl").args(["-s", socket, words]), "vppctl")
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
        old.iter().chain(&new).try_for_each(|line| ask(&self.socket, line).map(drop))
    }

    fn counters(&self) -> Vec<(String, String)> {
        ["show errors", "show interface"]
            .map(|words| {
                let said = ask(&self.socket, words).unwrap_or_else(|e| e.to_string());
                (words.to_owned(), said.trim().to_owned())
            })
            .into_iter()
            .chain(ask(&self.socket, RUNTIME).map(|text| runtime::clocks(&text)).unwrap_or_default())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{main_core, startup};

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
