//! Ports that go down and up, vanish and return.

use std::time::Duration;

use scenarios::{Ping, Routed, address};
use testkit::process::until;

const SOON: Duration = Duration::from_secs(10);

#[test]
fn an_interface_set_down_carries_nothing_until_it_is_up_again() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    router.ctl("set interface state host-eth1 down");
    let ping = Ping::run(&a, "-c 1 -W 1 10.0.1.2");
    assert!(ping.rtts.is_empty(), "{}", ping.text);
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.0.1").complete(), "the other port goes on");
    router.ctl("set interface state host-eth1 up");
    Ping::until_answered(&a, "10.0.1.2", SOON);
}

#[test]
fn a_cable_pulled_and_put_back_carries_again() {
    let Some(Routed { a, b, router, .. }) = Routed::new() else { return };
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    b.run("ip link set eth0 down");
    assert!(!Ping::answered(&a, "10.0.1.2"));
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.0.1").complete(), "the other port goes on");
    b.run("ip link set eth0 up");
    b.run("ip route replace default via 10.0.1.1");
    Ping::until_answered(&a, "10.0.1.2", SOON);
    drop(router);
}

#[test]
fn what_the_kernel_refuses_to_send_is_dropped_for_that() {
    let Some(Routed { a, r, router, .. }) = Routed::new() else { return };
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    // The router does not know of this, and goes on sending packets of 1,500 bytes.
    r.run("ip link set eth1 mtu 1000");
    assert!(!Ping::run(&a, "-c 3 -i 0.05 -W 0.5 -s 1400 10.0.1.2").complete());
    assert_eq!(router.drops("interface-tx", "tx-refused"), 3);
    assert_eq!(router.counter("host-eth1", "tx-error"), 3);
    assert!(Ping::run(&a, "-c 1 -W 2 -s 900 10.0.1.2").complete(), "smaller ones go");
}

#[test]
fn an_interface_that_vanishes_takes_its_routes_along_and_returns_with_them() {
    let Some(Routed { a, b, r, mut router }) = Routed::new() else { return };
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    r.run("ip link del eth1");
    until("the loss is logged", SOON, || router.log().contains("host-eth1: the device vanished"));
    until("its routes are withdrawn", SOON, || {
        let ping = Ping::run(&a, "-c 1 -W 0.5 10.0.1.2");
        ping.text.contains("From 10.0.0.1 icmp_seq=1 Destination Net Unreachable")
    });
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.0.1").complete(), "the other port goes on");
    assert!(router.running());

    a.lab().link((&b, "eth0"), (&r, "eth1"));
    address(&b, "10.0.1.2/24", "10.0.1.1");
    Ping::until_answered(&a, "10.0.1.2", SOON);
}
