//! The configurations of `docs/examples`, each between its intended neighbors.

use scenarios::{Ping, address, vlan};
use testkit::netns::{Host, Lab};
use testkit::router::Router;

/// Starts a router with an example.
fn start(r: &Host, name: &str) -> Router {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples");
    Router::start(r, &format!("config apply {folder}/{name}.yaml"))
}

fn answers(host: &Host, arguments: &str) {
    let ping = Ping::run(host, &format!("-c 2 -i 0.05 -W 2 {arguments}"));
    assert!(ping.complete(), "{} of {}: {}", arguments, host.name(), ping.text);
}

#[test]
fn every_example_is_valid() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 3);
    files.push(concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/volley.yaml").into());
    files.push(concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/startup.conf").into());
    let done =
        std::process::Command::new(testkit::router::binary()).arg("check").args(&files).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn the_edge_router_uses_both_uplinks() {
    let Some(lab) = Lab::new() else { return };
    let (a, b, c, r) = (lab.host("a"), lab.host("b"), lab.host("c"), lab.host("r"));
    if !c.can_tap() {
        return;
    }
    lab.link((&a, "eth0"), (&r, "eth0"));
    lab.link((&b, "eth0"), (&r, "eth1"));
    lab.link((&c, "eth0"), (&r, "eth2"));
    for (provider, own, router, far) in
        [(&a, "192.0.2.1/30", "192.0.2.2", "8.8.8.8"), (&b, "198.51.100.1/30", "198.51.100.2", "100.64.0.1")]
    {
        address(provider, own, router);
        provider.run(&format!("ip addr add {far}/32 dev lo"));
    }
    let router = start(&r, "edge-two-uplinks");
    let _vlans = [vlan(&c, "one", "100", "203.0.113.2/28"), vlan(&c, "two", "200", "203.0.113.18/28")];
    c.run("ip route add default via 203.0.113.1");
    answers(&c, "8.8.8.8");
    answers(&c, "100.64.0.1");
    assert!(router.counter("host-eth1", "tx packets") > 0, "packets leave by the second provider");
    let unused = Ping::run(&c, "-c 1 -W 2 203.0.113.100");
    assert!(
        unused.text.contains("From 203.0.113.1 icmp_seq=1 Destination Host Unreachable"),
        "{}",
        unused.text
    );
    assert!(!Ping::answered(&c, "10.1.1.1"));
}

#[test]
fn the_enterprise_gateway_separates_its_guests() {
    let Some(lab) = Lab::new() else { return };
    let (a, b, r) = (lab.host("a"), lab.host("b"), lab.host("r"));
    if !b.can_tap() {
        return;
    }
    lab.link((&a, "eth0"), (&r, "eth0"));
    lab.link((&b, "eth0"), (&r, "eth1"));
    address(&a, "192.0.2.1/29", "192.0.2.2");
    a.run("ip addr add 8.8.8.8/32 dev lo");
    let _router = start(&r, "enterprise-vlans");
    let _vlans = [
        vlan(&b, "staff", "10", "10.10.0.2/16"),
        vlan(&b, "guests", "99", "10.99.0.2/16"),
        vlan(&b, "branch", "88a8:100 7", "10.107.0.2/16"),
    ];
    b.run("ip route add default via 10.10.0.1 dev staff metric 1");
    b.run("ip route add default via 10.99.0.1 dev guests metric 2");
    b.run("ip route add default via 10.107.0.1 dev branch metric 3");
    for device in ["staff", "guests", "branch"] {
        answers(&b, &format!("-I {device} 8.8.8.8"));
    }
    // Guests cannot reach the internal network and get an ICMP error.
    let ping = Ping::run(&b, "-c 1 -W 2 -I guests 10.30.0.5");
    assert!(ping.text.contains("From 10.99.0.1 icmp_seq=1 Packet filtered"), "{}", ping.text);
}

#[test]
fn the_lab_router_forwards_between_test_networks() {
    let Some(lab) = Lab::new() else { return };
    let (a, b, r) = (lab.host("a"), lab.host("b"), lab.host("r"));
    lab.link((&a, "eth0"), (&r, "eth0"));
    lab.link((&b, "eth0"), (&r, "eth1"));
    for (tester, n, net) in [(&a, 1, 18), (&b, 2, 19)] {
        tester.run(&format!("ip link set eth0 address 02:00:00:00:00:0{n}"));
        address(tester, &format!("198.{net}.0.2/24"), &format!("198.{net}.0.1"));
        tester.run(&format!("ip addr add 198.{net}.7.7/32 dev lo"));
    }
    let router = start(&r, "lab-rfc2544");
    answers(&a, "-I 198.18.7.7 198.19.7.7");
    let shown = router.attempt("show ip neighbors").stdout;
    assert!(shown.contains("02:00:00:00:00:01") && shown.contains("02:00:00:00:00:02"), "{shown}");
}
