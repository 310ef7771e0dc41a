//! Linux interfaces by AF_XDP. Hosts have to complete their checksums here: what comes by AF_XDP does not say which are not.

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

/// Hosts that complete their checksums, and the namespace of the router; `None` where XDP programs cannot be loaded.
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
fn hosts_talk_through_two_ports() {
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
    // The same again, as a file.
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
fn killed_under_traffic_the_interface_is_the_kernels_and_can_be_taken_again() {
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

#[test]
fn an_interface_is_taken_once() {
    let Some((_a, r, _b)) = hosts() else { return };
    let router = Router::start(&r, TWO_PORTS);
    for (command, part) in [
        ("create host-interface name eth0", "xdp-eth0 has the Linux interface eth0 already"),
        (
            "create interface af_xdp host-if eth9",
            "there is no interface eth9 here; there are: lo, eth0, eth1",
        ),
        ("set interface mtu 9000 xdp-eth0", "an MTU of 9000 is more than 2090"),
    ] {
        let done = router.attempt(command);
        assert!(!done.ok() && done.stderr.contains(part), "{done}");
    }
    router.ctl("delete interface af_xdp xdp-eth0");
    let said = router
        .ctl("create interface af_xdp host-if eth0 generic rx-queue-size 256 tx-queue-size 512 no-zero-copy");
    // What comes out of a veth pair has no checksums: whoever asks for it is told, and so is the log.
    let warning = "eth0 is an end of a veth pair, ";
    assert!(said.starts_with(&format!("xdp-eth0\nwarning: {warning}")), "{said}");
    assert!(said.contains("ethtool -K IF tx off") && router.ctl("show logging").contains(warning), "{said}");
    assert!(router.ctl("show config").contains(
        "create interface af_xdp host-if eth0 rx-queue-size 256 tx-queue-size 512 generic no-zero-copy\n"
    ));
    let shown = router.ctl("show hardware-interfaces xdp-eth0");
    assert!(
        shown.contains("behind the driver (generic)") && shown.contains("256 packets to receive"),
        "{shown}"
    );
    // Of others there is nothing to know.
    assert_eq!(router.ctl("create loopback interface"), "loop0\n");
}
