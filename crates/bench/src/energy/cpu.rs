//! Processor time of cores, of the router's threads, or of a control group. It is not energy.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{Fault, Meter, Reading, Resolution, not_begun};
use crate::host::{TICKS, Task, Times};

/// Processor time between two readings, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CpuReading {
    /// Seconds from the first reading to the last.
    pub seconds: f64,
    /// Processor time in seconds: two processors busy for a second give two seconds.
    pub total: f64,
    /// The cores, processes or control group whose processor time is in `total`.
    pub whose: Whose,
    /// Processor time of each core: that of all programs and of interrupts, and the time stolen by the host.
    pub cores: Vec<CoreTime>,
    /// Processor time of the router's threads that still ran at the end. The time of threads that ended earlier is only in the total.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadTime>,
    /// Processor time of the control group; `None` if the meter measures no group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<GroupTime>,
}

/// The part of the machine whose processor time a total covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Whose {
    /// All work on the listed cores, of any program.
    Cores,
    /// The router's processes, without the kernel's work for them in interrupts.
    Processes,
    /// The control group.
    Cgroup,
}

/// Processor time of one core by use, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CoreTime {
    /// Number of the core.
    pub core: usize,
    /// Programs in user mode.
    pub user: f64,
    /// The kernel, on behalf of programs.
    pub system: f64,
    /// Interrupts.
    pub irq: f64,
    /// Softirqs. The kernel forwards packets in them.
    pub softirq: f64,
    /// Time stolen by the host.
    pub steal: f64,
}

/// Processor time of one thread, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ThreadTime {
    /// Thread ID.
    pub id: u32,
    /// Thread name.
    pub name: String,
    /// User time.
    pub user: f64,
    /// The kernel, on behalf of the thread.
    pub system: f64,
}

/// Processor time of a control group (cgroups v2, `cpu.stat`), in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct GroupTime {
    /// Total processor time.
    pub total: f64,
    /// Programs in user mode.
    pub user: f64,
    /// The kernel, on behalf of the group's programs.
    pub system: f64,
}

/// The meter of processor time.
pub(super) struct Cpu {
    proc: PathBuf,
    cores: Vec<usize>,
    processes: Vec<u32>,
    cgroup: Option<PathBuf>,
    before: Option<Snapshot>,
}

/// A process or thread ID, and its start time, since the kernel may reuse the ID.
type Id = (u32, u64);

/// All counters at one time.
struct Snapshot {
    at: Instant,
    cores: BTreeMap<usize, Times>,
    processes: BTreeMap<Id, Task>,
    threads: BTreeMap<Id, Task>,
    cgroup: Option<[u64; 3]>,
}

impl Cpu {
    /// Opens a meter for these cores, these processes, and the control group with this directory.
    ///
    /// # Errors
    /// Returns an error if a core, a process or the group does not exist.
    pub fn open(cores: &[usize], processes: &[u32], cgroup: Option<&Path>) -> Result<Cpu, Fault> {
        let (cores, processes) = (cores.to_vec(), processes.to_vec());
        let cgroup = cgroup.map(Path::to_path_buf);
        let cpu = Cpu { proc: "/proc".into(), cores, processes, cgroup, before: None };
        cpu.snapshot()?;
        Ok(cpu)
    }

    fn snapshot(&self) -> Result<Snapshot, Fault> {
        let at = Instant::now();
        let stat = self.proc.join("stat");
        let mut cores = Times::cores(&text(&stat)?).ok_or_else(|| strange(&stat))?;
        if let Some(missing) = self.cores.iter().find(|n| !cores.contains_key(n)) {
            return Err(Fault(format!("cpu: cores: core {missing} is not online")));
        }
        cores.retain(|n, _| self.cores.contains(n));
        let (mut processes, mut threads) = (BTreeMap::new(), BTreeMap::new());
        for &pid in &self.processes {
            let dir = self.proc.join(pid.to_string());
            let task = task(&dir.join("stat"))?;
            processes.insert((pid, task.started), task);
            let all = dir.join("task");
            let entries = fs::read_dir(&all).map_err(|e| Fault(format!("cpu: {}: {e}", all.display())))?;
            for entry in entries.flatten() {
                // A thread may end before its own file is read.
                let id = entry.file_name().to_str().and_then(|n| n.parse().ok());
                if let (Some(id), Ok(task)) = (id, task_of(&entry.path())) {
                    threads.insert((id, task.started), task);
                }
            }
        }
        let cgroup = self.cgroup.as_deref().map(group).transpose()?;
        Ok(Snapshot { at, cores, processes, threads, cgroup })
    }

