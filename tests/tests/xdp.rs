//! Linux interfaces through AF_XDP. AF_XDP does not carry checksum offload, so hosts must send complete checksums here.

use std::fs;
use std::time::Duration;

use scenarios::{Iperf, Ping, cabled, lost_on_the_way};
use testkit::netns::{Host, LIMIT};
use testkit::process::until;
use testkit::router::Router;

const TWO_PORTS: &str = "\
create interface af_xdp host-if eth0
create interface af_xdp host-if eth1
set interface state xdp-eth0 up
set interface state xdp-eth1 up
set interface ip address xdp-eth0 10.0.0.1/24
set interface ip address xdp-eth1 10.0.1.1/24
";

/// Returns two hosts without checksum offload, and the router's namespace between them: `(a, r, b)`. `None` if XDP programs cannot be
/// loaded (reported as skipped).
fn hosts() -> Option<(Host, Host, Host)> {
    let (a, r, b) = cabled()?;
    if !a.lab().can_load_programs() {
        return None;
    }
    for host in [&a, &b] {
        host.run("ethtool -K eth0 tx off");
    }
    Some((a, r, b))
}

#[test]
fn hosts_communicate_through_two_af_xdp_ports() {
    let Some((a, r, b)) = hosts() else { return };
    let router = Router::start(&r, TWO_PORTS);
    Ping::until_answered(&a, "10.0.1.2", Duration::from_secs(5));
    assert!(Ping::run(&a, "-c 20 -i 0.01 -s 1472 10.0.1.2").complete());
    let end = Iperf::run(&a, &b, "10.0.1.2", "-t 1");
    assert!(end["sum_received"]["bytes"].as_u64().is_some_and(|n| n > 1_000_000), "{end}");
    let end = Iperf::run(&a, &b, "10.0.1.2", "-u -b 4M -l 200 -t 1");
    assert_eq!(lost_on_the_way(&end, &b), 0, "{end}");
    let shown = router.ctl("show hardware-interfaces xdp-eth0");
    assert!(shown.contains("in the driver (native)") && shown.contains("copied by the kernel"), "{shown}");
    assert!(router.json("show buffers")["lent"].as_u64().is_some_and(|n| n >= 2048));
    // The same configuration from a file.
    let config = router.ctl("show config");
    let path = router.socket().with_file_name("saved.yaml");
    router.ctl(&format!("config save {}", path.display()));
    router.stop();
    assert!(!r.run("ip link").contains("xdp"), "a program is left");
    let again = Router::spawn_from(&r, &path).wait_ready();
    assert_eq!(again.ctl("show config"), config);
    Ping::until_answered(&a, "10.0.1.2", Duration::from_secs(5));
}

