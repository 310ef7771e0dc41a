//! Facts about machine and kernel, including processor time stolen by the host.

use super::machine::{Machine, chosen};
use crate::command_line::command_line;
use crate::host::Times;

/// Name of the fact with the processor time that the host stole, which varies from run to run.
pub(super) const STOLEN: &str = "stolen since the start of the machine";

pub(super) fn facts(m: &mut Machine) {
    let made = ["sys_vendor", "product_name"].map(|file| m.read(&format!("sys/class/dmi/id/{file}")));
    m.fact("machine", Some(made.into_iter().flatten().collect::<Vec<_>>().join(" ")));
    let flags = m.field("proc/cpuinfo", ':', "flags");
    let virtual_one = flags.filter(|f| f.split_whitespace().any(|flag| flag == "hypervisor"));
    m.fact("hypervisor", virtual_one.map(|_| m.read("sys/hypervisor/type").unwrap_or("yes".into())));
    m.fact(STOLEN, m.read("proc/stat").and_then(|stat| stolen(&stat)));
    memory(m);
    m.fact("distribution", m.field("etc/os-release", '=', "PRETTY_NAME"));
    let kernel = ["osrelease", "version"].map(|file| m.read(&format!("proc/sys/kernel/{file}")));
    m.fact("kernel", Some(kernel.into_iter().flatten().collect::<Vec<_>>().join(" ")));
    m.fact("kernel's command line", m.read("proc/cmdline").map(|line| command_line(&line)));
    limits(m);
}

fn memory(m: &mut Machine) {
    let kib = |name: &str| m.field("proc/meminfo", ':', name)?.strip_suffix(" kB")?.parse::<f64>().ok();
    // Rounded: the kernel's share of memory varies a little from boot to boot.
    m.fact("memory", kib("MemTotal").map(|kib| format!("{:.1} GiB", kib / 1024.0 / 1024.0)));
    let pages = m.read("sys/kernel/mm/transparent_hugepage/enabled").and_then(|words| chosen(&words));
    m.fact("transparent huge pages", pages);
    for size in m.names("sys/kernel/mm/hugepages") {
        let reserved = m.read(&format!("sys/kernel/mm/hugepages/{size}/nr_hugepages"));
        let size = size.trim_start_matches("hugepages-").to_owned();
        m.fact(&format!("huge pages of {size}"), reserved.filter(|n| n != "0"));
    }
}

/// Adds the limits that control groups (version 2) set for this process. The value of each limit is from the innermost enclosing group that
/// sets this limit.
fn limits(m: &mut Machine) {
    let own = m.read("proc/self/cgroup").unwrap_or_default();
    let Some(group) = own.lines().find_map(|line| line.strip_prefix("0::/")) else { return };
    for (name, file, none) in [
        ("processors of the control group", "cpuset.cpus.effective", ""),
        ("processor time of the control group (quota and period, µs)", "cpu.max", "max 100000"),
        ("memory of the control group (bytes)", "memory.max", "max"),
    ] {
        let mut above = std::path::Path::new(group).ancestors();
        let found = above.find_map(|group| {
            m.read(&format!("sys/fs/cgroup/{}/{file}", group.display())).filter(|value| value != none)
        });
        m.fact(name, found);
    }
}

fn stolen(stat: &str) -> Option<String> {
    let share = Times::parse(stat)?.stolen_since(Times::default());
    Some(format!("{:.2} %", share * 100.0))
}
