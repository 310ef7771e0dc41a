//! The machine, the start configuration, and the report for remote support.

use std::fs::{self, File};
use std::io::Read;

use serde::Serialize;

use crate::app::{Context, Output};
use crate::cli::Registry;

/// Maximum number of bytes read from a kernel file: enough for the first core in /proc/cpuinfo.
const MOST: u64 = 8192;

/// The commands of the report for remote support, to which features add theirs. They run as for a read-only client, so a placeholder
/// replaces each secret of the configuration.
const TECH_SUPPORT: &[&str] = &[
    "show version",
    "show cpu",
    "show machine",
    "show startup-conf",
    "show threads",
    "show cli-sessions",
    "show config",
    "show config history",
    "show interface",
    "show interface address",
    "show interface rates",
    "show interface rx-placement",
    "show hardware-interfaces",
    "show features",
    "show runtime",
    "show runtime max",
    "show errors",
    "show accounting",
    "show buffers",
    "show ip table",
    "show ip fib summary",
    "show ip neighbor-config",
    "show ip neighbors max 200",
    "show ip6 table",
    "show ip6 fib summary",
    "show ip6 interface",
    "show ip6 neighbor-config",
    "show ip6 neighbors max 200",
    "show logging configuration",
    "show logging",
    "show event-logger all",
];

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add("show cpu", "Show the processor.", |c, _| Ok(cpu(c)));
    r.add("show machine", "Show the machine: kernel, memory, huge pages.", |_, _| Ok(machine()));
    r.add(
        "show startup-conf/startup-config",
        "Show startup.conf as it was read (or the arguments given in its place), and the command line.",
        |c, _| Ok(startup(c)),
    );
    r.report("show tech-support", "Show all data for remote support, section by section.", TECH_SUPPORT);
}

/// Returns the beginning of a kernel file; empty if it cannot be read.
pub(super) fn read(path: &str) -> String {
    let mut text = Vec::new();
    // Errors are ignored: the values are optional.
    let _ = File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut text));
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// Returns the value of the first line that begins with this name and a colon.
pub(super) fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim())
    })
}

#[derive(Serialize)]
struct Cpu {
    model: Option<String>,
    cores: usize,
    level: String,
    tsc_hz: f64,
    flags: Vec<String>,
}

fn cpu(c: &Context) -> Output {
    let text = read("/proc/cpuinfo");
    let v = Cpu {
        model: value(&text, "model name").map(str::to_owned),
        cores: infra::cpu::online_cores().len(),
        level: format!("x86-64-{:?}", infra::cpu::level()).to_lowercase(),
        tsc_hz: c.clock.tsc_hz(),
        flags: value(&text, "flags").into_iter().flat_map(str::split_whitespace).map(str::to_owned).collect(),
    };
    let text = format!(
        "Model name:               {}\nCores:                    {}\nLevel:                    {}\n\
         Base frequency (TSC):     {:.2} GHz\nFlags:                    {}\n",
        v.model.as_deref().unwrap_or("unknown"),
        v.cores,
        v.level,
        v.tsc_hz / 1e9,
        v.flags.join(" ")
    );
    Output::show(&v, text)
}

/// Prefixes of kernel parameters that matter to a router.
const TUNING: [&str; 11] = [
    "isolcpus=",
    "nohz_full=",
    "rcu_nocb",
    "irqaffinity=",
    "hugepages",
    "default_hugepagesz=",
    "transparent_hugepage=",
    "iommu=",
    "mitigations=",
    "nosmt",
    "processor.max_cstate=",
];

/// Returns those parameters on the kernel's command line that matter to a router. The others are left out, because they may be
/// private.
fn tuning(command_line: &str) -> Vec<String> {
    let matters = |word: &&str| TUNING.iter().any(|begin| word.starts_with(begin));
    command_line.split_whitespace().filter(matters).map(str::to_owned).collect()
}

#[derive(Serialize)]
struct Machine {
    kernel: String,
    kernel_tuning: Vec<String>,
    uptime_seconds: Option<f64>,
    memory_kib: Option<u64>,
    memory_available_kib: Option<u64>,
    router_memory_kib: Option<u64>,
    huge_pages: Option<u64>,
    huge_pages_free: Option<u64>,
    huge_page_kib: Option<u64>,
    transparent_huge_pages: String,
}