#[test]
fn a_kill_under_traffic_returns_the_interface_to_the_kernel() {
    let Some((a, r, b)) = hosts() else { return };
    r.run("ip addr add 10.0.0.9/24 dev eth0");
    let router = Router::start(&r, TWO_PORTS);
    let mut flow = Iperf::start(&a, &b, "10.0.1.2", "-u -b 20M -l 200 -t 2");
    until("packets flow", LIMIT, || router.counter("xdp-eth1", "tx packets") > 500);
    router.kill();
    Ping::until_answered(&a, "10.0.0.9", Duration::from_secs(3));
    assert!(!r.run("ip link").contains("xdp"), "a program is left");
    let _again = Router::start(&r, TWO_PORTS);
    Ping::until_answered(&a, "10.0.1.2", Duration::from_secs(5));
    while flow.running() {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Some options of a port need a reopen. The interface keeps its configuration, and the router reports how long traffic was
/// interrupted.
#[test]
fn a_port_is_reopened_under_traffic() {
    let Some((a, r, b)) = hosts() else { return };
    let router = Router::start(&r, TWO_PORTS);
    Ping::until_answered(&a, "10.0.1.2", Duration::from_secs(5));
    let file = router.socket().with_file_name("saved.yaml");
    router.ctl(&format!("config save {}", file.display()));
    let saved = std::fs::read_to_string(&file).unwrap();
    let flow = Iperf::start(&a, &b, "10.0.1.2", "-u -b 8M -l 200 -t 5");
    std::thread::sleep(Duration::from_secs(1));
    let (mut stood, mut times) = (0.0, 0);
    for opened in ["rx-ring-size: 4096", "mode: generic", "tx-ring-size: 256", "queues: 1"] {
        let text = saved.replace("  xdp-eth0:\n", &format!("  xdp-eth0:\n    af-xdp: {{ {opened} }}\n"));
        std::fs::write(&file, text).unwrap();
        let said = router.ctl(&format!("config apply {}", file.display()));
        assert!(said.contains("! xdp-eth0 is reopened: its traffic is interrupted\n"), "{said}");
        let (_, after) = said.split_once("xdp-eth0 was reopened: traffic was interrupted for ").expect(&said);
        stood += after.split(' ').next().and_then(|ms| ms.parse::<f64>().ok()).expect(&said);
        times += 1;
        let shown = router.ctl("show ip neighbor");
        assert!(shown.contains("10.0.0.2"), "the neighbors stay: {shown}");
    }
    let end = flow.finish();
    let lost = lost_on_the_way(&end, &b) as f64;
    println!("{lost} packets lost in {times} gaps of {stood:.1} ms in all");
    // 5,000 packets a second are lost in the reported time, plus the packets in the old rings.
    assert!(lost <= 5.0 * stood * 1.2 + 100.0, "{lost} packets lost in {times} gaps of {stood} ms: {end}");
    assert!(stood < 2000.0, "{stood} ms");
    // A refused option leaves the port unchanged.
    std::fs::write(&file, saved.replace("  xdp-eth0:\n", "  xdp-eth0:\n    af-xdp: { zero-copy: true }\n"))
        .unwrap();
    let before = router.ctl("show config");
    let gaps = || router.ctl("show logging").matches("xdp-eth0: reopened, traffic was interrupted").count();
    let had = gaps();
    let refused = router.attempt(&format!("config apply {}", file.display()));
    assert!(!refused.ok() && refused.stderr.contains("zero"), "{refused:?}");
    // The router had to close the port for the attempt, and has opened it again.
    until("the log says how long traffic was interrupted", Duration::from_secs(5), || gaps() == had + 1);
    assert_eq!(router.ctl("show config"), before);
    Ping::until_answered(&a, "10.0.1.2", Duration::from_secs(5));
    router.ctl("config rollback");
    assert!(router.ctl("show hardware-interfaces xdp-eth0").contains("in the driver (native)"));
    Ping::until_answered(&a, "10.0.1.2", Duration::from_secs(5));
}

#[test]
fn a_linux_interface_cannot_be_taken_twice() {
    let Some((_a, r, _b)) = hosts() else { return };
    let router = Router::start(&r, TWO_PORTS);
    for (command, part) in [
        ("create host-interface name eth0", "xdp-eth0 already uses the Linux interface eth0"),
        (
            "create interface af_xdp host-if eth9",
            "no interface is named eth9; existing interfaces: lo, eth0, eth1",
        ),
        ("set interface mtu 9000 xdp-eth0", "the MTU 9000 is more than 2090"),
    ] {
        let done = router.attempt(command);
        assert!(!done.ok() && done.stderr.contains(part), "{done}");
    }
    router.ctl("delete interface af_xdp xdp-eth0");
    let file = r.lab().dir().join("again.yaml");
    fs::write(&file, "interfaces: { xdp-eth0: {}, xdp-eth1: {} }\n").unwrap();
    let planned = router.ctl(&format!("config apply {} dry-run", file.display()));
    assert!(planned.contains("! xdp-eth0: eth0 is an end of a veth pair: "), "{planned}");
    assert!(!planned.contains("! xdp-eth1"), "{planned}");
    let said = router
        .ctl("create interface af_xdp host-if eth0 generic rx-queue-size 256 tx-queue-size 512 no-zero-copy");
    // Packets from a veth pair have no checksums: the reply and the log warn of this.
    let warning = "eth0 is an end of a veth pair: ";
    assert!(said.starts_with(&format!("xdp-eth0\nwarning: {warning}")), "{said}");
    assert!(said.contains("ethtool -K IF tx off") && router.ctl("show logging").contains(warning), "{said}");
    assert!(router.ctl("show config").contains(
        "create interface af_xdp host-if eth0 rx-queue-size 256 tx-queue-size 512 generic no-zero-copy\n"
    ));
    let shown = router.ctl("show hardware-interfaces xdp-eth0");
    assert!(
        shown.contains("after the driver (generic)") && shown.contains("256 packets to receive"),
        "{shown}"
    );
    // Other interfaces have no warning.
    assert_eq!(router.ctl("create loopback interface"), "loop0\n");
}

/// A router that may not load programs into the kernel names the missing capability and an alternative that works.
#[test]
fn a_router_without_cap_bpf_suggests_a_host_interface() {
    let Some((a, r, _b)) = hosts() else { return };
    let router = Router::start_without(&r, "-bpf,-sys_admin", "");
    let done = router.attempt("create interface af_xdp host-if eth0");
    let needed = "CAP_BPF, or use a host-interface instead of AF_XDP";
    assert!(!done.ok() && done.stderr.contains(needed), "{done}");
    router.script(
        "create host-interface name eth0\n\
         set interface state host-eth0 up\n\
         set interface ip address host-eth0 10.0.0.1/24\n",
    );
    Ping::until_answered(&a, "10.0.0.1", LIMIT);
}
