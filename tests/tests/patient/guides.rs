//! Commands of VPP's public guides, as printed there, work when pasted and have the result that the guide states. Interface
//! names are those of the guides. The layer 2 parts of the guides are not supported yet.

use std::time::Duration;

use scenarios::Ping;
use testkit::netns::{Host, LIMIT, Lab};
use testkit::process::Finished;
use testkit::router::Router;

/// Cables the device `far` of host `a` to `near` in the router's namespace. Returns `(a, r)`; `None` if namespaces are not available
/// (reported as skipped).
fn cable(far: &str, near: &str) -> Option<(Host, Host)> {
    let lab = Lab::new()?;
    let (a, r) = (lab.host("a"), lab.host("r"));
    lab.link((&a, far), (&r, near));
    Some((a, r))
}

/// Runs `vppctl -s SOCKET COMMAND`, the client by its other name.
fn vppctl(r: &Host, router: &Router, command: &str) -> String {
    let vppctl = router.socket().with_file_name("vppctl");
    if !vppctl.exists() {
        std::os::unix::fs::symlink(testkit::router::binary(), &vppctl).unwrap();
    }
    r.attempt(&format!("{} -s {} {command}", vppctl.display(), router.socket().display()), LIMIT).expect_ok()
}

#[test]
fn progressive_vpp_create_an_interface_trace_and_ping() {
    let Some((a, r)) = cable("vpp1host", "vpp1out") else { return };
    a.run("ip addr add 10.10.1.1/24 dev vpp1host");
    let router = Router::start(&r, "");
    let vpp = |command: &str| vppctl(&r, &router, command);
    assert!(vpp("show version").starts_with("volley"));
    assert_eq!(vpp("create host-interface name vpp1out").trim(), "host-vpp1out");
    assert!(vpp("show hardware").contains("host-vpp1out"));
    vpp("set int state host-vpp1out up");
    let line = vpp("show int").lines().find(|l| l.starts_with("host-vpp1out")).map(str::to_owned);
    assert!(line.is_some_and(|l| l.contains(" up ")));
    vpp("set int ip address host-vpp1out 10.10.1.2/24");
    let shown = vpp("show int addr");
    assert!(shown.contains("host-vpp1out (up):\n") && shown.contains("  L3 10.10.1.2/24\n"), "{shown}");

    vpp("trace add af-packet-input 10");
    Ping::until_answered(&a, "10.10.1.2", Duration::from_secs(3));
    let trace = vpp("show trace");
    for node in
        ["af-packet-input", "ethernet-input", "arp-input", "ip4-input", "ip4-lookup", "icmp4-echo-request"]
    {
        assert!(trace.contains(&format!(": {node}\n")), "{node} is not in\n{trace}");
    }
    vpp("clear trace");
    assert_eq!(vpp("show trace").trim(), "No packets in trace buffer");
    vpp("trace add af-packet-input 10");
    let said = vpp("ping 10.10.1.1 repeat 3 interval 0.1");
    assert!(said.contains("3 sent, 3 received, 0% packet loss"), "{said}");
    assert!(vpp("show trace").contains(": icmp4-input\n"));
    let neighbors = vpp("show ip neighbors");
    assert!(neighbors.contains("10.10.1.1") && neighbors.contains("host-vpp1out"), "{neighbors}");
    let fib = vpp("show ip fib");
    for prefix in ["10.10.1.0/24", "10.10.1.1/32", "10.10.1.2/32", "240.0.0.0/4", "255.255.255.255/32"] {
        assert!(fib.lines().any(|line| line == prefix), "{prefix} is not in\n{fib}");
    }
}

#[test]
fn progressive_vpp_routing_between_two_instances() {
    let Some((a, r)) = cable("vpp1host", "vpp1out") else { return };
    let lab = r.lab();
    let second = lab.host("s");
    lab.link((&r, "vpp1vpp2"), (&second, "vpp2vpp1"));
    a.run("ip addr add 10.10.1.1/24 dev vpp1host");
    a.run("ip route add 10.10.2.0/24 via 10.10.1.2");
    let vpp1 = Router::start(
        &r,
        "create host-interface name vpp1out
        set int state host-vpp1out up
        set int ip address host-vpp1out 10.10.1.2/24
        create host-interface name vpp1vpp2
        set int state host-vpp1vpp2 up
        set int ip address host-vpp1vpp2 10.10.2.1/24",
    );
    let vpp2 = Router::start(
        &second,
        "create host-interface name vpp2vpp1
        set int state host-vpp2vpp1 up
        set int ip address host-vpp2vpp1 10.10.2.2/24",
    );
    vpp2.ctl("ip route add 10.10.1.0/24  via 10.10.2.1");
    Ping::until_answered(&a, "10.10.2.2", Duration::from_secs(5));
    assert!(vpp1.ctl("ping 10.10.2.2 repeat 1").contains("1 received"));
    assert!(vpp2.ctl("ping 10.10.1.1 repeat 1").contains("1 received"));
}

