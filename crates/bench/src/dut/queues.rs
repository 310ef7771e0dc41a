//! Cores that handle the interrupts of a machine's ports (Linux, `Documentation/core-api/irq/irq-affinity.rst`).

use std::collections::{BTreeMap, BTreeSet};

use infra::cpu::parse_list;

use super::shell::Shell;
use crate::trial::Failure;

/// Restricts the work for these ports to `workers` cores of the shell's machine and returns these cores. Each port gets `workers` queues,
/// and the interrupts of each of its queues go to a core of their own. The shell undoes these settings at its end. The machine's files are
/// below `root`.
///
/// # Errors
/// Returns an error if irqbalance runs, if the machine has too few cores, if a port has too few queues, or if the kernel refuses a setting.
pub fn spread(
    shell: &mut Shell,
    ports: [&str; 2],
    workers: usize,
    root: &str,
) -> Result<Vec<usize>, Failure> {
    let machine = Machine { root, workers };
    if shell.run(&format!("grep -qx irqbalance {root}/proc/[0-9]*/comm")).is_ok() {
        return Err(machine.fault(
            "irqbalance runs on the router and would move the interrupts: stop it (systemctl stop irqbalance)",
        ));
    }
    let cores = machine.cores(shell, ports[0])?;
    for port in ports {
        // Registered first and thus undone last: the driver may recreate the interrupts when the number of queues changes.
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
                "{port} has separate interrupts for {} queues only, fewer than workers",
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

/// Returns the cores nearest to a port: `needed` plus `more`, or all if there are fewer. `root` precedes the paths of the machine's files, such as `/sys`.
///
/// # Errors
/// Returns an error if the machine has fewer than `needed` cores.
pub fn near(
    shell: &Shell,
    port: &str,
    needed: usize,
    more: usize,
    root: &str,
) -> Result<Vec<usize>, Failure> {
    let mut cores = Machine { root, workers: needed }.all_cores(shell, port)?;
    cores.truncate(needed + more);
    Ok(cores)
}

/// Gives each port a queue for each worker. The shell undoes this at its end.
///
/// # Errors
/// Returns an error if a port cannot have that many queues.
pub fn set(shell: &mut Shell, ports: [&str; 2], workers: usize) -> Result<(), Failure> {
    let machine = Machine { root: "", workers };
    ports.into_iter().try_for_each(|port| machine.set_queues(shell, port))
}

/// A machine: the root of its files, and the number of cores to use.
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

    /// Returns the cores to use, as [`all_cores`](Self::all_cores) sorts them.
    fn cores(&self, shell: &Shell, port: &str) -> Result<Vec<usize>, Failure> {
        let mut cores = self.all_cores(shell, port)?;
        cores.truncate(self.workers);
        Ok(cores)
    }

    /// Returns all cores, at least as many as needed: those near the port first, and only the first hardware thread of each core.
    fn all_cores(&self, shell: &Shell, port: &str) -> Result<Vec<usize>, Failure> {
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
            return Err(self.fault(&format!("the machine has only {} cores ({cores:?})", cores.len())));
        }
        Ok(cores)
    }

    /// Returns the numbers of a port's interrupts, each with the number of its queue; `None` for an interrupt that belongs to no
    /// queue.
    fn interrupts(&self, shell: &Shell, port: &str) -> Result<BTreeMap<u32, Option<usize>>, Failure> {
        let root = self.root;
        // A device on another bus, such as virtio, has its interrupts listed at its parent.
        let device = format!("{root}/sys/class/net/{port}/device");
        let own = shell.run(&format!("ls {device}/msi_irqs 2>/dev/null || ls {device}/../msi_irqs"));
        let why = "has no MSI interrupts that can be pinned to a core";
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

    /// Sets the port's number of queues to the number of workers, if it differs.
    fn set_queues(&self, shell: &mut Shell, port: &str) -> Result<(), Failure> {
        let said = shell.run(&format!("ethtool -l {port}"));
        let Some((before, wanted)) = said.as_deref().ok().and_then(|said| channels(said, self.workers))
        else {
            let why = format!("{port} does not report its number of queues (ethtool -l)");
            // One worker needs only the queue that every port has.
            return if self.workers == 1 { Ok(()) } else { Err(self.fault(&why)) };
        };
        if before == wanted {
            return Ok(());
        }
        shell.set(&format!("ethtool -L {port} {wanted}"), &format!("ethtool -L {port} {before}"))
    }

    /// Binds an interrupt to a core.
    fn bind(&self, shell: &mut Shell, irq: u32, core: usize) -> Result<(), Failure> {
        let file = self.affinity(irq);
        let read = |shell: &Shell| shell.run(&format!("cat {file}")).map(|text| text.trim().to_owned());
        let before = read(shell)?;
        shell.set(&format!("echo {core} > {file}"), &format!("echo {before} > {file}"))?;
        match read(shell)? {
            now if now == core.to_string() => Ok(()),
            now => Err(self.fault(&format!(
                "interrupt {irq} was set to core {core}, but goes to core {now}: the machine refuses the change"
            ))),
        }
    }
}

/// Returns the queue of an interrupt, from the number at the end of its name, as in `eth1-TxRx-3`, `mlx5_comp3@pci:0000:01:00.0` and
/// `virtio1-input.0`. `None` for interrupts of the whole port.
fn queue(name: &str, port: &str) -> Option<usize> {
    let name = name.split('@').next().filter(|name| *name != port && !name.contains("async"))?;
    name[name.trim_end_matches(|c: char| c.is_ascii_digit()).len()..].parse().ok()
}

/// Returns the current and the wanted numbers of queues as arguments of `ethtool -L`, from the output of `ethtool -l`. `None` if the
/// output has no current numbers.
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
