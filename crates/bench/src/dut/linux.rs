//! Forwarding of the Linux kernel, in a namespace of this machine or on another machine.

use std::time::{Duration, Instant};

use ipnet::Ipv4Net;

use super::shell::Shell;
use super::{Dut, Facts, Mode, Networks, Spec, commands, cores, queues};
use crate::command_line::command_line;
use crate::testbed::{Bed, Kind, Link, check_router_ports};
use crate::trial::Failure;

/// Kernel settings of a dedicated router. Some cannot be set in a namespace; the report lists these.
const TUNED: [(&str, &str); 9] = [
    // More packets in a softirq run and in the backlog.
    ("net.core.netdev_budget", "1200"),
    ("net.core.netdev_budget_usecs", "16000"),
    ("net.core.netdev_max_backlog", "30000"),
    // A router needs no socket lookup before forwarding and no reverse path check.
    ("net.ipv4.ip_early_demux", "0"),
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    ("net.ipv4.conf.all.send_redirects", "0"),
    // Room for more neighbors than a host has.
    ("net.ipv4.neigh.default.gc_thresh3", "65536"),
    ("net.ipv6.neigh.default.gc_thresh3", "65536"),
];

/// Maximum time until the links of physical ports are up again, after a driver has reconfigured its port.
const UP: Duration = Duration::from_secs(20);

/// The kernel as a router.
pub struct Linux {
    facts: Facts,
    shell: Shell,
    interfaces: Vec<String>,
    /// Cores on which the kernel forwards; empty for a router on another machine.
    cores: Vec<usize>,
    /// True if the kernel may have routes that the tester added for a test.
    has_networks: bool,
    /// True if the kernel tracks connections and a test uses connections.
    has_sessions: bool,
}

impl Drop for Linux {
    fn drop(&mut self) {
        if self.has_networks {
            // Remove the campaign's routes: the next router uses the same namespace.
            let _ = self.shell.run(FLUSH);
        }
    }
}

impl Linux {
    /// Sets addresses on the links, adds routes to the networks behind them, enables forwarding, and applies the router's keys, such as its
    /// mode and NAT.
    ///
    /// # Errors
    /// Returns an error if a command fails.
    pub fn start(spec: &Spec, bed: &Bed, on: &[usize]) -> Result<Linux, Failure> {
        let mut shell = Shell::open(spec.host.as_deref())?;
        let version = shell.run("uname -r")?.trim().to_owned();
        if shell.is_remote() {
            check_router_ports(&bed.links, &|line| shell.run(line))?;
            // The provenance describes the tester's machine only.
            let online = shell.run("cat /sys/devices/system/cpu/online")?;
            let words = command_line(&shell.run("cat /proc/cmdline")?);
            shell.lines.push(format!("# cores online: {}", online.trim()));
            shell.lines.push(format!(
                "# kernel's command line: {}",
                if words.is_empty() { "usual" } else { &words }
            ));
        }
        for key in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            shell.sysctl(key, "1")?;
        }
        for link in &bed.links {
            let device = &link.router;
            if shell.run(&format!("ip -o link show up dev {device}"))?.trim().is_empty() {
                shell.set(&format!("ip link set {device} up"), &format!("ip link set {device} down"))?;
            }
            let ipv6 = format!("net/ipv6/conf/{device}/disable_ipv6");
            if shell.run(&format!("sysctl -n {ipv6}")).is_ok_and(|off| off.trim() == "1") {
                shell.sysctl(&ipv6, "0")?;
            }
            for (own, behind, host) in link.families() {
                let nodad = if host.is_ipv6() { " nodad" } else { "" };
                let (add, del) = ("ip address add", "ip address del");
                shell
                    .set(&format!("{add} {own} dev {device}{nodad}"), &format!("{del} {own} dev {device}"))?;
                let route = format!("{behind} via {host} dev {device}");
                shell.set(&format!("ip route add {route}"), &format!("ip route del {route}"))?;
            }
            match spec.mode {
                Some(Mode::Tuned) => tune(&mut shell, device),
                Some(Mode::Threaded) => thread(&mut shell, device, on, bed.kind())?,
                _ => {}
            }
        }
        match spec.mode {
            Some(Mode::Tuned) => TUNED.iter().for_each(|(key, value)| shell.try_sysctl(key, value)),
            // Each link has its own thread, so RPS must not spread the work.
            Some(Mode::Threaded) => {
                bed.steer(&[])?;
                shell.lines.push("# no RPS".into());
            }
            _ => {}
        }
        if spec.nat == Some(true) {
            masquerade(&mut shell, &bed.links[1].router, spec.nat_pool)?;
        }
        let has_sessions = bed.sessions && spec.nat == Some(true);
        if has_sessions {
            track(&mut shell)?;
        }
        if let (Kind::Physical, Some(workers)) = (bed.kind(), spec.workers) {
            // This follows all settings that make drivers recreate their interrupts.
            let ports = bed.links.each_ref().map(|link| link.router.as_str());
            let cores = queues::spread(&mut shell, ports, workers, "")?;
            shell.lines.push(format!("# the ports' interrupts go to cores {}", cores::list(&cores)));
        }
        if shell.is_remote() {
            wait_for(&shell, &bed.links);
        }
        let (cores, processor_time) = (on.to_vec(), cores::how(on));
        let facts =
            Facts { name: spec.name().into(), version, configuration: shell.lines.clone(), processor_time };
        let interfaces = bed.links.iter().map(|l| l.router.clone()).collect();
        Ok(Linux { facts, shell, interfaces, cores, has_networks: false, has_sessions })
    }
}

