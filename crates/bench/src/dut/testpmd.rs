//! DPDK's testpmd between two memifs: it forwards all frames from one to the other, without routing.

use std::time::{Duration, Instant};

use super::process::{self, Running};
use super::{Dut, Facts, Mode, Spec, commands};
use crate::testbed::{Bed, Link};
use crate::trial::Failure;

const NAME: &str = "dpdk-testpmd";
/// Maximum wait for a statistics report.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running testpmd.
pub struct Testpmd {
    facts: Facts,
    process: Running,
    cores: Vec<usize>,
}

impl Testpmd {
    /// Starts testpmd, forwarding on these cores.
    ///
    /// # Errors
    /// Returns an error if the program is missing, or does not start. In the second case the error includes
    /// the program's output.
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
        Ok(Testpmd { facts, process, cores: on.to_vec() })
    }
}

/// Returns the command line. The main thread, which only prints, shares the first core with a forwarding thread.
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

    fn said(&self) -> String {
        self.process.said(process::LINES)
    }

    fn cores(&self) -> &[usize] {
        &self.cores
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.process.id()]
    }

    /// Returns the port counters from the next report; testpmd prints one report per second.
    fn counters(&self) -> Vec<(String, String)> {
        let said = || self.process.said(usize::MAX);
        let (wanted, begin) = (reports(&said()).count() + 1, Instant::now());
        loop {
            let text = said();
            if let Some(report) = reports(&text).nth(wanted - 1) {
                return ports(report);
            }
            if begin.elapsed() > PATIENCE {
                return vec![(String::new(), format!("no report for {PATIENCE:?}"))];
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the complete reports on both ports in testpmd's output.
fn reports(said: &str) -> impl Iterator<Item = &str> {
    let begins = said.split("NIC statistics for port 0").skip(1);
    begins.filter(|report| {
        report.split_once("NIC statistics for port 1").is_some_and(|(_, r)| r.contains("Throughput"))
    })
}

/// Returns the counters of a report by port and name.
fn ports(report: &str) -> Vec<(String, String)> {
    let of = report.split("NIC statistics for port 1").enumerate();
    let counts = of.flat_map(|(port, text)| {
        let named = |name: &str| {
            let (_, rest) = text.split_once(name)?;
            Some((
                format!("port {port} {}", name.trim_end_matches(':')),
                rest.split_whitespace().next()?.to_owned(),
            ))
        };
        ["RX-packets:", "TX-packets:", "RX-missed:", "TX-errors:"]
            .into_iter()
            .filter_map(named)
            .collect::<Vec<_>>()
    });
    counts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_forwards_between_two_sockets() {
        let text = words(Some(Mode::Macswap), &crate::testbed::links(), &[3, 5]).join(" ");
        assert!(text.starts_with("--lcores 0@3,1@3,2@5 --no-pci "), "{text}");
        assert!(text.contains(
            "--vdev=net_memif1,role=client,socket=d1,socket-abstract=no,id=0,mac=02:44:00:00:00:01 -- "
        ));
        assert!(text.contains("--forward-mode=macswap --nb-cores=2"), "{text}");
        assert!(words(None, &crate::testbed::links(), &[0]).contains(&"--forward-mode=io".to_owned()));
    }

    #[test]
    fn only_complete_reports_are_parsed() {
        let of = |port, n| {
            format!(
                "  ######################## NIC statistics for port {port}  ########################\n  RX-packets: {n}          RX-missed: 0          \
                 RX-bytes:  {n}64\n  RX-errors: 0\n  RX-nombuf:  0         \n  TX-packets: {n}1         TX-errors: 2          TX-bytes:  64\n\n  \
                 Throughput (since last show)\n  Rx-pps:            0          Rx-bps:            0\n"
            )
        };
        let one = format!("Port statistics ====\n{}{}", of(0, 7), of(1, 8));
        let two = format!("{one}{one}{}{}", of(0, 9), &of(1, 10)[..120]);
        assert_eq!((reports("").count(), reports(&one).count(), reports(&two).count()), (0, 1, 2));
        let said =
            reports(&one).flat_map(ports).map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>();
        assert_eq!(
            said[..4],
            ["port 0 RX-packets 7", "port 0 TX-packets 71", "port 0 RX-missed 0", "port 0 TX-errors 2"]
        );
        assert_eq!(said[4..6], ["port 1 RX-packets 8", "port 1 TX-packets 81"]);
    }
}
