//! DPDK's testpmd between two memifs: what comes in by one goes out by the other, without a look at a route.

use super::process::{self, Running};
use super::{Dut, Facts, Mode, Spec, commands};
use crate::testbed::{Bed, Link};
use crate::trial::Failure;

const NAME: &str = "dpdk-testpmd";

/// A running testpmd.
pub struct Testpmd {
    facts: Facts,
    process: Running,
}

impl Testpmd {
    /// Starts it, forwarding on these cores.
    ///
    /// # Errors
    /// When there is no such program, or it does not start, with what it said.
    pub fn start(spec: &Spec, bed: &Bed, on: &[usize]) -> Result<Testpmd, Failure> {
        commands::installed(NAME, "Debian's dpdk-dev and librte-net-memif23")?;
        let words = words(spec.mode, &bed.links, on);
        let mut command = commands::on_cores(bed, on);
        command.arg(NAME).args(&words);
        let mut process = Running::start(command, bed.directory().join("testpmd.log"))?;
        process.wait_for("packet forwarding - ports=2")?;
        let said = process.said(usize::MAX);
        let version = said.lines().find_map(|l| l.split_once("RTE Version: ")).map_or("unknown", |(_, v)| v);
        let facts = Facts {
            name: spec.name().into(),
            version: version.trim().trim_matches('\'').to_owned(),
            configuration: vec![format!("{NAME} {}", words.join(" "))],
            processor_time: process::TIME.into(),
        };
        Ok(Testpmd { facts, process })
    }
}

/// Its command line. The first thread, which only prints, shares the first core with one that forwards.
fn words(mode: Option<Mode>, links: &[Link; 2], on: &[usize]) -> Vec<String> {
    let forwarding = (1..).zip(on).map(|(n, core)| format!("{n}@{core}"));
    let first = on.first().map(|core| format!("0@{core}"));
    let lcores = first.into_iter().chain(forwarding).collect::<Vec<_>>().join(",");
    let mut words = vec!["--lcores".into(), lcores];
    words.extend(
        ["--no-pci", "--no-huge", "--no-shconf", "--no-telemetry", "-v", "-m", "256"].map(str::to_owned),
    );
    for (n, link) in links.iter().enumerate() {
        let Link { router, router_mac, .. } = link;
        words.push(format!(
            "--vdev=net_memif{n},role=client,socket={router},socket-abstract=no,id=0,mac={router_mac}"
        ));
    }
    let mode = if mode == Some(Mode::Macswap) { "macswap" } else { "io" };
    words.push("--".into());
    words.extend([format!("--forward-mode={mode}"), format!("--nb-cores={}", on.len())]);
    words.extend(["--total-num-mbufs=32768", "--stats-period=1"].map(str::to_owned));
    words
}

impl Dut for Testpmd {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn cpu_seconds(&self) -> Option<f64> {
        self.process.cpu_seconds()
    }

    /// What it has printed last, once a second, of its two ports.
    fn counters(&self) -> Vec<(String, String)> {
        let said = self.process.said(200);
        let mut all = Vec::new();
        let mut port = "";
        for line in said.lines() {
            if let Some((_, rest)) = line.split_once("NIC statistics for port ") {
                port = rest.split_whitespace().next().unwrap_or_default();
            }
            for name in ["RX-packets:", "TX-packets:", "RX-missed:", "TX-errors:"] {
                let Some((_, rest)) = line.split_once(name) else { continue };
                let value = rest.split_whitespace().next().unwrap_or_default().to_owned();
                let name = format!("port {port} {}", name.trim_end_matches(':'));
                all.retain(|(other, _)| *other != name);
                all.push((name, value));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_forwards_between_the_two_sockets() {
        let text = words(Some(Mode::Macswap), &crate::testbed::links(), &[3, 5]).join(" ");
        assert!(text.starts_with("--lcores 0@3,1@3,2@5 --no-pci "), "{text}");
        assert!(text.contains(
            "--vdev=net_memif1,role=client,socket=d1,socket-abstract=no,id=0,mac=02:44:00:00:00:01 -- "
        ));
        assert!(text.contains("--forward-mode=macswap --nb-cores=2"), "{text}");
        assert!(words(None, &crate::testbed::links(), &[0]).contains(&"--forward-mode=io".to_owned()));
    }
}
