//! Words of the kernel's command line that affect measurements.

/// Words of the kernel's command line that affect measurements. All others are left out, since they may name disks, addresses or keys.
const WORDS: [&str; 35] = [
    "amd_iommu",
    "amd_pstate",
    "audit",
    "clocksource",
    "default_hugepagesz",
    "hugepages",
    "hugepagesz",
    "idle",
    "intel_idle.max_cstate",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "iommu.passthrough",
    "irqaffinity",
    "isolcpus",
    "kthread_cpus",
    "l1tf",
    "maxcpus",
    "mds",
    "mitigations",
    "nmi_watchdog",
    "nohz",
    "nohz_full",
    "nosmt",
    "nosoftlockup",
    "nowatchdog",
    "nr_cpus",
    "pcie_aspm",
    "preempt",
    "processor.max_cstate",
    "rcu_nocbs",
    "skew_tick",
    "spectre_v2",
    "transparent_hugepage",
    "tsc",
];

/// Returns the words of a kernel's command line that affect measurements.
pub(crate) fn command_line(line: &str) -> String {
    let words = line.split_whitespace().filter(|word| {
        let name = word.split('=').next().unwrap_or_default();
        WORDS.contains(&name)
    });
    words.collect::<Vec<_>>().join(" ")
}
