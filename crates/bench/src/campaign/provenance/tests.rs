use std::fs;

use super::*;

/// Returns the root directory of a machine that has only these files, and the facts of this machine.
fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Vec<(String, String)>) {
    let root = tempfile::tempdir().unwrap();
    for (file, text) in files {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let facts = facts(root.path());
    (root, facts)
}

fn fact<'a>(facts: &'a [(String, String)], name: &str) -> Option<&'a str> {
    facts.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
}

#[test]
fn unknown_facts_are_left_out() {
    let (_root, facts) = machine(&[]);
    let names: Vec<_> = facts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["tester", "rate of the time stamp counter"]);
}

#[test]
fn files_become_facts() {
    let threads = |n, core| {
        format!(
            "processor\t: {n}\nmodel name\t: Fast 9000\nphysical id\t: 0\ncore id\t\t: {core}\nflags\t\t: fpu constant_tsc hypervisor\n\n"
        )
    };
    let cpuinfo = [threads(0, 0), threads(1, 0), threads(2, 1), threads(3, 1)].concat();
    let cmdline = "BOOT_IMAGE=/boot/vmlinuz root=UUID=1234 ip=192.0.2.1 isolcpus=2,3 maxcpus=8 quiet mitigations=off nosmt\n";
    let (_root, facts) = machine(&[
        ("proc/cpuinfo", &cpuinfo),
        ("proc/cmdline", cmdline),
        ("proc/stat", "cpu  10 0 10 70 0 0 0 10 5 0\n"),
        ("proc/meminfo", "MemTotal:       16384000 kB\n"),
        ("proc/self/cgroup", "0::/a/b\n"),
        ("sys/fs/cgroup/a/cpu.max", "50000 100000\n"),
        ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
        ("sys/devices/system/cpu/cpu0/cache/index2/level", "2\n"),
        ("sys/devices/system/cpu/cpu0/cache/index2/type", "Unified\n"),
        ("sys/devices/system/cpu/cpu0/cache/index2/size", "1024K\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
        ("sys/devices/system/cpu/vulnerabilities/l1tf", "Not affected\n"),
        ("sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n"),
        ("etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"),
    ]);
    for (name, value) in [
        ("processor", Some("Fast 9000")),
        ("sockets, cores, threads", Some("1, 2, 4")),
        ("time stamp counter", Some("constant_tsc")),
        ("hypervisor", Some("yes")),
        ("stolen since the start of the machine", Some("10.00 %")),
        ("memory", Some("15.6 GiB")),
        ("processor time of the control group (quota and period, µs)", Some("50000 100000")),
        ("cache L2 unified", Some("1024K")),
        ("frequency governor", Some("performance")),
        ("turbo", Some("off")),
        ("vulnerability l1tf", None),
        ("vulnerability meltdown", Some("Mitigation: PTI")),
        ("transparent huge pages", Some("madvise")),
        ("huge pages of 2048kB", Some("512")),
        ("distribution", Some("Debian GNU/Linux 12")),
        // Disks and addresses are left out.
        ("kernel's command line", Some("isolcpus=2,3 maxcpus=8 mitigations=off nosmt")),
    ] {
        assert_eq!(fact(&facts, name), value, "{name}: {facts:#?}");
    }
}

#[test]
fn facts_of_one_machine_do_not_differ() {
    let now = Provenance::now();
    assert!(fact(&now.facts, "kernel").is_some(), "{now:?}");
    assert_eq!(now.differences(&Provenance::now()), [""; 0]);
}

#[test]
fn only_lasting_facts_are_reported_as_differences() {
    let of = |facts: &[(&str, &str)]| Provenance {
        begun: String::new(),
        facts: facts.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(),
    };
    let a = of(&[("kernel", "6.1"), ("turbo", "on"), (system::STOLEN, "1.00 %")]);
    let b = of(&[("kernel", "6.12"), (system::STOLEN, "2.00 %"), ("memory", "1.0 GiB")]);
    let expected = ["kernel: 6.1, and 6.12", "turbo: on, and unknown", "memory: unknown, and 1.0 GiB"];
    assert_eq!(a.differences(&b), expected);
    assert_eq!(a.differences(&a), [""; 0]);
}