#[test]
fn routing_between_containers() {
    let Some(lab) = Lab::new() else { return };
    let (one, two, r) = (lab.host("one"), lab.host("two"), lab.host("r"));
    for (host, veth, own, gateway) in [
        (&one, "vethQL7K0C", "172.16.1.2/24", "172.16.1.1"),
        (&two, "veth8NA72P", "172.16.2.2/24", "172.16.2.1"),
    ] {
        lab.link((host, "eth0"), (&r, veth));
        scenarios::address(host, own, gateway);
    }
    let router = Router::start(&r, "");
    let vpp = |command: &str| vppctl(&r, &router, command);
    vpp("show inter");
    vpp("create host-interface name vethQL7K0C");
    vpp("create host-interface name veth8NA72P");
    vpp("set interface state host-vethQL7K0C up");
    vpp("set interface state host-veth8NA72P up");
    vpp("set interface ip address host-vethQL7K0C 172.16.1.1/24");
    vpp("set interface ip address host-veth8NA72P 172.16.2.1/24");
    vpp("show inter addr");
    vpp("show ip fib");
    Ping::until_answered(&one, "172.16.2.2", Duration::from_secs(5));
}

#[test]
fn sub_interfaces() {
    let Some((a, r)) = cable("eth0", "eth0") else { return };
    if !a.can_tap() {
        return;
    }
    let router = Router::start(&r, "create host-interface name eth0");
    let vpp = |command: &str| vppctl(&r, &router, command);
    vpp("set interface state host-eth0 up");
    assert_eq!(vpp("create sub-interfaces host-eth0 100").trim(), "host-eth0.100");
    vpp("set interface state host-eth0.100 up");
    vpp("set interface ip address host-eth0.100 192.168.100.1/24");
    assert_eq!(vpp("create sub host-eth0 200 dot1q 200 inner-dot1q 300 exact-match").trim(), "host-eth0.200");
    vpp("set int state host-eth0.200 up");
    vpp("set int ip addr host-eth0.200 192.168.200.1/24");
    let _single = scenarios::vlan(&a, "v100", "100", "192.168.100.2/24");
    let _double = scenarios::vlan(&a, "v200", "200 300", "192.168.200.2/24");
    Ping::until_answered(&a, "192.168.100.1", Duration::from_secs(5));
    Ping::until_answered(&a, "192.168.200.1", Duration::from_secs(5));
    vpp("delete sub-interface host-eth0.200");
    assert!(!vpp("show interface").contains("host-eth0.200"));
}

/// The list of commands with their expected outcomes; see `crates/volley/tests/typed`.
const TYPED: &str = include_str!("../../../crates/volley/tests/typed/typed.tsv");

/// Returns the outcome of a command, in the words of the list.
fn outcome(finished: &Finished) -> &'static str {
    match finished.ok() {
        true => "runs",
        false if finished.stderr.contains("unknown command; ") => "form",
        false if finished.stderr.contains("not supported yet") => "not yet",
        false => "refused",
    }
}

#[test]
fn commands_of_vpp_operators_have_the_listed_outcome() {
    let Some((a, r)) = cable("vpp1host", "vpp1out") else { return };
    if !r.can_tap() {
        return;
    }
    a.run("ip addr add 10.10.1.1/24 dev vpp1host");
    let (lab, mut setup) = (r.lab(), String::new());
    for n in [1, 2] {
        lab.link((&lab.host(&format!("h{n}")), "eth0"), (&r, &format!("eth{n}")));
        setup += &format!(
            "create host-interface name eth{n}\nset interface state host-eth{n} up\n\
             set interface ip address host-eth{n} 10.0.{n}.1/24\n"
        );
    }
    let router = Router::start(&r, &setup);
    let folder = lab.dir().display().to_string();
    let (mut faults, mut count) = (String::new(), 0);
    for line in TYPED.lines() {
        let (expected, rest) = line.split_once('\t').unwrap();
        let (_, command) = rest.split_once('\t').unwrap();
        let command =
            command.replace("/run/volley", &folder).replace("file x.pcap", &format!("file {folder}/x.pcap"));
        let finished = router.attempt(&command);
        let became = outcome(&finished);
        if became != expected {
            faults += &format!("{became} instead of {expected}: {finished}\n");
        }
        count += 1;
    }
    assert!(faults.is_empty(), "{faults}");
    assert_eq!(count, 294);
}