/// Waits until both links are up, or [`UP`] has passed; the warm-up reports a link that stays down.
fn wait_for(shell: &Shell, links: &[Link; 2]) {
    let begin = Instant::now();
    let is_up = |link: &Link| {
        let state = shell.run(&format!("cat /sys/class/net/{}/operstate", link.router));
        state.is_ok_and(|state| state.trim() == "up")
    };
    while !links.iter().all(is_up) && begin.elapsed() < UP {
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Applies the port settings of a dedicated router.
fn tune(shell: &mut Shell, device: &str) {
    // A router forwards frames one by one, without GRO, with long rings and without pause frames.
    let on =
        |shell: &Shell| shell.run(&format!("ethtool -k {device} | grep -q '^generic-receive-offload: on'"));
    let undo = if on(shell).is_ok() { format!("ethtool -K {device} gro on") } else { String::new() };
    shell.try_set(&format!("ethtool -K {device} gro off"), &undo);
    for (ask, set, wanted) in [("-a", "-A", "rx off tx off"), ("-g", "-G", "rx 4096 tx 4096")] {
        let line = format!("ethtool {set} {device} {wanted}");
        let old = shell.run(&format!("ethtool {ask} {device}")).map(|said| both_ways(&said));
        match old {
            Ok(Some(old)) => shell.try_set(&line, &format!("ethtool {set} {device} {old}")),
            // Keep settings whose old value is unknown.
            _ => shell.lines.push(format!("# not available: {line}")),
        }
    }
}

/// Returns the current receive and send settings in the output of `ethtool`, as arguments of `ethtool` that restore them. Skips the
/// maximums, which may precede the current settings. `None` if a setting is missing.
fn both_ways(said: &str) -> Option<String> {
    let now = said.split_once("Current hardware settings:").map_or(said, |(_, now)| now);
    let of = |name: &str| {
        let values = now.lines().filter_map(|line| line.trim().strip_prefix(name));
        values.map(str::trim).find(|value| *value != "n/a" && !value.is_empty()).map(str::to_owned)
    };
    Some(format!("rx {} tx {}", of("RX:")?, of("TX:")?))
}

/// Enables threaded NAPI on a port. Pins the port's NAPI threads to the cores `on` if the port is a veth.
fn thread(shell: &mut Shell, device: &str, on: &[usize], kind: Kind) -> Result<(), Failure> {
    // NAPI polls a veth only with GRO.
    if kind == Kind::Veth {
        shell.set(&format!("ethtool -K {device} gro on"), &format!("ethtool -K {device} gro off"))?;
    }
    let file = format!("/sys/class/net/{device}/threaded");
    shell.set(&format!("echo 1 > {file}"), &format!("echo 0 > {file}"))?;
    if kind == Kind::Veth {
        let threads = format!("grep -l '^napi/{device}-' /proc/[0-9]*/comm | cut -d/ -f3");
        let pin = format!("for t in $({threads}); do taskset -cp {} $t; done", cores::list(on));
        let pinned = shell.run(&pin)?;
        if pinned.trim().is_empty() {
            return Err(Failure(format!("{device}: this kernel does not support threaded NAPI on it")));
        }
        shell.lines.push(pin);
    }
    Ok(())
}

/// Translates the source addresses of packets that leave through this port. The new addresses are those of `pool`, or the port's
/// own address if there is no pool.
fn masquerade(shell: &mut Shell, device: &str, pool: Option<Ipv4Net>) -> Result<(), Failure> {
    let why = |e: Failure| {
        Failure(format!("nat = true needs nft (package nftables) and a kernel with masquerading: {e}"))
    };
    shell.run("nft list tables").map_err(why)?;
    shell.set("nft add table inet volley-bench", "nft delete table inet volley-bench").map_err(why)?;
    let chain = "nft 'add chain inet volley-bench nat { type nat hook postrouting priority 100; }'";
    shell.set(chain, "").map_err(why)?;
    let how = match pool {
        Some(pool) => format!("snat ip to {}-{}", pool.network(), pool.broadcast()),
        None => "masquerade".into(),
    };
    let rule = format!("nft add rule inet volley-bench nat oifname {device} {how}");
    shell.set(&rule, "").map_err(why)
}

/// Raises the timeouts of UDP connections so that connections outlive a trial, as RFC 9693 section 4.4 demands. By default a connection
/// expires after 30 s without packets.
fn track(shell: &mut Shell) -> Result<(), Failure> {
    let why = |e: Failure| Failure(format!("sessions need conntrack (package conntrack): {e}"));
    shell.run(FORGET).map_err(why)?;
    shell.sysctl("net.netfilter.nf_conntrack_udp_timeout", "600")?;
    shell.sysctl("net.netfilter.nf_conntrack_udp_timeout_stream", "600")
}

/// Deletes all tracked connections.
const FORGET: &str = "conntrack -F";

/// Protocol number that marks the campaign's routes; no routing daemon uses it (ip-route(8), RTPROTO_ID).
const PROTOCOL: &str = "222";

/// Deletes all routes with [`PROTOCOL`].
const FLUSH: &str = "ip -4 route flush proto 222; ip -6 route flush proto 222";

impl Dut for Linux {
    fn set_networks(&mut self, wanted: &[Networks], bed: &Bed) -> Result<(), Failure> {
        if self.has_networks {
            self.shell.run(FLUSH)?;
        } else if self.shell.is_remote() && !wanted.is_empty() {
            self.shell.undo(FLUSH)?;
        }
        self.has_networks = !wanted.is_empty();
        if self.has_networks {
            let batch = commands::batch(wanted, bed, "add", &format!(" proto {PROTOCOL}"));
            self.shell.feed("ip -batch -", batch)?;
        }
        Ok(())
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn forget_sessions(&self) -> Option<Result<(), Failure>> {
        self.has_sessions.then(|| self.shell.run(FORGET).map(drop))
    }

    /// Returns the number of connections that the kernel tracks, in the router's namespace or on the other machine. `None` if no test uses
    /// connections, the router has no NAT, or the number is unknown.
    fn sessions(&self) -> Option<u64> {
        let count = || self.shell.run("sysctl -n net.netfilter.nf_conntrack_count").ok()?.trim().parse().ok();
        if self.has_sessions { count() } else { None }
    }

    fn cpu_seconds(&self) -> Option<f64> {
        cores::seconds(&self.cores)
    }

    fn cores(&self) -> &[usize] {
        &self.cores
    }

    /// Returns the kernel's interface counters.
    fn counters(&self) -> Vec<(String, String)> {
        let files = self.interfaces.iter().map(|i| format!("/sys/class/net/{i}/statistics/[rt]x_[pd][ar]*"));
        let read = format!("grep -H . {}", files.collect::<Vec<_>>().join(" "));
        let text = self.shell.run(&read).unwrap_or_default();
        let line = |line: &str| {
            let (path, value) = line.split_once(':')?;
            let mut names = path.rsplit('/');
            let (counter, interface) = (names.next()?, names.nth(1)?);
            Some((format!("{interface} {counter}"), value.to_owned()))
        };
        text.lines().filter_map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_port_settings_are_parsed() {
        let rings = "Ring parameters for eth0:\nPre-set maximums:\nRX:\t\t8192\nRX Mini:\tn/a\nRX Jumbo:\tn/a\nTX:\t\t8192\n\
                     Current hardware settings:\nRX:\t\t256\nRX Mini:\tn/a\nRX Jumbo:\tn/a\nTX:\t\t512\nTX push:\toff\n";
        assert_eq!(both_ways(rings).as_deref(), Some("rx 256 tx 512"));
        let pause = "Pause parameters for eth0:\nAutonegotiate:\ton\nRX:\t\ton\nTX:\t\toff\n";
        assert_eq!(both_ways(pause).as_deref(), Some("rx on tx off"));
        assert_eq!(both_ways(&rings.replace("256", "n/a")), None);
        assert_eq!(both_ways(""), None);
    }

    /// Settings that a port lacks, here pause frames, are not changed. The ring sizes get their old values back.
    #[test]
    fn a_tuned_port_is_restored_after_the_router() -> Result<(), Failure> {
        let dir = tempfile::tempdir().map_err(|e| Failure(e.to_string()))?;
        let place = dir.path().display();
        // A port whose ring sizes are in a file, without pause frames.
        let ethtool = format!(
            "#!/bin/sh\ncase $1 in\n-g) cat {place}/rings;;\n-G) echo RX: $4 > {place}/rings; echo TX: $6 >> {place}/rings;;\n*) exit 1;;\nesac"
        );
        let write = format!(
            "cd {place}; echo '{ethtool}' > ethtool; chmod +x ethtool; printf 'RX: 256\nTX: 512\n' > rings"
        );
        Shell::here()?.run(&write)?;
        let mut shell = Shell::beside(dir.path())?;
        tune(&mut shell, "eth0");
        let rings = || std::fs::read_to_string(dir.path().join("rings")).unwrap_or_default();
        assert_eq!(rings(), "RX: 4096\nTX: 4096\n");
        assert!(
            shell.lines.iter().any(|l| l == "# not available: ethtool -A eth0 rx off tx off"),
            "{:?}",
            shell.lines
        );
        drop(shell);
        assert_eq!(rings(), "RX: 256\nTX: 512\n");
        Ok(())
    }
}