fn machine() -> Output {
    let (memory, own, uptime) = (read("/proc/meminfo"), read("/proc/self/status"), read("/proc/uptime"));
    let number = |text: &str, name| value(text, name)?.split_whitespace().next()?.parse::<u64>().ok();
    let v = Machine {
        kernel: read("/proc/sys/kernel/osrelease"),
        kernel_tuning: tuning(&read("/proc/cmdline")),
        uptime_seconds: uptime.split_whitespace().next().and_then(|s| s.parse().ok()),
        memory_kib: number(&memory, "MemTotal"),
        memory_available_kib: number(&memory, "MemAvailable"),
        router_memory_kib: number(&own, "VmRSS"),
        huge_pages: number(&memory, "HugePages_Total"),
        huge_pages_free: number(&memory, "HugePages_Free"),
        huge_page_kib: number(&memory, "Hugepagesize"),
        transparent_huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled"),
    };
    let or = |n: Option<u64>| n.map_or("unknown".to_owned(), |n| n.to_string());
    let text = format!(
        "Kernel:                   Linux {}\nKernel tuning:            {}\nUp:                       {:.0} s\n\
         Memory:                   {} KiB, {} KiB available, {} KiB used by the router\n\
         Huge pages:               {} of {} KiB, {} free\nTransparent huge pages:   {}\n",
        v.kernel,
        v.kernel_tuning.join(" "),
        v.uptime_seconds.unwrap_or_default(),
        or(v.memory_kib),
        or(v.memory_available_kib),
        or(v.router_memory_kib),
        or(v.huge_pages),
        or(v.huge_page_kib),
        or(v.huge_pages_free),
        v.transparent_huge_pages
    );
    Output::show(&v, text)
}

#[derive(Serialize)]
struct StartupConf {
    text: String,
    command_line: String,
}

fn startup(c: &Context) -> Output {
    let arguments = fs::read("/proc/self/cmdline").unwrap_or_default();
    let command_line = String::from_utf8_lossy(&arguments).replace('\0', " ").trim().to_owned();
    let v = StartupConf { text: c.startup.clone(), command_line };
    let text = format!("# {}\n{}", v.command_line, v.text);
    Output::show(&v, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Cli;

    #[test]
    fn values_are_found_by_name() {
        let text = "processor\t: 0\nmodel name\t: A: B\nflags\t\t: fpu vme\n";
        assert_eq!((value(text, "model name"), value(text, "flags")), (Some("A: B"), Some("fpu vme")));
        assert_eq!(value(text, "model"), None);
    }

    #[test]
    fn other_kernel_parameters_are_not_shown() {
        let line = "root=UUID=1 quiet isolcpus=1-5 token=secret hugepages=64 nosmt";
        assert_eq!(tuning(line), ["isolcpus=1-5", "hugepages=64", "nosmt"]);
    }

    /// Every section is an existing command with output; only that of `show logging` may be empty.
    #[test]
    fn tech_support_has_every_section() {
        let mut cli = Cli::new();
        cli.context.startup = "unix { interactive }\n".into();
        let text = cli.ok("show tech-support");
        let mut rest = text.as_str();
        let of_folders = [
            "show ip4-count",
            "show punt",
            "show ip4-full-reassembly",
            "show ip6-full-reassembly",
            "show ip4-sv-reassembly",
        ];
        for command in TECH_SUPPORT.iter().chain(&of_folders) {
            let heading = format!("=== {command}\n");
            let at = rest.find(&heading).unwrap_or_else(|| panic!("{command} is missing, or out of order"));
            rest = &rest[at + heading.len()..];
            let own = rest.split("\n=== ").next().unwrap_or_default();
            assert!(!own.contains("unexpected '") && !own.contains("this socket is for"), "{command}: {own}");
            assert!(*command == "show logging" || own.len() > 5, "{command} says nothing: {own:?}");
        }
        assert!(
            text.contains("unix { interactive }")
                && text.contains("set interface ip address pg0 10.0.0.1/24")
        );
        let json = cli.json("show tech-support");
        assert!(json["show cpu"]["flags"].is_array() && json["show features"].is_array(), "{json:#}");
        assert_eq!(json.as_object().map(serde_json::Map::len), Some(TECH_SUPPORT.len() + of_folders.len()));
    }
}
