//! The cores of a machine that work for its ports: those to which the interrupts of the ports' queues go (Linux,
//! `Documentation/core-api/irq/irq-affinity.rst`).

use std::collections::{BTreeMap, BTreeSet};

use infra::cpu::parse_list;

use super::shell::Shell;
use crate::trial::Failure;

/// Has so many cores of the shell's machine work for these ports, and no others: each port gets as many queues, and the interrupts of each
/// queue go to a core of its own. All is put back with the shell. The machine's files are below `root`.
///
/// # Errors
/// When the machine has not so many cores, a port not so many queues, or the kernel does not let it.
pub fn spread(
    shell: &mut Shell,
    ports: [&str; 2],
    workers: usize,
    root: &str,
) -> Result<Vec<usize>, Failure> {
    let machine = Machine { root, workers };
    if shell.run(&format!("grep -qx irqbalance {root}/proc/[0-9]*/comm")).is_ok() {
        return Err(machine.fault(
            "irqbalance runs there, and would move the interrupts: stop it (systemctl stop irqbalance)",
        ));
    }
    let cores = machine.cores(shell, ports[0])?;
    for port in ports {
        // Undone last: the driver may make them anew with other queues.
        for irq in machine.interrupts(shell, port)?.into_keys() {
            let file = machine.affinity(irq);
            let old = shell.run(&format!("cat {file}"))?;
            shell.undo(&format!("echo {} > {file}", old.trim()))?;
        }
        machine.set_queues(shell, port)?;
        let all = machine.interrupts(shell, port)?;
        let queues: BTreeSet<usize> = all.values().flatten().copied().collect();
        if queues.len() < workers {
            let why = format!(
                "{port} has interrupts of {} queues that can be told apart, and needs as many",
                queues.len()
            );
            return Err(machine.fault(&why));
        }
        for (irq, queue) in all.into_iter().filter_map(|(irq, queue)| Some((irq, queue?))) {
            machine.bind(shell, irq, cores[queue % workers])?;
        }
    }
    Ok(cores)
}

/// Where a machine has its files, and how many cores are to work.
struct Machine<'a> {
    root: &'a str,
    workers: usize,
}

impl Machine<'_> {
    fn fault(&self, why: &str) -> Failure {
        Failure(format!("workers = {}: {why}", self.workers))
    }

    fn affinity(&self, irq: u32) -> String {
        format!("{}/proc/irq/{irq}/smp_affinity_list", self.root)
    }

    /// The cores that are to work: those near the port first, and of each the first thread only.
    fn cores(&self, shell: &Shell, port: &str) -> Result<Vec<usize>, Failure> {
        let (root, workers) = (self.root, self.workers);
        let list = |file: String| shell.run(&format!("cat {file}")).map(|text| parse_list(text.trim()));
        let online = list(format!("{root}/sys/devices/system/cpu/online"))?;
        let near = list(format!("{root}/sys/class/net/{port}/device/local_cpulist")).unwrap_or_default();
        let first = |core: &usize| {
            let threads =
                list(format!("{root}/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"));
            threads.map_or(true, |threads| threads.first().is_none_or(|first| first == core))
        };
        let mut cores: Vec<usize> = online.into_iter().filter(first).collect();
        cores.sort_by_key(|core| !near.contains(core));
        if cores.len() < workers {
            return Err(self.fault(&format!("the machine has {} cores ({cores:?})", cores.len())));
        }
        cores.truncate(workers);
        Ok(cores)
    }

    /// The interrupts of a port, each with the number of its queue, if it is one's.
    fn interrupts(&self, shell: &Shell, port: &str) -> Result<BTreeMap<u32, Option<usize>>, Failure> {
        let root = self.root;
        // Of a device on another bus, such as virtio, they are its parent's.
        let device = format!("{root}/sys/class/net/{port}/device");
        let own = shell.run(&format!("ls {device}/msi_irqs 2>/dev/null || ls {device}/../msi_irqs"));
        let why = "has no interrupts of its own (MSI) whose core could be set";
        let own = own.map_err(|_| self.fault(&format!("{port} {why}")))?;
        let own: BTreeSet<u32> = own.split_whitespace().filter_map(|irq| irq.parse().ok()).collect();
        let text = shell.run(&format!("cat {root}/proc/interrupts"))?;
        let line = |line: &str| {
            let (irq, rest) = line.split_once(':')?;
            let irq = irq.trim().parse().ok().filter(|irq| own.contains(irq))?;
            Some((irq, queue(rest.split_whitespace().last()?, port)))
        };
        Ok(text.lines().filter_map(line).collect())
    }

    /// Gives a port as many queues as cores are to work, where it has others.
    fn set_queues(&self, shell: &mut Shell, port: &str) -> Result<(), Failure> {
        let said = shell.run(&format!("ethtool -l {port}"));
        let Some((before, wanted)) = said.as_deref().ok().and_then(|said| channels(said, self.workers))
        else {
            let why = format!("{port} does not say how many queues it has (ethtool -l)");
            // One that has but one needs no more.
            return if self.workers == 1 { Ok(()) } else { Err(self.fault(&why)) };
        };
        if before == wanted {
            return Ok(());
        }
        shell.set(&format!("ethtool -L {port} {wanted}"), &format!("ethtool -L {port} {before}"))
    }

    /// Has an interrupt go to a core.
    fn bind(&self, shell: &mut Shell, irq: u32, core: usize) -> Result<(), Failure> {
        let file = self.affinity(irq);
        let read = |shell: &Shell| shell.run(&format!("cat {file}")).map(|text| text.trim().to_owned());
        let before = read(shell)?;
        shell.set(&format!("echo {core} > {file}"), &format!("echo {before} > {file}"))?;
        match read(shell)? {
            now if now == core.to_string() => Ok(()),
            now => Err(self.fault(&format!(
                "interrupt {irq} goes to {now} where {core} was set: the machine does not let it"
            ))),
        }
    }
}

/// The queue that an interrupt is of, by its name: drivers put the number behind it, as in `eth1-TxRx-3`, `mlx5_comp3@pci:0000:01:00.0`
/// and `virtio1-input.0`. Others are of the port as a whole.
fn queue(name: &str, port: &str) -> Option<usize> {
    let name = name.split('@').next().filter(|name| *name != port && !name.contains("async"))?;
    name[name.trim_end_matches(|c: char| c.is_ascii_digit()).len()..].parse().ok()
}

/// The queues that a port has, from what `ethtool -l` says, and as many as are wanted: both as `ethtool -L` takes them.
fn channels(said: &str, wanted: usize) -> Option<(String, String)> {
    let (_, now) = said.split_once("Current hardware settings:")?;
    let of = |name: &str| {
        let value = now.lines().find_map(|line| line.trim().strip_prefix(name))?;
        value.trim().parse::<usize>().ok().filter(|n| *n > 0)
    };
    match (of("Combined:"), of("RX:"), of("TX:")) {
        (Some(before), ..) => Some((format!("combined {before}"), format!("combined {wanted}"))),
        (None, Some(rx), Some(tx)) => Some((format!("rx {rx} tx {tx}"), format!("rx {wanted} tx {wanted}"))),
        _ => None,
    }
}

#[cfg(test)]
#[path = "queues_tests.rs"]
mod tests;
