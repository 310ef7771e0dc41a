//! Scenarios: the `volley` binary in network namespaces, with Linux as its neighbor.
//!
//! Each file in `tests/` is a theme. Most scenarios start from [`Routed`]: two hosts with the router between them.
#![forbid(unsafe_code)]

pub mod browser;
pub mod corpus;
mod fan;
mod figure;
mod hop;
mod iperf;
mod probe;
mod routed6;
mod table;
pub mod tester;
pub mod tool;

use testkit::netns::{Host, LIMIT, Lab};
use testkit::process::{Process, until};
use testkit::router::Router;

pub use fan::{Arrival, Fan, Input, Way, frame};
pub use figure::Figure;
pub use hop::{HOPS, gateway};
pub use iperf::{Iperf, lost_on_the_way, out_of_order};
pub use probe::{Ping, traceroute};
pub use routed6::{Routed6, TWO_PORTS6, address6, cabled6, speaks6};
pub use table::{Table, real};

/// Commands that set up both ports with their addresses.
pub const TWO_PORTS: &str = "\
create host-interface name eth0
create host-interface name eth1
set interface state host-eth0 up
set interface state host-eth1 up
set interface ip address host-eth0 10.0.0.1/24
set interface ip address host-eth1 10.0.1.1/24
";

/// Commands to run after [`TWO_PORTS`], for a host behind VLAN 100 of `eth0` (see [`vlan`]).
pub const VLAN_100: &str = "\
create sub-interfaces host-eth0 100
set interface state host-eth0.100 up
set interface ip address host-eth0.100 10.0.100.1/24
";

/// Host `a` (10.0.0.2) — router (10.0.0.1 on eth0, 10.0.1.1 on eth1) — host `b` (10.0.1.2), over veth.
#[derive(Debug)]
pub struct Routed {
    /// The router. The first field, so that it ends before its links are removed.
    pub router: Router,
    /// The host at the router's eth0.
    pub a: Host,
    /// The host at the router's eth1.
    pub b: Host,
    /// The namespace that the router runs in.
    pub r: Host,
}

impl Routed {
    /// Sets up the topology and starts the router. `None` if namespaces are not available (reported as skipped).
    pub fn new() -> Option<Routed> {
        let (a, r, b) = cabled()?;
        let router = Router::start(&r, TWO_PORTS);
        Some(Routed { router, a, b, r })
    }
}

/// Sets up the hosts of [`Routed`] with cables, and the addresses and default routes of a and b, but starts no router. Returns `(a, r, b)`;
/// `None` if namespaces are not available (reported as skipped).
pub fn cabled() -> Option<(Host, Host, Host)> {
    let lab = Lab::new()?;
    let (a, r, b) = (lab.host("a"), lab.host("r"), lab.host("b"));
    lab.link((&a, "eth0"), (&r, "eth0"));
    lab.link((&b, "eth0"), (&r, "eth1"));
    address(&a, "10.0.0.2/24", "10.0.0.1");
    address(&b, "10.0.1.2/24", "10.0.1.1");
    Some((a, r, b))
}

/// Runs `tools/echo.py` on `host` with these arguments and returns the line that it prints.
///
/// # Panics
/// When it fails.
pub fn echo(host: &Host, arguments: &str) -> String {
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/echo.py");
    host.run(&format!("python3 {tool} {arguments}")).trim().to_string()
}

/// Returns commands that change workers, cores, queues and interfaces while packets arrive at `from` and leave by `to`. At
/// the end the configuration is as before.
pub fn rearrangements(from: &str, to: &str) -> Vec<String> {
    [
        "set workers 3",
        "set interface handoff FROM on",
        "set handoff shards 0-511 worker 1",
        "set interface rx-placement FROM queue 0 worker 2",
        "set interface rx-mode TO polling",
        "create loopback interface instance 7",
        "create tap id 7 host-if-name t7",
        "set interface state tap7 up",
        "set workers 2 cores 0-1",
        "set interface rx-mode TO interrupt",
        "set workers 4",
        "set worker 3 core 0",
        "set interface rx-placement FROM auto",
        "set interface handoff FROM auto",
        "delete loopback interface intfc loop7",
        "delete tap tap7",
        "set interface rx-mode TO adaptive",
        "set worker 0 core any",
        "set workers 1",
    ]
    .map(|change| change.replace("FROM", from).replace("TO", to))
    .to_vec()
}

/// Sets an address and a default route on a host's eth0.
pub fn address(host: &Host, address: &str, gateway: &str) {
    host.run(&format!("ip addr add {address} dev eth0"));
    host.run(&format!("ip route add default via {gateway}"));
}

/// Creates a VLAN device with these tags on the host's eth0 (`tools/vlan.py`) and sets an address on it. The device exists
/// while the returned process runs.
///
/// # Panics
/// When the device cannot be created; check [`Host::can_tap`] first.
pub fn vlan(host: &Host, name: &str, tags: &str, address: &str) -> Process {
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/vlan.py");
    let mut device = host.spawn(&format!("python3 {tool} eth0 {name} {tags}"));
    until("the VLAN device exists", LIMIT, || {
        assert!(device.running(), "vlan.py ended: {}", device.stderr());
        device.stdout().contains("ready")
    });
    host.run(&format!("ip link set {name} up"));
    host.run(&format!("ip addr add {address} dev {name}"));
    device
}

/// Returns a counter of a host's kernel, such as `InEchos` of `Icmp`. The names are those of RFC 4293 in `/proc/net/snmp`.
///
/// # Panics
/// When Linux does not show it.
pub fn snmp(host: &Host, group: &str, name: &str) -> u64 {
    let text = host.run("cat /proc/net/snmp");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group)?.strip_prefix(": "));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let at = names.split(' ').position(|n| n == name).unwrap_or_else(|| panic!("no {group} {name}: {text}"));
    values.split(' ').nth(at).and_then(|value| value.parse().ok()).expect("a number")
}

/// Returns a value from a process's status, in KiB.
///
/// # Panics
/// When there is no such process, or Linux does not show the value.
pub fn status(id: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("the process runs");
    let line = status.lines().find_map(|l| l.strip_prefix(name)).expect("Linux shows the value");
    line.trim_matches([':', ' ', '\t']).trim_end_matches(" kB").parse().expect("a number")
}