    fn whose(&self) -> Whose {
        match (&self.cgroup, self.processes.is_empty()) {
            (Some(_), _) => Whose::Cgroup,
            (None, false) => Whose::Processes,
            (None, true) => Whose::Cores,
        }
    }
}

fn text(file: &Path) -> Result<String, Fault> {
    fs::read_to_string(file).map_err(|e| Fault(format!("cpu: {}: {e}", file.display())))
}

fn strange(file: &Path) -> Fault {
    Fault(format!("cpu: {}: the format is not that of proc(5)", file.display()))
}

fn task(file: &Path) -> Result<Task, Fault> {
    Task::parse(&text(file)?).ok_or_else(|| strange(file))
}

fn task_of(dir: &Path) -> Result<Task, Fault> {
    task(&dir.join("stat"))
}

/// Returns the processor time of a control group in microseconds: total, user and system (Linux, Documentation/admin-guide/cgroup-v2.rst).
fn group(dir: &Path) -> Result<[u64; 3], Fault> {
    let file = dir.join("cpu.stat");
    let text = text(&file)?;
    let find = |key: &str| {
        let value = text.lines().filter_map(|l| l.split_once(' ')).find(|(k, _)| *k == key);
        let value = value.and_then(|(_, v)| v.trim().parse().ok());
        value.ok_or_else(|| {
            Fault(format!("cpu: {}: {key} is missing: use a group of cgroups v2", file.display()))
        })
    };
    Ok([find("usage_usec")?, find("user_usec")?, find("system_usec")?])
}

/// Converts the difference of two tick counts to seconds.
fn seconds(before: u64, now: u64) -> f64 {
    now.saturating_sub(before) as f64 / TICKS
}

impl Meter for Cpu {
    fn resolution(&self) -> Resolution {
        Resolution::Seconds(if self.cgroup.is_some() { 1e-6 } else { 1.0 / TICKS })
    }

    fn watch(&mut self, processes: &[u32]) {
        self.processes = processes.to_vec();
    }

    fn begin(&mut self) -> Result<(), Fault> {
        self.before = None;
        self.before = Some(self.snapshot()?);
        Ok(())
    }

    fn end(&mut self) -> Result<Reading, Fault> {
        let before = self.before.take().ok_or_else(not_begun)?;
        let now = self.snapshot()?;
        let mut cores = Vec::new();
        for (&core, times) in &before.cores {
            let later = now.cores.get(&core);
            let later = later.ok_or_else(|| Fault(format!("cpu: core {core} went offline")))?;
            let t = later.since(*times);
            let [user, system, irq, softirq, steal] =
                [t.user, t.system, t.irq, t.softirq, t.stolen].map(|t| t as f64 / TICKS);
            cores.push(CoreTime { core, user, system, irq, softirq, steal });
        }
        let mut processes = 0.0;
        for (id, task) in &before.processes {
            let later = now.processes.get(id);
            let later = later.ok_or_else(|| Fault(format!("cpu: process {} ({}) ended", id.0, task.name)))?;
            processes += seconds(task.user, later.user) + seconds(task.system, later.system);
        }
        let thread = |(id, task): (&Id, &Task)| {
            // A new thread started at 0.
            let (user, system) = before.threads.get(id).map_or((0, 0), |t| (t.user, t.system));
            let (user, system) = (seconds(user, task.user), seconds(system, task.system));
            ThreadTime { id: id.0, name: task.name.clone(), user, system }
        };
        let cgroup = before.cgroup.zip(now.cgroup).map(|(before, now)| {
            let of = |n: usize| now[n].saturating_sub(before[n]) as f64 / 1e6;
            GroupTime { total: of(0), user: of(1), system: of(2) }
        });
        let whose = self.whose();
        let total = match (whose, cgroup) {
            (Whose::Cgroup, Some(group)) => group.total,
            (Whose::Processes, _) => processes,
            _ => cores.iter().map(|c| c.user + c.system + c.irq + c.softirq).sum(),
        };
        let threads = now.threads.iter().map(thread).collect();
        let seconds = (now.at - before.at).as_secs_f64();
        Ok(Reading::CpuTime(CpuReading { seconds, total, whose, cores, threads, cgroup }))
    }
}

#[cfg(test)]
#[path = "cpu_tests.rs"]
mod tests;
