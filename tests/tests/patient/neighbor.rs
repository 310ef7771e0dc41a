//! Neighbors that change, leave and return.

use std::time::Duration;

use scenarios::{Ping, Routed, TWO_PORTS, cabled};
use testkit::process::until;
use testkit::router::Router;

const MOVED: &str = "02:00:00:00:99:01";

#[test]
fn a_neighbor_that_announces_a_new_mac_is_updated() {
    let Some(Routed { a, b, router, .. }) = Routed::new() else { return };
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    // With this, Linux sends a gratuitous ARP when its address changes.
    b.run("sysctl -qw net.ipv4.conf.eth0.arp_notify=1");
    b.run(&format!("ip link set eth0 address {MOVED}"));
    Ping::until_answered(&a, "10.0.1.2", Duration::from_secs(3));
    assert!(router.ctl("show ip neighbors").contains(MOVED));
}

#[test]
fn a_neighbor_with_a_new_mac_is_found_without_announcement() {
    let Some(Routed { a, b, router, .. }) = Routed::new() else { return };
    router.ctl("set ip neighbor-config ip4 age 1");
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    b.run(&format!("ip link set eth0 address {MOVED}"));
    b.run("ip neigh replace 10.0.1.1 lladdr 02:00:00:00:00:01 nud stale dev eth0");
    Ping::until_answered(&a, "10.0.1.2", Duration::from_secs(15));
    assert!(router.ctl("show ip neighbors").contains(MOVED));
}

#[test]
fn a_vanished_neighbor_is_removed_and_reported() {
    let Some(Routed { a, b, router, .. }) = Routed::new() else { return };
    router.ctl("set ip neighbor-config ip4 age 1");
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    assert!(router.ctl("show ip neighbors").contains("10.0.1.2"));
    b.run("ip addr del 10.0.1.2/24 dev eth0");
    until("the neighbor is removed", Duration::from_secs(15), || {
        !router.ctl("show ip neighbors").contains("10.0.1.2")
    });
    let ping = Ping::run(&a, "-c 1 -W 5 10.0.1.2");
    assert!(ping.text.contains("From 10.0.0.1 icmp_seq=1 Destination Host Unreachable"), "{}", ping.text);
}

#[test]
fn the_first_packets_wait_for_arp_and_none_is_lost() {
    let Some(Routed { a, router: _router, .. }) = Routed::new() else { return };
    // All ten requests arrive before ARP can be answered.
    let ping = Ping::run(&a, "-c 10 -l 10 -W 2 10.0.1.2");
    assert!(ping.complete(), "{}", ping.text);
}

#[test]
fn a_cleared_neighbor_is_resolved_again_at_once() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    for _ in 0..6 {
        router.ctl("clear ip neighbors");
        let ping = Ping::run(&a, "-c 1 -W 1 10.0.1.2");
        assert!(ping.complete(), "{}", ping.text);
    }
}

#[test]
fn static_neighbors_need_no_arp() {
    let Some((a, r, b)) = cabled() else { return };
    let ports = TWO_PORTS.replace("name eth1", "name eth1 hw-addr 02:00:00:00:01:01");
    let _router = Router::start(&r, &format!("{ports}set ip neighbor host-eth1 10.0.1.2 {MOVED}\n"));
    b.run(&format!("ip link set eth0 address {MOVED} arp off"));
    b.run("ip neigh replace 10.0.1.1 lladdr 02:00:00:00:01:01 nud permanent dev eth0");
    assert!(Ping::run(&a, "-c 2 -i 0.2 -W 2 10.0.1.2").complete());
}
