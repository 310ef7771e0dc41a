//! Ports that go down and up, vanish and return.

use std::time::Duration;

use scenarios::{Ping, Routed, address};
use testkit::process::until;
use testkit::skip::skipped;

const SOON: Duration = Duration::from_secs(10);

#[test]
fn an_interface_set_down_forwards_nothing_until_set_up() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    router.ctl("set interface state host-eth1 down");
    let ping = Ping::run(&a, "-c 1 -W 1 10.0.1.2");
    assert!(ping.rtts.is_empty(), "{}", ping.text);
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.0.1").complete(), "the other port still works");
    router.ctl("set interface state host-eth1 up");
    Ping::until_answered(&a, "10.0.1.2", SOON);
}

/// Takes the link of the router's eth1 down and up. While it is down, its routes are withdrawn and the other port still works. When it is
/// up again, host b answers again.
fn a_link_goes_and_comes_back(down: fn(&Routed), up: fn(&Routed)) {
    let Some(routed) = Routed::new() else { return };
    let Routed { a, router, .. } = &routed;
    router.ctl("ip route add 10.9.0.0/16 via 10.0.1.2");
    assert!(Ping::run(a, "-c 1 -W 2 10.0.1.2").complete());
    let state = || router.json("show interface host-eth1")[0].clone();
    assert_eq!((&state()["link_up"], &state()["usable"]), (&true.into(), &true.into()));

    down(&routed);
    until("the loss is logged", SOON, || router.log().contains("host-eth1: link down"));
    for to in ["10.0.1.2", "10.9.0.1"] {
        let ping = Ping::run(a, &format!("-c 1 -W 1 {to}"));
        assert!(ping.text.contains("From 10.0.0.1 icmp_seq=1 Destination"), "{}", ping.text);
    }
    assert_eq!((&state()["admin_up"], &state()["link_up"]), (&true.into(), &false.into()));
    assert_eq!(state()["usable"], false);
    assert!(router.ctl("show interface").contains("up, link down"));
    assert!(!router.ctl("show ip fib").contains("10.0.1.0/24"), "{}", router.ctl("show ip fib"));
    assert_eq!(router.drops("interface-tx", "tx-queue-full"), 0);
    assert!(Ping::run(a, "-c 1 -W 2 10.0.0.1").complete(), "the other port still works");

    up(&routed);
    until("the return is logged", SOON, || router.log().contains("host-eth1: link up"));
    Ping::until_answered(a, "10.0.1.2", SOON);
    assert_eq!((&state()["link_up"], &state()["usable"]), (&true.into(), &true.into()));
}

#[test]
fn a_pulled_cable_withdraws_routes_until_it_returns() {
    a_link_goes_and_comes_back(
        |routed| drop(routed.b.run("ip link set eth0 down")),
        |routed| {
            routed.b.run("ip link set eth0 up");
            routed.b.run("ip route replace default via 10.0.1.1");
        },
    );
}

#[test]
fn a_port_set_down_by_the_kernel_withdraws_routes_until_up() {
    a_link_goes_and_comes_back(
        |routed| drop(routed.r.run("ip link set eth1 down")),
        |routed| drop(routed.r.run("ip link set eth1 up")),
    );
}

#[test]
fn packets_refused_by_the_kernel_count_as_tx_refused() {
    let Some(Routed { a, r, router, .. }) = Routed::new() else { return };
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    // The router does not know the new MTU and still sends packets of up to 1,500 bytes.
    r.run("ip link set eth1 mtu 1000");
    assert!(!Ping::run(&a, "-c 3 -i 0.05 -W 0.5 -s 1400 10.0.1.2").complete());
    assert_eq!(router.drops("interface-tx", "tx-refused"), 3);
    assert_eq!(router.counter("host-eth1", "tx-error"), 3);
    assert!(Ping::run(&a, "-c 1 -W 2 -s 900 10.0.1.2").complete(), "smaller packets pass");
}

#[test]
fn a_vanished_interface_withdraws_routes_until_it_returns() {
    let Some(Routed { a, b, r, mut router }) = Routed::new() else { return };
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    r.run("ip link del eth1");
    until("the loss is logged", SOON, || router.log().contains("host-eth1: the device vanished"));
    until("its routes are withdrawn", SOON, || {
        let ping = Ping::run(&a, "-c 1 -W 0.5 10.0.1.2");
        ping.text.contains("From 10.0.0.1 icmp_seq=1 Destination Net Unreachable")
    });
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.0.1").complete(), "the other port still works");
    assert!(router.running());

    a.lab().link((&b, "eth0"), (&r, "eth1"));
    address(&b, "10.0.1.2/24", "10.0.1.1");
    Ping::until_answered(&a, "10.0.1.2", SOON);
}

#[test]
fn a_renamed_interface_is_used_on_and_reported() {
    let Some(Routed { a, r, router, .. }) = Routed::new() else { return };
    // An interface may be renamed while it is down only.
    r.run("ip link set eth1 down");
    r.run("ip link set eth1 name lan7 up");
    until("the new name is logged", SOON, || router.log().contains("interface eth1 is now named lan7"));
    Ping::until_answered(&a, "10.0.1.2", SOON);
    assert!(router.ctl("show hardware-interfaces host-eth1").contains("lan7"));
}

/// A rename at the moment when the router asks for the state of an interface does not make the port deaf.
#[test]
fn many_renames_under_traffic_do_no_harm() {
    let Some(Routed { a, r, router, .. }) = Routed::new() else { return };
    let first = r.attempt("ip link set eth1 name lan0", SOON);
    if first.stderr.contains("busy") {
        return skipped("needs a kernel that renames interfaces that are up (6.2)");
    }
    first.expect_ok();
    let renames: String = (0..200).map(|n| format!("link set lan{n} name lan{}\n", n + 1)).collect();
    let batch = r.lab().dir().join("renames");
    std::fs::write(&batch, renames).unwrap();
    let flood = a.spawn("ping -f -q 10.0.1.2");
    r.run(&format!("ip -batch {}", batch.display()));
    drop(flood);
    Ping::until_answered(&a, "10.0.1.2", SOON);
    until("the last name is shown", SOON, || {
        router.ctl("show hardware-interfaces host-eth1").contains("lan200")
    });
    assert_eq!(router.json("show interface host-eth1")[0]["usable"], true);
}
