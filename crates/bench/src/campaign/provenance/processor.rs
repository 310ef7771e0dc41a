//! Facts about the processor: model, settings and restrictions.

use std::collections::BTreeSet;

use super::machine::Machine;

/// Name of the fact with the measured rate of the time stamp counter, which varies a little from run to run.
pub(super) const CLOCK: &str = "rate of the time stamp counter";

const CPUINFO: &str = "proc/cpuinfo";
const CPU: &str = "sys/devices/system/cpu";

pub(super) fn facts(m: &mut Machine) {
    m.fact("processor", m.field(CPUINFO, ':', "model name"));
    let model = ["cpu family", "model", "stepping"].map(|name| m.field(CPUINFO, ':', name));
    if let [Some(family), Some(model), Some(stepping)] = model {
        m.fact("family, model, stepping", Some(format!("{family}, {model}, {stepping}")));
    }
    m.fact("microcode", m.field(CPUINFO, ':', "microcode"));
    m.fact("sockets, cores, threads", counts(m));
    m.fact_of("threads online", &format!("{CPU}/online"));
    m.fact_of("simultaneous multithreading", &format!("{CPU}/smt/control"));
    m.fact_of("memory nodes", "sys/devices/system/node/online");
    caches(m);
    m.fact("time stamp counter", promises(m));
    m.fact(CLOCK, Some(format!("{:.1} MHz", infra::clock::Clock::new().tsc_hz() / 1e6)));
    m.fact_of("clock of the kernel", "sys/devices/system/clocksource/clocksource0/current_clocksource");
    let frequency = format!("{CPU}/cpu0/cpufreq");
    m.fact_of("frequency driver", &format!("{frequency}/scaling_driver"));
    m.fact_of("frequency governor", &format!("{frequency}/scaling_governor"));
    m.fact("frequency limits", limits(m, &frequency));
    m.fact("turbo", turbo(m));
    m.fact_of("idle governor", &format!("{CPU}/cpuidle/current_governor"));
    let vulnerabilities = format!("{CPU}/vulnerabilities");
    for name in m.names(&vulnerabilities) {
        let state = m.read(&format!("{vulnerabilities}/{name}")).filter(|state| state != "Not affected");
        m.fact(&format!("vulnerability {name}"), state);
    }
}

/// Returns the numbers of sockets, cores and threads; `None` if the kernel does not list the cores.
fn counts(m: &Machine) -> Option<String> {
    let text = m.read(CPUINFO)?;
    let (mut sockets, mut cores, mut threads, mut socket) = (BTreeSet::new(), BTreeSet::new(), 0, "");
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        match name.trim() {
            "processor" => threads += 1,
            "physical id" => {
                socket = value.trim();
                sockets.insert(socket);
            }
            "core id" => {
                cores.insert((socket, value.trim()));
            }
            _ => {}
        }
    }
    (!cores.is_empty()).then(|| format!("{}, {}, {threads}", sockets.len(), cores.len()))
}

/// Adds each cache of the first hardware thread, with the cache's size and the threads that share it.
fn caches(m: &mut Machine) {
    let all = format!("{CPU}/cpu0/cache");
    for index in m.names(&all).into_iter().filter(|name| name.starts_with("index")) {
        let of = |file: &str| m.read(&format!("{all}/{index}/{file}"));
        let (Some(level), Some(kind), Some(size)) = (of("level"), of("type"), of("size")) else { continue };
        let shared = of("shared_cpu_list").map(|with| format!(", for threads {with}")).unwrap_or_default();
        m.fact(&format!("cache L{level} {}", kind.to_lowercase()), Some(format!("{size}{shared}")));
    }
}

/// Returns those of the flags `constant_tsc` and `nonstop_tsc` that the processor has; `None` if its flags are unknown.
fn promises(m: &Machine) -> Option<String> {
    let flags = m.field(CPUINFO, ':', "flags")?;
    let has = |flag: &&str| flags.split_whitespace().any(|f| f == *flag);
    Some(["constant_tsc", "nonstop_tsc"].into_iter().filter(has).collect::<Vec<_>>().join(", "))
}

fn limits(m: &Machine, frequency: &str) -> Option<String> {
    let megahertz = |file: &str| Some(m.read(&format!("{frequency}/{file}"))?.parse::<u64>().ok()? / 1000);
    Some(format!("{} to {} MHz", megahertz("scaling_min_freq")?, megahertz("scaling_max_freq")?))
}

/// Returns whether the processor's turbo is "on" or "off". Intel's driver has a file that is 1 if turbo is off. Other drivers have a file
/// that is 1 if turbo is on. `None` without either file.
fn turbo(m: &Machine) -> Option<&'static str> {
    let on = match m.read(&format!("{CPU}/intel_pstate/no_turbo")) {
        Some(off) => off == "0",
        None => m.read(&format!("{CPU}/cpufreq/boost"))? == "1",
    };
    Some(if on { "on" } else { "off" })
}
